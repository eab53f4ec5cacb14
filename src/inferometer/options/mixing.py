"""Traffic of several kinds: what only `interfere` is asked, and what it and a scenario have no use for."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer.options.commands import CLUSTER, COMPARE_REFUSED
from inferometer.options.option import appended, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.values import label

INTERFERE_REFUSED: Mapping[str, str] = {
    **COMPARE_REFUSED,
    **dict.fromkeys(
        ("request_count", "warmup_s", "warmup_request_count"),
        "say how long with --duration: every model alone, and all together, for that time",
    ),
    **dict.fromkeys(("request_intervals", "max_error_rate"), "give every model the same load with -c or -r"),
    **dict.fromkeys(CLUSTER, "every model has processes of its own here, on this machine: leave it out"),
    "junit": "nothing is promised here: use it with `inferometer measure` or `compare`",
    "collect_metrics": "use it with `inferometer measure`",
    "metrics_url": "use it with `inferometer measure`",
    "metrics_interval_ms": "use it with `inferometer measure`",
}
SCENARIO_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("warmup_s", "warmup_request_count", "ramp_s"),
        "a scenario warms up in a phase of its own: name it warm-up",
    ),
    **dict.fromkeys(
        ("request_count", "precision", "sweep", "binary_search", "latency_limit_ms", "time_limit_s"),
        "a scenario lasts for the time of its phases; -d is the time of all",
    ),
    **dict.fromkeys(
        (
            "measurement_mode",
            "measurement_interval_ms",
            "measurement_request_count",
            "max_trials",
            "stability_percentage",
        ),
        "a scenario lasts for the time of its phases; -d is the time of all",
    ),
    **dict.fromkeys(
        (
            "profile_export",
            "shared_memory",
            "trace_level",
            "trace_rate",
            "trace_count",
            "log_frequency",
        ),
        "measure the model by itself, without --scenario",
    ),
    **dict.fromkeys(("collect_metrics", "metrics_url", "metrics_interval_ms"), "measure the model by itself"),
    **dict.fromkeys(
        (
            "request_intervals",
            "periodic_concurrency",
            "fixed_schedule",
            "session_concurrency",
            "replay",
            "shape_load",
            "speed",
            "slo",
            "request_distribution",
            "workers",
        ),
        "give it to a class of the scenario",
    ),
}


@dataclass(frozen=True, slots=True)
class InterfereOptions:
    """What only `interfere` is asked."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "A model that shares the server, or MODEL@URL; give it several times.",
        label("NAME"),
        group="Interference",
        combine=appended,
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
