"""The script `perf_analyzer`: exactly the classic dialect, on our engine."""

import signal
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from inferometer.base.collecting import collect_rarely
from inferometer.base.errors import InferometerError, MetricsError, UsageError, spelled
from inferometer.base.messages import messages_shown
from inferometer.base.notes import Note
from inferometer.base.signals import (
    Interrupts,
    drop_output,
    interrupted_code,
    interruptible,
    received,
    was_hung_up,
)
from inferometer.base.text import decode_json, printable, to_stderr
from inferometer.base.threads import limit_threads
from inferometer.base.writing import Outputs
from inferometer.dialects.perf_analyzer.options import COMMAND, classic_usage, most_outstanding, parse_classic
from inferometer.options.command_line import Ask
from inferometer.options.names import with_names
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.measure.prepare import Setup
    from inferometer.observe.metrics import Sample
    from inferometer.options.options import Options
    from inferometer.stats.measurement import Level, Measurement, WindowFigures
    from inferometer.stats.result import Result

VERSION = "2.51.0"  # of the dialect
MOST_SAID = 1000  # characters of a server's error message, which may be a whole page

# Remarks that the classic tool words differently or does not print.
_NOT_SHOWN = (
    Note.NOT_STABLE,
    Note.NOT_PRECISE,
    Note.INTERRUPTED,
    Note.FAILURES,
    Note.CUT_OFF,
    Note.NUMPY_TOO_NEW,
    Note.STOLEN,
)

_ADVICE = {
    Note.NOT_OFFERED: "fewer requests were sent than requested: raise --max-threads, use --async, or run more "
    "sequences in parallel with --num-of-sequences",
    Note.NOT_STREAMED: "the time to the first token is unknown",
}
"""Advice about options that our commands have and this script does not."""

OK, UNSTABLE, NO_REQUESTS, FAILURE = 0, 2, 3, 99
METRICS_ERRORS = {
    False: "Unable to connect to Metrics endpoint URL: ",
    True: "Metrics endpoint curling did not succeed. ",
}


def main(argv: list[str] | None = None) -> int:
    collect_rarely()
    limit_threads()
    words = sys.argv[1:] if argv is None else argv
    try:
        with interruptible():
            code = _run(words)
            return interrupted_code() if was_hung_up() else code
    except MetricsError as error:
        to_stderr(f"error: {METRICS_ERRORS[error.has_answered]}{_words_of(error, words)}")
        return FAILURE
    except InferometerError as error:
        to_stderr(f"error: {_words_of(error, words)}")
        return FAILURE
    except BrokenPipeError:
        return drop_output()
    except KeyboardInterrupt as interrupt:  # before or after the load
        _say(f"{received(*interrupt.args or (signal.SIGINT,))}\n")
        to_stderr("Received exit signal.")
        return interrupted_code() if was_hung_up() else OK


def _words_of(error: InferometerError, words: list[str]) -> str:
    """Return the script's own sentence, with its names of options: for TLS over gRPC, those of gRPC."""
    error.use_classic_words()
    like = "--ssl-grpc" if any(word.startswith("--ssl-grpc") for word in words) else ""
    return error.spelled(partial(COMMAND.spell, like=like))


def _run(words: list[str]) -> int:
    try:
        options = parse_classic(words)
    except UsageError as error:
        to_stderr(f"Error: {_words_of(error, words)}\n{classic_usage()}")
        return FAILURE
    if options is Ask.HELP:
        _say(classic_usage())
        return OK
    if isinstance(options, Ask):
        import inferometer

        to_stderr(f"Perf Analyzer Version {VERSION} (commit inferometer-{inferometer.__version__})")
        return OK
    with messages_shown(options.verbose):
        return _profile(options)


