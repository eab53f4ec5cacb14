"""Saved files of every kind, which name their own kind."""

import json

import pytest

from inferometer import api
from inferometer.api.arguments import argument_name
from inferometer.base.answer_file import write
from inferometer.base.errors import UsageError
from inferometer.report.saved import read, to_html, to_markdown, write_page
from tests.support.pictures import PAGES
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result

REPORTS = [sample_result(), sample_diagnosis(), sample_comparison()]


@pytest.mark.parametrize("report", REPORTS)
def test_every_kind_is_read_back(report, tmp_path):
    write(report, tmp_path / "it.json")
    assert read(tmp_path / "it.json") == report


@pytest.mark.parametrize("page", PAGES)
def test_the_api_loads_every_kind_that_it_saves(page, tmp_path):
    answer = PAGES[page]()
    api.save(answer, tmp_path / "it.json")
    assert api.load(tmp_path / "it.json") == answer


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a result or a diagnosis or a comparison"),
        ("{}", "result schema None"),
        (json.dumps({"kind": "comparison", "schema": 99}), "schema 99"),
        (json.dumps({"command": "diagnose", "verdict": {}, "schema": 99}), "diagnosis schema 99"),
        (json.dumps({"kind": "selftest", "schema": 1}), "is not a result"),
    ],
)
def test_other_files_are_refused(text, complaint, tmp_path):
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read(tmp_path / "it.json")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "it.json")
    (tmp_path / "picture.json").write_bytes(b"\x89PNG\xff")
    with pytest.raises(UsageError, match="cannot be read: it is not UTF-8 text"):
        read(tmp_path / "picture.json")


@pytest.mark.parametrize("report", REPORTS)
def test_the_python_api_makes_the_same_reports(report, tmp_path):
    write_page(tmp_path / "page.html", report)
    assert (tmp_path / "page.html").read_text() == to_html(report)
    assert api.to_html(report) == to_html(report, argument_name)
    assert api.to_markdown(report) == to_markdown(report, argument_name)


def test_advice_names_options_as_each_interface_writes_them(tmp_path):
    result = sample_result()
    assert r"measure longer with --duration or -n, or relax --precision" in to_markdown(result)
    python = "measure longer with duration_s or request_count, or relax precision"
    assert python in api.to_markdown(result).replace("\\", "")
    assert python in api.to_html(result)
