"""Load that ends by itself, ramps of streams, and several workers, on a simulated clock."""

import random
from dataclasses import replace
from itertools import accumulate

import pytest

from inferometer.base import status
from inferometer.base.errors import UsageError
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import (
    Closed,
    Constant,
    Intervals,
    Listed,
    Open,
    Periodic,
    Poisson,
    Ramps,
    parse_shape,
)
from inferometer.measure.instrument import Instrument, LoadPoint
from inferometer.measure.level import measure_level, measure_with_enough_workers
from inferometer.measure.points import Agenda
from inferometer.records.records import join
from inferometer.selftest.accuracy import ks_distance, ks_p_value
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad, SimulatedWorkers

MS = NS_PER_MS


def notes(level):
    return [remark.note for remark in level.remarks]


def shape(words, *, cap=None):
    schedule = parse_shape(words)
    agenda = Agenda(schedule, schedule.count)
    return LoadPoint("request_rate", round(agenda.per_s, 3), agenda.plan(cap), agenda.per_s)


@pytest.fixture
def whole(level_settings):
    return level_settings(window_ns=200 * MS, is_whole=True)


# --- schedules


def test_a_shape_is_measured_whole_in_slices_that_show_the_rate(rig, constant, whole):
    level = measure_level(
        rig(constant(2)).instrument, whole, shape("ramp 0..100 over 2s then hold 100 for 1s")
    )
    found = level.measurement
    assert found.request_count == sum(row.request_count for row in level.windows) == 200
    assert [row.request_count for row in level.windows[:3]] == [0, 3, 5]
    assert [row.request_count for row in level.windows[10:14]] == [20, 20, 20, 20]
    assert level.is_stable
    assert notes(level) == []
    assert found.duration_ns == 2802 * MS  # from the first send, at 0.2 s, to the last end
    assert found.infer_per_s.low is None  # the rate changes as it should: no interval
    rates = level.rates
    assert rates.asked_per_s == pytest.approx(rates.sent_per_s)
    assert rates.answered_per_s == pytest.approx(found.infer_per_s.value)  # one throughput, not two


def test_latency_counts_from_when_a_request_of_a_shape_was_due(rig, constant, whole):
    level = measure_level(rig(constant(40)).instrument, whole, shape("hold 100 for 2s", cap=2))
    assert notes(level) == [Note.NOT_OFFERED]
    assert level.measurement.service.max_ns == 40 * MS
    assert level.measurement.latency.mean_ns > 500 * MS
    assert level.rates.asked_per_s == pytest.approx(100)
    assert level.rates.sent_per_s == pytest.approx(50, rel=0.02)


@pytest.mark.parametrize(
    "words", ["hold 100 for 3s", "ramp 10..190 over 3s", "hold 20 for 2s, hold 150 for 2s"]
)
def test_a_shape_that_is_too_much_for_the_server_is_overloaded_and_reported(words, rig, constant, whole):
    level = measure_level(rig(constant(20), servers=1).instrument, whole, shape(words))
    assert notes(level) == [Note.OVERLOADED]
    assert level.is_reported
    assert level.rates.answered_per_s < 0.95 * level.rates.sent_per_s


@pytest.mark.parametrize("service", [(5, 5), (5, 60), (100, 300)])
def test_scattered_latencies_are_not_overload(service, rig, whole):
    low, high = service
    scattered = random.Random(1)
    instrument = rig(lambda number, sent: Reply(scattered.randint(low * MS, high * MS))).instrument
    level = measure_level(instrument, whole, shape("ramp 10..100 over 4s"))
    assert notes(level) == []
    assert level.is_stable


def test_a_count_at_a_rate_is_judged_too(rig, level_settings, constant):
    counted = level_settings(window_count=300, is_whole=True)
    fast = LoadPoint("request_rate", 100, Open(Constant(100), count=300), 100)
    assert notes(measure_level(rig(constant(2)).instrument, counted, fast)) == []
    slow = measure_level(rig(constant(20), servers=1).instrument, counted, fast)
    assert notes(slow) == [Note.OVERLOADED]
    capped = replace(fast, plan=Open(Constant(100), count=300, cap=1))
    assert notes(measure_level(rig(constant(20)).instrument, counted, capped)) == [Note.NOT_OFFERED]


