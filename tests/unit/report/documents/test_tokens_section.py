"""Figures of servers that make text: on the page and in Markdown as on the terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from inferometer.report.saved import document, to_html, to_markdown
from inferometer.report.terminal import show
from tests.support.reports import sample_result, sample_text


def terminal(result):
    out = io.StringIO()
    show(document(result), Console(file=out, width=100))
    return out.getvalue()


def section(result, name="tokens"):
    return next((row for row in document(result).sections if row.name == name), None)


@pytest.mark.parametrize("written", [terminal, to_html, to_markdown])
def test_every_form_has_them(written):
    words = written(sample_text())
    for word in ("TTFT", "Gap", "Tokens/s", "Goodput/s", "answer", "prompt", "96 (12..200)", "4,800"):
        assert word in words


def test_there_is_a_row_for_each_level():
    chart, table = section(sample_text()).blocks
    assert [row[0] for row in table.rows] == ["1", "2", "3", "4"]
    assert table.rows[-1][1] == "4,800"
    assert table.rows[-1][6:] == ("96 (12..200)", "512", "40.0", "80 %")
    assert [line.name for line in chart.series] == ["TTFT p50", "TTFT p99"]
    assert [figure.label for figure in document(sample_text()).figures][-3:] == [
        "Tokens/s",
        "TTFT p50",
        "Goodput",
    ]


def test_nothing_is_said_of_tokens_where_there_are_none():
    assert section(sample_result()) is None


def test_answers_that_are_no_streams_have_no_time_to_the_first_token():
    result = sample_text()
    levels = tuple(
        replace(level, measurement=replace(level.measurement, streaming=None, goodput=None))
        for level in result.levels
    )
    (table,) = section(replace(result, levels=levels)).blocks
    assert table.rows[0][2:4] == ("-", "-")
    assert "Goodput/s" not in [column.name for column in table.columns]
