"""Expectation of a new run, and the good runs of a history."""

import math

import numpy as np
import pytest

from benchmarks.trend import gated, history
from inferometer.stats.expectation import FALSE_FAILURES, FEWEST_GOOD, Parts, expectation, good_parts
from inferometer.stats.intervals import student_t
from inferometer.stats.trend import TrendPoint
from tests.support.planted_store import noisy
from tests.support.samples import sample


def points(*parts: list[float]) -> tuple[TrendPoint, ...]:
    return history(np.log([value for part in parts for value in part]) - np.log(1000))


def spans(parts: Parts) -> list[tuple[int, int]]:
    return [(int(part[0].run_id, 16), int(part[-1].run_id, 16)) for part in parts]


def test_the_next_run_is_expected_around_the_good_ones() -> None:
    past = points(noisy(20, seed=1))
    found = expectation(good_parts(past, is_higher_better=True), looks=3)
    assert found is not None
    assert math.exp(found.middle) == pytest.approx(1000, rel=0.01)
    assert 0.02 < found.unusual < 0.07
    assert found.unusual < found.decisive < 0.12
    assert found.margin(1) == pytest.approx(found.unusual)
    assert found.margin(4) < found.unusual * 0.6


def test_few_runs_give_no_expectation() -> None:
    past = points(noisy(FEWEST_GOOD - 1, seed=1))
    assert expectation(good_parts(past, is_higher_better=True), looks=1) is None


def test_a_worse_part_is_not_good() -> None:
    past = points(noisy(12, seed=1), noisy(6, seed=2, base=900))
    assert spans(good_parts(past, is_higher_better=True)) == [(0, 11)]
    assert spans(good_parts(past, is_higher_better=False)) == [(0, 11), (12, 17)]


def test_a_better_part_is_the_new_normal_at_once() -> None:
    past = points(noisy(12, seed=1), noisy(4, seed=2, base=1200))
    parts = good_parts(past, is_higher_better=True)
    assert spans(parts) == [(0, 11), (12, 15)]
    found = expectation(parts, looks=1)
    assert found is not None
    assert math.exp(found.middle) == pytest.approx(1200, rel=0.02)
    assert found.unusual < 0.07  # the spread of all parts


def test_a_fixed_part_is_good_again() -> None:
    past = points(noisy(10, seed=1), noisy(5, seed=2, base=900), noisy(6, seed=3))
    assert spans(good_parts(past, is_higher_better=True)) == [(0, 9), (15, 20)]


def test_a_half_fixed_part_is_not_good() -> None:
    past = points(noisy(10, seed=1), noisy(5, seed=2, base=800), noisy(6, seed=3, base=920))
    assert spans(good_parts(past, is_higher_better=True)) == [(0, 9)]


def test_an_accepted_part_is_good() -> None:
    past = points(noisy(12, seed=1), noisy(4, seed=2, base=900))
    parts = good_parts(past, is_higher_better=True, accepted=12)
    assert spans(parts) == [(0, 11), (12, 15)]
    found = expectation(parts, looks=1)
    assert found is not None
    assert math.exp(found.middle) == pytest.approx(900, rel=0.02)


def test_a_spoiled_run_in_the_history_does_not_blind_the_gate() -> None:
    values = noisy(20, seed=1)
    clean = expectation((points(values),), looks=3)
    values[10] *= 0.6
    spoiled = expectation((points(values),), looks=3)
    assert clean is not None
    assert spoiled is not None
    assert spoiled.unusual < 2 * clean.unusual


@pytest.mark.sampled
@pytest.mark.parametrize("noise", sample(["t3"], ["normal", "t3"]))
def test_false_failures_are_as_rare_as_specified(noise: str) -> None:
    """benchmarks/trend.py prints the rates of all kinds of noise."""
    _, alone, together = gated(noise, 0.015, 20, sample(20, 300), 3, 0.0)
    assert alone <= sample(0, 3 * FALSE_FAILURES)
    assert together <= sample(0, FALSE_FAILURES)


@pytest.mark.sampled
def test_a_regression_of_8_percent_fails_alone_or_with_the_next_run() -> None:
    suspected, alone, together = gated("normal", 0.015, 20, sample(25, 200), 3, 0.08)
    assert suspected + alone > 0.95
    assert alone > 0.7
    assert together > 0.95


def test_the_margin_is_student_t_of_the_spread_of_a_run_around_the_mean() -> None:
    logs = [-0.01, 0.01] * 6
    found = expectation((history(np.array(logs)),), looks=2)
    assert found is not None
    error = 0.01 * math.sqrt(12 / 11) * math.sqrt(1 + 1 / 12)
    assert found.unusual == pytest.approx(student_t(1 - FALSE_FAILURES / 2, 11) * error)
