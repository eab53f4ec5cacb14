"""`inferometer view`: any report from a saved result."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.options.help import read_or_answer
from inferometer.options.option import option, rows
from inferometer.options.values import path
from inferometer.options.words import WORDS, Command, taken

if TYPE_CHECKING:
    from inferometer.report.document import Document


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What `view` is asked."""

    html: Path | None = option(None, "--html", "write one self-contained page", path(), group="Output")
    markdown: Path | None = option(None, "--markdown", "write Markdown; - is the terminal", path())
    png: Path | None = option(None, "--png", "write a picture (needs an installed Chromium)", path())
    pdf: Path | None = option(None, "--pdf", "write a PDF (needs an installed Chromium)", path())
    open: bool = option(False, "--open", "show the page in the browser")


COMMAND = Command(
    "inferometer view",
    "RESULT.json [options]",
    "Make the report of a file that was saved with --json by measure, find, diagnose or compare. "
    "Without options, the page is written beside the file and its path is printed.",
    rows(ViewOptions),
    takes_words=True,
)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    names = given.pop(WORDS, ())
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} saved files are given: {', '.join(names)}" if names else "no saved file is given",
            remedy="give one that was written with --json",
        )
    return _view(Path(names[0]), taken(given, ViewOptions))


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
        if str(file) != "-":
            writable(file)
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
    from inferometer.report.page import write

    html, text, picture, pdf = asked.html, asked.markdown, asked.png, asked.pdf
    if html is not None:
        outputs.attempt(html, lambda: write(made, html))
    if text is not None and str(text) == "-":
        outputs.attempt(SCREEN, lambda: print(markdown(made), end="", flush=True))
    elif text is not None:
        outputs.attempt(text, lambda: write_file(text, markdown(made)))
    if picture is None and pdf is None:
        return
    with TemporaryDirectory(prefix="inferometer-view-") as folder, chromium.browsing() as tab:
        page = Path(folder) / "page.html"
        write(made, page)
        if picture is not None:
            outputs.attempt(picture, lambda: write_file(picture, chromium.picture(tab, page)))
        if pdf is not None:
            outputs.attempt(pdf, lambda: write_file(pdf, chromium.pdf(tab, page)))


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print("no browser could be started; open the page by hand", file=sys.stderr)
