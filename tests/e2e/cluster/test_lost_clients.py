"""Clients killed at random moments: what they delivered counts, others carry on, and nothing is left running."""

import os
import random
import signal
import threading
import time
from typing import Any

import pytest

from inferometer.base.errors import LocalError
from inferometer.base.units import NS_PER_S
from inferometer.cluster import clients as controller
from inferometer.cluster.messages import ClientJob
from inferometer.load.plan import Closed, Constant, Open, Poisson
from tests.support.cluster import clients, collect_all, traffic_to
from tests.support.samples import sample
from tests.support.servers import ScriptedServer, answer

DEADLINE_S = 10.0
COUNT = 120
RATE = 150


def assert_gone(pids):
    """Workers end by themselves when their client has gone."""
    end = time.monotonic() + DEADLINE_S
    while any(os.path.exists(f"/proc/{pid}") and not is_zombie(pid) for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.01)


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def processes(load) -> list[Any]:
    return [member.client for member in load.members]


def kill_later(member, after_s):
    def kill():
        time.sleep(after_s)
        member.client.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def pids_of(load):
    return [pid for member in load.members for pid in (member.client.process.pid, *member.client.workers)]


@pytest.mark.machine(reason="a client is killed while it sends, which depends on when it gets a core")
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(sample(2, 20)))
def test_an_open_plan_goes_on_without_the_client_that_was_killed(seed):
    draw = random.Random(seed)
    schedule = Poisson(RATE, seed) if seed % 2 else Constant(RATE)
    with ScriptedServer(lambda request: answer(b"good")) as server:
        with clients(ClientJob(traffic_to(server.port, COUNT)), (None, None, None)) as load:
            pids = pids_of(load)
            victim = draw.choice(load.members)
            load.apply(Open(schedule, count=COUNT, steps=tuple(range(COUNT))))
            thread = kill_later(victim, draw.uniform(0.0, 0.6))
            records = collect_all(load)
            thread.join()
            while victim.loss is None:
                load.collect(0)
            cut = load.stop()
            totals = load.totals()
        assert_gone(pids)
    assert cut == 0
    assert [member for member in load.members if member.loss] == [victim]
    assert victim.loss.why == "its process has ended"
    steps = records.step.tolist()
    paths = [int(request.path[1:]) for request in server.requests]
    assert len(steps) == len(set(steps)) == totals.good  # nothing is counted twice,
    assert len(paths) == len(set(paths))  # and nothing was sent twice
    assert set(steps) <= set(paths)
    missing = set(range(COUNT)) - set(steps)
    assert all(step % 3 == load.members.index(victim) for step in missing)
    if COUNT - 1 in missing:
        assert victim.loss.at_ns > records.due_ns.max() - NS_PER_S  # it was lost at the very end
    survivors = totals.good - victim.all_totals().good
    assert survivors == sum(member.all_totals().good for member in load.members if member is not victim)


@pytest.mark.machine(reason="a client is killed while it sends, which depends on when it gets a core")
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(sample(2, 20)))
def test_of_a_closed_plan_the_share_of_the_client_that_was_killed_is_missing(seed):
    draw = random.Random(100 + seed)
    with ScriptedServer(lambda request: answer(b"good")) as server:
        with clients(ClientJob(traffic_to(server.port), workers=1 + seed % 2), (None, None, None)) as load:
            pids = pids_of(load)
            victim = draw.choice(load.members)
            load.apply(Closed(6))
            thread = kill_later(victim, draw.uniform(0.0, 0.4))
            parts = [load.collect(load.clock() + NS_PER_S).records for _ in range(2)]
            thread.join()
            while victim.loss is None:
                parts.append(load.collect(0).records)
            load.stop()
            totals = load.totals()
        assert_gone(pids)
    assert not victim.loss.is_taken_over
    counted = sum(member.all_totals().good for member in load.members if member is not victim)
    assert totals.good == counted + victim.delivered.good
    assert sum(map(len, parts)) <= totals.good <= len(server.requests)


def collect_to_the_end(load):
    while True:
        load.collect(0)


def test_all_clients_lost_ends_the_load_after_their_records():
    with (
        ScriptedServer(lambda request: answer(b"good")) as server,
        clients(ClientJob(traffic_to(server.port)), (None, None)) as load,
    ):
        load.apply(Closed(2))
        assert len(load.collect(load.clock() + NS_PER_S).records)
        for client in processes(load):
            client.kill()
        with pytest.raises(LocalError, match=r"all 2 clients of the load were lost, client \d \(127"):
            collect_to_the_end(load)
        with pytest.raises(LocalError):
            load.apply(Closed(1))
        assert load.stop() == 0
        assert load.totals().good > 0


def test_a_worker_that_was_killed_takes_its_client_with_it():
    with ScriptedServer(lambda request: answer(b"good")) as server:
        with clients(ClientJob(traffic_to(server.port), workers=2), (None, None)) as load:
            pids = pids_of(load)
            load.apply(Closed(4))
            victim = load.members[0]
            os.kill(processes(load)[0].workers[0], signal.SIGKILL)
            while victim.loss is None:
                load.collect(load.clock() + NS_PER_S)
            assert victim.loss.why == "a worker process was killed by SIGKILL"
            load.apply(Closed(4))  # all of it by the other
            assert load.collect(load.clock() + NS_PER_S).outstanding == 4
        assert_gone(pids)


@pytest.mark.machine(reason="clients end within a deadline that busy cores can exceed")
def test_a_client_that_does_not_answer_is_lost(monkeypatch):
    monkeypatch.setattr(controller, "ANSWER_S", 5.0)  # for the other client to answer, also on a busy machine
    with (
        ScriptedServer(lambda request: answer(b"good")) as server,
        clients(ClientJob(traffic_to(server.port)), (None, None)) as load,
    ):
        load.apply(Open(Constant(20)))
        processes(load)[1].is_mute = True
        assert len(load.collect(load.clock() + NS_PER_S).records)
        assert load.members[1].loss.why == "it did not answer for 5 s"
        assert load.members[0].loss is None


@pytest.mark.machine(reason="clients end within a deadline that busy cores can exceed")
def test_clients_end_when_their_controller_is_silent():
    """Without any connection that would tell."""
    from inferometer.cluster.agent import Agent

    with ScriptedServer(lambda request: answer(b"good")) as server:
        with Agent(ClientJob(traffic_to(server.port)), silent_s=0.2) as agent:
            pids = agent.pids
            end = time.monotonic() + DEADLINE_S
            while not agent.is_over:
                assert time.monotonic() < end
                time.sleep(0.01)
        assert_gone(pids)
