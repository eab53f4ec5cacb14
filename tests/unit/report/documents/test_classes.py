"""Classes of traffic and interference in every format."""

import csv
import io
import json
from dataclasses import replace

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.compare.interference import Interference
from inferometer.report.document import Chart
from inferometer.report.documents.classes import scenario_answer
from inferometer.report.saved import document, to_csv, to_html, to_junit, to_markdown
from inferometer.stats.result import Result
from inferometer.store.run import Run
from inferometer.store.summary import summarized
from tests.support.reports import sample_interference, sample_latency, sample_scenario


@pytest.mark.parametrize(
    ("answer", "kind"), [(sample_scenario(), Result), (sample_interference(), Interference)]
)
def test_saved_answers_are_read_back(answer, kind):
    again = from_json(to_json(answer), "file", kind)
    assert to_json(again) == to_json(answer)
    assert to_html(again) == to_html(answer)


def test_every_class_has_a_row_per_phase_and_a_line_on_the_page():
    found = sample_scenario()
    text = to_markdown(found)
    for name in ("detector", "classifier"):
        assert text.count(f"| {name} |") >= 2
    assert "| ramp | detector | 30/s |" in text
    assert "| peak | classifier | 2 in flight |" in text
    section = next(row for row in document(found).sections if row.name == "classes")
    charts = [block for block in section.blocks if isinstance(block, Chart)]
    assert [[line.name for line in chart.series] for chart in charts] == [["detector", "classifier"]] * 2
    assert [span.label for span in charts[0].spans] == ["ramp", "peak"]


def test_the_verdict_names_slo_violations_and_outages():
    said = document(sample_scenario()).verdict
    assert "classifier violates 'p99<5ms' at phase ramp, phase peak" in said
    assert "2 classes through 2 phases: detector" in said
    assert "gone at 7.00 s, 3 requests unanswered, and it did not come back" in said
    assert "back after 2.10 s; answers were as fast as before 500 ms later" in to_markdown(sample_scenario())
    assert sample_scenario().breaks_promise


def test_the_table_has_the_total_and_every_class():
    rows = list(csv.DictReader(io.StringIO(to_csv(sample_scenario()))))
    assert [(row["Phase"], row["Class"]) for row in rows] == [
        (phase, name) for phase in ("ramp", "peak") for name in ("all", "detector", "classifier")
    ]
    assert [row["Promise"] for row in rows[:3]] == ["", "kept", "broken"]
    assert 'name="phase peak, classifier meets p99&lt;5ms"' in to_junit(sample_scenario())


def test_interference_names_the_loser_and_the_resource():
    found = sample_interference()
    assert document(found).verdict == (
        "detector is 1.25 ± 0.03 times slower than alone (contention: cores); "
        "classifier is not slowed by more than 1.0 % in throughput."
    )
    text = to_markdown(found)
    assert "1.98 of 2 cores were busy" in text
    assert "-20.0 % (-22.0 to -18.0)" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert (rows[0]["Model"], rows[0]["Figure"], rows[0]["Verdict"]) == ("detector", "throughput", "slower")


def test_a_list_of_runs_has_the_models_of_an_interference():
    run = summarized(Run("1", "interfere"), sample_interference())
    assert run.model == "detector,classifier"
    assert [point.variant for point in run.points][:2] == ["detector", "detector alone"]
    assert json.loads(to_json(sample_interference()))["kind"] == "interference"


def test_few_requests_have_no_p99_in_the_answer():
    result = sample_scenario()
    assert "p99" in scenario_answer(result)
    latency = sample_latency(20.0, count=30)
    levels = tuple(
        replace(
            level,
            classes=tuple(
                replace(row, measurement=replace(row.measurement, latency=latency)) for row in level.classes
            ),
        )
        for level in result.levels
    )
    words = scenario_answer(replace(result, levels=levels))
    assert "p99" not in words
    assert "slowest" in words
