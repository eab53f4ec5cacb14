"""`inferometer measure`: load levels, and a table of what came of them."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import LocalError, PeerError
from inferometer.base.messages import messages_shown
from inferometer.base.notes import Note
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs
from inferometer.cli.parser import Ask, parse_measure, print_measure_help

if TYPE_CHECKING:
    from inferometer.cli.signals import Interrupts
    from inferometer.measure.options import Options
    from inferometer.measure.prepare import Setup
    from inferometer.report.progress import Progress
    from inferometer.stats.result import Result

TOO_MANY_FAILURES = 1


def main(argv: list[str]) -> int:
    options = parse_measure(argv)
    if options is Ask.HELP:
        print_measure_help()
        return 0
    if options is Ask.VERSION:
        from inferometer import __version__

        print(f"inferometer {__version__}")
        return 0
    with messages_shown(options.verbose):
        return _measure(options)


def _measure(options: "Options") -> int:
    from inferometer.measure.prepare import Habits, prepare
    from inferometer.report.export import exportable
    from inferometer.report.files import writable
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    for name in (options.csv, options.json, options.html):
        if name is not None:
            writable(Path(name))
    if options.profile_export is not None:
        exportable(Path(options.profile_export))
    setup = prepare(options, command="measure", habits=Habits(finds_warm_up=True))
    for warning in setup.warnings:
        print(printable(warning), file=sys.stderr)
    outputs = Outputs()
    result = watch(setup, outputs)
    outputs.attempt(SCREEN, lambda: show(document(result)))
    write_reports(result, options, outputs)
    export(setup, outputs)
    outputs.settle()
    return exit_code(result, options.max_error_rate)


def exit_code(result: "Result", max_error_rate: float) -> int:
    """A run that was given up or not answered is no success, whatever share of its requests failed."""
    levels = result.levels
    notes = [{remark.note for remark in level.remarks} for level in levels]
    is_unanswered = bool(notes) and all(Note.NO_REPLY in row and Note.INTERRUPTED not in row for row in notes)
    if any(level.is_given_up for level in levels):
        return PeerError.exit_code
    if any(level.is_cut_short for level in levels) or any(
        remark.note is Note.WORKER_LOST for remark in result.remarks
    ):
        return LocalError.exit_code
    if is_unanswered:
        return PeerError.exit_code
    return TOO_MANY_FAILURES if result.failed_share > max_error_rate else 0


def write_reports(result: "Result", options: "Options", outputs: Outputs) -> None:
    """The table and the page, where they were asked for."""
    from inferometer.report.saved import write_page

    if options.csv is not None:
        table = Path(options.csv)
        outputs.attempt(table, lambda: write_table(result, table))
    if options.html is not None:
        page = Path(options.html)
        outputs.attempt(page, lambda: write_page(page, result))


def write_table(result: "Result", path: Path) -> None:
    from inferometer.report.files import write_csv

    if not write_csv(result, path):
        print(f"'{path}' is not written: there is no level to put into it", file=sys.stderr)


def export(setup: "Setup", outputs: Outputs) -> None:
    """Write every request to the file that was asked for, if one was."""
    from inferometer.report.export import write_export

    journal = setup.journal
    if journal is None:
        return

    def write() -> None:
        for remark in write_export(journal.export(), journal.path):
            print(printable(remark), file=sys.stderr)

    outputs.attempt(journal.path, write)


def watch(setup: "Setup", outputs: Outputs) -> "Result":
    """Run it with progress on stderr; the JSON file grows with every level."""
    from inferometer.cli.signals import Interrupts
    from inferometer.measure.run import run

    result = setup.result
    with (
        Interrupts().caught() as interrupts,
        closing(make_progress(interrupts, setup.options.verbose)) as progress,
    ):
        for result in run(setup, progress):
            write_result(result, setup.options.json, outputs)
    return result


def write_result(result: "Result", name: str | None, outputs: Outputs) -> None:
    """The file with all figures; a disk that is full now may have room after the next level."""
    from inferometer.base.answer_file import write

    if name is not None:
        outputs.attempt(Path(name), lambda: write(result, Path(name)))


def make_progress(interrupts: "Interrupts", verbose: int = 0) -> "Progress":
    """A block on a terminal, lines elsewhere; with -v a line for every window."""
    from rich.console import Console

    from inferometer.base.clock import monotonic_ns
    from inferometer.report.progress import LiveProgress, PlainProgress

    if sys.stderr.isatty() and not verbose:
        return LiveProgress(interrupts.is_asked, Console(stderr=True))
    return PlainProgress(interrupts.is_asked, sys.stderr, monotonic_ns, every_window=bool(verbose))
