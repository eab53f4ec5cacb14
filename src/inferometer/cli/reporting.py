"""Progress, reports and exit code of a measurement."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from inferometer.base.errors import LocalError, PeerError
from inferometer.base.signals import interrupted_code
from inferometer.base.text import to_stderr
from inferometer.base.writing import Outputs
from inferometer.report.delivery import deliver, is_stdout
from inferometer.stats.verdict import EXIT_INCONCLUSIVE, INCONCLUSIVE, Ruling

if TYPE_CHECKING:
    from inferometer.measure.journal import RequestJournal
    from inferometer.measure.prepare import Setup
    from inferometer.report.progress import Progress
    from inferometer.scenario.mlperf import MlperfSetup
    from inferometer.scenario.run import ScenarioSetup
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher
    from inferometer.store.keeper import Keeper

TOO_MANY_FAILURES = 1
SLO_BROKEN = 4


def exit_code(result: "Result", max_error_rate: float) -> int:
    """Return the exit code of a run. An aborted or unanswered run fails regardless of its error rate.

    The SLO comes last, since the other codes mean that the run itself went wrong. The help page `exit-codes`
    documents this order.
    """
    from inferometer.base.notes import Note

    levels = result.levels
    notes = [{remark.note for remark in level.remarks} for level in levels]
    if result.is_out_of_time:  # the user asked for it
        notes = [row - {Note.INTERRUPTED} for row in notes]
    is_unanswered = bool(notes) and all(Note.NO_REPLY in row and Note.INTERRUPTED not in row for row in notes)
    if any(level.is_given_up for level in levels):
        return PeerError.exit_code
    if result.has_lost_senders or any(level.is_cut_short for level in levels):
        return LocalError.exit_code
    if is_unanswered:
        return PeerError.exit_code
    if any(Note.INTERRUPTED in row for row in notes):
        return interrupted_code()
    if result.fails_too_often(max_error_rate):
        return TOO_MANY_FAILURES
    if result.breaks_promise:
        return SLO_BROKEN
    return EXIT_INCONCLUSIVE if result.leaves_promise_open else 0


def ruling_code(ruling: Ruling) -> int:
    """Return the exit code of a command without pass or fail: 0 unless inconclusive."""
    return EXIT_INCONCLUSIVE if ruling == INCONCLUSIVE else 0


def allowed(code: int, *, is_allowed: bool) -> int:
    """Return the exit code, replacing that of an inconclusive verdict with 0 if the user allowed it."""
    return 0 if is_allowed and code == EXIT_INCONCLUSIVE else code


def run_and_report(
    setup: "Setup | ScenarioSetup | MlperfSetup",
    keeper: "Keeper",
    start: "Callable[[Watcher], Iterator[Result]]",
    code_of: "Callable[[Result], int]",
) -> int:
    """Run with progress on stderr; show the result and write it to the requested files.

    The JSON file is rewritten after every level. If the user interrupts the run, the exit code says so unless the
    server or this machine failed.
    """
    from inferometer.base.answer_file import write

    options, outputs, result = setup.options, Outputs(), setup.result
    growing = None if is_stdout(options.json) else options.json
    with progress_shown(options.verbose, is_quiet=options.quiet) as progress:
        watcher = keeper.watching(progress)
        keeper.save(result)
        for message in setup.messages:
            watcher.said(message)
        for result in start(watcher):
            # A full disk may have space again after the next level.
            outputs.file(growing, partial(write, result))
            keeper.save(result)
    deliver(result, options, outputs)
    if setup.journal is not None:
        outputs.attempt(setup.journal.path, partial(_export, setup.journal))
    outputs.settle()
    code = code_of(result)
    is_fault = code in (PeerError.exit_code, LocalError.exit_code)
    return interrupted_code() if progress.is_interrupted() and not is_fault else code


def _export(journal: "RequestJournal") -> None:
    from inferometer.report.export import write_export

    for remark in write_export(journal.export(), journal.path):
        to_stderr(remark)


@contextmanager
def progress_shown(verbose: int = 0, *, is_quiet: bool = False) -> Iterator["Progress"]:
    """Show progress: a live block on a terminal, lines elsewhere, with -v one per window. Ctrl-C ends cleanly."""
    from inferometer.base.signals import Interrupts
    from inferometer.base.units import monotonic_ns
    from inferometer.report.progress import LiveProgress, PlainProgress, Progress, can_draw

    is_drawn = can_draw(sys.stderr) and not verbose
    with Interrupts(is_silent=is_drawn or is_quiet).caught() as interrupts:
        if is_quiet:
            progress = Progress(interrupts.is_asked)
        elif is_drawn:
            from rich.console import Console

            progress = LiveProgress(interrupts.is_asked, Console(stderr=True))
        else:
            progress = PlainProgress(
                interrupts.is_asked, sys.stderr, monotonic_ns, every_window=bool(verbose)
            )
        with closing(progress):
            yield progress
