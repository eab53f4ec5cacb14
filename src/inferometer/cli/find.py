"""`inferometer find`: the most load that keeps a promise."""

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from inferometer.base.units import NS_PER_S
from inferometer.base.writing import SCREEN, Outputs
from inferometer.cli.measure import (
    export,
    make_progress,
    measure_options,
    write_reports,
)
from inferometer.options.help import read_or_answer
from inferometer.options.option import option, rows
from inferometer.options.options import OPTIONS
from inferometer.options.values import above_zero, choice, text
from inferometer.options.words import Command, taken

if TYPE_CHECKING:
    from inferometer.find.run import SearchGoal
    from inferometer.measure.prepare import Setup
    from inferometer.options.options import Options
    from inferometer.stats.result import Result

DURATION_S = 60.0
NOT_FOUND = 1


@dataclass(frozen=True, slots=True)
class FindOptions:
    """What only `find` is asked."""

    slo: str = option(
        "", "--slo", "such as 'p99<50ms, errors<0.1%'", text("PROMISE"), group="Search", is_required=True
    )
    by: str = option(
        "rate", "--by", "what to raise: rate or concurrency", choice("WHAT", "rate", "concurrency")
    )
    start: float | None = option(
        None,
        "--start",
        "the first to try (default: from a short look)",
        above_zero("VALUE", "rate or a concurrency", "give the first to try, such as 100"),
    )


COMMAND = Command(
    "inferometer find",
    "--slo PROMISE [-m NAME] [options]",
    "Find the highest request rate (or concurrency) at which the model still keeps a promise about latency and errors, "
    "with a 95 % interval: loads are measured until they are known to keep or to break it.",
    rows(FindOptions, prefix="find."),
    shared=OPTIONS,
    epilog="All other options are those of `inferometer measure`; --duration is the time for the whole search.",
    takes_words=True,
)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    own = taken(given, FindOptions, "find.")
    # Probes are judged by what was promised; senders must never be what limits them.
    options = measure_options({**given, "slo": own.slo, "asynchronous": True})
    return _find(options, own)


def _find(options: "Options", own: FindOptions) -> int:
    from inferometer.find.run import SearchGoal
    from inferometer.measure.prepare import prepare
    from inferometer.report.export import check_files
    from inferometer.report.saved import document
    from inferometer.report.terminal import show
    from inferometer.stats.slo import parse_slo

    promise = parse_slo(own.slo)
    check_files(options)
    duration_s = options.duration_s or DURATION_S
    goal = SearchGoal(
        promise=promise,
        duration_ns=round(duration_s * NS_PER_S),
        is_rate=own.by == "rate",
        distribution=options.request_distribution,
        seed=options.data.seed,
        start=own.start,
    )
    setup = prepare(replace(options, duration_s=duration_s), command="find")
    outputs = Outputs()
    result = _search(setup, goal, outputs)
    outputs.attempt(SCREEN, lambda: show(document(result)))
    write_reports(result, options, outputs)
    export(setup, outputs)
    outputs.settle()
    return 0 if result.finding is not None and result.finding.value > 0 else NOT_FOUND


def _search(setup: "Setup", goal: "SearchGoal", outputs: Outputs) -> "Result":
    from inferometer.base.signals import Interrupts
    from inferometer.find.run import run_find
    from inferometer.report.saved import write_result

    result = setup.result
    with Interrupts().caught() as interrupts, closing(make_progress(interrupts)) as progress:
        for result in run_find(setup, goal, progress):
            write_result(result, setup.options.json, outputs)
    return result
