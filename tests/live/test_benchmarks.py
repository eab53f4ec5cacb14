"""Every bar of `make bench` still runs: ours only, with the shortest load; what it measured means nothing here."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bar import SMOKE, Bar
from benchmarks.rounds import measure_bar
from benchmarks.table import BARS
from inferometer.server import embedded
from inferometer.server.embedded import EmbeddedTriton
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
# Bars whose shortest load needs a core that is free now and then.
IN_TIME = {
    "tuner": "a budget of four seconds measures something only where other processes leave a core",
    "predict-slow_first": "levels of 0.2 s have requests only where other processes leave the server a core",
    "cluster-cpu": "clients start within a deadline that busy cores can exceed",
}
SHARED_MODELS = ("simple", "identity_fp32")


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedTriton]:
    quick = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton(load_models=SHARED_MODELS, extra_args=quick) as server:
        yield server


@pytest.fixture
def shared_server(running: EmbeddedTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars that only ask for example models share one server: starting one takes longer than their load."""

    def open_server(*arguments: Any, **named: Any) -> AbstractContextManager[EmbeddedTriton]:
        if (
            not arguments
            and set(named) == {"load_models"}
            and set(named["load_models"]) <= set(SHARED_MODELS)
        ):
            return nullcontext(running)
        return EmbeddedTriton(*arguments, **named)

    monkeypatch.setattr(embedded, "EmbeddedTriton", open_server)


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.machine(reason=IN_TIME[name])) if name in IN_TIME else name


@pytest.mark.sampled
@pytest.mark.usefixtures("shared_server")
@pytest.mark.parametrize(
    "name",
    [marked(name) for name in BY_NAME if name in sample(BY_NAME.keys() - ALIKE.keys(), BY_NAME.keys())],
)
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
