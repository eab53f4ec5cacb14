"""The two stopping rules of a level."""

from dataclasses import replace

import pytest

from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.stopping import Precision, Stability, is_over, judge_precision, judge_stability

RULE = Stability(percentage=10, max_trials=10, latency_limit_ms=0, is_lenient=False)


def windows(*pairs):
    return [
        WindowFigures(float(k), 10**9, int(rate), 0, rate, latency, latency, 0)
        for k, (rate, latency) in enumerate(pairs)
    ]


STEADY = (100.0, 1000)


@pytest.mark.parametrize(
    ("found", "is_done", "is_stable"),
    [
        ([STEADY], False, False),
        ([STEADY, STEADY], False, False),
        ([STEADY] * 3, True, True),
        ([(1.0, 9)] * 2 + [STEADY] * 3, True, True),
        ([STEADY, STEADY, (110.0, 1000)], True, True),
        ([STEADY, STEADY, (110.1, 1000)], False, False),
        ([STEADY, STEADY, (100.0, 1101)], False, False),
        ([STEADY, STEADY, (0.0, 0)], False, False),
        ([(0.0, 0)] * 3, False, False),
        ([(100.0, 1000), (200.0, 1000)] * 5, True, False),
    ],
)
def test_stability_compares_the_last_three_windows(found, is_done, is_stable):
    verdict = judge_stability(RULE, windows(*found))
    assert (verdict.is_done, verdict.is_stable) == (is_done, is_stable)


def test_the_remark_on_unstable_throughput_names_its_unit():
    verdict = judge_stability(
        replace(RULE, rate_unit="requests/s"), windows((100.0, 1000), (200.0, 1000)) * 5
    )
    assert "ranged from 100 to 200 requests/s" in verdict.remark.text


def test_max_trials_below_three_can_never_be_stable():
    rule = Stability(percentage=1000, max_trials=2, latency_limit_ms=0, is_lenient=False)
    assert not judge_stability(rule, windows(STEADY)).is_done
    verdict = judge_stability(rule, windows(STEADY, STEADY))
    assert verdict.is_done
    assert not verdict.is_stable


def test_one_window_over_the_limit_stops_an_unstable_level():
    rule = Stability(percentage=10, max_trials=10, latency_limit_ms=5, is_lenient=False)
    verdict = judge_stability(rule, windows((100, 1_000_000), (50, 6_000_000), (100, 1_000_000)))
    assert verdict.is_done
    assert not verdict.is_stable


def test_asynchronous_levels_may_drift_in_latency_only():
    rule = Stability(percentage=10, max_trials=3, latency_limit_ms=0, is_lenient=True)
    drifting = windows((100, 1000), (100, 2000), (100, 3000))
    verdict = judge_stability(rule, drifting)
    assert verdict.is_stable
    assert verdict.remark is not None
    assert not judge_stability(rule, windows((100, 1000), (200, 1000), (100, 1000))).is_stable


@pytest.mark.parametrize(
    ("ns", "limit", "over"), [(39_999_999, 40, False), (40_000_000, 40, True), (10**12, 0, False)]
)
def test_limit_counts_whole_milliseconds(ns, limit, over):
    assert is_over(ns, limit) is over


TIGHT, LOOSE, UNKNOWN = Estimate(100, 99, 101), Estimate(100, 80, 120), Estimate(100)


@pytest.mark.parametrize(
    ("estimates", "elapsed_s", "is_done", "reason"),
    [
        ([TIGHT, TIGHT], 1, True, None),
        ([TIGHT, LOOSE], 1, False, None),
        ([TIGHT, UNKNOWN], 1, False, None),
        ([TIGHT, LOOSE], 10, True, "1 ±20 %"),
        ([UNKNOWN, TIGHT], 10, True, "0 has too few samples"),
    ],
)
def test_precision_requires_narrow_intervals_or_the_full_time(estimates, elapsed_s, is_done, reason):
    rule = Precision(precision=0.02, duration_ns=10 * 10**9)
    named = [(str(number), estimate) for number, estimate in enumerate(estimates)]
    verdict = judge_precision(rule, elapsed_s * 10**9, named)
    assert verdict.is_done is is_done
    assert (reason is None) == (verdict.remark is None)
    if reason is not None:
        assert reason in verdict.remark.text
