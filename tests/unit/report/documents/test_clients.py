"""Clients in reports: on a terminal, on a page, in Markdown, and from a saved file."""

import io
from dataclasses import replace

from rich.console import Console

from inferometer.base.answer_file import read, write
from inferometer.base.notes import Note, Remark
from inferometer.report.document import Table
from inferometer.report.documents.clients import clients_section
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.report.terminal import show
from inferometer.stats.clients import LostClient
from inferometer.stats.result import Result
from tests.support.client_figures import PLAIN
from tests.support.reports import sample_result

LOST = replace(PLAIN, name="client 2", place="10.0.0.2", lost=LostClient(1.5, "its node was lost", 3, True))
REMARK = Remark(Note.CLIENT_LOST, "client 2 (10.0.0.2) was lost 1.5 s into the level: its node was lost")


def result_of_clients() -> Result:
    result = sample_result()
    levels = tuple(replace(level, clients=(PLAIN, LOST), remarks=(REMARK,)) for level in result.levels)
    return replace(result, levels=levels)


def test_a_single_machine_has_no_client_section():
    assert clients_section(sample_result()) is None


def test_every_client_has_a_row():
    section = clients_section(result_of_clients())
    assert section.lead == "The load came from 2 clients on 2 nodes."
    main, clocks, *others = section.blocks
    assert len(others) == 3  # folded, for the other levels
    assert isinstance(main, Table)
    assert isinstance(clocks, Table)
    names = [column.name for column in main.columns]
    assert dict(zip(names, main.rows[0], strict=True)) == {
        "Client": "client 1 (10.0.0.1)",
        "Infer/s": "100",
        "p50": "5.00 ms",
        "p99": "20.0 ms",
        "Failed": "0",
        "CPU": "30 %",
        "CPU per request": "30.0 µs",
        "Late p50": "20.0 µs",
        "Late p99": "90.0 µs",
        "Sent": "1.00 MB",
        "Received": "2.00 MB",
        "Clock ±": "100 µs",
        "State": "ok",
    }
    assert main.rows[1][-1] == "lost"
    assert clocks.rows[0] == (
        *("client 1 (10.0.0.1)", "2", "2.00 ms", "5.00 ms", "+1.0 ppm", "100 µs", "200 µs", "2.0 %"),
    )


def test_all_formats_show_clients():
    document = measurement_document(result_of_clients())
    screen = io.StringIO()
    show(document, Console(file=screen, width=120))
    for text in (screen.getvalue(), render(document), markdown(document)):
        for words in ("By client", "client 1 (10.0.0.1)", "client lost", "its node was lost"):
            assert words in text, words


def test_a_saved_file_keeps_all_clients(tmp_path):
    result = result_of_clients()
    path = tmp_path / "result.json"
    write(result, path)
    assert read(path, Result).levels[0].clients == (PLAIN, LOST)
