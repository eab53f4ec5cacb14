"""Throughput of servers without a model is counted in requests in every report format."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from inferometer.base.answer_file import Answer
from inferometer.base.notes import Note, Remark
from inferometer.compare.comparison import Comparison
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.options.effective import rate_unit
from inferometer.report.csv import main_csv
from inferometer.report.saved import document, to_html, to_markdown
from inferometer.report.terminal import show
from inferometer.stats.result import Result
from tests.support.reports import (
    sample_comparison,
    sample_diagnosis,
    sample_interference,
    sample_result,
    sample_study,
)
from tests.support.twins import sample_twin

INFERENCES = re.compile(r"infer/s|inferences? per second", re.IGNORECASE)


def of_kind(kind: str, result: Result, command: str = "measure") -> Result:
    effective = replace(result.effective, service_kind=kind)
    return replace(result, command=command, effective=effective, model={"name": "GET /v2/infer/stats"})


def report(kind: str, name: str) -> Answer:
    if name == "comparison":
        found: Comparison = sample_comparison()
        variants = tuple(replace(row, result=of_kind(kind, row.result)) for row in found.variants)
        return replace(found, variants=variants)
    if name == "diagnosis":
        diagnosis: Diagnosis = sample_diagnosis()
        verdict = replace(diagnosis.verdict, sentence="Nothing is exhausted.")
        return replace(
            diagnosis, verdict=verdict, results=tuple(of_kind(kind, row) for row in diagnosis.results)
        )
    if name == "interference":
        return replace(sample_interference(), rate_unit=rate_unit(kind))
    if name == "study":
        return replace(sample_study(), rate_unit=rate_unit(kind))
    if name == "twin":
        twin = sample_twin()
        asked = {"service_kind": kind}
        return replace(twin, models=tuple(replace(model, asked=asked, text=None) for model in twin.models))
    return of_kind(kind, sample_result())


@pytest.mark.parametrize("name", ["measurement", "comparison", "diagnosis", "interference", "study", "twin"])
@pytest.mark.parametrize("kind", ["http", "dynamic_grpc"])
def test_reports_of_plain_requests_do_not_mention_inferences(kind: str, name: str) -> None:
    found = report(kind, name)
    page = to_html(found).partition('<script type="application/json"')[0]
    terminal = StringIO()
    show(document(found), Console(file=terminal, width=200))
    for words in (terminal.getvalue(), to_markdown(found), page):
        words = words.replace("/v2/infer/stats", "")
        assert not INFERENCES.search(words)
    assert "requests/s" in page


@pytest.mark.parametrize("name", ["measurement", "comparison"])
@pytest.mark.parametrize(("kind", "has_batch"), [("triton", True), ("openai", False), ("http", False)])
def test_the_batch_size_is_shown_only_for_batched_requests(kind: str, name: str, has_batch: bool) -> None:
    assert bool(re.search(r"\bbatch \d", to_markdown(report(kind, name)))) == has_batch


def test_names_are_not_renamed() -> None:
    assert document(report("http", "measurement")).title == "GET /v2/infer/stats"


def test_inferences_keep_their_name() -> None:
    for words in (to_markdown(report("triton", "measurement")), to_html(report("triton", "comparison"))):
        assert INFERENCES.search(words)


@pytest.mark.parametrize(
    ("kind", "command", "column"),
    [
        ("http", "measure", "Requests/Second"),
        ("triton", "measure", "Inferences/Second"),
        ("http", "perf_analyzer", "Inferences/Second"),
    ],
)
def test_the_throughput_column_names_its_unit(kind: str, command: str, column: str) -> None:
    assert main_csv(of_kind(kind, sample_result(), command)).startswith(f"Concurrency,{column},")


def test_words_of_users_and_servers_keep_their_unit() -> None:
    found = of_kind("http", sample_result())
    (level, *others) = found.levels
    said = Remark(Note.SERVER_ENDED, "the command printed 12 infer/s")
    found = replace(found, levels=(replace(level, remarks=(said,)), *others))
    assert "12 infer/s" in to_markdown(found)
