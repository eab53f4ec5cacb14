"""Deliver an answer to the terminal, to files, or to standard output."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import SCREEN, Outputs, writable, write_file
from inferometer.options.names import option_name

if TYPE_CHECKING:
    from inferometer.base.answer_file import Answer
    from inferometer.options.options import Options

LARGEST_BODY = 1 << 20  # bytes of a JSON file that may be a request body
FORMS = ("csv", "json", "html", "markdown", "junit")
"""Fields of the options that name a file; `-` is standard output."""
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1")


class Forms(Protocol):
    """The destination of an answer in each form."""

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
    """Refuse files that could not be written after the load, and two reports for one file."""
    check_forms(options)
    if options.profile_export is not None:
        if is_stdout(options.profile_export):
            raise UsageError("requests cannot be exported to standard output", remedy="give a file name")
        from inferometer.report.export import exportable

        exportable(Path(options.profile_export))


def check_forms(asked: Forms) -> None:
    places = {form: getattr(asked, form) for form in FORMS if getattr(asked, form) is not None}
    on_stdout = [f"--{form}" for form, place in places.items() if is_stdout(place)]
    if len(on_stdout) > 1:
        raise UsageError(
            f"{' and '.join(on_stdout)} would all write to standard output",
            remedy="give a file name for all but one",
        )
    files = [Path(place) for place in places.values() if not is_stdout(place)]
    names = [file.resolve() for file in files]
    for name in names:
        if names.count(name) > 1 and not name.is_relative_to("/dev"):
            raise UsageError(
                f"two reports would be written to '{name}'", remedy="give each a different file name"
            )
    writable(*files)
    if asked.json is not None and not is_stdout(asked.json):
        _check_replaceable(Path(asked.json))


def _check_replaceable(path: Path) -> None:
    """Refuse to replace a JSON file that is not a result: other tools have a `--json` that reads a request body."""
    if path.suffix != ".json" or not path.is_file() or not 0 < path.stat().st_size <= LARGEST_BODY:
        return
    text = path.read_bytes()
    if b'"schema"' not in text and text.lstrip()[:1] in (b"{", b"["):
        raise UsageError(
            f"'{path}' is an existing JSON file, but not a result",
            remedy=f"give the name of a new file; for a request body, write {option_name('--body', f'@{path}')}",
        )


class Shown(Forms, Protocol):
    """The requested forms of an answer, and how much to print."""

    @property
    def quiet(self) -> bool: ...
    @property
    def verbose(self) -> int: ...


def deliver(answer: "Answer", options: Shown, outputs: Outputs) -> None:
    """Print the answer, and write it in every requested form."""
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    found = document(answer)
    if options.quiet and not has_stdout(options):
        outputs.attempt(SCREEN, lambda: print(printable(found.verdict), flush=True))
    elif not has_stdout(options):
        outputs.attempt(SCREEN, lambda: show(found, is_verbose=options.verbose > 0))
    write_forms(answer, options, outputs)


def write_forms(answer: "Answer", asked: Forms, outputs: Outputs) -> None:
    """Write the answer in every requested form."""
    for form in FORMS:
        place = getattr(asked, form)
        if is_stdout(place):
            outputs.attempt(SCREEN, partial(_print, answer, form))
        else:
            outputs.file(place, partial(_write, answer, form))


def has_stdout(asked: Forms) -> bool:
    """Whether standard output is reserved for one of the forms."""
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
    elif not write_csv(answer, path):  # also writes a file for each composing model
        to_stderr(f"'{path}' was not written: there is no level to report")
