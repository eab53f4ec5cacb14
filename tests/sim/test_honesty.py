"""What a level says about its own figures: warm-up, doubts, the client's part."""

import random
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open, Plan, Poisson
from inferometer.load.workers import Collected, Cost
from inferometer.measure.instrument import Instrument, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.measure.points import LastOutcome, points
from inferometer.options.options import Options
from inferometer.options.values import Range
from inferometer.records.records import COLUMNS, NO_TIMES, from_rows
from inferometer.report.sentences import verdict_words
from inferometer.stats.stopping import Precision
from tests.support.clock import FakeClock
from tests.support.queues import lognormal
from tests.support.simulation import Reply, StarvedHost

BEGIN_NS = FakeClock()()
ONE = LoadPoint("concurrency", 1, Closed(1))
TEN_SECONDS = {
    "rule": Precision(precision=0.0001, duration_ns=10 * NS_PER_S),
    "window_ns": 500 * NS_PER_MS,
    "finds_warm_up": True,
}


def varied(number):
    """Up to a tenth, in no order."""
    return 1 + (number * 2654435761 >> 7) % 1000 / 10_000


def test_slow_start_is_left_out_and_reported_apart(rig, level_settings):
    def cold(number, sent):
        return Reply(round((50 if sent < BEGIN_NS + 1.2 * NS_PER_S else 5) * varied(number) * NS_PER_MS))

    level = measure_level(rig(cold).instrument, level_settings(**TEN_SECONDS), ONE)
    assert level.start.duration_ns == 1500 * NS_PER_MS
    assert level.measurement.duration_ns == 8500 * NS_PER_MS
    assert level.measurement.latency.max_ns < 6 * NS_PER_MS
    assert level.start.latency.max_ns > 50 * NS_PER_MS
    counted = sum(window.request_count for window in level.windows)
    assert level.start.request_count + level.measurement.request_count == counted


def test_fast_start_is_counted_and_named(rig, level_settings):
    def fast(number, sent):
        return Reply(round((2 if sent < BEGIN_NS + 1.4 * NS_PER_S else 5) * varied(number) * NS_PER_MS))

    level = measure_level(rig(fast).instrument, level_settings(**TEN_SECONDS), ONE)
    assert level.start is None
    assert level.measurement.duration_ns == 10 * NS_PER_S
    assert level.doubt.kind == "faster start"


@pytest.mark.parametrize(
    "plan", [LoadPoint("concurrency", 1, Closed(1)), LoadPoint("request_rate", 100, Open(Constant(100)))]
)
def test_a_starved_client_says_nothing_about_the_server(rig, level_settings, plan):
    """What it sees change may be its own doing, and so may be requests that wait."""

    def fast(number, sent):
        return Reply(round((2 if sent < BEGIN_NS + 1.4 * NS_PER_S else 5) * varied(number) * NS_PER_MS))

    instrument = replace(rig(fast, servers=1).instrument, host=StarvedHost())
    level = measure_level(instrument, level_settings(**TEN_SECONDS), plan)
    (limit,) = (remark for remark in level.remarks if remark.note is Note.CLIENT_STARVED)
    assert "in the run queue for a core 89 % of the time that it needed one, 4.00 ms at a time" in limit.text
    assert not level.has_remark(Note.OVERLOADED)
    assert level.doubt.kind == "client-limited"


@pytest.mark.parametrize(
    ("promise", "verdict"), [("p99<2ms", "undecided"), ("throughput>900", "undecided"), ("p99<1s", "kept")]
)
def test_a_starved_client_cannot_show_that_the_server_violates_an_slo(rig, level_settings, promise, verdict):
    """Its waits are in every latency; an SLO that is met all the same is met."""
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    settings = level_settings(
        rule=Precision(0.02, 10 * NS_PER_S), promise=parse_slo(promise), judges_promise=True
    )
    assert measure_level(made.instrument, settings, ONE).promise.verdict == (
        "broken" if verdict == "undecided" else "kept"
    )
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    level = measure_level(replace(made.instrument, host=StarvedHost()), settings, ONE)
    assert level.promise.verdict == verdict
    assert [term.reason for term in level.promise.of("undecided")] == ["the client was the limit"] * (
        verdict == "undecided"
    )


