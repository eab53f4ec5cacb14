"""A slow start is detected and excluded; good windows are not."""

import numpy as np
import pytest

from inferometer.base.units import INFERENCES
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.stopping import cold_windows, fast_start, steady_from

RUNS = 300
WINDOWS = 20


def noise(rng, spread=0.03, count=WINDOWS):
    return 100 * (1 + spread * rng.standard_normal(count))


STARTS = {
    "one slow window": [300],
    "two that are a little slow": [130, 125],
    "a warm-up that fades": [400, 250, 170, 130],
    "a third of the time": [200, 210, 190, 205, 195, 200],
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_start_that_differs_from_the_rest_is_found(start):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(RUNS):
        series = noise(rng)
        series[: len(start)] = start
        found.append(steady_from(series))
    assert np.mean([abs(cut - len(start)) <= 1 for cut in found]) > 0.97


def memory(rng):
    """Series of correlated windows."""
    values = [0.0]
    for shock in rng.standard_normal(WINDOWS):
        values.append(0.6 * values[-1] + shock)
    return 100 + 3 * np.array(values[1:])


WITHOUT = {
    "noise": noise,
    "much noise": lambda rng: noise(rng, 0.2),
    "few windows": lambda rng: noise(rng, 0.03, 6),
    "a long tail": lambda rng: rng.gamma(4, 25, WINDOWS),
    "memory": memory,
}


@pytest.mark.parametrize("make", WITHOUT.values(), ids=WITHOUT)
def test_good_windows_are_rarely_excluded(make):
    rng = np.random.default_rng(2)
    assert np.mean([steady_from(make(rng)) > 0 for _ in range(RUNS)]) <= 0.02


@pytest.mark.parametrize(
    "values",
    [
        np.full(20, 7.0),
        np.linspace(100, 200, 20),  # drift has no steady part
        np.array([100.0, 300.0] * 10),  # stalls
        np.array([100.0] * 19 + [300.0]),  # the end is not the start
        np.array([300.0, 100.0, 100.0, 100.0, 100.0]),  # too few to tell
        np.array([50.0, 60.0] + [100.0] * 18),  # better than the rest
        np.array([]),
    ],
)
def test_other_courses_are_left_alone(values):
    assert steady_from(values) == 0


def windows(latencies, rates, failed=0):
    return [
        WindowFigures(float(k), 10**9, int(rate), failed if k == 0 else 0, rate, latency, latency, 0)
        for k, (latency, rate) in enumerate(zip(latencies, rates, strict=True))
    ]


def test_latency_or_throughput_alone_can_show_it():
    assert cold_windows(windows([9000] + [1000] * 9, [100.0] * 10)) == 1
    assert cold_windows(windows([1000] * 10, [20.0, 30.0] + [100.0] * 8)) == 2


@pytest.mark.parametrize(
    ("latencies", "rates"),
    [
        ([1000] * 10, [414.0, 300.0] + [225.0] * 8),  # more answered
        ([500, 700] + [1000] * 8, [225.0] * 10),  # each taking less time
        ([500, 700] + [1000] * 8, [414.0, 300.0] + [225.0] * 8),
        (
            [3000, 2000] + [1000] * 8,
            [414.0, 300.0] + [225.0] * 8,
        ),  # more answered at once, each taking longer
        ([500, 700] + [1000] * 8, [100.0, 150.0] + [225.0] * 8),  # a queue that grows
    ],
)
def test_a_faster_start_is_never_excluded(latencies, rates):
    assert cold_windows(windows(latencies, rates)) == 0


def test_slow_windows_before_a_fast_one_are_excluded():
    assert cold_windows(windows([9000, 9000, 500] + [1000] * 9, [100.0] * 12)) == 2


def test_a_faster_start_is_named():
    found = fast_start(windows([1000] * 10, [414.0, 386.0] + [225.0] * 8), INFERENCES)
    assert (found.kind, found.text) == (
        "faster start",
        "the first 2.00 s had 400 infer/s, the rest 225: the server got slower",
    )
    assert "400 requests/s" in fast_start(windows([1000] * 10, [400.0] * 2 + [225.0] * 8), "requests/s").text
    assert fast_start(windows([1000] * 10, [225.0] * 10), INFERENCES) is None
    assert fast_start(windows([1000] * 10, [100.0] + [225.0] * 9), INFERENCES) is None


def test_windows_with_failures_are_never_excluded():
    assert cold_windows(windows([9000] + [1000] * 9, [100.0] * 10, failed=3)) == 0
