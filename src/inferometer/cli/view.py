"""`inferometer view`: any report from a saved result."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs, write_file

if TYPE_CHECKING:
    from inferometer.report.document import Document


def main(argv: list[str]) -> int:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer view",
        description="Make the report of a file that was saved with --json by measure, find, diagnose or compare. "
        "Without options, the page is written beside the file and its path is printed.",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("result", metavar="RESULT.json", type=Path, help="the saved file")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one self-contained page")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write Markdown; - is the terminal")
    parser.add_argument(
        "--png", metavar="FILE", type=Path, help="write a picture (needs an installed Chromium)"
    )
    parser.add_argument("--pdf", metavar="FILE", type=Path, help="write a PDF (needs an installed Chromium)")
    parser.add_argument("--open", action="store_true", help="show the page in the browser")
    return _view(parser.parse_args(argv))


def _view(asked: argparse.Namespace) -> int:
    from inferometer.base.writing import writable
    from inferometer.report.chromium import find_chromium
    from inferometer.report.saved import consistent, document, read

    report = read(asked.result)
    files = [path for path in (asked.html, asked.markdown, asked.png, asked.pdf) if path is not None]
    if asked.open or not files:
        asked.html = asked.html or _beside(asked.result)
        files = [*files, asked.html] if asked.html not in files else files
    for path in files:
        _check(path, asked.result)
        if str(path) != "-":
            writable(path)
    if asked.png is not None or asked.pdf is not None:
        find_chromium()
    outputs = Outputs()
    with consistent(str(asked.result)):
        _write(document(report), asked, outputs)
    for path in files:
        if str(path) != "-" and outputs.has(path):
            print(printable(str(path)))
    outputs.settle()
    if asked.open:
        _open(asked.html)
    return 0


def _beside(result: Path) -> Path:
    return (
        result.with_suffix(".html") if result.suffix == ".json" else result.with_name(result.name + ".html")
    )


def _check(path: Path, result: Path) -> None:
    if path.exists() and path.samefile(result):
        raise UsageError(f"'{path}' is the result itself", remedy="give another name for the report")


def _write(made: "Document", asked: argparse.Namespace, outputs: Outputs) -> None:
    from tempfile import TemporaryDirectory

    from inferometer.report.chromium import browsing, pdf, picture
    from inferometer.report.markdown import markdown
    from inferometer.report.page import write

    if asked.html is not None:
        outputs.attempt(asked.html, lambda: write(made, asked.html))
    if asked.markdown is not None and str(asked.markdown) == "-":
        outputs.attempt(SCREEN, lambda: print(markdown(made), end="", flush=True))
    elif asked.markdown is not None:
        outputs.attempt(asked.markdown, lambda: write_file(asked.markdown, markdown(made)))
    if asked.png is None and asked.pdf is None:
        return
    with TemporaryDirectory(prefix="inferometer-view-") as folder, browsing() as tab:
        page = Path(folder) / "page.html"
        write(made, page)
        if asked.png is not None:
            outputs.attempt(asked.png, lambda: write_file(asked.png, picture(tab, page)))
        if asked.pdf is not None:
            outputs.attempt(asked.pdf, lambda: write_file(asked.pdf, pdf(tab, page)))


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print("no browser could be started; open the page by hand", file=sys.stderr)
