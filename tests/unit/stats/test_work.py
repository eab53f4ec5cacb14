"""Requests per second of few and long requests: Little's law, narrowed by the precision of tokens."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.records.records import COLUMNS, EMPTY, from_rows
from inferometer.stats.ends import Ends
from inferometer.stats.estimate import Estimate
from inferometer.stats.merge import token_estimate
from inferometer.stats.series import Series
from inferometer.stats.windows import WindowRules, join_windows
from inferometer.stats.work import LEAST, flow, narrowed, request_rate, response_rate, widened
from tests.support.llm_engine import AskedSequence, Engine, EngineSettings

share = st.floats(0.0, 0.5)
level = st.floats(0.01, 1000.0)


def estimate(value, down, up):
    return Estimate(value, value * (1 - down), value * (1 + up))


@given(level, level, level, share, share, st.tuples(share, share, share))
@pytest.mark.hypothesis
def test_users_over_latency_are_within_an_interval_that_tokens_can_only_narrow(
    users, latency_s, per_token, latency_share, error, shares
):
    """Tokens per second and the mean length may disagree with the mean latency by chance."""
    latency = estimate(latency_s * NS_PER_S, latency_share, latency_share)
    own = request_rate(users, latency)
    tokens = estimate(own.value * per_token * (1 + error), shares[0], shares[1])
    found = narrowed(own, tokens, estimate(per_token, shares[2], shares[2]))
    by_latency = users / latency_s
    assert found.value == own.value == pytest.approx(by_latency)
    assert found.low <= found.value <= found.high
    assert found.high - found.low <= own.high - own.low
    assert own.relative_half_width >= 0.999 * LEAST


def test_requests_of_equal_lengths_are_as_precise_as_tokens():
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    found = narrowed(own, estimate(4.0 * 64, 0.02, 0.02), Estimate(64.0, 64.0, 64.0))
    assert (found.low, found.high) == pytest.approx((3.92, 4.08))


def test_lengths_that_vary_add_to_the_interval():
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    found = narrowed(own, estimate(4.0 * 64, 0.03, 0.03), estimate(64.0, 0.04, 0.04))
    assert found.relative_half_width == pytest.approx(math.hypot(0.03, 0.04))


@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        (Estimate(256.0), Estimate(64.0, 64.0, 64.0)),
        (Estimate(256.0, 250.0, 260.0), Estimate(64.0)),
        (Estimate(256.0, 250.0, 260.0), Estimate(0.0, 0.0, 0.0)),
    ],
)
def test_without_both_intervals_latency_decides(tokens, length):
    own = request_rate(8, estimate(2.0 * NS_PER_S, 0.3, 0.3))
    assert narrowed(own, tokens, length) is own


# --- several tokens in an event

EVENTS, EVERY_MS = 10, 20


def window_of(lengths, first):
    """Build the window of one user's answers, each of ten events; `first` is the number of the first answer."""
    took = EVENTS * EVERY_MS * NS_PER_MS
    rows, times = [], []
    for number, tokens in enumerate(lengths, start=first):
        sent = number * took
        events = [sent + (event + 1) * EVERY_MS * NS_PER_MS for event in range(EVENTS)]
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": sent,
            "sent_ns": sent,
            "first_ns": events[0],
            "end_ns": sent + took,
            "responses": EVENTS,
            "stamps": EVENTS,
            "tokens": tokens,
        }
        rows.append([row[name] for name in COLUMNS])
        times += events
    rules = WindowRules(has_tokens=True, follows_work=True)
    window = rules.new_window(first * took)
    window.end_ns = (first + len(lengths)) * took
    rules.add(window, from_rows(np.array(rows, dtype=np.int64), np.array(times, dtype=np.int64)))
    rules.add_running(window, EMPTY, window.end_ns)
    return window


