"""Axes, tables and texts of the pages of a trend, a twin, a capacity plan, a diagnosis and a saturated server."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.compare.comparison import INCONCLUSIVE, Difference
from inferometer.diagnose.diagnosis import CPU
from inferometer.report.document import (
    Bars,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Code,
    Document,
    Messages,
    Table,
    Tone,
)
from inferometer.report.format import plural
from inferometer.report.page import NARROW, WIDE, chart_note, draw, render
from inferometer.report.saved import document, to_html
from inferometer.stats.estimate import Estimate
from inferometer.store.store import Store
from inferometer.tune.model_config import parse_text
from inferometer.ui.trends import document_of, trend_view
from tests.support.capacity_plans import constant_capacity, sample_capacity
from tests.support.planted_store import planted_history
from tests.support.reports import (
    sample_diagnosis,
    sample_interference,
    sample_latency,
    sample_result,
    sample_scenario,
    sample_study,
)
from tests.support.twins import sample_twin

CUT = "The y axis does not start at 0."


def blocks(found: Document, kind: type) -> list:
    return [block for section in found.sections for block in section.blocks if isinstance(block, kind)]


@pytest.mark.parametrize(
    ("values", "is_cut"),
    [
        ([1000.0, 1010.0, 990.0, 1005.0], True),
        ([1.0, 90.0, 40.0, 100.0], False),
        ([0.5, 3.0, 2.0, 5.0], False),
    ],
)
def test_a_trend_mentions_a_truncated_axis_only_if_there_is_one(tmp_path: Path, values, is_cut) -> None:
    planted_history(tmp_path, {"throughput": values})
    view = trend_view(Store(tmp_path), {})
    page = render(document_of(view, Store(tmp_path).shorts(view.runs), "us"))
    assert (CUT in page) == is_cut
    assert "2026-10-02" in re.search(r"<svg.*?</svg>", page, re.S)[0]
    assert ">0</text>" not in re.search(r"<svg.*?run, oldest", page, re.S)[0].partition("tick middle")[2]


def test_a_twin_has_one_confidence_level_and_no_cell_that_breaks_inside_a_number() -> None:
    page = to_html(sample_twin())
    assert set(re.findall(r"(\d\d) % interval|, (\d\d) %", page)) <= {("90", ""), ("", "90")}
    for table in blocks(document(sample_twin()), Table):
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
            has_numbers = any(re.search(r"\d", cell) for cell in cells)
            assert column.is_number or column.is_name or not has_numbers, (table.caption, column.name)


def single(option):
    """An option of which one replica suffices."""
    if option.fewest is None:
        return option
    one = replace(option.fewest, replicas=1)
    return replace(option, fewest=one, whole=replace(one, replicas=2), fewer=None)


def test_a_plan_for_a_constant_rate_draws_utilisation() -> None:
    flat = constant_capacity()
    options = flat.options
    (chart,) = blocks(document(flat), Chart)
    assert "fewer replicas than the SLO needs, according to the measured figures" in chart.note
    light = replace(
        flat, stretches=(replace(flat.stretches[0], rate=5.0),), options=tuple(map(single, options))
    )
    assert "ollow" not in blocks(document(light), Chart)[0].note
    drawn = {line.name: {point.x: point for point in line.runs[0]} for line in chart.series}
    for option in options[:2]:
        points = drawn[option.name]
        assert points[option.replicas].y == pytest.approx(option.whole.utilisation.value, rel=0.02)
        assert not points[option.fewest.replicas].is_doubtful
        assert all(point.is_doubtful for count, point in points.items() if count < option.fewest.replicas)


def test_a_diagnosis_keeps_to_the_diagnosed_concurrency() -> None:
    found = sample_diagnosis()
    elsewhere = replace(found.suggestions[0], concurrency=64, throughput=7777.0)
    page = document(replace(found, suggestions=(*found.suggestions, elsewhere), trials=()))
    assert not any("7,777" in row.text for bars in blocks(page, Bars) for row in bars.rows)
    assert any("at concurrency 64" in str(block) for section in page.sections for block in section.blocks)
    assert any(
        section.title == f"Where the time goes at concurrency {found.concurrency}"
        for section in page.sections
    )
    (steps,) = (table for table in blocks(page, Table) if table.caption == "The steps in numbers")
    place = [column.name for column in steps.columns].index("Share")
    assert [row[place] for row in steps.rows] == ["93 %", "5.0 %", "1.0 %"]


def test_a_predicted_gain_is_no_shown_gain_and_stays_at_the_diagnosed_concurrency() -> None:
    found = sample_diagnosis()
    elsewhere = replace(found.suggestions[0], concurrency=64, throughput=7777.0)
    for suggestions, values in (((elsewhere,), []), (found.suggestions, ["90.0 infer/s"])):
        page = document(replace(found, suggestions=suggestions, trials=()))
        cards = [card for card in page.figures if card.label == "Within reach"]
        assert [card.value for card in cards] == values
        assert all(card.tone is Tone.PLAIN for card in cards)


def test_a_twin_counts_only_the_loads_that_it_can_judge() -> None:
    twin = sample_twin()
    judged = sum(row.measured is not None for row in twin.forecasts)
    assert judged < len(twin.forecasts)
    assert f"at {plural(judged, 'load')}, predicted and measured" in document(twin).verdict


def test_the_windows_of_a_scenario_are_by_phase() -> None:
    titles = [chart.title for chart in blocks(document(sample_scenario()), Chart)]
    assert "Throughput of each window, by phase" in titles


def test_a_search_names_configurations_the_same_everywhere() -> None:
    assert "classifier_config" not in str(document(sample_study()).sections).replace('name: "', "")


def test_suggested_settings_can_be_pasted_into_config_pbtxt() -> None:
    found = sample_diagnosis()
    settings = {
        "instance_group": [{"count": 3, "kind": "KIND_CPU"}],
        "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": "500"},
    }
    change = replace(found.suggestions[0].change, settings=settings)
    suggestion = replace(found.suggestions[0], change=change)
    kept = replace(found.trials[0], suggestion=suggestion)
    for page in (
        document(replace(found, suggestions=(suggestion,), trials=())),
        document(replace(found, suggestions=(), trials=(kept,))),
    ):
        (code,) = blocks(page, Code)
        assert "config.pbtxt" in code.caption
        assert parse_text(code.text, "a page") == settings


def test_the_text_at_the_end_of_a_bar_has_room() -> None:
    page = to_html(sample_diagnosis())
    for figure in re.findall(r'<figure class="bars".*?</figure>', page, re.S):
        longest = max(map(len, re.findall(r'<div class="bar-text">([^<]*)', figure)))
        assert int(re.search(r"--room:(\d+)ch", figure)[1]) >= longest


def levels(rates: dict[int, float]):
    result = sample_result()
    model = result.levels[-1]
    rows = tuple(
        replace(
            model,
            value=float(load),
            measurement=replace(
                model.measurement,
                infer_per_s=replace(
                    model.measurement.infer_per_s, value=rate, low=rate * 0.99, high=rate * 1.01
                ),
                latency=sample_latency(1000 * load / rate),
                latency_intervals=(),
            ),
        )
        for load, rate in rates.items()
    )
    return document(replace(result, levels=rows))


@pytest.mark.parametrize(
    ("rates", "is_over_load"),
    [
        ({1: 25.0, 2: 50.0, 4: 100.0, 8: 99.0, 16: 98.5, 32: 99.5, 64: 98.0}, True),
        ({1: 44.7, 2: 41.6, 4: 42.8, 8: 43.5, 16: 48.1, 32: 48.0}, True),  # the same with noise
        ({1: 25.0, 2: 50.0, 4: 90.0, 8: 130.0}, False),
    ],
)
def test_levels_of_a_saturated_server_do_not_crowd_at_the_right_edge(rates, is_over_load) -> None:
    (section,) = (row for row in levels(rates).sections if row.name == "throughput")
    for chart in section.blocks:
        xs = sorted(point.x for point in chart.series[0].runs[0])
        assert chart.x.title.startswith("concurrency") == is_over_load
        gaps = [two / one for one, two in pairwise(xs)]
        assert min(gaps) > 1.2, chart.title


def test_a_chart_states_the_level_of_its_intervals_only_if_it_has_any() -> None:
    point = ChartPoint(1.0, 2.0, "tip", y_limits=(1.0, 3.0))
    axes = (ChartAxis("load"), ChartAxis("throughput"))
    for runs, is_banded, words in (
        (((point, replace(point, x=2.0)),), True, "The band is the 90 % interval."),
        (((point, replace(point, x=2.0)),), False, "Bars are 90 % intervals."),
        (((replace(point, y_limits=None),),), True, ""),
    ):
        chart = Chart("t", *axes, (ChartLine("a", runs, "blue", is_banded=is_banded),), confidence="90 %")
        assert chart_note(chart) == words


def test_a_chart_of_client_limited_levels_names_its_figure() -> None:
    remark = Remark(Note.CLIENT_STARVED, "client-limited: it waited")
    result = sample_result()
    limited = tuple(replace(level, remarks=(remark,)) for level in result.levels)
    (section,) = (
        row for row in document(replace(result, levels=limited)).sections if row.name == "throughput"
    )
    chart = section.blocks[-1]
    assert isinstance(chart, Chart)
    assert len(chart.series) == 1
    assert chart.y.title.startswith("p99 latency")
    assert "limited by this client" in chart.note


def test_settings_are_exact() -> None:
    result = replace(sample_result(), asked={"sequence_ids": [4213457651204988744], "rate": 12.5})
    (table,) = blocks(replace(document(result), sections=document(result).sections[-2:-1]), Table)
    assert ("sequence ids", "4,213,457,651,204,988,744", "") in table.rows


def test_exhausted_cores_leave_no_step_as_the_bound() -> None:
    found = sample_diagnosis()
    assert any(row.label == "Bound" for row in document(found).figures)
    busy = replace(found.verdict, kind=CPU, sentence="Other programs are busy.", step=None)
    page = document(replace(found, verdict=busy, suggestions=(), trials=()))
    assert not any(row.label == "Bound" for row in page.figures)
    assert any("while the cores are exhausted" in str(block) for block in blocks(page, Messages))


def test_an_inconclusive_loss_leaves_its_cause_open() -> None:
    found = sample_interference()
    wide = Difference("throughput", 50.0, 40.0, Estimate(-20.0, -95.0, 900.0), INCONCLUSIVE)
    model = replace(found.models[1], differences=(wide,))
    page = document(replace(found, models=(model,)))
    (table,) = (row for row in blocks(page, Table) if row.caption == "Where the time is lost")
    assert table.rows[0][1] == INCONCLUSIVE
    assert page.figures[0].value == INCONCLUSIVE
    assert page.verdict.count("nconclusive") == 1


def test_a_day_ends_at_24_h() -> None:
    (first, *_) = blocks(document(sample_capacity()), Chart)
    for width in (WIDE, NARROW):
        assert re.findall(r'class="tick middle"[^>]*>([^<]*)', draw(first, width)) == [
            "0",
            "6",
            "12",
            "18",
            "24",
        ]
