"""Answers in a notebook: a self-contained fragment with escaped texts; and tables of figures."""

import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import inferometer.api  # noqa: F401  (lets notebooks show answers)
from inferometer.base.answer_file import Answer
from inferometer.base.errors import UsageError
from inferometer.report.saved import document
from tests.support.capacity_plans import sample_capacity
from tests.support.nasty import NASTY, with_texts
from tests.support.reports import (
    sample_comparison,
    sample_diagnosis,
    sample_inspection,
    sample_result,
    sample_study,
)

SAMPLES = (
    sample_result,
    sample_comparison,
    sample_diagnosis,
    sample_study,
    sample_inspection,
    sample_capacity,
)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen |= {tag, *(name for name, _ in attrs)}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html):
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.__name__)
def test_a_notebook_shows_the_verdict_and_the_main_table(sample):
    answer = sample()
    shown = read(answer._repr_html_())
    assert document(answer).verdict in shown.text
    assert "table" in shown.seen
    assert shown.seen <= {"div", "span", "b", "table", "tr", "th", "td", "style", "title"}
    assert "url(" not in answer._repr_html_()
    assert len(answer._repr_html_()) < 40_000


def test_a_notebook_falls_back_to_plain_text(monkeypatch):
    monkeypatch.setattr(Answer, "in_notebooks", None)
    assert sample_result()._repr_html_() is None


@pytest.mark.parametrize("sample", SAMPLES[:3], ids=lambda sample: sample.__name__)
def test_foreign_texts_stay_text(sample):
    def nasty(text: str) -> Any:
        return with_texts(sample(), lambda _: text)

    for answer in map(nasty, NASTY):
        assert read(answer._repr_html_()).seen <= {
            "div", "span", "b", "table", "tr", "th", "td", "style", "title"
        }  # fmt: skip


# --- tables


def library(monkeypatch, name):
    """A stand-in for a package that is not installed: it keeps its arguments."""
    module = ModuleType(name)
    module.DataFrame = lambda columns: SimpleNamespace(columns=columns)  # type: ignore[attr-defined]
    module.read_parquet = lambda path: SimpleNamespace(path=path)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_levels_are_rows_with_units_in_the_names(monkeypatch, name):
    library(monkeypatch, name)
    result = sample_result()
    columns = getattr(result, f"to_{name}")().columns
    assert columns["concurrency"] == [level.value for level in result.levels]
    assert columns["rate_per_s"] == [None] * len(result.levels)
    found = result.levels[0].measurement
    assert columns["infer_per_s"][0] == found.infer_per_s.value
    assert columns["latency_p99_ms"][0] == found.latency.percentile_ns(99) / 1e6
    assert columns["requests"][0] == found.request_count
    assert {len(column) for column in columns.values()} == {len(result.levels)}


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) requires pandas, .*: pip install pandas"):
        sample_result().to_pandas()


def test_requests_come_from_the_export(monkeypatch, tmp_path):
    library(monkeypatch, "pandas")
    path = tmp_path / "x.json"
    path.write_text(
        '{"experiments":[{"experiment":{"mode":"request_rate","value":5.0},"requests":'
        '[{"timestamp":1000000,"response_timestamps":[2000000,4000000]},'
        '{"timestamp":5000000,"response_timestamps":[]}],"window_boundaries":[]}]}'
    )
    result = replace(sample_result(), asked={"profile_export": str(path)})
    columns = result.to_pandas(requests=True).columns
    assert columns["rate_per_s"] == [5.0, 5.0]
    assert columns["latency_ms"] == [3.0, None]  # an empty stream has no time of its own in the file
    assert columns["responses"] == [2, 0]
    table = replace(result, asked={"profile_export": str(path.rename(tmp_path / "x.PARQUET"))})
    assert table.to_pandas(requests=True).path.endswith("x.PARQUET")
    with pytest.raises(UsageError, match="the requests of this run were not exported"):
        replace(result, asked={}).to_pandas(requests=True)
