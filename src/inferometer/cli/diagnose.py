"""`inferometer diagnose`: what limits a model, what would help, and with --apply whether it does."""

import argparse
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.options import duration
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs
from inferometer.cli.measure import exit_code, make_progress
from inferometer.cli.parser import Ask, parse_measure

if TYPE_CHECKING:
    from inferometer.diagnose.apply import Outcome, Treatment
    from inferometer.diagnose.run import Asked
    from inferometer.diagnose.settings import Config
    from inferometer.measure.options import Options

LEVEL_S = 3.0
BUDGET = "3m"
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    parser = _parser()
    own, rest = parser.parse_known_args(argv)
    options = parse_measure(rest, duration_s=LEVEL_S)
    if isinstance(options, Ask):
        parser.print_help()
        return 0
    if (own.keep or own.write_config) and not own.apply:
        name = "--keep" if own.keep else "--write-config"
        raise UsageError(f"{name} is about what --apply finds", remedy="give --apply as well")
    if own.cores is not None and own.cores <= 0:
        raise UsageError(
            f"--cores is {own.cores:g}", remedy="give the number of cores of the server's machine"
        )
    return _diagnose(options, own)


def _parser() -> argparse.ArgumentParser:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer diagnose",
        description="Measure a model at a few loads, say which step limits it and why, and predict what would help: "
        "more instances, batches, another transport. With --apply try it out on the server.",
        epilog="All other options are those of `inferometer measure`; --duration is the time for one load "
        "(3 s by default), --concurrency-range the loads (1:8 and on while it grows by default).",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="load the suggested configurations one after the other, measure, and keep what is better; needs a server "
        "with --model-control-mode explicit. The original configuration comes back at the end",
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        default=BUDGET,
        help="time for --apply, such as 90s or 3m (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the server with what --apply found")
    parser.add_argument(
        "--write-config", metavar="DIR", type=Path, help="write the config.pbtxt files that --apply found"
    )
    parser.add_argument(
        "--cores",
        metavar="N",
        type=float,
        help="cores of the server's machine (default: seen, if it is this one)",
    )
    return parser


def _diagnose(options: "Options", own: argparse.Namespace) -> int:
    from inferometer.base.answer_file import write
    from inferometer.diagnose.apply import Treatment
    from inferometer.diagnose.run import Asked
    from inferometer.report.files import writable
    from inferometer.report.saved import document, write_page
    from inferometer.report.terminal import show

    budget_s = duration(zero=False)("--budget", own.budget)
    assert isinstance(budget_s, float)
    for name in (options.json, options.html):
        if name is not None:
            writable(Path(name))
    treatment = Treatment(budget_s, own.keep) if own.apply else None
    outcome, was_interrupted = watch(Asked(options, own.cores), treatment)
    diagnosis, outputs = outcome.diagnosis, Outputs()
    outputs.attempt(SCREEN, lambda: show(document(diagnosis)))
    if options.json is not None:
        saved = Path(options.json)
        outputs.attempt(saved, lambda: write(diagnosis, saved))
    if options.html is not None:
        page = Path(options.html)
        outputs.attempt(page, lambda: write_page(page, diagnosis))
    if own.write_config is not None:
        outputs.attempt(own.write_config, lambda: _write_configs(outcome.configs, own.write_config))
    outputs.settle()
    if outcome.error is not None:
        raise outcome.error
    if was_interrupted:
        return INTERRUPTED
    return exit_code(outcome.diagnosis.results[0], options.max_error_rate)


def _write_configs(configs: "Mapping[str, Config]", folder: Path) -> None:
    from inferometer.diagnose.settings import write_configs

    for path in write_configs(configs, folder):
        print(printable(f"Written: {path}"))


def watch(asked: "Asked", treatment: "Treatment | None") -> "tuple[Outcome, bool]":
    """Run it with progress on stderr; also whether the user ended it early."""
    from inferometer.cli.signals import Interrupts
    from inferometer.diagnose.apply import consult

    with Interrupts().caught() as interrupts:
        with closing(make_progress(interrupts)) as progress:
            outcome = consult(asked, treatment, progress)
        return outcome, interrupts.asked
