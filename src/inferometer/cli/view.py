"""`inferometer view`: any report from a saved result."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import WORDS, Command, own_options
from inferometer.options.commands import ViewOptions

if TYPE_CHECKING:
    from inferometer.report.document import Document

COMMAND = Command(
    "inferometer view",
    "RESULT.json [options]",
    "Make the report of a file that was saved with --json by measure, find, diagnose or compare. "
    "Without options, the page is written beside the file and its path is printed.",
    ViewOptions,
    shared=CONFIG,
    takes_words=True,
)


def run(given: dict[str, Any]) -> int:
    names = given.pop(WORDS, ())
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} saved files are given: {', '.join(names)}" if names else "no saved file is given",
            remedy="give one that was written with --json",
        )
    return _view(Path(names[0]), own_options(given, ViewOptions))


def _view(result: Path, asked: ViewOptions) -> int:
    from inferometer.base.writing import writable
    from inferometer.report.chromium import find_chromium
    from inferometer.report.saved import consistent, document
    from inferometer.report.saved import read as read_saved

    report = read_saved(result)
    if asked.html is None and (asked.open or not (asked.markdown or asked.png or asked.pdf)):
        asked = replace(asked, html=_beside(result))
    files = [file for file in (asked.html, asked.markdown, asked.png, asked.pdf) if file is not None]
    for file in files:
        _check(file, result)
        writable(None if str(file) == "-" else file)
    if asked.png is not None or asked.pdf is not None:
        find_chromium()
    outputs = Outputs()
    with consistent(str(result)):
        _write(document(report), asked, outputs)
    for file in files:
        if str(file) != "-" and outputs.has(file):
            print(printable(str(file)))
    outputs.settle()
    if asked.open and asked.html is not None:
        _open(asked.html)
    return 0


def _beside(result: Path) -> Path:
    return (
        result.with_suffix(".html") if result.suffix == ".json" else result.with_name(result.name + ".html")
    )


def _check(file: Path, result: Path) -> None:
    if file.exists() and file.samefile(result):
        raise UsageError(f"'{file}' is the result itself", remedy="give another name for the report")


def _write(made: "Document", asked: ViewOptions, outputs: Outputs) -> None:
    from tempfile import TemporaryDirectory

    from inferometer.report import chromium
    from inferometer.report.markdown import markdown
    from inferometer.report.page import render

    html, text, picture, pdf = asked.html, asked.markdown, asked.png, asked.pdf
    outputs.file(html, lambda path: write_file(path, render(made)))
    if text is not None and str(text) == "-":
        outputs.attempt(SCREEN, lambda: print(markdown(made), end="", flush=True))
    else:
        outputs.file(text, lambda path: write_file(path, markdown(made)))
    if picture is None and pdf is None:
        return
    with TemporaryDirectory(prefix="inferometer-view-") as folder, chromium.browsing() as tab:
        page = Path(folder) / "page.html"
        write_file(page, render(made))
        outputs.file(picture, lambda path: write_file(path, chromium.picture(tab, page)))
        outputs.file(pdf, lambda path: write_file(path, chromium.pdf(tab, page)))


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        to_stderr("no browser could be started; open the page by hand")