def test_pauses_are_not_silence_and_a_burst_of_failures_does_not_end_the_level(rig, whole):
    def second_burst_fails(number, sent):
        return Reply(MS, status.RESET, received=0) if 50 <= number < 100 else Reply(MS)

    point = shape("burst 50 for 1s every 10s over 30s")
    level = measure_level(rig(second_burst_fails).instrument, whole, point)
    assert (level.measurement.request_count, level.measurement.failed_count) == (100, 50)
    assert not level.is_cut_short


def test_a_server_that_goes_away_ends_the_replay(rig, whole):
    def gone(number, sent):
        return Reply(MS) if sent < 3 * NS_PER_S else Reply(MS, status.CONNECT, received=0)

    made = rig(gone)
    level = measure_level(made.instrument, whole, shape("hold 50 for 60s"))
    assert level.is_cut_short
    assert made.clock() < 12 * NS_PER_S


def test_every_request_failing_says_so(rig, whole):
    instrument = rig(lambda number, sent: Reply(MS, status.HTTP + 503)).instrument
    level = measure_level(instrument, whole, shape("hold 50 for 1s"))
    assert notes(level) == [Note.FAILURES]
    assert level.measurement.failed_count == 50


def test_an_interrupt_ends_a_shape_with_what_was_measured(rig, constant, whole):
    level = measure_level(rig(constant(2), interrupt_after=3).instrument, whole, shape("hold 100 for 60s"))
    assert notes(level) == [Note.INTERRUPTED]
    assert 50 < level.measurement.request_count < 70


def test_a_single_request_is_a_schedule(rig, constant, whole):
    point = LoadPoint("request_rate", 0, Open(Listed((0,)), count=1), 0.0)
    level = measure_level(rig(constant(2)).instrument, whole, point)
    assert level.measurement.request_count == 1
    assert level.is_stable


def test_a_schedule_may_choose_what_each_request_sends():
    clock = FakeClock(0)
    load = SimulatedLoad(FakeServer(lambda number, sent: Reply(MS)), clock, requests=9)
    load.apply(Open(Listed((0, 5 * MS, 9 * MS, 11 * MS)), steps=(7, 0, 7, 3)))
    assert list(load.collect(NS_PER_S).records.step) == [7, 0, 7, 3]


# --- poisson, at the server's side


def test_poisson_arrivals_pass_kolmogorov_and_smirnov_at_the_server():
    arrived = []

    def stamp(number, sent):
        arrived.append(sent)
        return Reply(3 * MS)

    clock = FakeClock(0)
    load = SimulatedLoad(FakeServer(stamp), clock)
    load.apply(Open(Poisson(400, seed=7), count=4000))
    while not load.collect(clock() + NS_PER_S).is_finished:
        pass
    gaps_s = [(later - earlier) / NS_PER_S for earlier, later in zip([0, *arrived], arrived, strict=False)]
    assert ks_p_value(ks_distance(gaps_s, 400), len(gaps_s)) > 0.01
    even = [1 / 400] * 4000
    assert ks_p_value(ks_distance(even, 400), len(even)) < 1e-9


# --- ramps of streams


def streams(*responses_ms):
    times = tuple(time * MS for time in responses_ms)
    return Reply(times[-1] + MS, responses_ns=times)


def periodic(script, plan):
    clock = FakeClock(0)
    load = SimulatedLoad(FakeServer(script), clock)
    load.apply(plan)
    parts = []
    while True:
        collected = load.collect(clock() + NS_PER_S)
        parts.append(collected.records)
        if collected.is_finished:
            return join(parts)


