"""Visits in reports: the whole visit, its steps, and its cost."""

from dataclasses import replace

import pytest

from inferometer.base import answer_file
from inferometer.report.csv import main_csv
from inferometer.report.document import Messages, Table
from inferometer.report.documents.classes import classes_section, scenario_answer
from inferometer.stats.measurement import STEP, FailureGroup
from inferometer.stats.result import Result
from tests.support import reports


@pytest.fixture
def result():
    """A result whose second class has visits of two steps; the second step sometimes fails."""
    base = reports.sample_scenario()
    level = base.levels[0]
    plain, shop = level.classes
    failed = replace(
        shop.measurement, failed_count=3, failures=(FailureGroup("http 503", 3, "sold out", 0.0, 1.0),)
    )
    steps = tuple(
        replace(shop, name=name, mode=STEP, promise=None, outages=(), measurement=found)
        for name, found in (("enter", shop.measurement), ("buy", failed))
    )
    visits = replace(shop, measurement=failed, steps=steps, think_ns=200_000_000, outages=())
    return replace(base, levels=(replace(level, classes=(plain, visits)),))


def test_steps_follow_their_visits(result):
    section = classes_section(result)
    table = next(block for block in section.blocks if isinstance(block, Table))
    name = result.levels[0].classes[1].name
    assert [row[1] for row in table.rows][1:] == [name, "· enter", "· buy"]
    assert [row[2] for row in table.rows][1:] == ["2 visitors", "step", "step"]
    assert "whole visits" in section.lead


def test_think_time_failures_and_cost_are_reported(result):
    section = classes_section(result)
    messages = next(block for block in section.blocks if isinstance(block, Messages))
    said = " ".join(message.text for message in messages.rows)
    for words in (
        "users think for 200 ms per visit, which latency excludes",
        "of a core; a visit costs",
        "3 visits ended at buy",
        "3 visits failed (http 503): sold out",
    ):
        assert words in said
    assert "visits/s" in scenario_answer(result)


def test_visits_are_saved_and_read(result, tmp_path):
    (tmp_path / "it.json").write_text(answer_file.to_json(result))
    found = answer_file.read(tmp_path / "it.json", Result).levels[0].classes[1]
    assert [step.name for step in found.steps] == ["enter", "buy"]
    assert found == result.levels[0].classes[1]


def test_the_table_of_all_has_a_row_for_each_step(result):
    name = result.levels[0].classes[1].name
    lines = main_csv(result).splitlines()
    assert [line.split(",")[1] for line in lines[3:6]] == [name, f"{name}/enter", f"{name}/buy"]


def test_visits_that_fail_in_their_own_code_count_as_failures(result):
    level = result.levels[0]
    assert result.failed_visits_share > 0
    visits = replace(level.classes[1], measurement=replace(level.classes[1].measurement, failed_count=10**9))
    bad = replace(result, levels=(replace(level, classes=(level.classes[0], visits)),))
    assert bad.fails_too_often(0.5)
