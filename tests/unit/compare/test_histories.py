"""Regressions older than the newest run, planted in histories of one figure."""

import numpy as np
import pytest

from inferometer.compare.regression import RegressionCheck, RunsToJudge, judged
from inferometer.stats.history import FigureHistory
from inferometer.stats.trend import TrendPoint
from tests.support.samples import sample

RUNS = 21
LEVELS = {
    "step three runs ago": np.r_[np.zeros(RUNS - 3), np.full(3, 1.0)],
    "step six runs ago": np.r_[np.zeros(RUNS - 6), np.full(6, 1.0)],
    "drift": np.linspace(0, 1, RUNS),
    "recent drift": np.r_[np.zeros(RUNS // 2), np.linspace(0, 1, RUNS - RUNS // 2)],
}


def check(values: np.ndarray, figure: str) -> RegressionCheck:
    points = tuple(TrendPoint(str(n), f"2026-01-{n + 1:02}", float(value)) for n, value in enumerate(values))
    new, past = (FigureHistory(figure, "concurrency", 4.0, part) for part in (points[-1:], points[:-1]))
    return judged(RunsToJudge("measure", "m", "host", (new,), (past,)))


def outcome(values: np.ndarray, figure: str) -> str:
    return check(values, figure).outcome


@pytest.mark.parametrize(("figure", "size"), [("throughput", -0.05), ("p50", 0.05)])
@pytest.mark.parametrize("planted", LEVELS)
def test_an_old_regression_of_five_percent_is_never_passed(planted, figure, size):
    """Twenty histories whose runs differ by 1 % (standard deviation)."""
    chance = np.random.default_rng(7)
    noise = 1 + 0.01 * chance.standard_normal((20, RUNS))
    found = [outcome(row * (1 + size * LEVELS[planted]) * 100, figure) for row in noise]
    assert "fine" not in found
    assert found.count("regression") >= 14


@pytest.mark.sampled
@pytest.mark.parametrize("noise", sample((0.02,), (0.005, 0.01, 0.015, 0.02, 0.03)))
@pytest.mark.parametrize("ago", sample((1, 3), (1, 2, 3, 4, 5)))
def test_a_pass_excludes_no_regression_as_small_as_the_planted_one(ago, noise):
    """A step that the noise hides may pass, but then the answer names a larger one as excluded."""
    chance = np.random.default_rng(9)
    step = np.r_[np.zeros(RUNS - ago), np.full(ago, -0.05)]
    for row in 1 + noise * chance.standard_normal((sample(10, 20), RUNS)):
        found = check(row * (1 + step) * 100, "throughput")
        (judgement,) = found.judgements
        if found.outcome == "fine":
            assert judgement.excluded_percent > 5, judgement


def test_histories_without_a_change_are_passed():
    chance = np.random.default_rng(8)
    found = [outcome(100 * row, "throughput") for row in 1 + 0.01 * chance.standard_normal((20, RUNS))]
    assert "regression" not in found
    assert found.count("fine") >= 18