def test_the_next_batch_begins_when_the_latest_has_had_its_responses():
    records = periodic(lambda number, sent: streams(10, 20, 30, 100), Periodic(2, 6, 2, 2))
    assert sorted(records.sent_ns) == [0, 0, 20 * MS, 20 * MS, 40 * MS, 40 * MS]
    assert len(records.good) == 6
    assert set(records.stamps) == {4}


def test_the_slowest_of_the_latest_batch_decides():
    def second_is_slow(number, sent):
        return streams(50, 80) if number == 1 else streams(10, 20)

    records = periodic(second_is_slow, Periodic(2, 4, 1, 2))
    assert sorted(records.sent_ns) == [0, 0, 80 * MS, 100 * MS]


def test_the_last_response_may_be_the_one_that_counts():
    assert len(periodic(lambda number, sent: streams(10, 20), Periodic(1, 3, 1, 2))) == 3


def test_a_failed_request_holds_up_nothing():
    def first_fails(number, sent):
        return Reply(MS, status.GRPC + 14) if number == 0 else streams(10, 20)

    records = periodic(first_fails, Periodic(1, 3, 1, 2))
    assert (len(records.good), len(records.failed)) == (2, 1)


def test_a_request_with_fewer_responses_than_the_period_is_refused():
    with pytest.raises(UsageError, match="fewer responses than the request period of 5"):
        periodic(lambda number, sent: streams(10, 20), Periodic(1, 3, 1, 5))


def test_a_ramp_is_measured_whole(rig, level_settings):
    instrument = rig(lambda number, sent: streams(10, 20, 30)).instrument
    point = LoadPoint("concurrency", 1, Periodic(1, 5, 2, 2))
    level = measure_level(instrument, level_settings(window_count=5, is_whole=True), point)
    assert level.measurement.request_count == 5
    assert level.is_stable


# --- several workers


def scattered(number, sent_ns):
    """Between 1 and 50 ms, by the time of the send alone."""
    return Reply(MS + sent_ns * 2654435761 % (49 * MS))


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_workers_together_measure_what_one_alone_does(level_settings, workers):
    def measured(count, schedule):
        clock = FakeClock()
        load = SimulatedWorkers(scattered, clock, count=count, requests=7)
        instrument = Instrument(load, clock, lambda: None, Watcher())
        timed = level_settings(rule=Precision(0.0, 4 * NS_PER_S), window_ns=500 * MS)
        return measure_level(
            instrument, timed, LoadPoint("request_rate", 300, Open(schedule), 300)
        ).measurement

    for schedule in (Constant, lambda rate: Poisson(rate, seed=3)):
        alone, together = measured(1, schedule(300)), measured(workers, schedule(300))
        assert alone.latency == together.latency
        assert alone.service == together.service
        assert alone.request_count == together.request_count > 1000
        assert together.client.workers == workers


UNEVEN = (
    Poisson(50, seed=6),
    Intervals(tuple(accumulate([5 * MS] * 50 + [75 * MS] * 10))),
    Ramps(((2 * NS_PER_S, 100.0, 1.0), (2 * NS_PER_S, 1.0, 60.0), (60 * NS_PER_S, 60.0, 60.0))),
    Listed(tuple(round(number**1.5 * 3 * MS) for number in range(2000))),
)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("schedule", UNEVEN, ids=lambda schedule: type(schedule).__name__)
def test_what_was_sent_is_compared_with_what_was_due_in_that_time(level_settings, schedule, workers):
    """The time that is measured has more or fewer arrivals than the rate says, and all of them are sent."""
    clock = FakeClock()
    load = SimulatedWorkers(scattered, clock, count=workers)
    instrument = Instrument(load, clock, lambda: None, Watcher())
    timed = level_settings(rule=Precision(0.0, 2 * NS_PER_S), window_ns=500 * MS)
    level = measure_level(instrument, timed, LoadPoint("request_rate", 80, Open(schedule), 80))
    assert notes(level) == [Note.NOT_PRECISE]
    assert level.rates.sent_per_s == pytest.approx(level.rates.due_per_s)
    assert level.rates.due_per_s < 75


