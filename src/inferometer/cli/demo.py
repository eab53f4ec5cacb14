"""`inferometer demo`: a complete diagnosis on the embedded server."""

import base64
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.signals import interrupted_code
from inferometer.base.text import to_stderr
from inferometer.base.writing import SCREEN, Outputs, drop_link, write_file
from inferometer.cli.reporting import progress_shown
from inferometer.options.asides import CONFIG, KEEP
from inferometer.options.command_line import Command, Request
from inferometer.options.machines import DemoOptions

if TYPE_CHECKING:
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.store.keeper import Keeper

MODEL = "ensemble_image"
MEMBERS = ("preprocessing", "classifier", "postprocessing")
LEVEL_S = 4.0
BUDGET_S = 15.0

COMMAND = Command(
    "inferometer demo",
    "[options]",
    "Start the embedded Triton, send a photo through an image classification pipeline with one to four requests in "
    "flight, report which step limits it, give that step more instances, and measure again.",
    DemoOptions,
    shared=(*KEEP, *CONFIG),
)


def run(request: Request[DemoOptions], keeper: "Keeper") -> int:
    from inferometer.diagnose.run import DiagnoseRequest, diagnose_model
    from inferometer.measure.checks import changed
    from inferometer.options.options import REQUEST_TIMEOUT_S, DataOptions, Options
    from inferometer.options.values import Range
    from inferometer.server.embedded import EmbeddedTriton

    folder = request.own.folder
    data = write_input(folder)
    to_stderr("Starting the embedded Triton server ...")
    server = EmbeddedTriton(load_models=(MODEL, *MEMBERS), extra_args=("--exit-timeout-secs", "0"))
    for remark in server.remarks:
        to_stderr(f"WARNING: {remark.text}; {remark.note.advice}")
    with server:
        options = changed(
            Options(request_timeout_s=REQUEST_TIMEOUT_S),
            model=MODEL,
            url=server.http_address,
            concurrency=Range(1, 4),
            data=DataOptions(sources=(str(data),)),
            duration_s=LEVEL_S,
        )
        to_stderr("Measuring with one, two and four requests in flight, then trying what should help ...")
        keeper.about(url=server.http_address, model=MODEL)
        with progress_shown() as progress:
            outcome = diagnose_model(DiagnoseRequest(options, budget_s=BUDGET_S), keeper.watching(progress))
    keeper.save(outcome.diagnosis)
    outputs = Outputs()
    outputs.attempt(SCREEN, lambda: _show(outcome.diagnosis))
    files = _write(outcome.diagnosis, folder, outputs)
    print(f"\nResults: {', '.join(map(str, files))}; the input is {data}")
    print(f"Next: open {folder / 'report.html'} in a browser, or see all runs with `inferometer ui`")
    outputs.settle()
    if outcome.error is not None:
        raise outcome.error
    return interrupted_code() if progress.is_interrupted() else 0


def _show(diagnosis: "Diagnosis") -> None:
    from inferometer.report.saved import document
    from inferometer.report.terminal import show

    show(document(diagnosis.results[0]))
    print()
    show(document(diagnosis))


def _write(diagnosis: "Diagnosis", folder: Path, outputs: Outputs) -> list[Path]:
    """Write the sweep for other tools, and the full diagnosis with its report."""
    from inferometer.base.answer_file import write
    from inferometer.report.csv import write_csv
    from inferometer.report.saved import write_page

    page, story = folder / "report.html", folder / "diagnosis.json"
    sweep, table = folder / "result.json", folder / "result.csv"
    for file in (page, story, sweep, table):
        drop_link(file)
    outputs.file(page, lambda path: write_page(path, diagnosis))
    outputs.file(story, partial(write, diagnosis))
    outputs.file(sweep, partial(write, diagnosis.results[0]))
    outputs.file(table, partial(write_csv, diagnosis.results[0]))
    return [file for file in (page, story, sweep, table) if outputs.has(file)]


def write_input(folder: Path) -> Path:
    """Write a photo as input data, in the format of --input-data."""
    from inferometer.server.repository import example_image

    photo = example_image().read_bytes()
    document = {"data": [{"INPUT": {"b64": base64.b64encode(photo).decode(), "shape": [len(photo)]}}]}
    file = folder / "sample_input.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to the folder '{folder}': {error.strerror}",
            remedy="give another one with --folder",
        ) from error
    drop_link(file)
    write_file(file, json.dumps(document))
    return file
