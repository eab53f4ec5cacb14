"""Turns on a simulated clock: nothing is found where nothing is, and ten percent are found."""

import math
import re

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.compare.comparison import FASTER, INCONCLUSIVE, NO_DIFFERENCE, SLOWER, LevelDifference
from inferometer.compare.differences import headline_metrics, of_turns, overall
from inferometer.compare.turns import Candidate, TimeBudget, measure_point, merged, turns
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.model.spec import ModelSpec
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.samples import sample
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

RECIPE = LevelSettings(ModelSpec("fake", "", (), ()), 1, None, Precision(0.02, NS_PER_S))
SERVICE_NS = 8 * NS_PER_MS
RUNS = range(sample(6, 20))
CLOSED = LoadPoint("concurrency", 2, Closed(2))


class Rounds(Watcher):
    def __init__(self, rounds=10**9):
        self.rounds = rounds
        self.heard = []

    def said(self, text, **_):
        self.heard.append(text)

    def round_finished(self, number, rounds, rates):
        self.rounds -= 1

    def is_interrupted(self):
        return self.rounds <= 0


class Machine:
    """A machine that gets slower by a fifth while it is watched, breathes, and stalls now and then."""

    def __init__(self, seed):
        random = np.random.RandomState(seed)
        seconds = 200
        breath = np.convolve(random.standard_normal(10 * seconds + 20), np.ones(20) / math.sqrt(20), "valid")
        stalls = 0.8 * (random.uniform(size=len(breath)) < 0.02)
        drift = 0.2 * np.arange(len(breath)) / 200
        self.factors = np.exp(0.08 * breath + stalls + drift)
        self.requests = np.exp(0.1 * random.standard_normal(1 << 16))

    def serve(self, factor):
        def script(number, sent_ns):
            at = min(sent_ns * 10 // NS_PER_S, len(self.factors) - 1)
            return Reply(
                round(SERVICE_NS * factor * self.factors[at] * self.requests[(number * 7919) % (1 << 16)])
            )

        return script


def instrument(script, clock, follower, servers=2):
    return Instrument(SimulatedLoad(FakeServer(script, servers), clock), clock, lambda: None, follower)


def all_series(scripts, *, point=CLOSED, duration_s=6, follower=None, ramp_ns=0):
    clock, follower = FakeClock(), follower or Rounds()
    candidates = [
        Candidate(name, instrument(script, clock, follower), RECIPE) for name, script in scripts.items()
    ]
    budget = TimeBudget(round(duration_s * NS_PER_S), ramp_ns=ramp_ns)
    return measure_point(candidates, point, budget, follower)


def verdict(seed, factor):
    machine = Machine(seed)
    base, other = all_series({"a": machine.serve(1.0), "b": machine.serve(factor)}, duration_s=3)
    rows = of_turns(base, other, headline_metrics(None), looks=4)
    return overall([LevelDifference("concurrency", 2, rows)])


def test_with_a_ramp_the_users_of_each_turn_start_one_after_the_other():
    """Turns begin once all users have been answered, so lockstep and the start are not part of them."""
    sent = []

    def script(number, sent_ns):
        sent.append(sent_ns)
        return Reply(NS_PER_S)

    point = LoadPoint("concurrency", 4, Closed(4))
    series = all_series({"a": script, "b": script}, point=point, duration_s=20, ramp_ns=NS_PER_S)
    for windows in (turn for row in series for turn in row.windows):
        before = [time for time in sent if windows[0].start_ns - 2 * NS_PER_S < time < windows[0].start_ns]
        assert min(np.diff(before)) >= NS_PER_S // 5
    # Both serve two requests at a time.
    assert [row.per_s(0) for row in series] == pytest.approx([2, 2], rel=0.15)


@pytest.mark.sampled
def test_alike_variants_raise_at_most_one_alarm_in_twenty():
    verdicts = [verdict(seed, 1.0) for seed in RUNS]
    assert sum(verdict not in (FASTER, SLOWER) for verdict in verdicts) >= len(RUNS) - 1, verdicts


@pytest.mark.sampled
def test_ten_percent_are_found_in_eighteen_of_twenty():
    verdicts = [verdict(seed, 1.1) for seed in RUNS]
    assert verdicts.count(SLOWER) >= 0.9 * len(RUNS) - 1, verdicts


def steady(service_ms):
    return lambda number, sent_ns: Reply(round(service_ms * NS_PER_MS))


def test_turns_alternate_and_count_the_same_requests():
    first, second = all_series({"a": steady(4), "b": steady(5)})
    assert first.places == [0, 1] * 30
    assert second.places == [1, 0] * 30
    counts = {series.requests(number) for series in (first, second) for number in range(60)}
    assert len(counts) == 1
    assert second.windows[0][0].start_ns >= first.windows[0][0].end_ns


@pytest.mark.parametrize(("slower_ms", "percent"), [(4.0, 0.0), (4.2, 5.0), (8.0, 100.0), (400.0, 9900.0)])
def test_steady_servers_differ_by_exactly_their_service_time(slower_ms, percent):
    first, second = all_series({"a": steady(4), "b": steady(slower_ms)})
    rows = of_turns(first, second, headline_metrics(None), looks=4)
    found = {row.metric: row.percent for row in rows}
    assert found["p50"].value == pytest.approx(percent, abs=1e-6)
    assert found["throughput"].value == pytest.approx(100 / (1 + percent / 100) - 100, abs=1e-6)


def test_by_rate_latencies_are_compared():
    point = LoadPoint("request_rate", 100.0, Open(Constant(100.0)))
    first, second = all_series({"a": steady(4), "b": steady(6)}, point=point, duration_s=10)
    rows = of_turns(
        first,
        second,
        headline_metrics(None),
        looks=4,
    )
    assert [row.verdict for row in rows] == [NO_DIFFERENCE, SLOWER, SLOWER, SLOWER]


def test_a_rate_that_is_rarely_reached_is_reported():
    point = LoadPoint("request_rate", 1000.0, Open(Constant(1000.0), cap=2))
    steadily, _ = all_series({"a": steady(4), "b": steady(4)}, point=point)
    assert Note.NOT_OFFERED in {remark.note for remark in merged(steadily, point).remarks}

    def once(number, sent_ns):
        return Reply(20 * NS_PER_MS if NS_PER_S < sent_ns < 2 * NS_PER_S else NS_PER_MS)

    rarely, _ = all_series({"a": once, "b": steady(1)}, point=point)
    assert Note.NOT_OFFERED in {remark.note for remark in rarely.remarks}
    assert merged(rarely, point).remarks == ()


def test_all_turns_make_one_level_without_the_gaps():
    first, _ = all_series({"a": steady(4), "b": steady(40)})
    level = merged(first, CLOSED)
    assert level.measurement.infer_per_s.value == pytest.approx(500)
    assert level.measurement.request_count == sum(turn.request_count for turn in turns(first, 0))
    assert level.measurement.latency.percentile_ns(99) == 4 * NS_PER_MS
    assert level.is_stable
    assert len(level.windows) == 30  # the slow one has no time for more


@pytest.mark.parametrize("begin_ms", [3040, 3120])
def test_a_stall_does_not_end_the_comparison_but_counts(begin_ms):
    first_ns, last_ns = (FakeClock()() + ms * NS_PER_MS for ms in (begin_ms, begin_ms + 400))

    def stalled(number, sent_ns):
        return Reply(4 * NS_PER_MS + (last_ns - sent_ns if first_ns <= sent_ns < last_ns else 0))

    point = LoadPoint("request_rate", 100.0, Open(Constant(100.0)))
    first, second = all_series({"a": steady(4), "b": stalled}, point=point)
    assert len(first.windows) == len(second.windows) == 60
    assert merged(second, point).measurement.latency.max_ns > 100 * NS_PER_MS


def test_a_variant_that_dies_ends_the_comparison():
    def dies(number, sent_ns):
        return Reply(NS_PER_MS, status.RESET if sent_ns > 3 * NS_PER_S else status.OK)

    first, second = all_series({"a": steady(4), "b": dies})
    assert second.is_cut_short
    assert len(first.windows) < 60


def test_a_variant_that_only_fails_is_not_measured_further():
    first, second = all_series(
        {"a": steady(4), "b": lambda number, sent_ns: Reply(NS_PER_MS, status.HTTP + 500)}
    )
    assert second.is_cut_short
    assert merged(second, CLOSED).measurement.failed_count > 0
    assert first.windows == []


def test_whole_rounds_until_an_interruption_are_compared():
    first, second = all_series({"a": steady(4), "b": steady(4)}, follower=Rounds(rounds=12))
    assert len(first.windows) == len(second.windows) == 12
    rows = of_turns(first, second, headline_metrics(None), looks=4)
    assert rows[0].percent.low is not None


def test_too_few_requests_for_a_percentile_are_said():
    first, second = all_series({"a": steady(40), "b": steady(80)}, duration_s=2)
    rows = {row.metric: row for row in of_turns(first, second, headline_metrics(None), looks=4)}
    assert rows["p50"].verdict == SLOWER
    assert rows["p99"].verdict == INCONCLUSIVE
    assert "needs 400 requests" in rows["p99"].reason


def test_a_comparison_has_one_number_for_each_figure():
    """The figures that are compared are those of the variants' own results, and so of every chart, stalls or not."""

    def stalling(number, _):
        return Reply(300 * NS_PER_MS if number % 97 == 0 else 5 * NS_PER_MS)

    one, two = all_series({"a": steady(5), "b": stalling})
    rows = {row.metric: row for row in of_turns(one, two, headline_metrics(None), looks=4)}
    for series, field in ((one, "base"), (two, "value")):
        found = merged(series, CLOSED).measurement
        assert getattr(rows["throughput"], field) == pytest.approx(found.infer_per_s.value, rel=1e-6)
        assert getattr(rows["p95"], field) == pytest.approx(found.latency.percentile_ns(95), rel=1e-6)
    for row in rows.values():
        assert row.percent.value == pytest.approx((row.value / row.base - 1) * 100)
        assert row.percent.low is None or row.percent.low <= row.percent.value <= row.percent.high


@pytest.mark.parametrize("point", [CLOSED, LoadPoint("request_rate", 2, Open(Constant(2)), 2)])
def test_a_much_longer_duration_than_requested_is_announced(point):
    follower = Rounds()
    all_series({"a": steady(4), "slow": steady(500)}, point=point, duration_s=2, follower=follower)
    (said,) = follower.heard
    assert re.fullmatch(r"slow answers .* requests/s; .* about [1-4]\d\.\d s instead of 2\.00 s", said)
    quick = Rounds()
    all_series({"a": steady(4), "b": steady(5)}, duration_s=2, follower=quick)
    assert quick.heard == []
