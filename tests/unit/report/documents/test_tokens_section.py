"""Figures of LLM servers on the page, in Markdown and on the terminal."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from inferometer.base.notes import Note, Remark
from inferometer.report.document import Chart
from inferometer.report.format import at_percentile
from inferometer.report.saved import document, to_html, to_markdown
from inferometer.report.sentences import token_sentences
from inferometer.report.terminal import show
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import LlmServerFigures, ServerMetrics
from inferometer.stats.text_figures import Phase, PromptClass
from tests.support.reports import sample_result, sample_search, sample_text


def terminal(result):
    out = io.StringIO()
    show(document(result), Console(file=out, width=100))
    return out.getvalue()


def section(result, name="tokens"):
    return next((row for row in document(result).sections if row.name == name), None)


@pytest.mark.parametrize("written", [terminal, to_html, to_markdown])
def test_every_format_has_tokens(written):
    words = written(sample_text())
    for word in ("TTFT", "TPOT", "Gap", "Tokens/s", "Goodput/s", "answer", "96 (12..200)", "4,800"):
        assert word in words


def test_there_is_a_row_for_each_level():
    *charts, table = section(sample_text()).blocks
    assert [row[0] for row in table.rows] == ["1", "2", "3", "4"]
    assert table.rows[-1][1:3] == ("4,800", "60.0")
    assert table.rows[-1][9:] == ("96 (12..200)", "512", "40.0", "80 %")
    assert [line.name for line in charts[-1].series] == ["TTFT p50", "TTFT p99"]
    assert [figure.label for figure in document(sample_text()).figures][:4] == [
        "Tokens/s",
        "Tokens/s per user",
        "TTFT p50",
        "Goodput",
    ]


def test_time_per_token_and_gaps_are_distinct():
    result = sample_text()
    level = result.levels[-1]
    found = level.measurement
    assert found is not None
    assert found.streaming is not None
    assert found.tokens is not None
    streaming = replace(found.streaming, gaps=replace(found.latency, max_ns=10**10))
    found = replace(found, streaming=streaming)
    *_, table = section(replace(result, levels=(replace(level, measurement=found),))).blocks
    cells = dict(zip((column.name for column in table.columns), table.rows[-1], strict=True))
    for name, times in (("TPOT", found.tokens.between), ("Gap", found.streaming.gaps)):
        assert [cells[f"{name} p{p}"] for p in (50, 99)] == [at_percentile(times, p) for p in (50, 99)]


def test_the_trade_off_has_a_labelled_point_for_each_level():
    (line,) = section(sample_text()).blocks[0].series
    (points,) = line.runs
    assert [(point.x, point.label) for point in points] == [
        (90.0, "1"),
        (80.0, "2"),
        (70.0, "3"),
        (60.0, "4"),
    ]
    assert points[-1].y == 4800
    assert points[-1].x_limits == (55.0, 65.0)
    assert "each user from 90.0 to 70.0" in section(sample_text()).lead


def test_prefill_decode_and_lengths_of_prompts_have_tables():
    result = sample_text()
    levels = []
    for level in result.levels:
        found = level.measurement
        assert found is not None
        assert found.tokens is not None
        times, answers = found.tokens.between, found.tokens.per_answer
        classes = tuple(
            PromptClass(low, high, count, times, times, answers)
            for low, high, count in ((1, 127, 40), (128, 2048, 60))
        )
        tokens = replace(
            found.tokens,
            prefill=Phase(10**9, 0.25, 51_200, 10_240.0),
            decode=Phase(3 * 10**9, 0.75, 9_500, 83.5),
            classes=classes,
        )
        levels.append(replace(level, measurement=replace(found, tokens=tokens)))
    *_, phases, lengths = section(replace(result, levels=tuple(levels))).blocks
    assert phases.rows[0] == ("1", "25 %", "75 %", "83.5")
    assert [row[:2] for row in lengths.rows] == [("1 to 127", "40"), ("128 to 2,048", "60")]
    assert len(section(result).blocks) == 3  # neither table is known


@pytest.mark.parametrize(
    ("llm", "queued"),
    [
        ({"waiting_mean": 2.0}, "20 %"),  # 2 requests at 10/s wait 0.2 s of 1 s each
        ({"waiting_mean": 2.0, "queue_ns": 1e8}, "10 %"),  # the server's own figure takes precedence
        ({"waiting_mean": 9.0}, "25 %"),  # at most the time to the first token
        ({"waiting_mean": 0.0}, "0 %"),
        ({}, "-"),
        (None, None),
    ],
)
def test_queue_time_is_separate_if_the_server_reports_it(llm: dict[str, Any] | None, queued: str | None):
    """100 answers of one second, with a quarter of it until the first token."""
    result = sample_text()
    level = result.levels[-1]
    found = level.measurement
    assert found is not None
    assert found.tokens is not None
    assert found.streaming is not None
    second = 10**9
    prefill, decode = Phase(25 * second, 0.25, 1, 1.0), Phase(75 * second, 0.75, 9_500, 83.5)
    first = replace(found.streaming.first, count=100)
    figures = None if llm is None else LlmServerFigures("vLLM", 10.0, **llm)
    changed = replace(
        found,
        batch=1,
        infer_per_s=Estimate(10.0),
        tokens=replace(found.tokens, prefill=prefill, decode=decode),
        streaming=replace(found.streaming, first=first),
        metrics=None if figures is None else ServerMetrics(1, (), None, None, None, (), None, figures),
    )
    (*_, table) = section(replace(result, levels=(replace(level, measurement=changed),))).blocks
    cells = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert cells["Until first token"] == "25 %"
    if queued in (None, "-"):
        assert "In the queue" not in cells
    else:
        assert cells["In the queue"] == queued
        assert f"25 % of the time, {queued} in the server's queue" in "\n".join(token_sentences(changed))


def test_client_limited_levels_are_grey_and_not_joined():
    result = sample_text()
    *others, last = result.levels
    limited = replace(last, remarks=(Remark(Note.CLIENT_LIMITED, "a whole core"),))
    result = replace(result, levels=(*others, limited))
    found = document(result)
    charts = [
        block for row in found.sections if row.name in ("tokens", "throughput") for block in row.blocks
        if isinstance(block, Chart)
    ]  # fmt: skip
    assert len(charts) >= 3
    for chart in charts:
        *lines, grey = chart.series
        assert (grey.name, grey.colour) == ("limited by this client", "grey")
        assert [len(run) for run in grey.runs] == [1]
        assert all(len(run) == len(others) for line in lines for run in line.runs)
    assert "From concurrency 1 to 4 " not in section(result).lead


def test_a_single_level_has_no_trade_off():
    result = sample_text()
    (table,) = section(replace(result, levels=result.levels[:1])).blocks
    assert len(table.rows) == 1


def test_a_terminal_of_80_columns_shows_the_main_figures():
    out = io.StringIO()
    show(document(sample_text()), Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines)
    for word in ("Tokens/s", "TTFT", "TPOT", "Gap", "user"):
        assert word in words


def test_older_files_have_no_figures_per_user():
    result = sample_text()
    levels = tuple(
        replace(
            level,
            measurement=replace(
                level.measurement, tokens=replace(level.measurement.tokens, per_user=None), lanes=()
            ),
        )
        for level in result.levels
    )
    found = replace(result, levels=levels)
    *_, table = section(found).blocks
    assert {row[2] for row in table.rows} == {"-"}
    assert section(found, "lanes") is None


def test_requests_are_drawn_from_due_to_end():
    (chart,) = section(sample_text(), "lanes").blocks
    assert [line.name for line in chart.series] == ["to the first token", "tokens"]
    first, tokens = chart.series
    assert [(point.x, point.y) for point in first.runs[1]] == [(0.04, 2), (0.07, 2)]
    assert [point.x for point in tokens.runs[1]] == [0.07, pytest.approx(0.07 + 12 * 0.096)]
    assert "96 tokens in 1.15 s" in tokens.runs[1][0].tip


def test_a_late_request_starts_with_its_wait():
    result = sample_text()
    level = result.levels[-1]
    lanes = tuple(replace(lane, due_ns=lane.due_ns - 5_000_000) for lane in level.measurement.lanes)
    changed = replace(level, measurement=replace(level.measurement, lanes=lanes))
    (chart,) = section(replace(result, levels=(changed,)), "lanes").blocks
    assert chart.series[0].name == "waiting since due"
    assert [point.x for point in chart.series[0].runs[0]] == [0.0, 0.005]


def test_first_tokens_gaps_and_lengths_are_curves():
    titles = [chart.title for chart in section(sample_text(), "token-times").blocks]
    assert [title.split()[2] for title in titles[:2]] == ["requests", "gaps"]
    (answers,) = section(sample_text(), "token-times").blocks[2].series  # all prompts have the same length
    assert (answers.name, [point.x for point in answers.runs[0]]) == ("answers", [12.0, 96.0, 150.0, 200.0])


def test_gaps_of_simultaneous_tokens_are_not_drawn():
    result = sample_text()
    level = result.levels[-1]
    streaming = level.measurement.streaming
    together = replace(streaming.gaps, min_ns=0)
    found = replace(level.measurement, streaming=replace(streaming, gaps=together))
    chart = section(replace(result, levels=(replace(level, measurement=found),)), "token-times").blocks[1]
    assert "not drawn" in chart.note
    assert min(point.y for point in chart.series[0].runs[0]) > 0


def test_tokens_over_time_belong_to_finished_answers():
    charts = section(sample_text(), "timeline").blocks
    chart = next(block for block in charts if block.title.startswith("Output tokens"))
    level = sample_text().levels[0]
    window = level.windows[0]
    assert chart.series[0].runs[0][0].y == pytest.approx(96 * window.request_count * 1e9 / window.duration_ns)


def test_without_tokens_nothing_is_reported_about_them():
    assert section(sample_result()) is None


def test_unstreamed_answers_have_no_time_to_the_first_token():
    result = sample_text()
    levels = tuple(
        replace(level, measurement=replace(level.measurement, streaming=None, goodput=None))
        for level in result.levels
    )
    *_, table = section(replace(result, levels=levels)).blocks
    assert table.rows[0][3:5] == ("-", "-")
    assert "Goodput/s" not in [column.name for column in table.columns]


def test_levels_of_a_saturated_server_are_spread_over_the_load():
    result = sample_text()
    levels = tuple(
        replace(level, value=float(load)) for load, level in zip((1, 2, 4, 16), result.levels, strict=True)
    )
    (section,) = (row for row in document(replace(result, levels=levels)).sections if row.name == "tokens")
    (chart,) = (row for row in section.blocks if isinstance(row, Chart) and "first token" in row.title)
    assert chart.x.title.startswith("concurrency")
    assert [point.x for point in chart.series[0].runs[0]] == [1, 2, 4, 16]


def test_the_card_of_tokens_has_their_interval():
    (card,) = (row for row in document(sample_text()).figures if row.label == "Tokens/s")
    assert card.detail.startswith("±10 % at concurrency")


def test_a_search_begins_with_its_answer():
    page = document(replace(sample_text(), finding=sample_search().finding))
    assert page.sections[0].title == "Load and SLO"
