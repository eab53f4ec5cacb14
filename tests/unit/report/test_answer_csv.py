"""Every kind of answer as a table for spreadsheets."""

import csv
import io
from dataclasses import replace

import pytest

from inferometer.report.csv import main_csv
from inferometer.report.saved import to_csv
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import (
    sample_comparison,
    sample_diagnosis,
    sample_inspection,
    sample_result,
    sample_study,
)

EVIL = '=HYPERLINK("x")"a\nb'


def rows(answer):
    return list(csv.DictReader(io.StringIO(to_csv(answer))))


def test_a_comparison_has_a_row_for_each_figure():
    found = rows(sample_comparison())
    assert len(found) == 8
    first, second = found[:2]
    assert first["Figure"] == "infer/s"
    assert [first[name] for name in ("Value", "Of the baseline", "Of the variant")] == ["1", "40", "44"]
    assert [first[f"Times as fast{end}"] for end in ("", " low", " high")] == ["1.1", "1.085", "1.115"]
    assert (second["Figure"], second["Of the baseline"], second["Verdict"]) == (
        "p50 latency",
        "20104.2",
        "faster",
    )
    assert found[3]["Difference % low"] == ""


def test_a_diagnosis_has_a_row_for_each_step():
    found = rows(sample_diagnosis())
    assert [(row["Step"], row["Service"], row["Limits"]) for row in found] == [
        ("decode", "20000", "yes"),
        ("network", "4000", ""),
        ("encode", "1000", ""),
    ]
    assert found[2]["Bound infer/s"] == ""


def test_a_study_has_a_row_for_each_trial():
    study = sample_study()
    found = rows(study)
    assert len(found) == len(study.trials)
    (best,) = (row for row in found if row["Recommended"])
    assert (best["Configuration"], best["Load"], best["Keeps constraints"]) == (
        "classifier_config_2",
        "concurrency=16",
        "yes",
    )
    assert (best["p99 latency"], best["Expected infer/s"]) == ("16761.9", "1664.73")
    assert (found[-3]["Status"], found[-3]["Infer/s"]) == ("failed", "")
    assert found[-3]["Reason"].endswith("out of memory")


def test_a_measurement_has_its_usual_rows():
    assert to_csv(sample_result()) == main_csv(sample_result())


@pytest.mark.parametrize("make", [sample_comparison, sample_diagnosis, sample_study])
def test_foreign_names_are_not_formulas(make):
    text = to_csv(make(EVIL))
    assert {len(row) for row in csv.reader(io.StringIO(text))} == {len(next(csv.reader(io.StringIO(text))))}
    assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(text)) for cell in row)


def test_without_rows_the_text_is_empty():
    assert to_csv(replace(sample_study(), trials=())) == ""


def test_a_capacity_plan_is_its_replicas_over_time():
    plan = sample_capacity()
    rows = list(csv.DictReader(io.StringIO(to_csv(plan))))
    assert len(rows) == 2 * len(plan.stretches)  # for the options that meet the SLO
    assert [int(row["Replicas"]) for row in rows if row["Option"] == "small"] == list(
        plan.options[0].over_time
    )
    assert {row["Basis"] for row in rows} == {"interpolated"}


def test_an_inspection_is_its_rate_over_time():
    found = sample_inspection()
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [float(row["End s"]) - float(row["Start s"]) for row in rows] == [found.bin_s] * len(found.bins)
    assert sum(int(row["Requests"]) for row in rows) == found.requests
    assert sum(int(row["Prompt tokens"]) for row in rows) == found.input.total
    assert sum(int(row["Answer tokens"]) for row in rows) == found.output.total
