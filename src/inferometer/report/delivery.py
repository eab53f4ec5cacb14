"""An answer goes where it was asked for: the terminal, files, or standard output."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import SCREEN, Outputs, writable, write_file

if TYPE_CHECKING:
    from inferometer.options.options import Options
    from inferometer.report.saved import Report

STDOUT = "-"
FORMS = ("csv", "json", "html", "markdown", "junit")
"""Fields of the options that name a file; `-` is standard output."""


def check_outputs(options: "Options") -> None:
    """Refuses files that could not be written when the load is over, and two reports in one."""
    from inferometer.report.export import exportable

    places = {form: getattr(options, form) for form in FORMS if getattr(options, form) is not None}
    on_stdout = [f"--{form}" for form, place in places.items() if place == STDOUT]
    if len(on_stdout) > 1:
        raise UsageError(
            f"{' and '.join(on_stdout)} would all go to standard output", remedy="give a file for all but one"
        )
    names = [Path(place).resolve() for place in places.values() if place != STDOUT]
    for name in names:
        if names.count(name) > 1 and not name.is_relative_to("/dev"):
            raise UsageError(f"two reports are to go to '{name}'", remedy="give each a name of its own")
    writable(*names)
    if options.profile_export is not None:
        exportable(Path(options.profile_export))


def deliver(answer: "Report", options: "Options", outputs: Outputs) -> None:
    """Show the answer, and write it in every form that was asked for."""
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    found = document(answer)
    if options.quiet and not _is_on_stdout(options):
        outputs.attempt(SCREEN, lambda: print(printable(found.verdict), flush=True))
    elif not _is_on_stdout(options):
        outputs.attempt(SCREEN, lambda: show(found, is_verbose=options.verbose > 0))
    for form in FORMS:
        place = getattr(options, form)
        if place == STDOUT:
            outputs.attempt(SCREEN, partial(_print, answer, form))
        else:
            outputs.file(place, partial(_write, answer, form))


def _is_on_stdout(options: "Options") -> bool:
    return any(getattr(options, form) == STDOUT for form in FORMS)


def _text(answer: "Report", form: str) -> str:
    from inferometer.base import answer_file
    from inferometer.report import saved
    from inferometer.report.answer_csv import csv_text

    texts: dict[str, Callable[[Any], str]] = {
        "csv": csv_text,
        "json": answer_file.to_json,
        "html": saved.to_html,
        "markdown": saved.to_markdown,
        "junit": saved.to_junit,
    }
    return texts[form](answer)


def _print(answer: "Report", form: str) -> None:
    print(_text(answer, form), end="", flush=True)


def _write(answer: "Report", form: str, path: Path) -> None:
    from inferometer.report.csv import write_csv
    from inferometer.stats.result import Result

    if form != "csv" or not isinstance(answer, Result):
        write_file(path, _text(answer, form))
    elif not write_csv(answer, path):  # which has a file for each composing model too
        to_stderr(f"'{path}' is not written: there is no level to put into it")
