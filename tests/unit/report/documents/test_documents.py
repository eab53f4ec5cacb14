"""Whole pages: self-contained, reproducible, with the result inside."""

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.notes import Note, Remark
from inferometer.report.document import Message, Messages, Tone
from inferometer.report.documents.timeline import first_counted
from inferometer.report.kinds import TYPES
from inferometer.report.saved import document, to_html
from inferometer.stats import result as results
from inferometer.stats.measurement import Doubt, FailureGroup, StartFigures, WindowFigures
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import (
    DISCARDED,
    WINDOW_S,
    WINDOWS,
    sample_comparison,
    sample_diagnosis,
    sample_inspection,
    sample_result,
    sample_study,
    sample_text,
)
from tests.support.twins import sample_twin

NASTY = "</script><script>document.title='owned'</script><!--"
REPORTS: dict[str, Callable[..., Any]] = {
    "measure": sample_result,
    "diagnose": sample_diagnosis,
    "compare": sample_comparison,
    "tune": sample_study,
    "inspect": sample_inspection,
    "text": sample_text,
    "capacity": sample_capacity,
    "twin": sample_twin,
}


def replace_level(result, place, **changes):
    levels = list(result.levels)
    levels[place] = dataclasses.replace(levels[place], **changes)
    return dataclasses.replace(result, levels=tuple(levels))


def section(page, name):
    return next(row for row in page.sections if row.name == name)


def tables(page):
    from inferometer.report.document import Table

    return {block.caption: block for row in page.sections for block in row.blocks if isinstance(block, Table)}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_page_made_from_the_saved_file_is_identical(kind):
    make = REPORTS[kind]
    assert to_html(from_json(to_json(make()), "it.json", *TYPES)) == to_html(make())


@pytest.mark.parametrize("kind", REPORTS)
def test_a_page_contains_its_source_file(kind):
    make = REPORTS[kind]
    (source,) = re.findall(
        r'<script type="application/json" id="source">(.*?)</script>', to_html(make()), re.DOTALL
    )
    assert json.loads(source) == json.loads(to_json(make()))


@pytest.mark.parametrize("kind", REPORTS)
def test_nothing_is_fetched(kind):
    make = REPORTS[kind]
    page = to_html(make())
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)[^"']*""", page) == []
    assert re.findall(r"@import|url\(", page) == []


@pytest.mark.parametrize("kind", REPORTS)
def test_foreign_names_stay_text(kind):
    make = REPORTS[kind]
    page = to_html(make(NASTY))
    assert NASTY not in page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2


@pytest.mark.parametrize("kind", REPORTS)
def test_every_anchor_on_the_page_is_unique(kind):
    make = REPORTS[kind]
    names = [row.name for row in document(make()).sections]
    assert len(names) == len(set(names))


def test_the_verdict_states_throughput_and_its_limit():
    words = document(sample_result()).verdict
    assert words.startswith(
        "49.0 infer/s ±3.0 % at concurrency 3, p50 49.2 ms, p99 107 ms: throughput has saturated. "
    )
    assert "Slowest step: decode, 47.5 ms per request, 90 % of the server's time" in words


def test_excluded_windows_are_marked():
    result = sample_result()
    assert [first_counted(level) for level in result.levels] == [DISCARDED] * 4
    spans = section(document(result), "timeline").blocks[0].spans
    assert [span.end - span.start for span in spans if span.is_faded] == [DISCARDED * WINDOW_S] * 4
    counted = [row[-1] for row in tables(document(result))["Every window"].rows[:WINDOWS]]
    assert counted == ["no: before the figures settled"] * DISCARDED + ["yes"] * (WINDOWS - DISCARDED)


def test_cold_starts_and_doubts_are_reported():
    result = sample_result()
    level = result.levels[1]
    start = StartFigures(DISCARDED * 500_000_000, 20, 20.0, level.measurement.latency)
    doubt = Doubt("drift", "latency goes up by 20% over the level", "mean latency", "▁▂▃▄▅▆▇█")
    page = document(replace_level(result, 1, start=start, doubt=doubt))
    first, second = section(page, "notes").blocks[0].rows[:2]
    assert first.text.startswith("concurrency 2: the first 1.00 s differ from the rest and are excluded")
    assert (second.text, second.advice) == (
        "concurrency 2: drift: latency goes up by 20% over the level",
        "mean latency ▁▂▃▄▅▆▇█",
    )
    assert tables(page)["Every window"].rows[WINDOWS][-1] == "no: warm-up"


