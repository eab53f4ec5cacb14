"""Long and few requests on a simulated server with continuous batching: throughput, starts, intervals.

The full sample, 60 levels of each case, is in `make trust`.
"""

import random
from dataclasses import replace

import pytest

from inferometer.base import status
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.measure.instrument import Instrument, LoadPoint, Ramp
from inferometer.measure.level import measure_level
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.batching import Troubles, measured, stationary
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

TRUTH_S = 120.0


@pytest.mark.parametrize(("lengths", "users"), [("fixed 64", 1), ("fixed 64", 32), ("32..96", 8)])
def test_tokens_per_second_of_a_short_level_are_those_of_the_stationary_server(lengths, users):
    truth = stationary(lengths, users, TRUTH_S)
    found = measured(lengths, users, seed=3).measurement
    tokens = found.tokens.output_interval
    assert tokens.value == pytest.approx(truth.tokens_per_s, rel=0.012)
    assert tokens.relative_half_width < 0.05
    assert tokens.low * 0.995 <= truth.tokens_per_s <= tokens.high * 1.005


def test_requests_per_second_agree_with_the_mean_latency_beside_them():
    found = measured("32..96", 32, seed=4).measurement
    by_latency = 32 * NS_PER_S / found.latency.mean_ns
    assert found.infer_per_s.value == pytest.approx(by_latency, rel=0.005)
    assert found.infer_per_s.low < by_latency < found.infer_per_s.high


@pytest.mark.parametrize("users", [1, 8, 64])
def test_with_equal_lengths_requests_are_as_precise_as_tokens(users):
    found = measured("fixed 64", users, seed=5).measurement
    tokens = found.tokens.output_interval
    by_latency = users * NS_PER_S / found.latency.mean_ns
    assert found.infer_per_s.relative_half_width <= 1.1 * tokens.relative_half_width
    assert found.infer_per_s.low <= by_latency <= found.infer_per_s.high
    assert found.infer_per_s.low <= tokens.value / 64 <= found.infer_per_s.high


def test_users_of_long_answers_do_not_start_together():
    first = measured("fixed 64", 32, seed=1).first_round
    assert first.request_count >= 32
    together = measured("fixed 64", 32, seed=1, ramp_ns=0)
    spread = measured("fixed 64", 32, seed=1)
    assert together.first_round is None
    ttft = [level.measurement.streaming.first.percentile_ns(50) for level in (together, spread)]
    assert ttft[1] < ttft[0] / 3  # in lockstep all prompts are read at once


@pytest.mark.parametrize("users", [8, 32, 64])
def test_users_start_so_that_no_two_stay_in_step(users):
    """Answers of equal length keep the pattern of their starts: prompts that are read together show in the p99."""
    truth, found = stationary("fixed 64", users, TRUTH_S), measured("fixed 64", users, seed=2).measurement
    first, gaps = found.streaming.first, found.streaming.gaps
    figures = (first.percentile_ns(50), first.percentile_ns(99), gaps.percentile_ns(99))
    assert figures == pytest.approx((truth.first_p50_ns, truth.first_p99_ns, truth.gap_p99_ns), rel=0.03)


def test_a_ramp_that_is_given_takes_its_time():
    level = measured("fixed 64", 8, seed=1, ramp_ns=4 * NS_PER_S)
    assert level.first_round.duration_ns >= 4 * NS_PER_S


def test_a_server_that_compiles_by_shape_counts_from_when_it_is_steady_or_says_so():
    truth = stationary("fixed 64", 8, TRUTH_S)
    level = measured("fixed 64", 8, seed=1, ramp_ns=0, troubles=Troubles(first_slower=3.0, slow_until_s=4.0))
    tokens = level.measurement.tokens.output_interval
    is_covered = tokens.low * 0.99 <= truth.tokens_per_s <= tokens.high * 1.01
    assert level.start is not None
    assert is_covered or level.doubt is not None


# --- by rate


def by_rate(per_s, *, is_random, seed, draw, level_settings, seconds=10):
    source, clock = random.Random(f"service {seed}"), FakeClock()  # independent of the arrivals
    server = FakeServer(lambda number, sent_ns: Reply(round(draw(source))), servers=1)
    instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
    duration_ns = seconds * NS_PER_S
    settings = level_settings(
        window_ns=duration_ns // 20, rule=Precision(0.05, duration_ns), finds_warm_up=True
    )
    schedule = Poisson(per_s, seed) if is_random else Constant(per_s)
    return measure_level(instrument, settings, LoadPoint("request_rate", per_s, Open(schedule), per_s))


def ten_ms(source):
    return 10 * NS_PER_MS


def around_ten_ms(source):
    return 10 * NS_PER_MS * source.uniform(0.8, 1.2)


def exponential(source):
    return source.expovariate(1 / (10 * NS_PER_MS))


