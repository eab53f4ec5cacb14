"""Requests that are cancelled on purpose, and the figures of streams, on a simulated clock: every figure is exact."""

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Cancellation, Closed, Constant, Open
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level
from tests.support.simulation import Reply

STREAM = tuple(round((50 + 10 * number) * NS_PER_MS) for number in range(50))


def streamed(number, sent_ns):
    """The first token after 50 ms, then one every 10 ms: 50 of them."""
    return Reply(STREAM[-1], responses_ns=STREAM)


def closed(concurrency, count=None):
    return LoadPoint("concurrency", concurrency, Closed(concurrency, count))


def drawn(cancellation, count):
    draws = cancellation.draws(0)
    return sum(next(draws) for _ in range(count))


def test_the_drawn_share_is_cancelled_at_its_time_and_is_in_no_other_figure(rig, level_settings):
    asked = Cancellation(200 * NS_PER_MS, 0.1, seed=5)
    settings = level_settings(window_count=400, is_whole=True, has_tokens=True)
    level = measure_level(rig(streamed, cancellation=asked).instrument, settings, closed(20, 400))
    found, expected = level.measurement, drawn(asked, 400)
    assert 20 < expected < 60
    assert found.cancelled.count == expected
    assert found.request_count == 400 - expected
    assert found.failed_count == 0
    assert found.failures == ()
    assert found.ended_count == 400
    assert found.latency.min_ns == found.latency.max_ns == 540 * NS_PER_MS
    assert found.cancelled.ran.min_ns == found.cancelled.ran.max_ns == 200 * NS_PER_MS
    assert found.cancelled.tokens == expected * 16  # at 50, 60 ... 200 ms
    assert found.cancelled.without_token == 0
    assert found.tokens.output == found.request_count * 50
    assert found.streaming.gaps.min_ns == found.streaming.gaps.max_ns == 10 * NS_PER_MS


def test_what_ends_before_its_time_is_an_ordinary_request(rig, level_settings, constant):
    asked = Cancellation(10 * NS_PER_MS, 1.0)
    level = measure_level(rig(constant(2), cancellation=asked).instrument, level_settings(), closed(4))
    assert level.measurement.cancelled is None
    assert level.measurement.infer_per_s.value == 2000


def test_a_slot_goes_on_at_once_after_a_cancelled_request(rig, level_settings):
    """By turns one that takes too long and one that does not: 10 + 2 ms for both."""

    def script(number, sent_ns):
        return Reply(round((2 if number % 2 else 100) * NS_PER_MS))

    asked = Cancellation(10 * NS_PER_MS, 1.0)
    level = measure_level(
        rig(script, cancellation=asked).instrument,
        level_settings(is_whole=True, window_count=200),
        closed(1, 200),
    )
    found = level.measurement
    assert (found.request_count, found.cancelled.count) == (100, 100)
    assert found.cancelled.without_token == 100
    assert found.duration_ns == 100 * 12 * NS_PER_MS


def test_by_rate_cancelled_requests_free_their_slots(rig, level_settings, constant):
    asked = Cancellation(20 * NS_PER_MS, 1.0)
    plan = Open(Constant(100), cap=4, count=100)
    level = measure_level(
        rig(constant(10_000), cancellation=asked).instrument,
        level_settings(is_whole=True, window_count=100),
        LoadPoint("request_rate", 100, plan, 100.0),
    )
    found = level.measurement
    assert found.cancelled.count == 100
    assert found.delayed_count == 0
    assert found.request_count == found.failed_count == 0


def test_the_same_seed_draws_the_same_requests_and_workers_draw_apart():
    one, other = Cancellation(1, 0.5, seed=1), Cancellation(1, 0.5, seed=2)

    def first(cancellation, worker):
        draws = cancellation.draws(worker)
        return [next(draws) for _ in range(64)]

    assert first(one, 0) == first(one, 0)
    assert first(one, 0) != first(other, 0)
    assert first(one, 0) != first(one, 1)


def test_figures_of_streams_are_exact(rig, level_settings):
    settings = level_settings(window_count=400, is_whole=True, has_tokens=True)
    found = measure_level(rig(streamed).instrument, settings, closed(20, 400)).measurement
    tokens = found.tokens
    assert found.streaming.first.percentile_ns(99) == 50 * NS_PER_MS
    assert tokens.between.percentile_ns(99) == 10 * NS_PER_MS
    assert tokens.per_answer.min_ns == tokens.per_answer.max_ns == 50
    assert round(tokens.output_per_s * 0.54, 6) == 20 * 50
    assert tokens.per_user.percentile(50) == 92.592  # 50 tokens in 540 ms
    assert tokens.prefill.time_ns == 400 * 50 * NS_PER_MS
    assert tokens.decode.time_ns == 400 * 490 * NS_PER_MS
    assert tokens.decode.per_s == 100
    assert found.infer_per_s.relative_half_width < 0.001  # in lockstep, and always the same
    assert tokens.output_interval.relative_half_width < 0.001
    assert len(found.lanes) == 48
    assert {lane.end_ns - lane.sent_ns for lane in found.lanes} == {540 * NS_PER_MS}
    assert sum(window.output_tokens for window in measure_windows(rig, level_settings)) == 400 * 50


def measure_windows(rig, level_settings):
    settings = level_settings(window_ns=NS_PER_S, is_whole=True, has_tokens=True)
    return measure_level(rig(streamed).instrument, settings, closed(20, 400)).windows
