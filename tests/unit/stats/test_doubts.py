"""Each reason for imprecise figures is detected in data made to show it, and not in other data."""

from dataclasses import replace

import numpy as np
import pytest

from inferometer.base.notes import Note
from inferometer.measure.conclusion import client_remarks
from inferometer.stats.doubts import (
    DoubtEvidence,
    client_limit,
    drift,
    explain,
    slow_requests,
    sparkline,
    stall_period_s,
    two_modes,
)
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import CoreUse, HostUse
from inferometer.stats.measurement import ClientCost, Measurement, WindowFigures
from inferometer.stats.series import BINS_PER_OCTAVE, Series
from inferometer.stats.text_figures import Streaming

MS = 1_000_000
RNG = np.random.default_rng(3)
IDLE = ClientCost(1, 0.1, 30.0, 0, 0)
STEADY = [100.0 + k % 3 for k in range(20)]


def spread(latencies):
    return Series((np.asarray(latencies) * MS).astype(np.int64)).distribution()


def measurement(latencies, client=IDLE):
    latency = spread(latencies)
    return Measurement(
        batch=1,
        duration_ns=10**10,
        request_count=latency.count,
        failed_count=0,
        delayed_count=0,
        infer_per_s=Estimate(100, 95, 105),
        send_per_s=100.0,
        latency=latency,
        latency_intervals=(),
        service=latency,
        send_ns=0,
        receive_ns=0,
        received_bytes=0,
        client=client,
        server=None,
        failures=(),
    )


def instants(ended_us, latency_ns=0):
    """Slow requests that ended at these times."""
    ended = np.asarray(ended_us).astype(np.int64)
    return Groups(ended, np.ones_like(ended), np.broadcast_to(np.int64(latency_ns), ended.shape))


def evidence(**changes):
    rates = changes.pop("rates", STEADY)
    usual = DoubtEvidence(
        windows=[WindowFigures(float(k), 10**9, 100, 0, rate, MS, MS, 0) for k, rate in enumerate(rates)],
        found=measurement(RNG.normal(10, 1, 2000)),
        name="p99 latency",
        latency=Estimate(10 * MS, 9 * MS, 11 * MS),
        ends=instants(()),
        slow=instants(()),
        precision=0.02,
        is_capped=False,
    )
    return replace(usual, **changes)


def in_order(latencies):
    """Requests that ended one after the other with these latencies."""
    return evidence(
        found=measurement(latencies),
        ends=instants(np.arange(len(latencies)), (np.asarray(latencies) * MS).astype(np.int64)),
    )


MIXED = RNG.permutation(np.concatenate([RNG.normal(10, 1, 1500), RNG.normal(40, 3, 500)]))
EVIDENCE = {
    "client-limited": evidence(found=measurement([10.0] * 99, replace(IDLE, cpu_share=0.97))),
    "too few samples": evidence(latency=Estimate(10 * MS)),
    "periodic stalls": evidence(slow=instants(np.arange(8) * 2_000_000)),
    "drift": evidence(rates=np.linspace(100, 150, 20)),
    "bimodal": in_order(MIXED),
}


@pytest.mark.parametrize(("kind", "seen"), EVIDENCE.items(), ids=EVIDENCE)
def test_every_reason_is_named(kind, seen):
    doubt = explain(seen)
    assert doubt.kind == kind
    assert doubt.text
    assert len(doubt.sparkline) == 20


def test_without_a_special_reason_more_time_is_suggested():
    doubt = explain(evidence())
    assert (doubt.kind, doubt.text) == ("too few samples", "about 250 s of measurement would be enough")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (evidence(latency=Estimate(10 * MS)), "2,000 requests are too few"),
        (
            in_order(MIXED / 1000),
            "25 % of the requests take about 40.0 µs, the others 10.0 µs",
        ),
        (
            in_order(MIXED * 1000),
            "25 % of the requests take about 40.0 s, the others 10.0 s",
        ),
        (
            evidence(found=replace(measurement([10.0] * 99), client=replace(IDLE, lag_p50_ns=594 * MS))),
            "594 ms late",
        ),
    ],
)
def test_numbers_are_formatted_as_elsewhere(seen, words):
    assert words in explain(seen).text


def test_no_time_is_suggested_if_one_event_determines_the_width():
    doubt = explain(evidence(latency=Estimate(10 * MS, 2 * MS, 30 * MS)))
    assert doubt.kind == "too few samples"
    assert "for a longer measurement to help" in doubt.text


