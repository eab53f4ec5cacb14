"""`inferometer find`: the most load that keeps a promise."""

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.base.writing import SCREEN, Outputs
from inferometer.cli.measure import export, make_progress, write_reports, write_result
from inferometer.cli.parser import Ask, parse_measure

if TYPE_CHECKING:
    from inferometer.find.run import Quest
    from inferometer.measure.options import Options
    from inferometer.measure.prepare import Setup
    from inferometer.stats.result import Result

DURATION_S = 60.0
NOT_FOUND = 1


def main(argv: list[str]) -> int:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer find",
        description="Find the highest request rate (or concurrency) at which the model still keeps a promise about "
        "latency and errors, with a 95 %% interval: loads are measured until they are known to keep or to break it.",
        epilog="All other options are those of `inferometer measure`; --duration is the time for the whole search.",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--slo", metavar="PROMISE", required=True, help="such as 'p99<50ms, errors<0.1%%'")
    parser.add_argument(
        "--by", choices=("rate", "concurrency"), default="rate", help="what to raise (default: %(default)s)"
    )
    parser.add_argument(
        "--start", metavar="VALUE", type=float, help="the first to try (default: from a short look)"
    )
    own, rest = parser.parse_known_args(argv)
    options = parse_measure(rest)
    if isinstance(options, Ask):
        parser.print_help()
        return 0
    return _find(options, own)


def _find(options: "Options", own: argparse.Namespace) -> int:
    from inferometer.find.run import Quest
    from inferometer.measure.prepare import prepare
    from inferometer.report.export import exportable
    from inferometer.report.files import writable
    from inferometer.report.saved import document
    from inferometer.report.terminal import show
    from inferometer.stats.slo import parse_slo

    if own.start is not None and own.start <= 0:
        raise UsageError(f"--start is {own.start:g}", remedy="give a rate or a concurrency above 0")
    promise = parse_slo(own.slo)
    for name in (options.csv, options.json, options.html):
        if name is not None:
            writable(Path(name))
    if options.profile_export is not None:
        exportable(Path(options.profile_export))
    duration_s = options.duration_s or DURATION_S
    quest = Quest(
        promise=promise,
        duration_ns=round(duration_s * NS_PER_S),
        is_rate=own.by == "rate",
        distribution=options.request_distribution,
        seed=options.data.seed,
        start=own.start,
    )
    # Probes are judged by what was promised; senders must never be what limits them.
    asked = replace(options, asynchronous=True, duration_s=duration_s, slo=own.slo)
    setup = prepare(asked, command="find")
    outputs = Outputs()
    result = _search(setup, quest, outputs)
    outputs.attempt(SCREEN, lambda: show(document(result)))
    write_reports(result, options, outputs)
    export(setup, outputs)
    outputs.settle()
    return 0 if result.finding is not None and result.finding.value > 0 else NOT_FOUND


def _search(setup: "Setup", quest: "Quest", outputs: Outputs) -> "Result":
    from inferometer.cli.signals import Interrupts
    from inferometer.find.run import run_find

    result = setup.result
    with Interrupts().caught() as interrupts, closing(make_progress(interrupts)) as progress:
        for result in run_find(setup, quest, progress):
            write_result(result, setup.options.json, outputs)
    return result
