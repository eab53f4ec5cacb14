"""Grouping of runs into histories."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer.stats.estimate import Estimate
from inferometer.stats.history import figure_histories, histories, setting
from inferometer.store.run import KILLED, Point, Run
from tests.support.planted_store import planted_figures, planted_history


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return planted_history(tmp_path, planted_figures(4, seed=1))


def test_comparable_runs_form_one_history_oldest_first(runs: list[Run]) -> None:
    found = histories(reversed(runs))
    assert [list(group) for group in found.values()] == [runs]
    assert next(iter(found)).server == "triton"


@pytest.mark.parametrize(
    "other",
    [
        {"model": "other"},
        {"command": "find"},
        {"host_class": "aarch64, 2 x another"},
        {"server": "openai 1"},
        {"words": ("measure", "localhost:8000", "simple", "--grpc")},
        {"words": ("measure", "localhost:8000", "simple", "--batch", "8")},
    ],
)
def test_runs_measured_differently_form_another_history(runs: list[Run], other: dict[str, Any]) -> None:
    assert len(histories([*runs, replace(runs[0], id="0", **other)])) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"server": "triton 2.52.0"},
        {"words": ("measure", "localhost:9999", "simple", "--concurrency", "1,4", "--json", "a.json")},
        {"words": ("measure", "--quiet", "localhost:9999", "simple", "--duration=9s", "--tag", "nightly")},
        {"commit": "abc", "tags": ("x",), "host": "elsewhere"},
    ],
)
def test_options_that_do_not_affect_the_measurement_may_differ(
    runs: list[Run], other: dict[str, Any]
) -> None:
    assert setting(replace(runs[0], **other)) == setting(runs[0])


def test_a_flag_has_no_value() -> None:
    one = Run("1", "measure", words=("measure", "--grpc", "localhost:8001", "simple"))
    two = Run("2", "measure", words=("measure", "localhost:9001", "simple", "--grpc"))
    assert setting(one) == setting(two)


def test_runs_that_did_not_finish_or_have_no_figures_are_left_out(runs: list[Run]) -> None:
    others = [replace(runs[0], id="1", state=KILLED), replace(runs[0], id="2", points=())]
    assert [len(group) for group in histories([*runs, *others]).values()] == [4]


def test_every_load_and_figure_has_a_history(runs: list[Run]) -> None:
    more = replace(
        runs[-1], id="9", points=(*runs[-1].points, Point("concurrency", 8.0, {"p50": Estimate(3.0)}))
    )
    found = figure_histories([*runs, more])
    assert [(row.figure, row.value, len(row.points)) for row in found] == [
        ("throughput", 4.0, 5),
        ("p50", 4.0, 5),
        ("p90", 4.0, 5),
        ("p99", 4.0, 5),
        ("p50", 8.0, 1),
    ]
    assert [row.is_higher_better for row in found[:2]] == [True, False]
    assert figure_histories(runs, ["p99"])[0].figure == "p99"


def test_figures_of_zero_are_left_out() -> None:
    run = Run("1", "measure", points=(Point("concurrency", 1.0, {"p50": Estimate(0.0)}),))
    assert figure_histories([run]) == ()