@pytest.mark.parametrize(
    ("per_s", "is_random", "draw", "is_overloaded"),
    [
        (102, False, ten_ms, True),
        (102, True, ten_ms, True),
        (102, True, around_ten_ms, True),
        (105, True, around_ten_ms, True),
        (120, True, exponential, True),
        (95, False, around_ten_ms, False),
        (95, True, ten_ms, False),
        (50, True, exponential, False),
    ],
)
def test_a_rate_above_the_capacity_is_overload(per_s, is_random, draw, is_overloaded, level_settings):
    for seed in range(3):
        level = by_rate(per_s, is_random=is_random, seed=seed, draw=draw, level_settings=level_settings)
        assert level.has_remark(Note.OVERLOADED) == is_overloaded
        assert level.doubt is None or level.doubt.kind != "bimodal"


def one_in_ten_is_slow(source):
    return 10 * NS_PER_MS * source.uniform(0.95, 1.05) * (5 if source.random() < 0.1 else 1)


@pytest.mark.parametrize("is_random", [True, False])
def test_two_kinds_of_requests_are_named_at_half_the_capacity(is_random, level_settings):
    for seed in range(2):
        level = by_rate(
            35, is_random=is_random, seed=seed, draw=one_in_ten_is_slow, level_settings=level_settings
        )
        assert level.doubt.kind == "bimodal"


# --- no early stop


def closed_level(script, level_settings, *, users=1, seconds=10, **more):
    clock = FakeClock()
    instrument = Instrument(SimulatedLoad(FakeServer(script), clock), clock, lambda: None, Watcher())
    duration_ns = seconds * NS_PER_S
    settings = level_settings(
        window_ns=duration_ns // 20, rule=Precision(0.05, duration_ns), finds_warm_up=True, **more
    )
    return measure_level(instrument, settings, LoadPoint("concurrency", users, Closed(users)))


def test_a_precise_level_takes_half_of_its_time(level_settings):
    level = closed_level(lambda number, sent_ns: Reply(10 * NS_PER_MS), level_settings)
    assert sum(row.duration_ns for row in level.windows) == 5 * NS_PER_S


def test_a_server_that_gets_faster_is_not_left_before_it_is_steady(level_settings):
    def slow_at_first(number, sent_ns):
        return Reply((30 if sent_ns < 4 * NS_PER_S else 10) * NS_PER_MS)  # the clock starts at 1 s

    level = closed_level(slow_at_first, level_settings)
    assert level.start is not None
    assert level.measurement.infer_per_s.value == pytest.approx(100, rel=0.01)


def test_a_drift_goes_on_to_the_end_of_the_time_and_is_named(level_settings):
    level = closed_level(
        lambda number, sent_ns: Reply(10 * NS_PER_MS + sent_ns // 1000), level_settings, users=4
    )
    assert sum(row.duration_ns for row in level.windows) == 10 * NS_PER_S
    assert level.doubt.kind in ("drift", "faster start")


# --- requests without tokens


def test_long_requests_without_tokens_are_counted_by_littles_law(level_settings):
    """Ends alone would say 12 of 3.5 rounds in 10 s."""
    level = closed_level(
        lambda number, sent_ns: Reply(2800 * NS_PER_MS),
        level_settings,
        users=4,
        follows_work=True,
        ramp=Ramp(),
    )
    assert level.measurement.infer_per_s.value == pytest.approx(4 / 2.8, rel=0.001)


def test_short_requests_are_counted_by_their_ends(level_settings):
    script = lambda number, sent_ns: Reply(5 * NS_PER_MS)  # noqa: E731
    plain = closed_level(script, level_settings, users=4)
    followed = closed_level(script, level_settings, users=4, follows_work=True)
    assert followed.measurement == replace(plain.measurement)


def test_users_of_short_answers_start_at_once_and_have_no_first_round(level_settings):
    level = closed_level(
        lambda number, sent_ns: Reply(5 * NS_PER_MS), level_settings, users=4, ramp=Ramp(), follows_work=True
    )
    assert level.first_round is None
    assert level.measurement.infer_per_s.value == pytest.approx(800, rel=0.001)


@pytest.mark.parametrize(("lengths", "users"), [("fixed 64", 1), ("fixed 64", 32), ("32..96", 64)])
def test_tokens_of_answers_that_arrive_whole_count_by_latency(lengths, users):
    """Those of answers that ended in the window alone would be up to 9 % too few."""
    truth = stationary(lengths, users, TRUTH_S)
    found = measured(lengths, users, seed=3, is_streamed=False).measurement
    tokens = found.tokens.output_interval
    assert found.streaming is None
    assert found.tokens.output_per_s == tokens.value == pytest.approx(truth.tokens_per_s, rel=0.01)
    assert tokens.relative_half_width < 0.05
    assert tokens.low * 0.995 <= truth.tokens_per_s <= tokens.high * 1.005


def test_failures_count_by_the_time_that_they_take(level_settings):
    """Half of the requests fail at once, so that the others have the time of all."""
    level = closed_level(
        lambda number, sent_ns: Reply(NS_PER_S) if number % 2 else Reply(NS_PER_MS, status.HTTP + 503),
        level_settings,
        users=4,
        follows_work=True,
    )
    assert level.measurement.failed_count > 10
    assert level.measurement.infer_per_s.value == pytest.approx(4 / 1.001, rel=0.02)
