"""Tasks in reports: durations, critical paths, turns and timelines."""

import pytest

from inferometer.base import answer_file
from inferometer.report import markdown, page
from inferometer.report.csv import main_csv
from inferometer.report.document import Chart, Messages, Table
from inferometer.report.documents.classes import classes_section, scenario_answer
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.documents.tasks import task_lanes_section, tasks_section
from inferometer.stats.result import Result
from tests.support import reports


@pytest.fixture
def result():
    return reports.sample_tasks()


def test_durations_paths_and_turns_have_tables(result):
    section = tasks_section(result)
    durations, paths, turns = [block for block in section.blocks if isinstance(block, Table)]
    assert durations.rows[0][2:4] == ("100", "10")
    assert durations.rows[0][-3:] == ("2.50", "300", "4,000")
    assert paths.rows[0][2:9] == ("2.00", "15.0 ms", "20.0 ms", "0 ns", "43 %", "57 %", "0 %")
    assert [row[2:5] for row in turns.rows] == [("1", "100", "0"), ("2", "100", "10")]
    said = " ".join(row.text for block in section.blocks if isinstance(block, Messages) for row in block.rows)
    for words in (
        "10 tasks of 100 failed",
        "4 tasks ended at the limit of turns",
        "3 calls repeated an attempt",
        "later calls carry the recorded answers",
        "repeat 1,000 prompt tokens, of which the server reports 250 (25 %) as cached",
    ):
        assert words in said


def test_a_class_of_tasks_counts_tasks(result):
    section = classes_section(result)
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert [row[2] for row in table.rows][1:] == ["2 tasks", "step", "step"]
    assert "counts whole tasks, tools included" in section.lead
    assert "tasks/s" in scenario_answer(result)


def test_the_page_has_a_timeline_of_tasks_and_escapes_their_names(result):
    (chart,) = task_lanes_section(result).blocks
    assert isinstance(chart, Chart)
    runs = {line.name: [(run[0].x, run[1].x) for run in line.runs] for line in chart.series}
    assert runs["tool or waiting"] == [(0.005, 0.026)]
    assert runs["tokens"] == [(0.002, 0.005)]
    assert runs["failed"] == [(0.026, 0.035)]
    text = page.render(measurement_document(result))
    assert "Timelines of tasks" in text
    assert "<b>trace" not in text


def test_tasks_are_saved_and_read(result, tmp_path):
    (tmp_path / "it.json").write_text(answer_file.to_json(result))
    found = answer_file.read(tmp_path / "it.json", Result).levels[0].classes[1]
    assert found == result.levels[0].classes[1]


def test_csv_and_markdown_have_tasks(result):
    lines = [line.split(",") for line in main_csv(result).splitlines()]
    row = dict(zip(lines[0], lines[3], strict=True))
    assert (row["Tasks"], row["Failed Tasks"], row["Calls/Task"], row["Tool Share"]) == (
        "90",
        "10",
        "2.5",
        "0.5700",
    )
    assert dict(zip(lines[0], lines[1], strict=True))["Tasks"] == ""
    assert "Critical path" in markdown.markdown(measurement_document(result))


def test_the_page_begins_with_the_tasks(result):
    page_of = measurement_document(result)
    assert page_of.sections[0].title == "Tasks"
    assert (page_of.figures[0].label, page_of.figures[0].value) == ("agent task p50", "32.2 ms")
