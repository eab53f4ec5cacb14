"""`inferometer tune`: the best configuration of a model inside a promise."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.cli.parser import Ask, parse_measure

if TYPE_CHECKING:
    from inferometer.cli.signals import Interrupts
    from inferometer.profile.options import Options
    from inferometer.tune.goal import Constraint
    from inferometer.tune.search.search import Proposal, Say, Skip
    from inferometer.tune.settings import Settings
    from inferometer.tune.study import Study
    from inferometer.tune.trial import Trial

NOT_FOUND = 1
JOURNAL = "inferometer-tune.sqlite"
RESERVE_S = 3.0  # of a budget: for starting and ending the server


def main(argv: list[str]) -> int:
    own, rest = _parser().parse_known_args(argv)
    options = parse_measure(["-m", own.model, *rest])
    if isinstance(options, Ask):
        _parser().print_help()
        return 0
    return _tune(own, _settings(own, options))


def _parser() -> argparse.ArgumentParser:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer tune",
        description="Find the configuration of a model (instances, batch size, batching) and the load that give the "
        "most throughput inside a promise, in few measurements.",
        epilog="All other options are those of `inferometer measure`: input data, shapes, protocol, headers.",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-m", "--model", metavar="NAME", required=True, help="the model to tune")
    add("--slo", metavar="PROMISE", help="what every answer must keep, such as 'p99<10ms'")
    add("--budget", metavar="TIME", help="end in this time with the best so far, such as 3m")
    add(
        "--model-repository",
        metavar="DIR",
        action="append",
        type=Path,
        help="folder of models, for a server of our own (default: the example models)",
    )
    add("--url", "-u", metavar="HOST:PORT", help="tune on this server instead; it is left as it was found")
    add("--search", choices=("smart", "brute", "quick", "optuna"), default="smart", help="how to search")
    for name, default in (("instances", "1:5"), ("batch", "1:128"), ("load", "1:1024")):
        text = f"where to look for {name}: lowest:highest (default: {default})"
        add(f"--{name}", metavar="LOW:HIGH", default=default, help=text)
    add(
        "--delays",
        metavar="MICROSECONDS",
        default="",
        help="delays of the dynamic batcher to try, such as 100,500",
    )
    add("--journal", metavar="FILE", type=Path, default=Path(JOURNAL), help="every trial, to resume from")
    add("--fresh", action="store_true", help="forget what the journal holds")
    add("--seed", type=int, help="repeat a search as it was")
    add("--study", metavar="FILE", type=Path, help="write everything that was found out, as JSON")
    add("--output", metavar="FILE", type=Path, help="write the recommended config.pbtxt")
    return parser


def _settings(own: argparse.Namespace, options: "Options") -> "Settings":
    from dataclasses import replace

    from inferometer.server.repository import example_repository
    from inferometer.tune.launch.site import Addresses, Control
    from inferometer.tune.settings import LaunchSettings, ModelSettings, Settings
    from inferometer.tune.space import Bounds

    low_high = {name: _span(getattr(own, name), f"--{name}") for name in ("instances", "batch", "load")}
    control = Control(options.protocol, options.headers, options.tls, options.grpc_tls)
    if own.url is not None:
        addresses = Addresses(http=own.url, grpc=own.url)
        launch = LaunchSettings(mode="remote", addresses=addresses, control=control)
    else:
        folders = tuple(own.model_repository or (example_repository(),))
        launch = LaunchSettings(repositories=folders, control=control)
    constraints = _promise(own.slo)
    budget_s = None
    if own.budget is not None:
        budget_s = max(1.0, parse_duration_ns(own.budget, "--budget") / NS_PER_S - RESERVE_S)
    percentile = 99 if any(row.tag.endswith("p99") for row in constraints) else None
    model = ModelSettings(
        own.model,
        constraints=constraints,
        options=replace(options, duration_s=None, asynchronous=True, percentile=percentile),
        batches=(options.batch or 1,),
    )
    return Settings(
        models=(model,),
        launch=launch,
        search=own.search,
        bounds=Bounds(
            instances=low_high["instances"],
            batch=low_high["batch"],
            concurrency=low_high["load"],
            delays_us=_numbers(own.delays, "--delays"),
        ),
        given=("concurrency", "instances", "batch"),
        budget_s=budget_s,
        seed=own.seed,
        journal=own.journal,
    )


def _span(text: str, name: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    if not low.isdigit() or (colon and not high.isdigit()):
        raise UsageError(f"{name} is '{text}'", remedy="write lowest:highest, such as 1:8")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1]:
        raise UsageError(f"{name} is '{text}'", remedy="the lowest is 1 or more, and not above the highest")
    return found


def _numbers(text: str, name: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdigit() for word in words):
        raise UsageError(f"{name} is '{text}'", remedy="write whole numbers, such as 100,500")
    return tuple(int(word) for word in words)


def _promise(text: str | None) -> "tuple[Constraint, ...]":
    from inferometer.base.units import NS_PER_MS
    from inferometer.measure.slo import parse_slo
    from inferometer.tune.goal import Constraint
    from inferometer.tune.metrics import BY_TAG

    if text is None:
        return ()
    found = []
    for term in parse_slo(text).terms:
        if term.name == "errors":
            found.append(Constraint("perf_error_rate", high=100 * term.limit))
            continue
        tag = "perf_latency_avg" if term.name == "mean" else f"perf_latency_{term.name}"
        if tag not in BY_TAG:
            raise UsageError(
                f"--slo names {term.name}", remedy="the tuner knows mean, p50, p90, p95, p99, errors"
            )
        found.append(Constraint(tag, high=term.limit / NS_PER_MS))
    return tuple(found)


def _tune(own: argparse.Namespace, settings: "Settings") -> int:
    from inferometer.cli.signals import Interrupts
    from inferometer.tune.report.text import summary
    from inferometer.tune.session import profile
    from inferometer.tune.study import recommend, write

    if own.fresh:
        own.journal.unlink(missing_ok=True)
    with Interrupts(lambda text: print(text, file=sys.stderr)).caught() as interrupts:
        (study,) = profile(settings, Progress(interrupts))
    print(summary(study))
    if own.study is not None:
        write(study, own.study)
    found = recommend(study)
    if own.output is not None and found is not None:
        _write_config(study, found.best.name, own.output)
    return 0 if found is not None and found.does_pass else NOT_FOUND


def _write_config(study: "Study", name: str, path: Path) -> None:
    from inferometer.tune import model_config

    path.write_text(model_config.to_text(study.variant(name).config))
    print(f"written: {path}")


class Progress:
    """A line per trial on stderr."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self._interrupts = interrupts

    def said(self, say: "Say") -> None:
        if not say.is_detail:
            print(say.text, file=sys.stderr, flush=True)

    def proposed(self, proposal: "Proposal", *, is_known: bool) -> None:
        pass

    def tried(self, trial: "Trial") -> None:
        from inferometer.tune.report.text import trial_line

        print(trial_line(trial), file=sys.stderr, flush=True)

    def skipped(self, skip: "Skip") -> None:
        pass

    def is_interrupted(self) -> bool:
        return self._interrupts.asked