def test_drift_is_named_also_where_the_mean_is_sure(rig, level_settings):
    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(rig(slowing).instrument, level_settings(**{**TEN_SECONDS, "rule": rule}), ONE)
    assert not level.remarks
    assert level.doubt.kind == "drift"


AT_RANDOM = LoadPoint("request_rate", 95.0, Open(Poisson(95.0, 1)), 95.0)


@pytest.mark.parametrize("seed", [0, 16, 17])
def test_a_queue_that_wanders_is_no_drift_of_the_server(rig, level_settings, seed):
    """At 95 % of the capacity its length grows for longer than the level lasts, while the server works as before."""
    draw, point = lognormal(10, 1.0), replace(AT_RANDOM, plan=Open(Poisson(95.0, seed)))
    source = random.Random(seed)
    made = rig(lambda number, sent: Reply(draw(source)), servers=1)
    level = measure_level(made.instrument, level_settings(**TEN_SECONDS), point)
    assert not level.has_remark(Note.OVERLOADED)
    assert level.doubt.kind == "too few samples"


def test_a_server_that_gets_slower_under_a_queue_drifts(rig, level_settings):
    def slower(number, sent):
        return Reply(round((6 + 0.5 * (sent - BEGIN_NS) / NS_PER_S) * NS_PER_MS))

    level = measure_level(rig(slower, servers=1).instrument, level_settings(**TEN_SECONDS), AT_RANDOM)
    assert level.doubt.kind == "drift"


def test_server_without_a_slow_start_loses_nothing(rig, level_settings):
    level = measure_level(
        rig(lambda number, sent: Reply(round(5 * varied(number) * NS_PER_MS))).instrument,
        level_settings(**TEN_SECONDS),
        ONE,
    )
    assert level.start is None
    assert level.measurement.duration_ns == 10 * NS_PER_S


def test_precision_is_judged_without_the_slow_start(rig, level_settings):
    def cold(number, sent):
        return Reply((50 if sent < BEGIN_NS + 1.2 * NS_PER_S else 5) * NS_PER_MS)

    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(rig(cold).instrument, level_settings(**{**TEN_SECONDS, "rule": rule}), ONE)
    assert len(level.windows) == 8  # a long cold one and seven: half of the time
    assert level.measurement.infer_per_s.value == 200
    assert not level.remarks


@pytest.mark.parametrize(
    ("service_ms", "requests", "windows"),
    [
        (2000, 1, [5]),  # as many as there is time for
        (2000, 4, [20]),
        (100, 1, [30, 30, 40]),  # what is left is too short for another
        (20, 1, [50] * 10),
        (5, 1, [100] * 20),
    ],
)
def test_windows_of_a_slow_model_hold_enough_requests_to_be_judged_by(
    rig, level_settings, service_ms, requests, windows
):
    point = LoadPoint("concurrency", requests, Closed(requests))
    settings = level_settings(**{**TEN_SECONDS, "rule": Precision(0.0, 10 * NS_PER_S)})
    level = measure_level(rig(lambda *_: Reply(service_ms * NS_PER_MS)).instrument, settings, point)
    assert [window.request_count for window in level.windows] == windows
    assert sum(window.duration_ns for window in level.windows) == 10 * NS_PER_S
    assert level.measurement.request_count == sum(windows)


def test_windows_of_the_classic_rule_are_as_long_as_asked(rig, level_settings):
    level = measure_level(rig(lambda *_: Reply(700 * NS_PER_MS)).instrument, level_settings(), ONE)
    assert {window.duration_ns for window in level.windows} == {NS_PER_S}


def test_warm_up_is_left_to_the_classic_rule_where_that_is_asked(rig, level_settings):
    level = measure_level(
        rig(lambda number, sent: Reply((50 if sent < BEGIN_NS + NS_PER_S else 5) * NS_PER_MS)).instrument,
        level_settings(),
        ONE,
    )
    assert level.start is None


