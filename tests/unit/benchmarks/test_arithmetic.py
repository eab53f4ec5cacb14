"""The numbers behind the bars."""

import pytest

from benchmarks.arithmetic import (
    HELD,
    INFORMATION,
    MISSED,
    Usage,
    lag_us,
    marginal_us,
    middle_info,
    ratios,
    spread,
    starts_with_ours,
    verdict,
)
from benchmarks.bar import BenchError, Direction, Sample


def test_the_marginal_cost_excludes_start_up():
    start_up_s, each_us = 0.5, 30
    short = Usage(start_up_s + 1_000 * each_us / 1e6, 1_000)
    long = Usage(start_up_s + 11_000 * each_us / 1e6, 11_000)
    assert marginal_us(short, long) == pytest.approx(each_us)


@pytest.mark.parametrize("requests", [500, 1000])
def test_a_long_run_without_more_requests_teaches_nothing(requests: int):
    with pytest.raises(BenchError, match="1000"):
        marginal_us(Usage(1.0, 1000), Usage(2.0, requests))


def test_the_median_is_not_moved_by_one_bad_round():
    found = spread([0.2, 9.0, 0.3])
    assert (found.median, found.low, found.high) == (0.3, 0.2, 9.0)


def test_ratios_are_taken_round_by_round():
    ours = [Sample(10), Sample(40)]
    theirs = [Sample(20), Sample(80)]
    assert ratios(ours, theirs) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("value", "direction", "target", "expected"),
    [
        (0.25, Direction.AT_MOST, 0.25, HELD),
        (0.26, Direction.AT_MOST, 0.25, MISSED),
        (0.75, Direction.AT_LEAST, 0.75, HELD),
        (0.74, Direction.AT_LEAST, 0.75, MISSED),
        (9.99, Direction.AT_MOST, None, INFORMATION),
    ],
)
def test_verdict(value: float, direction: Direction, target: float | None, expected: str):
    assert verdict(value, direction, target) == expected


def test_what_was_noted_beside_the_samples_is_a_median_too():
    samples = [Sample(1, {"rate": 10}), Sample(1, {"rate": 30, "p50": 5}), Sample(1, {"rate": 20})]
    assert middle_info(samples) == {"rate": 20, "p50": 5}


def test_who_goes_first_alternates():
    assert [starts_with_ours(number) for number in range(4)] == [True, False, True, False]


def test_lag_is_behind_the_most_punctual_send() -> None:
    gap = 500_000
    punctual = [10_000_000 + number * gap for number in range(100)]
    assert lag_us(punctual, 2000, 99) == 0
    late = [time + (40_000 if number % 10 == 5 else 7_000) for number, time in enumerate(punctual)]
    assert lag_us(late, 2000, 50) == 0  # all are 7 us late: their start is not known
    assert lag_us(late, 2000, 99) == pytest.approx(33)
    assert lag_us(list(reversed(late)), 2000, 99) == pytest.approx(33)
