"""Figures by client on simulated clients, in any number of counted windows."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.merge import simulated_network
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.cluster import by_client
from inferometer.cluster.by_client import ByClient
from inferometer.cluster.clients import Clients
from inferometer.cluster.members import Loss
from inferometer.load.plan import Constant, Open
from inferometer.stats.windows import WindowRules
from tests.support.reports import sample_result

WINDOW_NS = 100 * NS_PER_MS


def measured(windows, *, cold=0, clients=3, per_s=500):
    """Measure windows, of which the first `cold` do not count; return the figures and the start of the level."""
    network = simulated_network(clients, per_s)
    figures = ByClient(np.full(16, 100, dtype=np.int64))
    with Clients(network, figures=figures, clock=network.time, sleep=network.time.sleep) as load:
        figures.begin(WindowRules(is_open=True))
        load.apply(Open(Constant(clients * per_s)))
        load.collect(0)
        start_ns = network.time()
        figures.start(start_ns)
        counted = 0
        ends = []
        for number in range(windows):
            end_ns = start_ns + (number + 1) * WINDOW_NS
            seen_ns = 0
            while seen_ns < end_ns:
                collected = load.collect(end_ns)
                seen_ns = collected.seen_ns
                ends.append(collected.records.end_ns)
            figures.cut(end_ns)
        first_ns = start_ns + cold * WINDOW_NS
        last_ns = start_ns + windows * WINDOW_NS
        every = np.concatenate(ends)
        counted = int(((every > first_ns) & (every <= last_ns)).sum())
        found = figures.end(first_ns, last_ns, level_start_ns=start_ns, batch=2)
    return found, counted


@pytest.mark.parametrize(("windows", "cold"), [(1, 0), (5, 0), (9, 4)])
def test_requests_that_ended_in_counted_windows_are_counted(windows, cold):
    found, counted = measured(windows, cold=cold)
    assert sum(client.request_count for client in found) == counted
    for client in found:
        assert client.infer_per_s == pytest.approx(
            client.request_count * 2 * NS_PER_S / ((windows - cold) * WINDOW_NS)
        )
        assert client.sent_bytes == 100 * client.request_count
        assert client.received_bytes == 240 * client.request_count
        assert client.cpu_share == pytest.approx(0.1, rel=0.01)
        assert client.own_cpu_share == pytest.approx(0.01, rel=0.01)
        assert 300_000 <= client.floor_ns <= client.percentile_ns(50) <= client.percentile_ns(99) < 2_100_000
        assert client.lag_p50_ns < client.lag_p99_ns <= 50_000


def test_joined_windows_have_the_same_rates(monkeypatch):
    """With very many windows, those at the edge of the counted range may be joined too."""
    monkeypatch.setattr(by_client, "FEWEST_SLICES", 4)
    monkeypatch.setattr(by_client, "ALL_SLICES", 4)
    monkeypatch.setattr(by_client, "EXACT", 1)
    found, _ = measured(21, cold=3, per_s=2000)
    for client in found:
        assert client.infer_per_s == pytest.approx(4000, rel=0.02)
        assert client.percentile_ns(50) == pytest.approx(1_175_000, rel=0.05)


def test_losses_before_and_during_the_start_are_distinguished():
    network = simulated_network(3, 100)
    figures = ByClient()
    load = Clients(network, figures=figures, clock=network.time, sleep=network.time.sleep)
    loss = Loss(network.time(), "its node was lost", 0, 0, False)
    load.members[0].loss = loss
    figures.begin(WindowRules())
    load.members[1].loss = replace(loss, at_ns=loss.at_ns + 1)
    figures.start(network.time() + NS_PER_S)
    figures.cut(network.time() + 2 * NS_PER_S)
    start_ns = network.time() + NS_PER_S
    found = figures.end(start_ns, start_ns + NS_PER_S, level_start_ns=start_ns, batch=1)
    assert [None if client.lost is None else client.lost.after_s for client in found] == [-1.0, 0.0, None]


def test_a_loss_that_no_level_names_is_reported_at_the_end():
    network = simulated_network(2, 100)
    figures = ByClient(class_name="steady")
    load = Clients(network, figures=figures, clock=network.time, sleep=network.time.sleep)
    assert not [*figures.late_losses([])]
    load.members[0].loss = Loss(network.time(), "its node was lost", 0, 0, False)
    (remark,) = figures.late_losses([])
    assert remark.note is Note.CLIENT_LOST
    assert remark.text.startswith(
        f"{load.members[0].name} for class 'steady' was lost after the last level: its"
    )
    start_ns = network.time()
    figures.begin(WindowRules())
    figures.start(start_ns)
    figures.cut(start_ns + NS_PER_S)
    clients = figures.end(start_ns, start_ns + NS_PER_S, level_start_ns=start_ns, batch=1)
    assert not [*figures.late_losses([replace(sample_result().levels[0], clients=clients)])]