def frozen(number, sent):
    """Half a second in every two nothing is answered."""
    into = sent % (2 * NS_PER_S)
    wait = 500 * NS_PER_MS - into if into < 500 * NS_PER_MS else 0
    return Reply(round(wait + 5 * varied(number) * NS_PER_MS))


def slowing(number, sent):
    return Reply(round(5 * varied(number) * NS_PER_MS * (1 + sent / (10 * NS_PER_S))))


def two_kinds(number, sent):
    is_slow = (number * 40503 >> 3) % 4 == 0
    return Reply(round((40 if is_slow else 10) * varied(number) * NS_PER_MS))


def rare(number, sent):
    return Reply(round(200 * varied(number) * NS_PER_MS))


@pytest.mark.parametrize(
    ("script", "kind", "percentile"),
    [
        (frozen, "periodic stalls", None),
        (slowing, "drift", None),
        (two_kinds, "bimodal", None),
        (rare, "too few samples", 99),
    ],
)
def test_level_that_is_not_tight_says_why(rig, level_settings, script, kind, percentile):
    level = measure_level(rig(script).instrument, level_settings(**TEN_SECONDS, percentile=percentile), ONE)
    assert [remark.note for remark in level.remarks] == [Note.NOT_PRECISE]
    assert level.doubt.kind == kind
    assert 1 < len(level.doubt.sparkline) <= 20


def test_tight_level_has_no_doubt(rig, level_settings, constant):
    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(rig(constant(5)).instrument, level_settings(**{**TEN_SECONDS, "rule": rule}), ONE)
    assert level.doubt is None


def test_lateness_of_sends_is_in_the_client_cost(rig, level_settings, constant):
    point = LoadPoint("request_rate", 100, Open(Constant(100), cap=1))
    client = measure_level(
        rig(constant(20)).instrument, level_settings(window_ns=2 * NS_PER_S), point
    ).measurement.client
    assert client.lag_p50_ns > NS_PER_S
    assert client.lag_p99_ns > client.lag_p50_ns


def test_requests_sent_when_due_have_no_lateness(rig, level_settings, constant):
    point = LoadPoint("request_rate", 100, Open(Constant(100)))
    client = measure_level(rig(constant(5)).instrument, level_settings(), point).measurement.client
    assert (client.lag_p50_ns, client.lag_p99_ns) == (0, 0)


def test_statistics_that_cannot_be_read_are_noted(rig, level_settings, constant):
    def refuse():
        raise PeerError("no statistics today")

    made = rig(constant(5))
    instrument = Instrument(made.instrument.load, made.clock, refuse, made.log)
    (remark,) = measure_level(instrument, level_settings(), ONE).remarks
    assert (remark.note, remark.text) == (Note.STATISTICS_MISSING, "no statistics today")


def test_binary_search_ends_at_the_highest_concurrency_inside_the_limit(rig, level_settings, constant):
    """One instance, 5 ms each, 40 ms at most: eight requests in flight take 40 ms."""
    instrument = rig(constant(5), servers=1).instrument
    options = Options("fake", concurrency=Range(1, 64), binary_search=True, latency_limit_ms=40)
    verdicts, kept = LastOutcome(), []
    for point in points(options, 64, verdicts):
        level = measure_level(instrument, level_settings(limit_ms=40), point)
        verdicts.add(level)
        kept += [level.value] if verdicts.passed else []
    assert max(kept) == 7
    assert level.value in (7, 8)


ROUND = 10_000  # requests that are handed over at a time


