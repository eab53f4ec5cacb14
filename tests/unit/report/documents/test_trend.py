"""The page of a trend: changes with their two runs, in every format."""

from pathlib import Path
from typing import Any

import pytest

from inferometer.report.document import Chart, Document, Tone
from inferometer.report.documents.trend import TrendFacts, run_names, trend_document
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.history import figure_histories
from tests.support.planted_store import planted_figures, planted_history


def document(folder: Path, count: int = 20, **planted: Any) -> tuple[Document, list[str]]:
    runs = planted_history(folder, planted_figures(count, **planted))
    about = TrendFacts("simple", ("triton",), commits={run.id: "abcdef" for run in runs[:3]})
    names = run_names([run.id for run in runs])
    return trend_document(figure_histories(runs), about), [names[run.id] for run in runs]


def charts(found: Document) -> list[Chart]:
    return [block for section in found.sections for block in section.blocks if isinstance(block, Chart)]


def test_a_planted_regression_is_named_with_its_two_runs(tmp_path: Path) -> None:
    found, names = document(tmp_path, seed=1, step=-0.08, at=12)
    assert found.tone is Tone.BAD
    assert found.verdict.startswith("Throughput at concurrency 4 fell by ")
    assert f"between runs {names[11]} and {names[12]}." in found.verdict
    throughput = charts(found)[0]
    (span,) = throughput.spans
    assert (span.start, span.end) == (12, 13)
    assert f"{names[11]} → {names[12]}" in span.label
    page = render(found)
    assert span.label.split(":")[0] in page
    assert names[11] in markdown(found)


def test_an_improvement_is_good(tmp_path: Path) -> None:
    found, _ = document(tmp_path, seed=2, step=0.1, at=9)
    assert found.tone is Tone.GOOD
    assert "rose by" in found.verdict


@pytest.mark.parametrize("seed", range(20))
def test_a_store_without_a_change_shows_none(tmp_path: Path, seed: int) -> None:
    found, _ = document(tmp_path, seed=seed)
    assert found.verdict.startswith("No change detected in 20 runs.")
    assert found.verdict.endswith("would be detected half of the time.")
    assert not any(chart.spans for chart in charts(found))
    assert found.tone is Tone.PLAIN


@pytest.mark.parametrize("count", [1, 5])
def test_a_short_history_says_so_and_is_drawn_all_the_same(tmp_path: Path, count: int) -> None:
    found, _ = document(tmp_path, count, seed=1)
    are = "is" if count == 1 else "are"
    assert found.verdict == (
        f"Too early to tell: at least 6 comparable runs are needed to detect a change, and there {are} {count}."
    )
    assert {card.detail for card in found.figures} == {"too few runs"}
    assert len(charts(found)) == 4
    assert render(found)


def test_no_history_at_all_is_still_a_page() -> None:
    assert "there are 0" in trend_document((), TrendFacts("simple")).verdict
    assert render(trend_document((), TrendFacts("simple")))


def test_the_axis_of_values_shows_small_changes(tmp_path: Path) -> None:
    from inferometer.report.page import scale

    found, _ = document(tmp_path, seed=1, step=-0.08, at=12)
    chart = charts(found)[0]
    values = [point.y for line in chart.series for run in line.runs for point in run]
    drawn = scale(chart.y, values, start=0, end=1, ticks=5)
    assert drawn.low > 0.8 * min(values)
    assert all(tick == round(tick) for tick in scale(chart.x, [1, 20], start=0, end=1, ticks=8).ticks)


def test_names_are_as_short_as_they_can_be() -> None:
    assert run_names(["1234abcd", "12ffabcd"]) == {"1234abcd": "1234", "12ffabcd": "12ff"}
    assert run_names(["1234abcd", "1234ffcd"])["1234abcd"] == "1234a"
    assert run_names(["1234abcd", "new.json"])["new.json"] == "new.json"