def test_a_file_without_percentiles_of_windows_shows_their_mean():
    result = sample_result()
    level = result.levels[0]
    names = [field.name for field in dataclasses.fields(WindowFigures)][:8]
    old = tuple(WindowFigures(*(getattr(window, name) for name in names)) for window in level.windows)
    page = document(dataclasses.replace(result, levels=(dataclasses.replace(level, windows=old),)))
    (line,) = section(page, "timeline").blocks[1].series
    assert line.name == "mean latency"
    assert [point.y for point in line.runs[0]] == [window.latency_ns for window in old]


def test_time_pieces_are_in_the_order_of_the_pipeline():
    _, by_step, *_ = section(document(sample_result()), "time").blocks
    assert [bar.label for bar in by_step.rows] == ["decode", "network", "encode"]


def test_failures_are_grouped_and_change_the_tone():
    groups = (
        FailureGroup("http 503", 12, f"{NASTY}\nmore", 0.1, 3.2, 2_000_000, 5_000_000),
        FailureGroup("timeout", 1, "", 2.0, 2.0),
    )
    page = document(sample_result(failures=groups))
    (messages,) = section(page, "errors").blocks
    assert [row.text for row in messages.rows] == [
        f"concurrency 4: 12 requests failed (http 503), 0.1 s to 3.2 s, after 2.00 ms (at most 5.00 ms): {NASTY}",
        "concurrency 4: 1 request failed (timeout), at 2.0 s",
    ]
    assert "of all requests failed" in page.verdict
    assert page.tone.value == "bad"


def test_notes_come_with_their_advice():
    remark = Remark(Note.WORKER_LOST, "worker 2 died")
    page = document(dataclasses.replace(sample_result(), remarks=(remark,)))
    rows = section(page.spelled(str), "notes").blocks[0].rows
    assert [(row.text, row.advice) for row in rows] == [
        ("worker 2 died", Note.WORKER_LOST.advice),
        ("concurrency 1: asked for ±2.0%: throughput ±3.0%", Note.NOT_PRECISE.advice),
    ]


def test_a_run_without_answers_has_a_page():
    result = sample_result()
    silent = dataclasses.replace(result.levels[0], measurement=None, windows=())
    for levels in ((), (silent,)):
        page = document(dataclasses.replace(result, levels=levels))
        assert page.verdict == "No request was answered, so there is nothing to report."
        assert page.tone.value == "bad"
        assert "<main>" in to_html(dataclasses.replace(result, levels=levels))


def test_a_search_has_its_finding_as_verdict():
    finding = results.Finding("p99<50ms", "concurrency", 3.0, 3.0, 4.0, "p99", 2.0, confidence=0.95)
    page = document(dataclasses.replace(sample_result(), finding=finding))
    assert page.kind == "Search"
    assert page.verdict.startswith("Meets 'p99<50ms' up to 3 requests in flight")
    assert (page.figures[0].value, page.figures[0].detail) == ("3 in flight", "95 % interval 3 to 4")
    assert "at concurrency 3" in page.figures[1].detail


def test_requested_and_effective_settings_are_side_by_side():
    rows = {
        name: (asked, effective)
        for name, asked, effective in tables(document(sample_result()))["All 39 settings"].rows
    }
    assert rows["concurrency end"] == ("4", "-")
    assert rows["batch"] == ("", "1")
    assert rows["headers"] == ("authorization", "")