def test_tokens_of_an_event_that_differ_between_answers_add_to_the_interval():
    """Fifty answers of 20 to 40 tokens in ten events each: their mean has an error of its own."""
    equal = token_estimate(window_of([30] * 50, 0))
    varied = token_estimate(window_of([20, 40] * 25, 0))
    assert varied.value == pytest.approx(equal.value)
    assert equal.relative_half_width < 0.01
    assert varied.relative_half_width == pytest.approx(1.96 * (10 / 30) / math.sqrt(50), rel=0.06)


def test_joined_windows_know_the_same_about_the_tokens_of_an_event():
    lengths = [20, 25, 40, 35] * 10
    parts = join_windows([window_of(lengths[:12], 0), window_of(lengths[12:], 12)])
    whole = window_of(lengths, 0)
    for name in ("ended_events", "event_squares", "token_squares", "token_events"):
        assert getattr(parts, name) == getattr(whole, name) > 0


# --- tokens by arrival

ENGINE = EngineSettings(prefill_per_s=10_000, step_s=0.02, step_per_sequence_s=0.0002, slots=32)


def arrived(lengths, users, seconds, *, late_us):
    """Run the engine with a closed load, and measure its second half; tokens of a step arrive spread over `late_us`."""
    source, engine, now_s = random.Random(5), Engine(ENGINE), 0.0
    came, ended, counts = list[int](), list[int](), list[int]()
    for _ in range(users):
        engine.add(AskedSequence(128, lengths(source)))
    while now_s < 2 * seconds:
        now_s += engine.step()
        at = {id(row): round(now_s * 1e6) + source.randint(0, late_us) for row in engine.running}
        done = engine.finish_step(now_s)
        came += at.values()
        ended += [at[id(row)] for row in done]
        counts += [row.answer for row in done]
        for _ in done:
            engine.add(AskedSequence(128, lengths(source)))
    begin = round(seconds * 1e6)
    order = [place for place in np.argsort(ended, kind="stable") if ended[place] > begin]
    arrivals, ends = Ends(), Ends()
    for found, times in (
        (arrivals, [time for time in came if time > begin]),
        (ends, [ended[i] for i in order]),
    ):
        found.append(np.array(times, dtype=np.int64) - begin, np.zeros(len(times), dtype=np.int64))
    made = Series(np.array([counts[i] for i in order], dtype=np.int64))
    return response_rate(flow(arrivals.groups(), ends.groups(), made, users))


def test_tokens_of_a_step_that_arrive_one_after_the_other_are_not_cut():
    alike, spread = (arrived(lambda source: 64, 8, 10.0, late_us=late) for late in (0, 2000))
    assert spread.value == pytest.approx(alike.value, rel=0.0005)
    assert spread.relative_half_width < 0.002


def test_two_rounds_are_as_precise_as_their_answers():
    """There are 64 users and 32 slots: 10 s have 2.4 rounds, but 150 answers."""
    found = arrived(lambda source: source.randint(32, 96), 64, 10.0, late_us=1000)
    assert 0.005 < found.relative_half_width < 0.025
    assert found.low < 975.3 < found.high


def test_without_the_lengths_of_answers_the_rate_is_the_same():
    arrivals, ends = Ends(), Ends()
    came = np.arange(20_000, 8_000_000, 20_000)
    arrivals.append(came, np.zeros_like(came))
    last = np.cumsum(np.tile([40, 24], 6)) * 20_000
    ends.append(last, np.zeros_like(last))
    known = Series(np.tile(np.array([40, 24]), 6))
    with_lengths, without = (
        response_rate(flow(arrivals.groups(), ends.groups(), row, 1)) for row in (known, Series())
    )
    assert with_lengths.value == without.value == pytest.approx(50)


def test_an_estimate_is_widened_by_the_error_of_a_factor():
    """Student's t of four degrees of freedom, and the error of a mean of five."""
    exact = Estimate(100.0, 100.0, 100.0)
    reach = 2.776 * math.sqrt(5 / 4) * 10
    found = widened(exact, 0.1, 5)
    assert (found.low, found.high) == pytest.approx((100 - reach, 100 + reach), rel=1e-3)
    assert widened(exact, 0.1, 1) == widened(exact, 0.0, 5) == exact