@pytest.mark.parametrize("schedule", [Poisson(100, seed=6), Constant(100)], ids=["poisson", "constant"])
def test_requests_that_were_due_and_not_sent_are_missed(rig, level_settings, constant, schedule):
    level = measure_level(
        rig(constant(40)).instrument,
        level_settings(),
        LoadPoint("request_rate", 100, Open(schedule, cap=3), 100),
    )
    assert notes(level) == [Note.NOT_OFFERED]


@pytest.mark.parametrize(("service_ms", "is_overloaded"), [(200, False), (25, True)])
def test_requests_in_flight_are_not_a_growing_queue(rig, level_settings, constant, service_ms, is_overloaded):
    """Of 0.3 s, the first 0.2 pass before anything is answered; the slower server has a place for everyone."""
    made = rig(constant(service_ms), servers=None if service_ms == 200 else 1)
    short = level_settings(rule=Precision(0.0, 300 * MS), window_ns=30 * MS)
    level = measure_level(made.instrument, short, LoadPoint("request_rate", 100, Open(Constant(100)), 100))
    assert (Note.OVERLOADED in notes(level)) == is_overloaded


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_lose_no_request_and_count_none_twice(level_settings, workers):
    clock = FakeClock()
    load = SimulatedWorkers(scattered, clock, count=workers, requests=500)
    times = tuple(sorted(random.Random(2).randint(0, 2 * NS_PER_S) for _ in range(500)))
    steps = tuple(random.Random(3).sample(range(500), 500))
    load.apply(Open(Listed(times), count=500, steps=steps))
    parts = []
    while True:
        collected = load.collect(clock() + NS_PER_S)
        parts.append(collected.records)
        if collected.is_finished:
            break
    records = join(parts)
    assert sorted(records.step) == list(range(500))
    begun = int(records.due_ns.min()) - times[0]
    assert dict(zip(records.step, records.due_ns - begun, strict=True)) == dict(
        zip(steps, times, strict=True)
    )


@pytest.mark.parametrize(
    ("cpu_us", "most", "expected"),
    [(100, 8, 1), (300, 8, 2), (700, 8, 4), (1500, 8, 8), (700, 2, 2), (700, 3, 3)],
)
def test_workers_are_added_as_long_as_they_are_the_limit(level_settings, cpu_us, most, expected):
    clock = FakeClock()
    crew = SimulatedWorkers(lambda number, sent: Reply(MS), clock, cpu_ns=cpu_us * 1000)
    instrument = Instrument(crew, clock, lambda: None, Watcher(), resizable=crew, most_workers=most)
    level = measure_with_enough_workers(
        instrument, level_settings(), LoadPoint("request_rate", 4000, Open(Constant(4000)), 4000)
    )
    assert crew.count == level.measurement.client.workers == expected
    assert (Note.CLIENT_LIMITED in notes(level)) == (cpu_us * 4000 / expected > 0.9e6)


def test_no_worker_is_added_without_a_request_for_it(level_settings):
    clock = FakeClock()
    crew = SimulatedWorkers(lambda number, sent: Reply(MS), clock, cpu_ns=MS)
    instrument = Instrument(crew, clock, lambda: None, Watcher(), resizable=crew, most_workers=8)
    measure_with_enough_workers(instrument, level_settings(), LoadPoint("concurrency", 3, Closed(3)))
    assert crew.count == 3


def test_the_windows_of_a_schedule_say_what_was_asked_sent_and_answered(rig, level_settings):
    clock_rig = rig(lambda number, sent: Reply(5 * NS_PER_MS))
    plan = Open(Constant(100.0), count=200)
    settings = level_settings(window_ns=500 * NS_PER_MS, is_whole=True)
    level = measure_level(clock_rig.instrument, settings, LoadPoint("request_rate", 100.0, plan, 100.0))
    for name in ("due_count", "sent_count", "answered_count"):
        assert sum(getattr(window, name) for window in level.windows) == 200
    assert len(level.windows) >= 4