def test_a_diagnosis_shows_predicted_and_measured_figures():
    page = document(sample_diagnosis())
    assert page.verdict == (
        "decode limits it to 50 infer/s: its only instance is always busy; the changes took it from 50.0 to "
        "88.0 infer/s, +76.0 % (+68.7 to +83.6)."
    )
    assert tables(page)["Predicted against measured"].rows == (
        ("before", "4", "", "50.0", "", "", "70.0 ms", ""),
        ("decode: instances 1 → 2", "4", "90.0", "88.0", "98 %", "+76 %", "39.8 ms", "kept"),
        (
            "network: dynamic batching off → size 4",
            "4",
            "53.0",
            "-",
            "-",
            "-",
            "-",
            "refused: max_batch_size is 0",
        ),
    )
    assert section(page, "trials").lead == (
        "Before 50.0, after 88.0 infer/s at concurrency 4, +76.0 % (+68.7 to +83.6). Now: every core is busy. "
        "The server is back to its original configuration."
    )


def test_a_diagnosis_without_trials_shows_suggestions():
    page = document(dataclasses.replace(sample_diagnosis(), trials=(), after=None, is_restored=None))
    assert "trials" not in [row.name for row in page.sections]
    bars, messages, table, settings, _ = section(page, "suggestions").blocks
    assert [bar.segments[0].value for bar in bars.rows] == [50.0, 90.0, 53.0]
    assert messages.is_ranked
    assert settings.caption == "decode: instances 1 → 2: in config.pbtxt of decode"
    assert settings.text == "instance_group {\n  count: 2\n}"
    assert table.rows[0] == ("decode: instances 1 → 2", "4", "90.0", "+80 %", "44.0 ms")


def test_an_empty_diagnosis_has_a_page():
    bare = dataclasses.replace(
        sample_diagnosis(),
        steps=(),
        suggestions=(),
        curve=(),
        trials=(),
        results=(),
        notes=(),
        throughput=0.0,
    )
    assert "decode limits it" in to_html(bare)


def test_a_comparison_shows_each_difference_with_its_interval():
    page = document(sample_comparison())
    assert page.verdict == (
        "Regression: vocoder-fp16 fails on 'throughput < +20%' (throughput +10 % at concurrency 1), although it is "
        "1.10 ± 0.02 times faster than vocoder-fp32 at concurrency 4."
    )
    *drawn, first, second = section(page, "differences").blocks
    assert [(block.title, len(block.rows)) for block in drawn] == [
        ("Throughput", 2),
        ("p50 latency", 2),
        ("p99 latency", 2),
        ("p99.9 latency", 2),
    ]
    row = drawn[1].rows[0]
    assert (row.label, row.group, row.text) == ("vocoder-fp16", "concurrency 1", "1.10 ± 0.02 times faster")
    assert row.limits == pytest.approx((1 / 0.93, 1 / 0.89))
    assert drawn[3].rows[0].limits is None
    assert drawn[3].rows[0].text.endswith("too few requests")
    assert [(table.caption, len(table.rows)) for table in (first, second)] == [
        ("At concurrency 1", 4),
        ("At concurrency 4", 4),
    ]


def test_outputs_state_their_similarity():
    (table,) = section(document(sample_comparison()), "outputs").blocks
    assert [(row[1], row[-1]) for row in table.rows] == [
        ("AUDIO", "alike"),
        ("LABEL", "identical"),
        ("MASK", "its shape is 4 here and 8 there"),
    ]


def test_an_invalid_comparison_starts_with_the_reason():
    page = document(dataclasses.replace(sample_comparison(), problems=("the hosts differ",)))
    assert page.verdict == "Invalid: the hosts differ."
    assert page.sections[0].name == "problems"
    assert page.sections[0].blocks[0] == Messages((Message("the hosts differ", tone=Tone.BAD),))
    assert page.tone.value == "bad"


def test_percentile_curves_rise_and_pass_through_the_exact_percentiles():
    from inferometer.report.documents.levels import percentile_curve
    from tests.support.reports import sample_latency

    for count in (1, 2, 7, 100, 2000):
        latency = sample_latency(30.0, count)
        points = percentile_curve(latency)
        assert points[0] == (0.0, latency.min_ns) or count == 1
        assert points[-1][1] == latency.max_ns
        assert [ns for _, ns in points] == sorted(ns for _, ns in points)
        known = dict(points)
        exact = [(p / 100, ns) for p, ns in latency.percentiles if p / 100 < 1 - 1 / count]
        assert all(known[part] == ns for part, ns in exact)
