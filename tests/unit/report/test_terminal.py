"""Line breaks on a terminal."""

import io

import pytest
from rich.console import Console, Group, RenderableType

from inferometer.report.document import Column, Document, Section, Table
from inferometer.report.terminal import plain_text, show


def lines_of(what: RenderableType, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(Group(what))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (40, ["a server gives 12,345 infer/s ±1.4 %"]),
        (35, ["a server gives 12,345 infer/s", "±1.4 %"]),
        (24, ["a server gives", "12,345 infer/s ±1.4 %"]),
        (12, ["a server", "gives 12,345", "infer/s ±1.4", "%"]),  # too short for a number and its unit
    ],
)
def test_no_line_breaks_between_a_number_and_its_unit(width: int, lines: list[str]) -> None:
    assert lines_of(plain_text("a server gives 12,345 infer/s ±1.4 %"), width) == lines


def test_styles_survive_wrapping() -> None:
    text = plain_text("p99 63.0 ms, kept")
    text.stylize("bold", 4, 11)
    (line,) = text.wrap(Console(width=40), 40)
    assert [line.plain[span.start : span.end] for span in line.spans] == ["63.0 ms"]


def test_column_headings_keep_their_units() -> None:
    table = Table("t", (Column("±95 %"), Column("Client CPU")), (("-", "1 %"),))
    stream = io.StringIO()
    show(Document("k", "t", (), "v", (Section("s", "t", "", (table,)),)), Console(file=stream, width=60))
    assert any(line.startswith("±95 %") for line in stream.getvalue().splitlines())