class Flood:
    """A load that has always just ended another ten thousand requests, each unlike the others: millions in a second."""

    def __init__(self, clock, count, *, is_streamed):
        self._clock, self._left = clock, count
        self._rng = np.random.default_rng(4)
        self._is_streamed = is_streamed

    def apply(self, plan):
        return self._clock()

    def wait(self, until_ns):
        """What ends meanwhile is handed out by the next collect."""

    def collect(self, until_ns):
        count = min(ROUND, self._left) if until_ns > self._clock() else 0
        self._left -= count
        latency = NS_PER_MS + self._rng.gamma(2, NS_PER_MS, count).astype(np.int64)
        ends = self._clock() + np.arange(1, count + 1) * 25_000
        rows = np.zeros((count, len(COLUMNS)), dtype=np.int64)
        for name, column in (
            ("due_ns", ends - latency - 1000),
            ("sent_ns", ends - latency),
            ("wrote_ns", ends - latency),
            ("first_ns", ends - latency // 2),
            ("end_ns", ends),
            ("responses", 2),
            ("sequence_started_ns", ends - latency),
            ("tokens", latency % 1000),
            ("stamps", 2 if self._is_streamed else 0),
        ):
            rows[:, COLUMNS.index(name)] = column
        times = np.stack((ends - latency // 2, ends), axis=1).ravel() if self._is_streamed else NO_TIMES
        self._clock.move_to(int(ends[-1]) if count else max(until_ns, self._clock()))
        return Collected(from_rows(rows, times), self._clock(), COST, is_finished=not self._left)

    def examples(self):
        return {}


COST = Cost(cpu_ns=(0,), sent=0, reconnects=0, connects=0, connect_ns=0)
PLANS: dict[str, Plan] = {"closed": Closed(8), "open": Open(Constant(40_000))}
SHAPES: dict[str, dict[str, Any]] = {
    "one window": {"is_whole": True},
    # Judged after half of its time, in which all windows are joined.
    "many windows": {"rule": Precision(1e-9, 41 * NS_PER_S), "window_ns": 500 * NS_PER_MS},
}


@pytest.mark.parametrize(
    ("plan", "shape", "is_streamed"),
    [
        ("closed", "one window", False),
        ("open", "one window", True),
        ("closed", "many windows", False),
    ],
)
def test_memory_does_not_grow_with_the_requests(rig, level_settings, plan, shape, is_streamed):
    def peak(count):
        made = rig(lambda number, sent: Reply(NS_PER_MS))
        instrument = replace(made.instrument, load=Flood(made.clock, count, is_streamed=is_streamed))
        given = dict(SHAPES[shape])
        if "is_whole" in given:
            given["window_count"] = count
        else:
            made.log.interrupt_after = count * 25_000 // given["window_ns"]
        tracemalloc.start()
        level = measure_level(
            instrument,
            level_settings(**given, has_tokens=is_streamed),
            LoadPoint("concurrency", 8, PLANS[plan]),
        )
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert level.measurement.request_count == count
        return most

    few, many = 500_000, 800_000
    assert peak(many) - peak(few) < 8 << 20  # sketches fill until each of their bins has a request


@pytest.mark.parametrize("count", [3, 10, 40, 400])
def test_a_few_requests_are_called_precise_only_where_their_intervals_are_narrow(rig, level_settings, count):
    """Twenty servers with tails of every kind, each measured by as many requests as the user asked for."""
    said = set()
    for seed in range(20):
        chance = np.random.default_rng(seed)
        times_ms = 5 * chance.lognormal(0, chance.uniform(0.01, 1.5), 1000)
        script = lambda number, sent, times_ms=times_ms: Reply(round(times_ms[number % 1000] * NS_PER_MS))  # noqa: E731
        settings = level_settings(
            rule=Precision(0.0, 60 * NS_PER_S), window_ns=None, window_count=count, is_whole=True
        )
        level = measure_level(rig(script).instrument, settings, LoadPoint("concurrency", 1, Closed(1, count)))
        found = level.measurement
        halves = [
            found.infer_per_s.relative_half_width,
            dict(found.latency_intervals)["mean"].relative_half_width,
        ]
        is_precise = all(half is not None and half <= 0.2 for half in halves)
        assert level.has_remark(Note.NOT_PRECISE) <= (not is_precise)
        assert (verdict_words(level) == "ok") <= is_precise, halves
        said.add(is_precise)
    assert said == ({False} if count <= 10 else {True, False})