def _say(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def _complain_of(remarks: Iterable[str]) -> None:
    for remark in remarks:
        to_stderr(remark)


def _profile(options: "Options") -> int:
    from inferometer.base.answer_file import write
    from inferometer.dialects.perf_analyzer import report as classic
    from inferometer.measure.prepare import Habits, prepare
    from inferometer.measure.run import run
    from inferometer.report.delivery import check_outputs

    check_outputs(options)
    habits = Habits(
        metrics_warnings=metrics_warnings,
        data_read=lambda found: _say(classic.data_line(found)),
        bad_data="Failed to init manager inputs: ",
        bad_requests="Unable to init infer data manager: ",
        most_outstanding=most_outstanding,
    )
    setup = prepare(options, command="perf_analyzer", habits=habits)
    options = setup.options
    _complain_of(setup.messages)
    _say(classic.settings_block(setup.result))
    result, outputs = setup.result, Outputs()
    with Interrupts(fd=1, exit_code=0, is_patient=True).caught() as interrupts:
        printer = _Printer(options, interrupts, has_header=classic.has_header(setup.result))
        for later in run(setup, printer):
            if len(later.levels) > len(result.levels):
                _say(classic.level_block(later, later.levels[-1]))
                _complain_of(_complaints(later.levels[-1], options))
            for remark in later.remarks[len(result.remarks) :]:
                to_stderr(f"WARNING: {remark.text}")
            result = later
            outputs.file(options.json, partial(write, result))
        if interrupts.asked:
            to_stderr("Received exit signal.")
        code = _finish(result, setup, outputs, is_interrupted=interrupts.asked)
        outputs.settle()
        return code


def metrics_warnings(first: "Sample") -> tuple[str, ...]:
    from inferometer.observe.metrics import missing

    return tuple(f"WARNING: Unable to parse '{name}' metric." for name in missing(first))


class _Printer(Watcher):
    """Prints each level as the classic tool does; its figures follow with the result."""

    def __init__(self, options: "Options", interrupts: Interrupts, *, has_header: bool) -> None:
        self._options = options
        self._interrupts = interrupts
        self._has_header = has_header
        self._announced = ("", 0.0)

    def level_started(self, mode: str, value: float) -> None:
        """Print the header of a level; the classic tool announces the warm-up only for concurrency."""
        from inferometer.dialects.perf_analyzer.report import level_header

        is_again, self._announced = self._announced == (mode, value), (mode, value)
        if self._has_header and (mode == "concurrency" or not is_again):
            _say(level_header(mode, value))

    def window_finished(self, number: int, window: "WindowFigures") -> None:
        from inferometer.dialects.perf_analyzer.report import pass_line

        if self._options.verbose:
            _say(pass_line(number, window, self._options.percentile))

    def is_interrupted(self) -> bool:
        return self._interrupts.asked


def advice(note: Note) -> str:
    """Return the advice of a note, with options that this script has."""
    return _ADVICE.get(note) or spelled(with_names(note.value), COMMAND.spell)


def _complaints(level: "Level", options: "Options") -> list[str]:
    """Return the classic tool's stderr lines about a level."""
    is_noted = any(remark.note is Note.NOT_STABLE for remark in level.remarks)
    lines = [
        f"WARNING: {remark.text.replace(' %', '%')}; {advice(remark.note)}"  # this script's notation of percent
        for remark in level.remarks
        if remark.note not in _NOT_SHOWN
    ]
    if level.measurement is not None and level.measurement.request_count == 1:
        lines.append("WARNING: Pass contained only one request, so it has no standard deviation.")
    if level.is_stable and level.is_over_limit:
        lines.append(f"Measured latency went over the set limit of {options.latency_limit_ms} msec. ")
    if level.is_stable and is_noted:
        lines.append("Warning: Request latency is not stabilizing. Please try lowering the request rate.")
    if not level.is_stable and is_noted and level.mode != "concurrency":
        lines.append("Failed to obtain stable measurement.")
    elif not level.is_stable and is_noted:
        by_count = options.measurement_mode == "count_windows"
        remedy = "--measurement-request-count" if by_count else "--measurement-interval"
        lines.append(
            f"Failed to obtain stable measurement within {len(level.windows)} measurement windows for concurrency "
            f"{level.value:g}. Please try to increase the {remedy}."
        )
    return lines


def _finish(result: "Result", setup: "Setup", outputs: Outputs, *, is_interrupted: bool) -> int:
    """Print the summary, write CSV and export, and return the exit code."""
    from inferometer.dialects.perf_analyzer import report as classic
    from inferometer.report.csv import floored_levels, write_csv
    from inferometer.report.export import write_export
    from inferometer.report.saved import write_page

    options = setup.options
    code = exit_code(result, options, is_interrupted=is_interrupted)
    _say(classic.summary(result))
    outputs.file(options.html, lambda path: write_page(path, result))
    if code in (UNSTABLE, NO_REQUESTS):
        if setup.journal is not None:
            setup.journal.close()
        return code
    if options.csv is not None:
        outputs.file(options.csv, lambda path: write_csv(result, path))
        for _ in floored_levels(result):
            to_stderr(
                "Server average accounted time was larger than client average wait time due to small sample size. "
                "Increase the measurement interval with `--measurement-interval`."
            )
    if (journal := setup.journal) is not None:
        outputs.attempt(journal.path, lambda: _complain_of(write_export(journal.export(), journal.path)))
    return code


def exit_code(result: "Result", options: "Options", *, is_interrupted: bool) -> int:
    """Return the exit code of the classic script."""
    from inferometer.report.format import has_schedule

    level = result.levels[-1] if result.levels else None
    failed = [found for row in result.levels if (found := row.measurement) is not None and found.failed_count]
    if result.failed_share > options.max_error_rate:
        _complain_of_failures(failed, options)
        return FAILURE
    if level is None or is_interrupted:
        return OK
    if result.has_lost_senders or level.is_cut_short:
        return FAILURE
    # These windows must not be empty, except in a schedule, which may have pauses.
    judged = () if has_schedule(result.effective) else level.windows[-3:]
    is_bare = level.measurement is None  # a whole plan is always stable
    if (is_bare or not level.is_stable) and not all(window.request_count for window in judged):
        to_stderr("No valid requests recorded within time interval. Please use a larger time window.")
        return NO_REQUESTS
    if len(result.levels) == 1 and not level.is_stable:
        to_stderr("Failed to obtain stable measurement.")
        return UNSTABLE
    return OK


def _complain_of_failures(failed: "list[Measurement]", options: "Options") -> None:
    if options.asynchronous:
        to_stderr("Failed to retrieve results from inference request.")
    else:
        to_stderr(
            "Failed to maintain requested inference load. Worker thread(s) failed to generate concurrent requests."
        )
    groups = {group.kind: group for row in failed for group in row.failures}
    for number, group in enumerate(groups.values()):
        to_stderr(f"Thread [{number}] had error: {_words(group.example)}")


def _words(example: str) -> str:
    """Extract the server's message, from JSON if necessary, and shorten a long one."""
    try:
        document = decode_json(example)
    except ValueError:
        document = None
    said = str(document["error"]) if isinstance(document, dict) and "error" in document else example
    return said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}... ({len(said)} characters)"


if __name__ == "__main__":
    sys.exit(main())
