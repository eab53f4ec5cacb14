"""Changes in the history of a figure: found where they are, and hardly ever where there is none."""

import numpy as np
import pytest

from benchmarks.trend import NOISES, false_alarms, history
from inferometer.stats.trend import (
    FALSE_ALARMS,
    FEWEST,
    TrendPoint,
    changes,
    missing_runs,
    smallest_visible,
)
from tests.support.planted_store import noisy
from tests.support.samples import sample


def points(values: list[float]) -> tuple[TrendPoint, ...]:
    return history(np.log(values) - np.log(1000))


@pytest.mark.sampled
@pytest.mark.parametrize("at", [5, 7, 10, 13, 17])
def test_a_regression_of_8_percent_in_20_runs_is_found_between_its_two_runs(at: int) -> None:
    right, histories = 0, sample(5, 20)
    for seed in range(histories):
        found = changes(points(noisy(20, seed=seed, step=-0.08, at=at)))
        assert len(found) == 1
        (change,) = found
        assert abs(change.index - at) <= 1
        assert change.low < 0.92 < change.high or abs(change.ratio / 0.92 - 1) < 0.03
        assert change.high < 1
        assert (change.before_id, change.after_id) == (f"{change.index - 1:08x}", f"{change.index:08x}")
        right += change.index == at
    assert right >= sample(4, 18)


def test_20_histories_without_a_change_show_none() -> None:
    for seed in range(20):
        assert changes(points(noisy(20, seed=seed))) == ()


def test_a_fixed_regression_is_two_changes() -> None:
    values = noisy(20, seed=1, step=-0.08, at=7)[:13] + noisy(20, seed=2)[13:]
    down, up = changes(points(values))
    assert (down.index, up.index) == (7, 13)
    assert down.ratio < 1 < up.ratio


def test_steps_in_a_long_history_are_all_found() -> None:
    values = np.array(noisy(90, seed=5))
    values[30:] *= 1.1
    values[60:] *= 0.93
    assert [change.index for change in changes(points(list(values)))] == [30, 60]


def test_a_single_bad_run_is_not_a_change_and_hides_none() -> None:
    values = noisy(30, seed=3)
    values[12] *= 0.5
    assert changes(points(values)) == ()
    after = noisy(30, seed=3, step=-0.08, at=18)
    after[12] *= 0.8
    assert [change.index for change in changes(points(after))] == [18]


def test_two_bad_runs_at_the_end_are_not_a_change_but_three_are() -> None:
    assert changes(points(noisy(20, seed=4, sd=0.005, step=-0.2, at=18))) == ()
    assert [row.index for row in changes(points(noisy(20, seed=4, sd=0.005, step=-0.2, at=17)))] == [17]


def test_less_than_a_percent_is_not_reported() -> None:
    values = noisy(40, seed=6, sd=0.0005, step=-0.005, at=20)
    assert changes(points(values)) == ()
    assert [change.index for change in changes(points(values), least=0.001)] == [20]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_short_history_reports_how_many_runs_are_missing(count: int) -> None:
    values = noisy(count, seed=1)
    assert changes(points(values)) == ()
    assert missing_runs(count) == FEWEST - count
    assert smallest_visible(points(values)) is None


def test_six_runs_show_an_obvious_change() -> None:
    assert missing_runs(6) == 0
    (change,) = changes(points(noisy(6, seed=2, sd=0.01, step=-0.4, at=3)))
    assert change.index == 3


@pytest.mark.parametrize("values", [[5.0] * 12, [5.0] * 30, [5.0] * 10 + [4.0] * 11, [5.0] * 6 + [4.0] * 6])
def test_figures_without_any_noise(values: list[float]) -> None:
    found = changes(points(values))
    assert [change.index for change in found] == ([values.index(4.0)] if 4.0 in values else [])


def test_the_scale_of_a_figure_does_not_matter() -> None:
    values = noisy(40, seed=8, step=0.1, at=15)
    one, two = changes(points(values)), changes(points([value * 1e-6 for value in values]))
    assert [row.index for row in one] == [row.index for row in two] == [15]
    assert one[0].ratio == pytest.approx(two[0].ratio)


def test_the_least_change_that_can_be_seen_shrinks_with_more_runs() -> None:
    few, many = (smallest_visible(points(noisy(count, seed=1))) for count in (10, 40))
    assert few is not None
    assert many is not None
    assert 0.01 < many < few < 0.2


@pytest.mark.sampled
@pytest.mark.parametrize("noise", [name for name in NOISES if name != "related"])
@pytest.mark.parametrize(
    ("length", "histories"),
    sample([(6, 40), (20, 40)], [(6, 200), (12, 200), (20, 200), (40, 50), (120, 20)]),
)
def test_false_alarms_are_as_rare_as_specified(noise: str, length: int, histories: int) -> None:
    """The long version is benchmarks/trend.py; two in 200 may be chance."""
    assert false_alarms(noise, length, histories, seed=7) * histories <= max(2, 4 * FALSE_ALARMS * histories)