@pytest.mark.parametrize(
    ("latency", "figure"),
    [
        (Estimate(10, 9, 11), "p99 latency"),
        (Estimate(100, 99, 101), "throughput"),
        (Estimate(10), "p99 latency"),
    ],
)
def test_the_course_of_the_least_precise_figure_is_shown(latency, figure):
    assert explain(evidence(latency=latency)).figure == figure


@pytest.mark.parametrize(
    ("client", "is_capped", "is_limited"),
    [
        (IDLE, False, False),
        (replace(IDLE, cpu_share=0.91), False, True),
        (replace(IDLE, lag_p50_ns=2 * MS), False, True),
        (replace(IDLE, lag_p50_ns=2 * MS), True, False),  # they waited for a slot, as requested
        (replace(IDLE, lag_p50_ns=MS // 2), False, False),
    ],
)
def test_client_is_the_limit_when_it_is_busy_or_late(client, is_capped, is_limited):
    assert (client_limit(measurement([10.0] * 99, client), is_capped=is_capped) is not None) == is_limited


@pytest.mark.parametrize(
    ("loop_lag_ms", "first_ms", "is_stream", "is_limited"),
    [
        (6, 50, True, True),
        (4, 50, True, False),  # less than a tenth of the measured time
        (1200, 1250, True, True),  # the measured time is our own lateness
        (0.9, 1, True, False),
        (6, 50, False, False),  # the server waits for the next request
    ],
)
def test_client_is_the_limit_when_it_reads_streams_late(loop_lag_ms, first_ms, is_stream, is_limited):
    client = replace(IDLE, loop_lag_p50_ns=round(loop_lag_ms * MS))
    found = measurement([600.0] * 99, client)
    if is_stream:
        first, gaps = spread([first_ms] * 99), spread([10.0] * 99)
        found = replace(found, streaming=Streaming(99, 99.0, gaps, first, gaps))
    said = client_limit(found)
    assert (said is not None) == is_limited
    assert said is None or said.text.startswith("client-limited: this tool was ")


@pytest.mark.parametrize(
    ("ours", "workers", "is_stream", "is_limited"),
    [
        (CoreUse(0.3, 0.65), 1, True, True),
        (CoreUse(0.3, 0.65), 4, True, False),
        (CoreUse(0.3, 0.2), 1, True, False),  # it had the cores it needed most of the time
        (CoreUse(0.75, 0.2), 1, True, False),
        (CoreUse(0.3, 0.65), 1, False, False),  # the server waits for the next request
    ],
)
def test_client_is_the_limit_when_streams_find_it_without_a_core(ours, workers, is_stream, is_limited):
    found = measurement([600.0] * 99, replace(IDLE, workers=workers))
    if is_stream:
        first, gaps = spread([50] * 99), spread([10.0] * 99)
        found = replace(found, streaming=Streaming(99, 99.0, gaps, first, gaps))
    said = client_limit(found, host=HostUse(2, 1.9, ours=ours))
    assert (said is not None) == is_limited
    assert said is None or (said.is_starved and "waited for a core" in said.text)


@pytest.mark.parametrize(
    ("latency_ms", "ours", "lag_ms", "is_limited"),
    [
        (18.9, CoreUse(0.02, 0.08, 10), 0, True),  # 8 ms of each: 10 ms is true
        (14.3, CoreUse(0.02, 0.08, 20), 0, True),  # 4 ms, for several replies at a time
        (10.1, CoreUse(0.02, 0.08, 800), 0, False),  # 0.1 ms
        (18.9, CoreUse(0.9, 0.1, 10), 0, False),  # busy, not starved
        (500, CoreUse(0.3, 0.65, 40), 0.5, True),  # by rate, with a backlog
        (500, CoreUse(0.3, 0.65, 40), 0, False),  # each request waits for a distant reply
        (18.9, CoreUse(0.02, 0.08), 0, False),  # a kernel that does not count waits
        (18.9, None, 0, False),
    ],
)
def test_a_client_waiting_for_a_core_is_the_limit(latency_ms, ours, lag_ms, is_limited):
    client = replace(IDLE, lag_p50_ns=round(lag_ms * MS), lag_p99_ns=round(lag_ms * MS))
    host = None if ours is None else HostUse(2, 1.9, ours=ours)
    said = client_limit(measurement([latency_ms] * 99, client), host=host)
    assert (said is not None) == is_limited
    assert said is None or (said.is_starved and "run queue" in said.text)


WAITING = CoreUse(0.2, 0.4, 40)  # 10 ms at a time


@pytest.mark.parametrize(
    ("workers", "is_limited"),
    [
        (CoreUse(0.02, 0.004, 100), False),  # only the process that reports waited
        (CoreUse(0.02, 0.4, 40), True),
        (None, True),  # a file of an earlier version does not tell them apart
    ],
)
def test_only_waits_of_the_workers_are_in_the_latencies(workers, is_limited):
    host = HostUse(2, 1.9, 0.1, ours=CoreUse(0.1, 0.4, 60), workers=workers)
    said = client_limit(measurement([18.9] * 99, IDLE), host=host)
    assert (said is not None) == is_limited


@pytest.mark.parametrize(
    ("client", "host", "note", "words"),
    [
        # Its own worker has a core to itself: more workers help, whatever other programs do.
        (replace(IDLE, cpu_share=0.97), None, Note.CLIENT_LIMITED, "97 % of a core"),
        (replace(IDLE, cpu_share=0.97), HostUse(2, 2.0, 0.2, ours=WAITING), Note.CLIENT_LIMITED, "97 %"),
        (replace(IDLE, lag_p50_ns=5 * MS), HostUse(8, 1, 0.2, ours=CoreUse(0.7, 0.01, 9)), Note.CLIENT_LIMITED, "late"),
        # It waits for cores that other programs use: more workers would wait as well.
        (IDLE, HostUse(2, 2.0, 0.1, ours=WAITING), Note.CLIENT_STARVED, "other programs used 1.7 of the machine's 2"),
        (IDLE, HostUse(2, 2.0, 1.7, ours=WAITING), Note.CLIENT_STARVED, "the server used 1.7 of the machine's 2"),
        (IDLE, HostUse(2, 2.0, 0.1, ours=CoreUse(1.8, 4.0, 400)), Note.CLIENT_STARVED, "this tool used 1.8 of"),
        (IDLE, HostUse(2, 2.0, ours=WAITING, is_local=False), Note.CLIENT_STARVED, "other programs used 1.8"),
        (IDLE, HostUse(2, 2.0, ours=WAITING), Note.CLIENT_STARVED, "10.0 ms at a time"),  # the server was not found
        (replace(IDLE, lag_p50_ns=5 * MS), HostUse(2, 2.0, 0.1, ours=WAITING), Note.CLIENT_STARVED, "other programs"),
    ],
)  # fmt: skip
def test_more_workers_are_advised_only_where_they_help(client, host, note, words):
    (remark,) = client_remarks(measurement([20.0] * 99, client), is_capped=False, host=host)
    assert remark.note is note
    assert words in remark.text
    assert ("--workers auto" in remark.note.advice) == (note is Note.CLIENT_LIMITED)


@pytest.mark.parametrize("seed", range(20))
def test_a_starved_client_is_named_and_one_that_hardly_waits_is_not(seed):
    """Replies of a server wait until their reader has a core, which is a larger or smaller part of the latency."""
    chance = np.random.default_rng(seed)
    service_ms, per_s = chance.uniform(1, 50), chance.uniform(20, 400)
    cpu_s = per_s * chance.uniform(20e-6, 60e-6)
    for part, is_starved in ((chance.uniform(0.3, 2), True), (chance.uniform(0, 0.03), False)):
        waits_ms = chance.exponential(part * service_ms, 2000)
        latencies = service_ms * chance.lognormal(0, 0.1, 2000) + waits_ms
        ours = CoreUse(cpu_s, per_s * waits_ms.mean() / 1000, per_s * chance.uniform(0.95, 1.3))
        others = chance.uniform(1.5, 2) - cpu_s
        found = measurement(latencies)
        limit = client_limit(found, host=HostUse(2, others + cpu_s, 0.01, ours=ours))
        assert (limit is not None) == is_starved, (part, service_ms)
        assert limit is None or (limit.is_starved and "other programs used 1." in limit.text)


DRIFTS = {
    "up": (np.linspace(100, 150, 20), 0.375),
    "down": (np.linspace(150, 100, 20), -0.273),
    "down to nothing": ([400, 200, 100, 50, 10, 5, 2, 1, 0, 0, 0, 0], -1.0),
    "up from nothing": ([0, 0, 0, 0, 10, 20, 40, 60, 80, 100, 120, 140], None),
    "a little": (np.linspace(100, 103, 20), None),
    "noise": (100 + 10 * RNG.standard_normal(20), None),
    "a step back": ([100, 150] * 10, None),
    "too short": ([100, 200, 300], None),
    "nothing": ([], None),
    "zero": ([0.0] * 20, None),
}


@pytest.mark.parametrize("count", [6, 8, 10, 20])
def test_independent_windows_hardly_ever_drift(count):
    """However few there are: a line through six of them explains half of their variance in one of nine cases."""
    chance = np.random.default_rng(count)
    found = [drift(list(row)) for row in chance.gamma(30, size=(1000, count))]
    assert sum(change is not None for change in found) <= 10
    steady = [drift(list(row + np.linspace(0, 60, count))) for row in chance.gamma(30, size=(50, count))]
    assert sum(change is not None for change in steady) >= 30


@pytest.mark.parametrize(("values", "change"), DRIFTS.values(), ids=DRIFTS)
def test_drift_is_a_trend_and_not_noise(values, change):
    for unit in (1.0, 1e-6):
        found = drift([value * unit for value in values])
        assert found == (None if change is None else pytest.approx(change, abs=0.01))


STALLS = {
    "bunches every two seconds": (np.add.outer(np.arange(6) * 2.0, np.arange(50) * 1e-4).ravel(), 2.0),
    "one slow request a second": (np.arange(10) * 1.0 + RNG.normal(0, 0.02, 10), 1.0),
    "slow requests at random": (np.sort(RNG.uniform(0, 20, 200)), None),
    "bunches at random times": (np.add.outer([0, 1.2, 1.9, 6, 8.5, 9], np.arange(9) * 1e-4).ravel(), None),
    "bursts of a fifth of the time": (np.add.outer(np.arange(6) * 2.0, np.arange(50) * 8e-3).ravel(), 2.0),
    "bursts of half the time": (np.add.outer(np.arange(6) * 2.0, np.arange(50) * 2e-2).ravel(), None),
    "too few": (np.arange(3) * 2.0, None),
    "none": (np.empty(0), None),
}


@pytest.mark.parametrize(("ends_s", "period"), STALLS.values(), ids=STALLS)
def test_stalls_are_periodic_when_they_come_at_regular_times(ends_s, period):
    found = stall_period_s(instants(ends_s * 1e6))
    assert found == (None if period is None else pytest.approx(period, rel=0.05))


def test_randomly_timed_slow_requests_are_rarely_called_periodic():
    """A fixed sample; `make trust` has a large one for each number of slow requests."""
    rng = np.random.default_rng(20)
    samples = [np.sort(rng.integers(0, 20_000_000, size)) for size in range(4, 34) for _ in range(20)]
    assert sum(stall_period_s(instants(sample)) is not None for sample in samples) <= 0.015 * len(samples)


def closed_loop(share, times, rng, count=200):
    """Requests one after the other, of which a share takes so many times as long as the others."""
    latency_ns = (np.where(rng.random(count) < share, times, 1.0) * MS * rng.uniform(0.9, 1.1, count)).astype(
        np.int64
    )
    return Groups(np.cumsum(latency_ns) // 1000, np.ones(count, dtype=np.int64), latency_ns)


def test_slow_requests_that_fill_the_time_are_rarely_called_periodic():
    """One request at a time, independent of each other: each slow one lasts longer than the others between two."""
    rng = np.random.default_rng(21)
    samples = [
        slow_requests(closed_loop(share, times, rng), MS)
        for share in (0.02, 0.05)
        for times in (50, 200)
        for _ in range(150)
    ]
    assert sum(stall_period_s(sample) is not None for sample in samples) <= 0.015 * len(samples)


def test_stalls_that_fill_most_of_the_time_are_periodic():
    """A server that stops for 0.8 s in every second."""
    ends = np.arange(1, 9) * 1.0 + RNG.normal(0, 0.01, 8)
    assert stall_period_s(instants(ends * 1e6, 800 * MS)) == pytest.approx(1.0, rel=0.05)


def test_slow_requests_took_five_times_the_median():
    latency, ended = np.array([1, 1, 6, 1, 9]) * MS, np.array([1, 2, 8, 9, 18])
    found = slow_requests(Groups(ended, np.ones(5, dtype=np.int64), latency), MS)
    assert (list(found.last_us), list(found.slowest_ns)) == ([8, 18], [6 * MS, 9 * MS])


def test_groups_that_nearly_all_contain_a_slow_request_show_no_stalls():
    count = np.full(100, 4)
    ended, slowest = np.arange(100) * 1000, np.full(100, 9 * MS)
    assert not len(slow_requests(Groups(ended, count, slowest), MS))
    slowest[::20], slowest[1::20] = MS, MS
    assert not len(slow_requests(Groups(ended, count, slowest), MS))
    slowest = np.where(np.arange(100) % 20 == 0, 9 * MS, MS)
    assert list(slow_requests(Groups(ended, count, slowest), MS).last_us) == [
        0,
        20_000,
        40_000,
        60_000,
        80_000,
    ]


MODES = {
    "all in two neighbouring bins": ([10.0] * 10 + [10.6] * 10, None),
    "two": (MIXED, 0.25),
    "most are slow": (np.concatenate([RNG.normal(10, 1, 300), RNG.normal(40, 3, 1700)]), 0.85),
    "hits and misses": (np.concatenate([RNG.gamma(9, 0.1, 900), RNG.gamma(9, 2, 900)]), 0.5),
    "normal": (RNG.normal(10, 1, 2000), None),
    "exponential": (RNG.exponential(10, 5000) + 0.1, None),
    "log-normal": (RNG.lognormal(2, 1, 5000), None),
    "uniform": (RNG.uniform(5, 50, 5000), None),
    "a few far out": (np.concatenate([RNG.normal(10, 1, 2000), RNG.normal(90, 3, 20)]), None),
    "near each other": (np.concatenate([RNG.normal(10, 0.1, 900), RNG.normal(11, 0.1, 900)]), None),
    "all the same": (np.full(100, 5.0), None),
    "none": (np.empty(0), None),
}


@pytest.mark.parametrize(("latencies", "share"), MODES.values(), ids=MODES)
def test_two_kinds_of_requests_are_two_peaks_with_a_valley(latencies, share):
    found = two_modes(spread(latencies))
    assert (None if found is None else found.share) == (
        None if share is None else pytest.approx(share, abs=0.05)
    )


COUNTS = 8


def grouped(latencies):
    """The same requests, of which only the slowest of every eight is known."""
    seen = in_order(latencies)
    return replace(seen, ends=seen.ends.thinned(COUNTS))


@pytest.mark.parametrize("arranged", [in_order, grouped])
@pytest.mark.parametrize(
    ("latencies", "kind"),
    [
        (MIXED, "bimodal"),
        (np.sort(MIXED), "too few samples"),  # first all fast ones
        (np.concatenate([np.sort(MIXED)[k::4] for k in range(4)]), "too few samples"),  # slow for a while
    ],
)
def test_slow_requests_that_come_together_are_not_a_kind(latencies, kind, arranged):
    assert explain(arranged(latencies)).kind == kind


def test_requests_that_turn_slow_step_by_step_are_not_a_kind():
    way = np.concatenate(
        [np.full(40, 10.0), np.arange(12.0, 40, 7), np.full(40, 40.0), np.arange(38.0, 10, -7)]
    )
    wave = np.tile(way, 20)
    assert two_modes(spread(wave)) is not None
    assert explain(in_order(wave)).kind == "too few samples"


def queue_of_one_kind(seed, load, requests=300):
    """Latencies of requests that each take 10 ms, one at a time, and arrive at random (M/D/1)."""
    random, waited, found = np.random.default_rng(seed), 0.0, []
    for gap in random.exponential(10 / load, requests):
        waited = max(0.0, waited - gap)
        found.append(waited + 10 + abs(random.normal(0, 0.2)))
        waited += 10
    return found


@pytest.mark.parametrize("load", [0.7, 0.8, 0.9])
def test_waiting_in_a_queue_is_not_a_second_kind_of_requests(load):
    """Those that need not wait are a peak of their own, but each step up is at most one request's time."""
    kinds = [explain(in_order(queue_of_one_kind(seed, load))).kind for seed in range(20)]
    assert kinds.count("bimodal") == 0


def test_requests_before_the_lowest_place_of_the_valley_are_of_the_fast_kind():
    hill = (30, 40, 30)
    counts = (*hill, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, *hill)
    latencies = [
        10 * 2 ** (place / BINS_PER_OCTAVE) for place, count in enumerate(counts) for _ in range(count)
    ]
    found = two_modes(spread(latencies))
    assert found is not None
    assert found.share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([5, 5, 5], "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([10, 90], "▁█"),
        (list(range(80)), "▁▁▁▂▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▄▅▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇▇███"),
    ],
)
def test_sparkline_goes_from_the_lowest_to_the_highest(values, line):
    assert sparkline(values) == line
