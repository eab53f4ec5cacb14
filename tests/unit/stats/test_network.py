"""Where the bytes go: medians with intervals, and the share of the network in the latency."""

import numpy as np
import pytest

from inferometer.records.network_path import NetworkPath
from inferometer.records.path import Opening, PathReport
from inferometer.records.records import COLUMNS, from_rows
from inferometer.stats import network
from inferometer.stats.estimate import Estimate
from inferometer.stats.network import PhaseSample, median_estimate, network_figures, network_share

MS = 1_000_000


def records(*rows: dict[str, int]):
    cells = np.zeros((len(rows), len(COLUMNS)), dtype=np.int64)
    for row, values in enumerate(rows):
        for name, value in values.items():
            cells[row, COLUMNS.index(name)] = value
    return from_rows(cells)


def request(sent_ns: int, send: int, wait: int, receive: int, status: int = 0) -> dict[str, int]:
    wrote, first = sent_ns + send, sent_ns + send + wait
    times = {"due_ns": sent_ns, "sent_ns": sent_ns, "wrote_ns": wrote, "first_ns": first}
    return {**times, "end_ns": first + receive, "status": status}


def path_of(*openings: Opening, firsts: tuple[tuple[int, Opening], ...] = ()) -> NetworkPath:
    found = NetworkPath()
    found.add([PathReport(3 * MS, openings, firsts)])
    return found


def opening(connect: int, tls: int = 0, rtt_us: int = 0, *, started: int = 1) -> Opening:
    return Opening(started, started + connect, started + connect + tls, rtt_us, bool(tls))


def test_the_interval_of_the_median_covers_it():
    """Exact by order statistics: with 6 values the range misses the median with probability 2 / 64."""
    assert median_estimate([3, 1, 2]) == Estimate(2.0)
    assert median_estimate([1, 2, 3, 4, 5, 6]) == Estimate(3.5, 1.0, 6.0)
    assert median_estimate(list(range(10))) == Estimate(4.5, 1.0, 8.0)  # misses it with 22 / 1024
    assert median_estimate(list(range(20))) == Estimate(9.5, 5.0, 14.0)
    rng = np.random.default_rng(7)
    for count in (6, 20, 69, 71, 200):
        draws = rng.exponential(1000.0, (400, count))
        inside = [
            row.low <= 1000 * np.log(2) <= row.high
            for row in (median_estimate(list(map(int, draw))) for draw in draws)
        ]
        assert np.mean(inside) >= 0.92


def test_each_planted_delay_is_in_its_phase():
    """5 ms each way: connect, TLS (one more round trip), then the first byte."""
    new = opening(10 * MS, 11 * MS, 10_000)
    path = path_of(new, firsts=((500 * MS, new),))
    ended = records(
        request(500 * MS, 1000, 22 * MS, 2 * MS),
        *(request(n * 600 * MS, 2000, 12 * MS, MS) for n in range(1, 4)),
    )
    path.match(ended)
    later = PhaseSample()
    later.add(ended, path)
    found = network_figures(path, later, is_local=False)
    assert found is not None
    assert (found.resolve_ns, found.connect.p50_ns, found.tls.p50_ns) == (3 * MS, 10 * MS, 11 * MS)
    assert (found.round_trip, found.round_trip_source) == (Estimate(10 * MS), "kernel")
    assert (found.first.count, found.first.send_ns, found.first.wait_ns) == (1, 1000, 22 * MS)
    assert (found.later.count, found.later.send_ns, found.later.wait_ns) == (3, 2000, 12 * MS)
    assert (found.first.receive_ns, found.later.receive_ns) == (2 * MS, MS)


def test_failed_first_requests_are_not_counted_and_not_awaited():
    new = opening(MS)
    path = path_of(new, firsts=((5, new), (6, new)))
    path.match(records(request(5, 1, 1, 1, status=1503)))
    path.match(records(request(6, 1, 2, 3)))
    assert [tuple(row) for row in path.phases] == [(1, 2, 3)]
    path.match(records(request(6, 9, 9, 9)))  # the same send time again
    assert len(path.phases) == 1


def figures(*rtts_us: int, is_local: bool = False):
    path = path_of(*(opening(2 * rtt * 1000, rtt_us=rtt) for rtt in rtts_us))
    found = network_figures(path, PhaseSample(), is_local=is_local)
    assert found is not None
    return found


SHARES = (
    ("a third", (5000,) * 8, False, Estimate(15 * MS, 14 * MS, 16 * MS), (0.333, 5 / 16, 5 / 14)),
    ("wide round trips", (4000, 4000, 5000, 5000, 6000, 6000), False, Estimate(10 * MS, 10 * MS, 10 * MS),
     (0.5, 0.4, 0.6)),
    ("too few connections", (5000, 5000), False, Estimate(10 * MS, 9 * MS, 11 * MS), (0.5, None, None)),
    ("no interval of the p50", (5000,) * 8, False, Estimate(10 * MS), (0.5, None, None)),
    ("on this machine", (50,) * 8, True, Estimate(MS, MS, MS), None),
    ("longer than a request", (5000,) * 8, False, Estimate(MS, MS, MS), None),
    ("no latency", (5000,) * 8, False, None, None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rtts", "is_local", "p50", "expected"), [row[1:] for row in SHARES], ids=[r[0] for r in SHARES]
)
def test_the_share_is_never_more_than_the_data_show(rtts, is_local, p50, expected):
    found = network_share(figures(*rtts, is_local=is_local), p50)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found.value == pytest.approx(expected[0], abs=0.001)
        assert (found.low, found.high) == pytest.approx(expected[1:])


def test_without_the_kernels_clock_the_time_to_connect_counts():
    path = path_of(*(opening(connect) for connect in (3 * MS, MS, 2 * MS)))
    found = network_figures(path, PhaseSample(), is_local=False)
    assert found is not None
    assert (found.round_trip.value, found.least_round_trip_ns, found.round_trip_source) == (
        2 * MS,
        MS,
        "connect",
    )
    assert network_figures(NetworkPath(), PhaseSample(), is_local=False) is None


def test_long_levels_keep_a_bounded_sample(monkeypatch):
    monkeypatch.setattr(network, "MOST", 100)
    sample, path = PhaseSample(), path_of(opening(MS))
    for part in range(20):
        sample.add(records(*(request(1 + part * 1000 + n, 1, part, 1) for n in range(50))), path)
    assert 50 <= len(sample.rows) <= 100
    assert (sample.seen, sample.stride) == (1000, 16)
    assert set(sample.rows[:, 1].tolist()) == set(range(20))  # all of the level
