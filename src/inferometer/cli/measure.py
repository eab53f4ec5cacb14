"""`inferometer measure`: load levels, and a table of what came of them."""

import secrets
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.notes import Note
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs
from inferometer.measure.checks import DURATION_S, STABILITY_OPTIONS, make
from inferometer.options.help import read_or_answer
from inferometer.options.options import AUTO, OPTIONS, Options
from inferometer.options.words import WORDS, Command, stray

if TYPE_CHECKING:
    from inferometer.base.signals import Interrupts
    from inferometer.measure.prepare import Setup
    from inferometer.report.progress import Progress
    from inferometer.stats.result import Result

TOO_MANY_FAILURES = 1

COMMAND = Command(
    "inferometer measure",
    "[URL] [-m NAME] [options]",
    "Load a model and measure its latency and throughput. An address alone is asked what it is.",
    OPTIONS,
    takes_words=True,  # an address may stand alone
)
REQUEST_TIMEOUT_S = 60.0


def measure_options(given: Mapping[str, Any], *, duration_s: float = DURATION_S) -> Options:
    """What was given by field, with the defaults of our own commands: a level ends when its figures are precise, at
    the latest after `duration_s`. A word that stands alone is the address; where no kind is asked for, that is asked
    what it is."""
    found = dict(given)
    words = found.pop(WORDS, ())
    for word in words:
        if word != "localhost" and not any(mark in word for mark in ":/."):
            raise stray(word)
        if "url" in found:
            raise UsageError(f"Two addresses are given: {found['url']} and {word}", remedy="give one")
        found["url"] = word
    if "grpc_method" in found:
        found.setdefault("service_kind", "dynamic_grpc")
    if "url" in found and (words or not found.get("model")):
        found.setdefault("service_kind", AUTO)
    if "headers" in found:  # HTTP/2 forbids the blanks around a value, which the classic tool sends over gRPC
        found["headers"] = tuple((name, value.strip(" ")) for name, value in found["headers"])
    defaults: dict[str, Any] = {
        "request_timeout_s": REQUEST_TIMEOUT_S,
        "sequence_ids": (secrets.randbits(62) + 1, None),  # two runs at once never share an id
    }
    if STABILITY_OPTIONS.isdisjoint(found):
        defaults["duration_s"] = duration_s
    return make(found, defaults=defaults)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    options = measure_options(given)
    with messages_shown(options.verbose):
        return _measure(options)


def _measure(options: "Options") -> int:
    from inferometer.measure.prepare import Habits, prepare
    from inferometer.report.export import check_files
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    check_files(options)
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
    from inferometer.report.csv import write_csv

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
    from inferometer.base.signals import Interrupts
    from inferometer.measure.run import run
    from inferometer.report.saved import write_result

    result = setup.result
    with (
        Interrupts().caught() as interrupts,
        closing(make_progress(interrupts, setup.options.verbose)) as progress,
    ):
        for result in run(setup, progress):
            write_result(result, setup.options.json, outputs)
    return result


def make_progress(interrupts: "Interrupts", verbose: int = 0) -> "Progress":
    """A block on a terminal, lines elsewhere; with -v a line for every window."""
    from rich.console import Console

    from inferometer.base.units import monotonic_ns
    from inferometer.report.progress import LiveProgress, PlainProgress

    if sys.stderr.isatty() and not verbose:
        return LiveProgress(interrupts.is_asked, Console(stderr=True))
    return PlainProgress(interrupts.is_asked, sys.stderr, monotonic_ns, every_window=bool(verbose))
