"""Load over time: requests due, sent and answered in one chart."""

from dataclasses import replace

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S
from inferometer.options.effective import Effective
from inferometer.report.document import Chart, Messages, Table
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.page import NARROW, WIDE, draw
from inferometer.stats.measurement import WindowFigures
from tests.support.reports import sample_result

DUE, SENT, ANSWERED = (10, 20, 40), (10, 20, 30), (10, 20, 5)


def over_time(mode, remarks=(), **effective):
    """Three windows of half a second."""
    windows = tuple(
        WindowFigures(
            *(0.5 * number, NS_PER_S // 2, answered, 0, 2.0 * answered, 10**6, 10**6, 0, 10**6, 10**6, 0),
            answered_count=answered,
            due_count=None if mode == "periodic_concurrency" else asked,
            sent_count=sent,
            counted_ns=NS_PER_S // 2,
        )
        for number, (asked, sent, answered) in enumerate(zip(DUE, SENT, ANSWERED, strict=True))
    )
    result = sample_result()
    level = replace(result.levels[0], mode="request_rate", value=46.7, windows=windows, remarks=remarks)
    return replace(result, levels=(level,), effective=Effective(mode=mode, **effective))


def charts(result):
    (found,) = (row for row in measurement_document(result).sections if row.name == "timeline")
    return found.blocks


@pytest.mark.parametrize(
    "mode", ["shape_load", "replay", "fixed_schedule", "request_intervals", "request_rate"]
)
def test_a_schedule_draws_due_sent_and_answered_requests(mode):
    chart = charts(over_time(mode))[0]
    drawn = {row.name: [(p.x, p.y) for run in row.runs for p in run] for row in chart.series}
    assert drawn == {
        name: [(0.25 + 0.5 * n, 2.0 * count) for n, count in enumerate(counts)]
        for name, counts in (("due", DUE), ("sent", SENT), ("answered", ANSWERED))
    }
    assert (chart.x.title, chart.y.title) == ("seconds", "requests/s")
    for width in (WIDE, NARROW):
        assert draw(chart, width).count("<polyline") == 3


def test_a_ramp_of_streams_draws_cumulative_counts():
    chart = charts(over_time("periodic_concurrency", periodic=(10.0, 60.0, 10.0)))[0]
    drawn = {row.name: [(p.x, p.y) for run in row.runs for p in run] for row in chart.series}
    assert drawn == {
        "sent so far": [(0.5, 10), (1.0, 30), (1.5, 60)],
        "answered so far": [(0.5, 10), (1.0, 30), (1.5, 35)],
    }
    assert [(rule.value, rule.label) for rule in chart.rules] == [(60.0, "target: 60")]


def test_load_over_time_comes_first_and_counts_as_a_whole():
    result = over_time("shape_load")
    found = measurement_document(result)
    assert found.sections[0].name == "timeline"
    assert [row.name for row in found.sections].count("timeline") == 1
    assert not any(span.is_faded or span.label for span in charts(result)[0].spans)


def test_an_interrupted_level_is_marked_at_its_end():
    stopped = (Remark(Note.INTERRUPTED, "interrupted"),)
    (span, *_) = charts(over_time("request_rate", stopped))[0].spans
    assert span.label == "46.7 interrupted"
    page = measurement_document(over_time("request_rate", stopped))
    (chart,) = next(row for row in page.sections if row.name == "throughput").blocks
    assert isinstance(chart, Chart)
    assert chart.series[0].runs[0][0].is_doubtful
    assert "Hollow: request rate 46.7 (interrupted)." in chart.note


def test_windows_of_an_older_file_still_have_their_throughput():
    result = over_time("request_rate")
    old = tuple(replace(row, due_count=None, sent_count=None) for row in result.levels[0].windows)
    chart = charts(replace(result, levels=(replace(result.levels[0], windows=old),)))[0]
    assert [row.name for row in chart.series] == ["throughput"]


def test_a_schedule_with_only_failures_has_a_timeline():
    result = over_time("replay")
    failed = tuple(
        replace(row, request_count=0, failed_count=3, p50_ns=0, p99_ns=0) for row in result.levels[0].windows
    )
    chart, *rest = charts(replace(result, levels=(replace(result.levels[0], windows=failed),)))
    assert [row.name for row in chart.series] == ["due", "sent", "answered", "windows with failures"]
    assert [type(block).__name__ for block in rest] == ["Table"]


def timelines(result):
    return [row for row in measurement_document(result).sections if row.name == "timeline"]


def test_single_windows_have_no_timeline():
    result = over_time("request_rate")
    (level,) = result.levels
    failed = tuple(replace(row, request_count=0, failed_count=4, p50_ns=0, p99_ns=0) for row in level.windows)
    for windows in (level.windows[:1], failed, ()):
        assert not timelines(replace(result, levels=(replace(level, windows=windows),)))


def test_a_window_without_a_poll_of_due_counts_is_not_zero():
    result = over_time("request_rate")
    (level,) = result.levels
    unseen = replace(level.windows[1], due_count=0, sent_count=0, counted_ns=0)
    windows = (level.windows[0], unseen, level.windows[2])
    chart = charts(replace(result, levels=(replace(level, windows=windows),)))[0]
    drawn = {row.name: [p.y for run in row.runs for p in run] for row in chart.series}
    assert drawn == {"due": [20.0, 80.0], "sent": [20.0, 60.0], "answered": [20.0, 40.0, 10.0]}


def test_all_windows_count_until_the_server_stops_answering():
    result = over_time("concurrency", (Remark(Note.SERVER_GONE, "gone"),))
    (level,) = result.levels
    silence = replace(
        level.windows[-1], start_s=1.5, duration_ns=60 * NS_PER_S, request_count=0, failed_count=3
    )
    level = replace(level, mode="concurrency", windows=(*level.windows, silence))
    (section,) = timelines(replace(result, levels=(level,)))
    assert "no figure" not in section.lead
    assert not any(span.is_faded for span in section.blocks[0].spans)


def test_a_single_window_is_visible_in_every_line():
    result = over_time("request_rate")
    levels = tuple(replace(result.levels[0], windows=(row,)) for row in result.levels[0].windows)
    chart = charts(replace(result, levels=levels))[0]
    assert draw(chart, WIDE).count("<circle") == 9


def test_a_ramp_of_streams_is_not_named_after_its_first_concurrency():
    result = over_time("periodic_concurrency", periodic=(10.0, 60.0, 10.0))
    level = replace(result.levels[0], mode="concurrency", value=10)
    found = measurement_document(replace(result, levels=(level,)))
    titles = {row.name: row.title for row in found.sections}
    assert titles["time"] == "Where the time goes at rising concurrency"
    assert " at concurrency 10 to 60" in found.verdict
    (table, *_) = next(row for row in found.sections if row.name == "levels").blocks
    assert isinstance(table, Table)
    assert (table.columns[0].name, table.rows[0][0]) == ("Conc.", "10..60")


@pytest.mark.parametrize("mode", ["shape_load", "replay", "fixed_schedule"])
def test_a_schedule_is_not_named_after_its_mean_rate(mode):
    found = measurement_document(over_time(mode, (Remark(Note.HOST_BUSY, "busy"),)))
    titles = {row.name: row.title for row in found.sections}
    assert titles["time"] == "Where the time goes at the scheduled rates"
    assert titles["more"] == "More figures at the scheduled rates"
    (note,) = (row for row in found.sections if row.name == "notes")
    (messages,) = note.blocks
    assert isinstance(messages, Messages)
    assert "the scheduled rates: busy" in messages.rows[-1].text
    assert "request rate 46.7" not in repr(found)
