"""An answer goes where it was asked for: the terminal, files, or standard output."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import SCREEN, Outputs, writable, write_file

if TYPE_CHECKING:
    from inferometer.base.answer_file import Answer
    from inferometer.options.options import Options

FORMS = ("csv", "json", "html", "markdown", "junit")
"""Fields of the options that name a file; `-` is standard output."""
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1")


class Forms(Protocol):
    """Where an answer is to go, in each of the forms."""

    @property
    def csv(self) -> str | None: ...
    @property
    def json(self) -> str | None: ...
    @property
    def html(self) -> str | None: ...
    @property
    def markdown(self) -> str | None: ...
    @property
    def junit(self) -> str | None: ...


def is_stdout(place: str | None) -> bool:
    return place in _STDOUT


def check_outputs(options: "Options") -> None:
    """Refuses files that could not be written when the load is over, and two reports in one."""
    check_forms(options)
    if options.profile_export is not None:
        if is_stdout(options.profile_export):
            raise UsageError(
                "requests are exported to a file, not to standard output", remedy="give it a name"
            )
        from inferometer.report.export import exportable

        exportable(Path(options.profile_export))


def check_forms(asked: Forms) -> None:
    places = {form: getattr(asked, form) for form in FORMS if getattr(asked, form) is not None}
    on_stdout = [f"--{form}" for form, place in places.items() if is_stdout(place)]
    if len(on_stdout) > 1:
        raise UsageError(
            f"{' and '.join(on_stdout)} would all go to standard output", remedy="give a file for all but one"
        )
    files = [Path(place) for place in places.values() if not is_stdout(place)]
    names = [file.resolve() for file in files]
    for name in names:
        if names.count(name) > 1 and not name.is_relative_to("/dev"):
            raise UsageError(f"two reports are to go to '{name}'", remedy="give each a name of its own")
    writable(*files)


class Shown(Forms, Protocol):
    """What is asked of an answer: its forms, and how much is printed."""

    @property
    def quiet(self) -> bool: ...
    @property
    def verbose(self) -> int: ...


def deliver(answer: "Answer", options: Shown, outputs: Outputs) -> None:
    """Show the answer, and write it in every form that was asked for."""
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    found = document(answer)
    if options.quiet and not has_stdout(options):
        outputs.attempt(SCREEN, lambda: print(printable(found.verdict), flush=True))
    elif not has_stdout(options):
        outputs.attempt(SCREEN, lambda: show(found, is_verbose=options.verbose > 0))
    write_forms(answer, options, outputs)


def write_forms(answer: "Answer", asked: Forms, outputs: Outputs) -> None:
    """Write the answer in every form that is asked for."""
    for form in FORMS:
        place = getattr(asked, form)
        if is_stdout(place):
            outputs.attempt(SCREEN, partial(_print, answer, form))
        else:
            outputs.file(place, partial(_write, answer, form))


def has_stdout(asked: Forms) -> bool:
    """Whether standard output is to hold one of them, and nothing else."""
    return any(is_stdout(getattr(asked, form)) for form in FORMS)


def _text(answer: "Answer", form: str) -> str:
    from inferometer.base import answer_file
    from inferometer.report import saved

    texts: dict[str, Callable[[Any], str]] = {
        "csv": saved.to_csv,
        "json": answer_file.to_json,
        "html": saved.to_html,
        "markdown": saved.to_markdown,
        "junit": saved.to_junit,
    }
    return texts[form](answer)


def _print(answer: "Answer", form: str) -> None:
    print(_text(answer, form), end="", flush=True)


def _write(answer: "Answer", form: str, path: Path) -> None:
    from inferometer.report.csv import write_csv
    from inferometer.stats.result import Result

    if form != "csv" or not isinstance(answer, Result):
        write_file(path, _text(answer, form))
    elif not write_csv(answer, path):  # which has a file for each composing model too
        to_stderr(f"'{path}' is not written: there is no level to put into it")
