"""`inferometer view`: render a saved result as a report."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import Outputs, refuse_link, write_file
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import ViewOptions
from inferometer.store.saved_run import saved_file

if TYPE_CHECKING:
    from inferometer.report.document import Document
    from inferometer.stats.result import Result

COMMAND = Command(
    "inferometer view",
    "RESULT.json|RUN [options]",
    "Render the report of a file saved with --json by measure, find, diagnose, compare or tune, of a stored run "
    "(`inferometer runs` lists them; last is the newest), or of a result file of aiperf, guidellm, vLLM, llm-d or "
    "MLPerf's loadgen. Without options, writes an HTML page next to the file, or for a run to the working directory, "
    "and prints its path. With --as, writes the result files of another load tester instead.",
    ViewOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    takes_words=True,
)


def run(request: Request[ViewOptions]) -> int:
    names = request.words
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} saved files are given: {', '.join(names)}" if names else "no saved file is given",
            remedy="give one file written with --json, or the id of a run",
        )
    file, name = saved_file(names[0], request.asides.store), Path(names[0])
    page = _beside(name) if file == name else Path(f"run-{names[0]}.html")
    return _view(file, page, request.own)


def _view(result: Path, page: Path, asked: ViewOptions) -> int:
    from inferometer.base.writing import writable
    from inferometer.report.chromium import find_chromium
    from inferometer.report.delivery import FORMS, check_forms, has_stdout, is_stdout, write_forms
    from inferometer.report.saved import consistent, document, has_junit
    from inferometer.report.saved import read as read_saved

    report = read_saved(result)
    _check_other_tool(asked, is_result=report.kind == "result")
    others = (*(getattr(asked, form) for form in FORMS), asked.png, asked.pdf, asked.format)
    if asked.html is None and (asked.open or not any(others)):
        refuse_link(page, "--html")
        asked = replace(asked, html=str(page))
    check_forms(asked)
    if asked.junit is not None and not has_junit(report):
        raise UsageError(
            f"{result} has no test cases",
            remedy="give a result of measure, find, compare or gate, or use --json",
        )
    files = [Path(place) for form in FORMS if (place := getattr(asked, form)) and not is_stdout(place)]
    files += [file for file in (asked.png, asked.pdf) if file is not None]
    for file in files:
        _check(file, result)
    writable(asked.png, asked.pdf)
    if asked.png is not None or asked.pdf is not None:
        find_chromium()
    outputs = Outputs()
    with consistent(str(result)):
        write_forms(report, asked, outputs)
        _write_pictures(document(report), asked, outputs)
        written = _write_as(report, asked)
    for file in (*files, *written):
        if (file in written or outputs.has(file)) and not asked.quiet and not has_stdout(asked):
            print(printable(str(file)))
    outputs.settle()
    if asked.open and asked.html is not None and not is_stdout(asked.html):
        _open(Path(asked.html))
    return 0


def _check_other_tool(asked: ViewOptions, *, is_result: bool) -> None:
    """Check the options that belong to --as."""
    lone = next((name for name in ("output", "requests") if getattr(asked, name) is not None), None)
    if asked.format is None and lone is not None:
        raise UsageError(f"--{lone} applies only to --as", remedy="give --as TOOL, or leave it out")
    if asked.format is not None and asked.output is None:
        raise UsageError("--as needs a folder for the files", remedy="give one with --output DIR")
    if asked.format is not None and not is_result:
        raise UsageError(
            "other tools' files hold only measurements, not this kind of answer",
            remedy="give a result of measure or find",
        )


def _write_as(report: "Result", asked: ViewOptions) -> tuple[Path, ...]:
    """Write another tool's files; say if they lack individual requests."""
    from inferometer.report.foreign.formats import write_as

    if asked.format is None or asked.output is None:
        return ()
    written, missing = write_as(report, asked.format, asked.output, asked.requests)
    if missing:
        to_stderr(f"The files have no individual requests: {missing}")
    return written


def _beside(result: Path) -> Path:
    return (
        result.with_suffix(".html") if result.suffix == ".json" else result.with_name(result.name + ".html")
    )


def _check(file: Path, result: Path) -> None:
    if file.exists() and file.samefile(result):
        raise UsageError(f"'{file}' is the result itself", remedy="give another name for the report")


def _write_pictures(made: "Document", asked: ViewOptions, outputs: Outputs) -> None:
    from tempfile import TemporaryDirectory

    from inferometer.report import chromium
    from inferometer.report.page import render

    picture, pdf = asked.png, asked.pdf
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
        to_stderr("could not start a browser; open the page yourself")
