"""Every bar of `make bench` still runs: ours only, with the shortest load; what it measured means nothing here."""

import json
from pathlib import Path

import pytest

from benchmarks.bar import SMOKE, Bar
from benchmarks.rounds import measure_bar
from benchmarks.table import BARS
from tests.support.samples import sample

# Bars that run the code of the one beside them with another number, or on another model: `make samples` has them.
ALIKE = {
    "http-cpu-1": "http-cpu-8",
    "grpc-cpu-1": "grpc-cpu-8",
    "nginx-rate-64": "nginx-rate-8",
    "cluster-cpu-8": "cluster-cpu",
    "predict-no_batches": "predict-slow_first",
    "predict-no_cores": "predict-slow_first",
}
BY_NAME = {bar.name: bar for bar in BARS}
ROOT = Path(__file__).parents[2]


@pytest.mark.sampled
@pytest.mark.parametrize("name", sample([name for name in BY_NAME if name not in ALIKE], list(BY_NAME)))
def test_bar_can_be_measured(name: str) -> None:
    outcome = measure_bar(BY_NAME[name], SMOKE, print)
    assert outcome.ours, outcome.note


def test_no_bar_with_published_figures_is_gone() -> None:
    published = json.loads((ROOT / "benchmarks" / "last.json").read_text())["bars"]
    assert {bar["name"] for bar in published} <= set(BY_NAME)


@pytest.mark.parametrize("name", ALIKE)
def test_a_bar_that_is_left_out_runs_the_code_of_another(name: str) -> None:
    assert _code(BY_NAME[name]) is _code(BY_NAME[ALIKE[name]])


def _code(bar: Bar) -> object:
    return bar.open.__wrapped__.__code__  # type: ignore[attr-defined]  # of the function behind the context manager
