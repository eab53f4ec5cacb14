"""`inferometer demo`: the whole story on the embedded server, from nothing."""

import argparse
import base64
import json
import sys
from pathlib import Path

MODEL = "ensemble_image"
MEMBERS = ("preprocessing", "classifier", "postprocessing")
LEVEL_S = 5.0


def main(argv: list[str]) -> int:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer demo",
        description="Start the embedded Triton, send a photo through an image classification pipeline with one to four "
        "requests at a time, and say which step limits it.",
        formatter_class=RichHelpFormatter,
    )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        default=Path("inferometer-demo"),
        help="where results go (default: %(default)s)",
    )
    return _demo(parser.parse_args(argv).folder)


def _demo(folder: Path) -> int:
    from inferometer.cli.measure import watch
    from inferometer.dataset.build import DataOptions
    from inferometer.profile.options import Options, Range
    from inferometer.profile.prepare import prepare
    from inferometer.report import classic
    from inferometer.report.console import closing_sentence
    from inferometer.report.files import write_csv
    from inferometer.server.embedded import EmbeddedTriton

    data = write_input(folder)
    print("Starting the embedded Triton server ...", file=sys.stderr)
    server = EmbeddedTriton(load_models=(MODEL, *MEMBERS), extra_args=("--exit-timeout-secs", "0"))
    for remark in server.remarks:
        print(f"WARNING: {remark.text}; {remark.note.advice}", file=sys.stderr)
    with server:
        options = Options(
            model=MODEL,
            url=server.http_address,
            concurrency=Range(1, 4),
            data=DataOptions(sources=(str(data),)),
            duration_s=LEVEL_S,
            request_timeout_s=60.0,
        )
        setup = prepare(options, command="demo")
        result = watch(setup, json=str(folder / "result.json"))
    write_csv(result, folder / "result.csv")
    print(classic.report(result))
    measured = [level for level in result.levels if level.measurement is not None]
    if measured:
        print(closing_sentence(measured[-1]))
    print(f"\nResults: {folder}/result.json, {folder}/result.csv; the input is {data}")
    return 0


def write_input(folder: Path) -> Path:
    """A photo as input data, in the form that --input-data takes."""
    from inferometer.base.errors import UsageError
    from inferometer.server.repository import example_image

    photo = example_image().read_bytes()
    document = {"data": [{"INPUT": {"b64": base64.b64encode(photo).decode(), "shape": [len(photo)]}}]}
    path = folder / "sample_input.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    except OSError as error:
        raise UsageError(
            f"the folder '{folder}' cannot be written: {error.strerror}",
            remedy="give another one with --folder",
        ) from error
    return path
