"""Files written by 0.1 (tests/golden/v0.1, made on the embedded server) are read, and every report is made of them."""

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from inferometer.base.answer_file import read
from inferometer.cli.main import main
from inferometer.compare.comparison import Comparison
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.dialects.model_analyzer import checkpoint, tables
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.report.csv import composing_csvs, main_csv
from inferometer.report.documents.study import study_document
from inferometer.report.documents.variant import detailed
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.report.saved import document, to_html, to_junit, to_markdown
from inferometer.report.saved import read as read_report
from inferometer.report.terminal import show
from inferometer.stats.result import Result
from inferometer.tune import journal as journals
from inferometer.tune.study import Study, recommend
from tests.support.reports import classic_report

FOLDER = Path(__file__).parent.parent / "golden" / "v0.1"
RESULTS = ("measure", "find", "find_with_interval", "perf_analyzer", "all_failed", "text")


def printed(answer) -> str:
    text = io.StringIO()
    show(document(answer), Console(file=text, width=100))
    return text.getvalue()


@pytest.mark.parametrize("name", RESULTS)
def test_results(name):
    result = read(FOLDER / f"{name}.json", Result)
    model = result.model["name"]
    assert result.tool == "inferometer 0.1.0"
    assert model in to_html(result)
    assert model in to_markdown(result)
    assert printed(result)
    assert classic.settings_block(result) in classic_report(result)
    assert bool(main_csv(result)) == (name != "all_failed")
    composing_csvs(result)


def test_what_a_measurement_found():
    result = read(FOLDER / "measure.json", Result)
    assert [level.value for level in result.levels] == [1, 2]
    assert all(level.measurement.request_count > 0 for level in result.levels)
    assert result.levels[0].measurement.goodput is not None


def test_a_search_of_before_there_were_intervals():
    result = read(FOLDER / "find.json", Result)
    assert (result.finding.value, result.finding.low, result.finding.high) == (114.3, 116.6, 119.1)
    assert result.finding.confidence is None
    assert "114 requests/s" in printed(result)


def test_a_search_with_an_interval():
    finding = read(FOLDER / "find_with_interval.json", Result).finding
    assert (finding.confidence, finding.needed_s) == (0.95, 11.23)
    assert finding.judged


def test_text():
    found = read(FOLDER / "text.json", Result).levels[0].measurement
    assert found.tokens.output_per_s > 0
    assert found.streaming.first.count > 0


@pytest.mark.parametrize(("name", "is_live"), [("live_comparison", True), ("saved_comparison", False)])
def test_comparisons(name, is_live):
    found = read_report(FOLDER / f"{name}.json")
    assert isinstance(found, Comparison)
    assert found.is_live is is_live
    assert found.exit_code == 0
    assert found.baseline in printed(found)
    assert found.baseline in to_markdown(found)
    assert "testsuite" in to_junit(found)
    assert found.baseline in to_html(found)


def test_results_are_compared_with_each_other(capsys):
    names = [str(FOLDER / f"{name}.json") for name in ("measure", "perf_analyzer")]
    assert main(["compare", *names]) == 0
    assert "perf_analyzer.json" in capsys.readouterr().out


def test_a_diagnosis():
    found = read_report(FOLDER / "diagnosis.json")
    assert isinstance(found, Diagnosis)
    assert found.verdict.kind in ("compute", "queue", "batching")
    assert found.trials
    assert found.verdict.sentence in to_html(found)
    assert printed(found)
    assert to_markdown(found)


def reports(study: Study) -> None:
    best = recommend(study)
    page = study_document(study, 3)
    show(page, Console(file=io.StringIO()))
    assert best.best.name in render(page)
    assert best.best.name in markdown(page)
    assert best.best.name in render(detailed(study, best.best.name))
    assert "simple" in tables.inference([study]).csv()


def test_a_study():
    study = read(FOLDER / "study.json", Study)
    assert study.models == ("simple",)
    assert len(study.measured) == 3
    reports(study)


def test_the_journal_of_tune():
    with journals.read(FOLDER / "tune.sqlite") as journal:
        found = checkpoint.read_journal(journal)
        assert journal.recall("ended simple") == "the budget is spent"
    assert len(found.trials) == 3
    # Trials whose keys this version would make otherwise are left out, and would be measured again.
    study = found.study("simple")
    assert len(study.trials) == len({trial.key for trial in found.trials if trial.is_measured})
    reports(study)


def test_the_journal_of_profile():
    study = checkpoint.read_folder(FOLDER / "checkpoints").study("simple")
    assert len(study.measured) == 4
    reports(study)


def test_a_checkpoint(tmp_path):
    shutil.copy(FOLDER / "checkpoints" / "0.ckpt", tmp_path)
    assert checkpoint.read(tmp_path / "0.ckpt").is_ours
    study = checkpoint.read_folder(tmp_path).study("simple")
    assert len(study.measured) == 4
    reports(study)
