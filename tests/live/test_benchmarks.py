"""Every bar of `make bench` still runs: ours only, with the shortest load; what it measured means nothing here."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
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


@pytest.mark.sampled
@pytest.mark.usefixtures("shared_server")
@pytest.mark.parametrize("name", sample([name for name in BY_NAME if name not in ALIKE], list(BY_NAME)))
def test_bar_can_be_measured(name: str) -> None:
    outcome = measure_bar(BY_NAME[name], SMOKE, print)
    assert outcome.ours, outcome.note


@pytest.mark.parametrize("name", ALIKE)
def test_a_bar_that_is_left_out_runs_the_code_of_another(name: str) -> None:
    assert _code(BY_NAME[name]) is _code(BY_NAME[ALIKE[name]])


def _code(bar: Bar) -> object:
    return bar.open.__wrapped__.__code__  # type: ignore[attr-defined]  # of the function behind the context manager
