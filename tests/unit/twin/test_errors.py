"""Residuals at measured loads extended to others: exact near them, wider with growing distance."""

import math
from dataclasses import replace

import pytest

from inferometer.twin.errors import Guess, Spot, band, distance, error_models, nearest
from inferometer.twin.twin import FIGURES, Anchor, ErrorModel, LoadPart, StepSetting, TwinLoad


def spot(
    load: float, *, mode: str = "concurrency", beside: float = 0.0, settings: tuple[StepSetting, ...] = ()
) -> Spot:
    return Spot(LoadPart("m", mode, load), load, beside, settings)  # type: ignore[arg-type]


def anchor(load: float, residual: float, noise: float = 0.001, model: str = "m") -> Anchor:
    names = dict.fromkeys(FIGURES, residual)
    part = LoadPart(model, "concurrency", load)
    return Anchor(
        model, TwinLoad((part,)), load, names, dict.fromkeys(FIGURES, noise), dict.fromkeys(FIGURES, 1.0)
    )


ERROR = ErrorModel(0.1, 0.1)
TWICE = StepSetting("m", "instances", 2.0)


def test_distances_add_up() -> None:
    here = spot(4)
    assert distance(here, here) == 0
    assert distance(here, spot(8)) == pytest.approx(math.log(2))
    assert distance(here, spot(4, beside=3)) == pytest.approx(math.log(4))
    assert distance(here, spot(4, mode="request_rate")) > 0
    assert distance(here, spot(4, settings=(TWICE,))) > 0
    four = replace(TWICE, value=4.0)
    assert distance(spot(4, settings=(TWICE,)), spot(8, settings=(four,))) == pytest.approx(2 * math.log(2))
    assert distance(spot(1), spot(8)) == distance(spot(8), spot(1))


def test_at_a_measured_load_the_forecast_equals_the_measurement() -> None:
    found = band(Guess("p99", 100.0, 0.0), spot(4), [anchor(4, math.log(1.2))], ERROR)
    assert found.value == pytest.approx(120, rel=0.01)
    assert found.low < 120 < found.high


def test_a_forecast_between_two_loads_uses_both() -> None:
    rows = [anchor(2, 0.2), anchor(8, -0.2)]
    found = band(Guess("p99", 100.0, 0.0), spot(4), rows, ERROR)
    assert found.value == pytest.approx(100, rel=0.01)


def test_far_from_measured_loads_the_simulation_is_uncorrected_and_less_certain() -> None:
    rows = [anchor(2, 0.2), anchor(4, 0.2)]
    values, widths = [], []
    for load in (4, 8, 32, 512):
        found = band(Guess("p99", 100.0, 0.0), spot(load), rows, ERROR)
        values.append(found.value)
        widths.append(found.high / found.low)
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(100, rel=0.02)
    assert widths == sorted(widths)


def test_the_interval_includes_random_variation() -> None:
    rows = [anchor(4, 0.0)]
    sure, unsure = (band(Guess("p99", 100.0, chance), spot(4), rows, ERROR) for chance in (0.0, 0.3))
    assert unsure.high > 1.3 * sure.high


def test_throughput_equals_a_rate_that_the_server_keeps_up_with() -> None:
    place = spot(4, mode="request_rate")
    rows = [anchor(4, 0.3)]
    kept = band(Guess("throughput", 50.0, 0.0, is_limited=False), place, rows, ERROR)
    limited = band(Guess("throughput", 50.0, 0.0), place, rows, ERROR)
    assert kept.value == 50
    assert limited.value > 55


def test_badly_explained_models_have_wider_intervals() -> None:
    good = [anchor(load, 0.001, model="good") for load in (1, 2, 4, 8)]
    bad = [anchor(load, (-1) ** load * 0.4, model="bad") for load in (1, 2, 3, 4)]
    found = error_models([*good, *bad])
    assert found["bad"]["p99"].base > 2 * found["good"]["p99"].base
    alone = error_models(good)["good"]["p99"]
    assert alone.base < found["good"]["p99"].base


def test_without_measured_loads_the_distance_is_the_maximum() -> None:
    assert nearest(spot(1), []) > 1
    assert band(Guess("p99", 100.0, 0.0), spot(1), [], ERROR).high > 130
