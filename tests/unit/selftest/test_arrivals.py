"""The Kolmogorov-Smirnov test separates Poisson arrivals from others, with few false alarms."""

import itertools
import math
import random

import pytest

from inferometer.base.units import NS_PER_S
from inferometer.load.plan import Poisson
from inferometer.selftest import accuracy
from inferometer.selftest.accuracy import ks_distance, ks_p_value


def test_distance_of_a_single_gap_is_the_larger_side() -> None:
    gap = math.log(4)  # three quarters of all gaps at rate 1 are shorter
    assert ks_distance([gap], 1.0) == pytest.approx(0.75)


def test_distance_by_hand() -> None:
    gaps = [-math.log(1 - share) for share in (0.1, 0.5, 0.6)]
    # The steps are at 1/3, 2/3 and 1; the last one is 0.4 above the expectation.
    assert ks_distance(gaps, 1.0) == pytest.approx(0.4)


@pytest.mark.parametrize(("scaled", "p"), [(1.224, 0.10), (1.358, 0.05), (1.628, 0.01), (1.949, 0.001)])
def test_p_values_are_those_of_the_tables(scaled: float, p: float) -> None:
    assert ks_p_value(scaled / math.sqrt(10**8), 10**8) == pytest.approx(p, rel=0.01)


def test_p_values_fall_from_one_to_nothing() -> None:
    found = [ks_p_value(step / 1000, 1000) for step in range(1000)]
    assert found[0] == 1
    assert found[-1] == 0
    assert all(earlier >= later for earlier, later in itertools.pairwise(found))


def test_true_arrivals_are_rejected_at_the_significance_level() -> None:
    chance = random.Random(5)
    doubted = 0
    for _ in range(400):
        gaps = [chance.expovariate(100) for _ in range(300)]
        doubted += ks_p_value(ks_distance(gaps, 100), 300) < 0.05
    assert 8 <= doubted <= 34  # 20 expected


@pytest.mark.parametrize(
    "gaps",
    [
        [0.001] * 500,
        [0.0005, 0.0015] * 250,
        [random.Random(number).expovariate(900 if number % 2 else 2500) for number in range(500)],
    ],
    ids=["constant", "two lengths", "too fast"],
)
def test_other_arrivals_are_detected(gaps: list[float]) -> None:
    assert ks_p_value(ks_distance(gaps, 1000), len(gaps)) < accuracy.SURE


def test_the_schedule_of_the_self_test_is_not_an_outlier() -> None:
    for count in (500, 3000):
        plan = Poisson(1000, accuracy.SEED)
        times = [plan.due_ns(number) for number in range(count)]
        gaps = [(later - earlier) / NS_PER_S for earlier, later in itertools.pairwise(times)]
        assert ks_p_value(ks_distance(gaps, 1000), len(gaps)) > 0.2
