"""Shifts of a history's level that a single run is too noisy to show."""

import numpy as np
import pytest

from inferometer.stats.level_shift import level_shift

RATE = 0.005 / 3


def history(seed, *, runs=21, sd=0.015, step=0.0, last=4, drift=0.0):
    logs = sd * np.random.default_rng(seed).normal(size=runs)
    logs[runs - last :] += np.log1p(step)
    return logs + np.linspace(0, np.log1p(drift), runs)


def chances(**planted):
    found = [level_shift(history(seed, **planted), 1, sign=-1, rate=RATE) for seed in range(20)]
    return [1.0 if row is None else row.chance for row in found]


@pytest.mark.parametrize("planted", [{"step": -0.05, "sd": 0.01}, {"step": -0.05}, {"drift": -0.08}])
def test_old_steps_and_drifts_are_found(planted):
    assert sum(chance <= 0.01 for chance in chances(**planted)) >= 18


def test_unchanged_histories_have_none():
    assert sum(chance <= RATE for chance in chances()) == 0
    assert sum(chance <= 0.05 for chance in chances()) <= 3


def test_the_probability_is_calibrated():
    """Among histories without a change, as many as the rate says are as strong, whatever the shape of the noise."""
    chance = np.random.default_rng(5)
    found = [level_shift(list(chance.standard_t(3, size=21)), 1, sign=1, rate=0.02) for _ in range(150)]
    assert sum(row is not None and row.chance <= 0.05 for row in found) <= 15


def test_a_run_that_is_back_at_the_old_level_has_no_shift():
    logs = history(1, step=-0.1, last=4)
    logs[-1] = 0.0
    assert level_shift(logs, 1, sign=-1, rate=RATE) is None


def test_the_change_is_where_it_was_planted():
    found = level_shift(history(3, step=-0.05), 1, sign=-1, rate=RATE)
    assert found.start == 17
    assert found.percent.low < -5.0 < found.percent.high < 0
    assert level_shift(history(3, step=-0.05), 1, sign=1, rate=RATE) is None
