"""The page of a search: figures over the load, the SLO as a line, the limit as a band."""

from dataclasses import replace

import pytest

from inferometer.report.documents.measurement import measurement_document
from inferometer.report.page import NARROW, WIDE, draw
from inferometer.report.sentences import verdict_words
from inferometer.stats.measurement import FailureGroup
from inferometer.stats.result import Finding, JudgedLoad
from tests.support.reports import sample_result

JUDGED = (
    JudgedLoad(1.0, "kept"),
    JudgedLoad(2.0, "kept"),
    JudgedLoad(3.0, "undecided"),
    JudgedLoad(4.0, "broken", ("p99",)),
)


def searched(promise="p99<50ms", mode="request_rate", **more):
    finding = Finding(promise, mode, 2.0, 2.0, 4.0, "p99", 1.0, confidence=0.95, judged=JUDGED)
    result = sample_result()
    levels = tuple(replace(level, mode=mode) for level in result.levels)
    return replace(result, levels=levels, finding=replace(finding, **more))


def charts(result):
    return next(row for row in measurement_document(result).sections if row.name == "throughput").blocks


@pytest.mark.parametrize(
    ("slo", "broken", "words"),
    [
        ("p99<1us", ("p99",), "violated: p99"),
        ("p99<1h", ("p99",), "violated"),  # violated by other levels, or by the fitted curve
        ("p99<1h, p50<1us", ("p99", "p50"), "violated: p50"),
        ("p99<1h", ("overload",), "violated: overload"),
        ("p99<1us", (), "violated"),
        ("a term of another version", ("p99",), "violated: p99"),
    ],
)
def test_a_level_names_the_limits_that_its_own_figures_violate(slo, broken, words):
    result = searched(slo, judged=(JudgedLoad(4.0, "broken", broken),))
    level = next(level for level in result.levels if level.value == 4.0)
    assert verdict_words(level, result.finding).split(", ")[0] == words


def test_charts_show_the_slo_figure_over_the_load():
    (chart,) = charts(searched())
    line = chart.series[0]
    assert (line.name, chart.x.title) == ("p99 at each load", "request rate (requests/s)")
    expected = [(level.value, level.measurement.latency.percentile_ns(99)) for level in searched().levels]
    assert [(point.x, point.y) for run in line.runs for point in run] == expected
    (chart,) = charts(searched(mode="concurrency"))
    assert chart.x.title == "concurrency"


def test_a_violating_load_has_its_own_name_shape_and_colour():
    (chart,) = charts(searched())
    kept, undecided, broken = chart.series[1:]
    assert [(row.name, row.colour, row.key) for row in (kept, undecided, broken)] == [
        ("met", "green", "point"),
        ("undecided", "grey", "point hollow"),
        ("violated", "red", "cross"),
    ]
    assert [[point.x for run in row.runs for point in run] for row in (kept, undecided, broken)] == [
        [1, 2],
        [3],
        [4],
    ]
    assert "request rate 4: violated, p99" in broken.runs[0][0].tip
    assert '<path class="mark cross red"' in draw(chart, WIDE)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_slo_is_a_labelled_line_and_the_limit_a_band(width):
    (chart,) = charts(searched("p99<=50ms, p50<20ms"))
    assert [(rule.value, rule.label) for rule in chart.rules] == [
        (50e6, "SLO: p99 <= 50 ms"),
        (20e6, "SLO: p50 < 20 ms"),
    ]
    assert [row.name for row in chart.series[:2]] == ["p99 at each load", "p50 at each load"]
    (band,) = chart.spans
    assert (band.start, band.end, band.label, band.is_interval) == (
        2.0,
        4.0,
        "95 % interval 2.00 to 4.00",
        True,
    )
    drawing = draw(chart, width)
    for words in ("SLO: p99 &lt;= 50 ms", "SLO: p50 &lt; 20 ms", "95 % interval 2.00 to 4.00"):
        assert drawing.count(f">{words}</text>") == 1


@pytest.mark.parametrize(
    ("ends", "band"),
    [((2.0, None), [(2.0, 4.0)]), ((0.0, 3.0), [(0.0, 3.0)]), ((0.0, None), [])],
)
def test_an_open_interval_extends_to_the_last_load_tried(ends, band):
    (chart,) = charts(searched(low=ends[0], high=ends[1]))
    assert [(span.start, span.end) for span in chart.spans] == band
    assert ("The band" in chart.note) == bool(band)


def test_failed_requests_are_drawn_if_there_are_any():
    result = searched()
    level = result.levels[-1]
    failed = replace(
        level.measurement, failed_count=200, failures=(FailureGroup("timeout", 200, "", 0.0, 1.0),)
    )
    latency, errors = charts(
        replace(result, levels=(*result.levels[:-1], replace(level, measurement=failed)))
    )
    assert latency.title == "Latency at each request rate tried"
    assert [rule.label for rule in errors.rules] == ["SLO: errors < 0.10 %"]


def test_loads_without_answers_are_named_below_the_chart():
    result = searched()
    silent = replace(result.levels[-1], measurement=None)
    (chart,) = charts(replace(result, levels=(*result.levels[:-1], silent)))
    assert "Not drawn because no request succeeded: request rate 4 (no reply)." in chart.note


def test_an_unknown_slo_only_loses_its_chart():
    page = measurement_document(searched("p99.5 below 50"))
    assert page.sections[0].name == "levels"
