"""Service times from several loads: similar ones are weighted by their executions, stretched ones are ignored."""

import pytest

from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.pipeline import Pipeline, Station
from inferometer.twin.service import steadied


def seen(concurrency: int, rate: float, own_s: float, *, items: int = 1, batch: float = 1.0) -> Observation:
    step = Step("step", 1.0, own_s, own_s, batch=batch, setup=StepSetup())
    return Observation(concurrency, items, rate, concurrency / rate, (step,))


def station(service_s: float, *rows: tuple[Observation, float], cpu: float = 1.0) -> Station:
    pipeline = Pipeline((Station("step", service_s / 2, service_s / 2, cpu=cpu),))
    (found,) = steadied(pipeline, rows[0][0], rows).stations
    return found


def test_similar_loads_are_weighted_by_their_executions() -> None:
    found = station(0.100, (seen(1, 10, 0.100), 10.0), (seen(2, 10, 0.106), 20.0))
    assert found.service_s(1) == pytest.approx(0.104)
    assert found.fixed_s == pytest.approx(found.item_s)


def test_stretched_loads_and_batches_are_ignored() -> None:
    light = (seen(1, 10, 0.100), 10.0)
    stretched = (seen(8, 40, 0.200), 10.0)
    batches = (seen(8, 40, 0.105, batch=4.0), 10.0)
    clients = (seen(1, 80, 0.105, items=8, batch=8.0), 10.0)
    assert station(0.100, light, stretched, batches, clients).service_s(1) == pytest.approx(0.100)


def test_a_step_without_a_core_keeps_its_observed_time() -> None:
    """It waited 10 of 100 ms for a core that it hardly needs, which the simulation does not model."""
    light = (seen(1, 10, 0.100), 10.0)
    assert station(0.090, light, cpu=0.0).service_s(1) == pytest.approx(0.100)
    assert station(0.090, light, cpu=1.0).service_s(1) == pytest.approx(0.090)
