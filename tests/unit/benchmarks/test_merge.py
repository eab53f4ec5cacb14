"""The simulated clients of the merge: all that they say has ended is in the one answer, by our clock."""

import numpy as np

from benchmarks.merge import merge, simulated_network
from inferometer.base.units import NS_PER_S
from inferometer.cluster.clients import Clients
from inferometer.load.plan import Constant, Open


def test_what_all_clients_say_is_one_answer():
    found = merge(5, 200, 3)
    assert found["seconds"] == 3
    assert abs(found["requests"] - 3000) <= 10
    assert found["clock ± us"] < 1000


def test_times_are_ours_whatever_the_clocks_are():
    network = simulated_network(4, 100)
    with Clients(network, clock=network.time, sleep=network.time.sleep) as load:
        start_ns = load.apply(Open(Constant(400)))
        parts = []
        while network.time.now_ns < start_ns + 30 * NS_PER_S:
            parts.append(load.collect(network.time.now_ns + NS_PER_S).records)
        uncertain = max(member.clock.fit.uncertainty_ns for member in load.members)
        for member, client in zip(load.members, network.clients, strict=True):
            assert abs(member.clock.fit.drift - client.drift) <= member.clock.fit.drift_uncertainty + 1e-12
    assert uncertain < 110_000
    ends = np.concatenate([part.end_ns for part in parts])
    assert (ends >= start_ns - uncertain).all()
    assert (ends <= network.time.now_ns + uncertain).all()
    assert len(ends) == sum(client.ended for client in network.clients)
