"""Regressions older than the newest run, planted in histories of one figure."""

import numpy as np
import pytest

from inferometer.compare.regression import RunsToJudge, judged
from inferometer.stats.history import FigureHistory
from inferometer.stats.trend import TrendPoint

RUNS = 21
LEVELS = {
    "step three runs ago": np.r_[np.zeros(RUNS - 3), np.full(3, 1.0)],
    "step six runs ago": np.r_[np.zeros(RUNS - 6), np.full(6, 1.0)],
    "drift": np.linspace(0, 1, RUNS),
    "recent drift": np.r_[np.zeros(RUNS // 2), np.linspace(0, 1, RUNS - RUNS // 2)],
}


def outcome(values: np.ndarray, figure: str) -> str:
    points = tuple(TrendPoint(str(n), f"2026-01-{n + 1:02}", float(value)) for n, value in enumerate(values))
    new, past = (FigureHistory(figure, "concurrency", 4.0, part) for part in (points[-1:], points[:-1]))
    return judged(RunsToJudge("measure", "m", "host", (new,), (past,))).outcome


@pytest.mark.parametrize(("figure", "size"), [("throughput", -0.05), ("p50", 0.05)])
@pytest.mark.parametrize("planted", LEVELS)
def test_an_old_regression_of_five_percent_is_never_passed(planted, figure, size):
    """Twenty histories whose runs differ by 1 % (standard deviation)."""
    chance = np.random.default_rng(7)
    noise = 1 + 0.01 * chance.standard_normal((20, RUNS))
    found = [outcome(row * (1 + size * LEVELS[planted]) * 100, figure) for row in noise]
    assert "fine" not in found
    assert found.count("regression") >= 14


def test_histories_without_a_change_are_passed():
    chance = np.random.default_rng(8)
    found = [outcome(100 * row, "throughput") for row in 1 + 0.01 * chance.standard_normal((20, RUNS))]
    assert "regression" not in found
    assert found.count("fine") >= 18
