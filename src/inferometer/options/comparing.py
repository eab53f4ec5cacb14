"""Options of `compare` and `gate` alone, and the options of a measurement that `compare` does not support."""

from collections.abc import Mapping

from inferometer.base.frozen import frozen
from inferometer.options import outputs
from inferometer.options.groups import ADDRESSES, LEVEL_ACTIONS, THINKING, WINDOWS
from inferometer.options.option import appended, option, ours
from inferometer.options.reach import Reach
from inferometer.options.values import label, server_url, share, text, whole

_STEADY = "variants take turns, which requires a constant load: use {-c} or {-r}"
COMPARE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "fixed_schedule",
            "replay",
            "speed",
            "shape_load",
            "periodic_concurrency",
            "request_period",
            "session_concurrency",
        ),
        _STEADY,
    ),
    **dict.fromkeys(
        ("latency_limit_ms", "binary_search", "sweep"), "give the levels with {-c}, such as {-c} 1,2,4"
    ),
    **dict.fromkeys(
        ("precision", "time_limit_s", *WINDOWS),
        "set the time with {--duration}: stopping as soon as the result looks good would bias it",
    ),
    **dict.fromkeys(
        ("profile_export", "verbose_csv", "slo", *ADDRESSES, *LEVEL_ACTIONS, *THINKING),
        "use it with `inferometer measure`",
    ),
    "no_streaming": "leave it out: answers are whole without {--streaming}",
}


@frozen
class CompareOptions:
    """Options of `compare` alone."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model of a variant, or MODEL@URL; may be given several times. The first is the baseline.",
        label("NAME"),
        group="Comparison",
        combine=appended,
        is_main=True,
    )
    urls: tuple[str, ...] = ours(
        "-u --url",
        "Address of a server; give several to compare the same model on each.",
        server_url(),
        shown="localhost:8000",
        combine=appended,
        is_main=True,
    )
    fail_if: tuple[str, ...] = ours(
        "--fail-if",
        "Conditions that count as a regression, such as 'p99 > +5%, throughput < -3%, snr < 40'.",
        label("CONDITIONS"),
        combine=appended,
        is_main=True,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    outputs: int = ours(
        "--compare-outputs",
        "Number of requests whose outputs to compare; 0 compares none.",
        whole(least=0),
        default=20,
    )
    force: bool = ours("--force", "Compare saved results even if load, payload or host differ.", is_main=True)


@frozen
class GateOptions:
    """Options of `gate`."""

    runs: int = option(
        "--runs",
        "Compare with this many of the latest good runs",
        whole("N", least=8),
        default=20,
        group="Gate",
    )
    figures: tuple[str, ...] = option(
        "--figure",
        "Figure to judge, such as p90; may be given several times (default: throughput, p50 and p99)",
        label("FIGURE"),
        combine=appended,
    )
    fail_if: tuple[str, ...] = option(
        "--fail-if",
        "Conditions that count as a regression, such as 'p99 > +5%, throughput < -3%' (default: any deterioration)",
        label("CONDITIONS"),
        combine=appended,
    )
    matters: float | None = option(
        "--matters",
        "Smallest change that must be detected, such as 10%; if the runs are too noisy to detect it, the gate is "
        "inconclusive (default: 20%; 50% for percentiles of p90 and above)",
        share(zero=False),
        shown="",
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    accept: tuple[str, ...] = option(
        "--accept",
        "Accept this run as the new baseline, without judging any run",
        text("RUN", Reach.WRITES_FILES),
        combine=appended,
    )
    no_tags: bool = option("--no-tags", "Do not tag the judged runs in the store")
    html: str | None = outputs.page()
    markdown: str | None = outputs.markdown("Write Markdown, for a pull request")
    csv: str | None = outputs.table()
    json: str | None = outputs.saved()
    junit: str | None = outputs.junit()
    quiet: bool = outputs.quiet()
    verbose: int = 0
