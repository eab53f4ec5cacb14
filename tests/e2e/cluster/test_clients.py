"""One load from several clients: the plan is cut, clocks are changed, and what they deliver is one answer."""

import numpy as np
import pytest

from inferometer.base import status as outcome
from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.cluster.by_client import ByClient
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.load.plan import Cancellation, Closed, Constant, Listed, Open, Periodic, Poisson
from inferometer.load.sequences import SequencePlan
from inferometer.model.spec import Tensor
from inferometer.records.records import join
from inferometer.services.endpoint import Endpoint
from inferometer.services.kserve import PLACE
from inferometer.services.traffic import Traffic, Validation, Wiring
from tests.support.agents import PlantedClock, start_clients
from tests.support.cluster import clients, collect_all, numbers, traffic_to
from tests.support.servers import ScriptedServer, answer, answer_json, late, reply


@pytest.fixture
def server():
    with ScriptedServer(lambda request: answer(b"good")) as running:
        yield running


def test_a_closed_plan_is_shared_by_all_workers(server):
    with clients(ClientJob(traffic_to(server.port, 3), workers=2), (None, None, None)) as load:
        load.apply(Closed(6, count=100))
        records = collect_all(load)
        assert load.stop() == 0
        totals = load.totals()
    assert len(records) == 100 == len(server.requests)
    assert (totals.sent, totals.good, totals.failed, totals.cut_off) == (100, 100, 0, 0)
    assert totals.steps.tolist() == np.bincount(records.step).tolist()
    assert server.connections == 6
    assert (np.diff(records.end_ns) >= 0).all()


def test_clients_spread_their_requests_over_several_addresses(server):
    with ScriptedServer(lambda request: answer(b"good")) as other:
        first, second = (traffic_to(port, 2) for port in (server.port, other.port))
        wiring = first.wiring._replace(others=(second.wiring,), balance="round-robin")
        both = first._replace(wiring=wiring, requests=(*first.requests, *second.requests))
        with clients(ClientJob(both), (None, None)) as load:
            load.apply(Closed(4, count=40))
            records = collect_all(load)
            load.stop()
    assert np.bincount(records.step // 2).tolist() == [20, 20]
    assert len(server.requests) == len(other.requests) == 20


@pytest.mark.parametrize(
    "schedule", [Constant(200), Poisson(200, seed=3), Listed(tuple(range(0, 500_000_000, 5_000_000)))]
)
def test_an_open_plan_is_sent_once_by_all_together(server, schedule):
    again = Poisson(200, seed=3) if isinstance(schedule, Poisson) else schedule
    with clients(ClientJob(traffic_to(server.port), workers=1), (None, None)) as load:
        start_ns = load.apply(Open(schedule, count=100))
        records = collect_all(load)
        widest = max(member.clock.fit.uncertainty_at(load.clock()) for member in load.members)
    assert len(records) == 100 == len(server.requests)
    due = np.sort(records.due_ns)
    wanted = np.array([start_ns + again.due_ns(number) for number in range(100)])
    assert np.abs(due - wanted).max() <= widest + 1000


@pytest.mark.machine(reason="clocks are compared within 20 ms only by messages that nothing delays")
def test_clocks_that_are_ahead_and_drift_make_no_difference():
    """The server is on this machine, whose clock is ours: what came when is known."""
    planted = (PlantedClock(50 * NS_PER_MS, 50e-6), PlantedClock(-50 * NS_PER_MS, -50e-6))
    takes_s, arrived, gone = 0.02, dict[str, int](), dict[str, int]()

    def script(request):
        arrived[request.path] = monotonic_ns()

        def act(wire):
            wire.ended.wait(takes_s)
            gone[request.path] = monotonic_ns()
            wire.send(reply(b"good"))

        return act

    count, widest = 200, 0
    with (
        ScriptedServer(script) as server,
        clients(ClientJob(traffic_to(server.port, count)), planted) as load,
    ):
        start_ns = load.apply(Open(Constant(100), count=count, steps=tuple(range(count))))
        parts, is_finished = [], False
        while not is_finished:
            found = load.collect(load.clock() + NS_PER_S)
            parts.append(found.records)
            is_finished = found.is_finished
            widest = max(widest, *(member.clock.fit.uncertainty_at(load.clock()) for member in load.members))
        now = load.clock()
        for member, true in zip(load.members, planted, strict=True):
            known = member.clock.fit
            assert abs(known.drift - true.drift) <= known.drift_uncertainty + 1e-9
            assert abs(known.to_client(now) - true.at(now)) <= known.uncertainty_at(now) + 1
    records = join(parts)
    assert sorted(records.step.tolist()) == list(range(count))
    assert widest < 20 * NS_PER_MS
    wanted = start_ns + (records.step + 1) * 10 * NS_PER_MS
    assert np.abs(records.due_ns - wanted).max() <= 2 * widest
    assert (records.sent_ns >= records.due_ns).all()
    came = np.array([arrived[f"/{step}"] for step in records.step])
    went = np.array([gone[f"/{step}"] for step in records.step])
    assert (came >= wanted - 2 * widest).all()  # nothing was sent before its time
    assert (records.sent_ns <= came + widest).all()
    assert (records.end_ns >= went - widest).all()
    assert (records.end_ns - records.due_ns >= takes_s * NS_PER_S).all()


def test_an_error_of_the_user_is_reported_as_such(server):
    """Of a plan that only one worker has a part in."""
    with clients(ClientJob(traffic_to(server.port)), (None, None)) as load:
        load.apply(Periodic(1, 3, 1, 2))
        with pytest.raises(UsageError, match="fewer responses than the request period of 2"):
            collect_all(load)
        assert load.live == load.members


def test_more_workers_on_each_client(server):
    with clients(ClientJob(traffic_to(server.port)), (None, None)) as load:
        load.apply(Closed(2, count=10))
        assert len(collect_all(load)) == 10
        load.resize(4)
        assert load.count == 4
        load.apply(Closed(8, count=40))
        assert len(collect_all(load)) == 40
        load.stop()
        assert load.totals().good == 50
    assert len(server.requests) == 50


def test_failures_and_their_words_are_merged():
    def script(request):
        return answer(b"no", status=503 if request.path == "/1" else 200)

    with (
        ScriptedServer(script) as server,
        clients(ClientJob(traffic_to(server.port, 2)), (None, None)) as load,
    ):
        load.apply(Closed(2, count=20))
        records = collect_all(load)
        assert len(records.failed) == 10
        assert len(load.examples()) == 1


def test_numbers_of_a_schedule_are_each_sent_once(server):
    with clients(ClientJob(traffic_to(server.port), workers=2), (None, None)) as load:
        start_ns = load.apply(Open(Constant(400), count=80))
        assert numbers(collect_all(load), start_ns, 400) == list(range(80))


class ByMember(ByClient):
    """Keeps what each client delivers."""

    def __init__(self):
        super().__init__()
        self.parts = {}

    def reported(self, member, records, now_ns):
        self.parts.setdefault(member, []).append(records)


def test_a_sequence_stays_with_one_client(server):
    plan = SequencePlan(streams=((0, 1), (2,)), is_given=False, length=5, variation=0.0)
    body = b"{" + PLACE + b"}"
    request = b"POST /%d HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" + body
    requests = tuple(request % (step, len(body)) for step in range(3))
    traffic = Traffic(Wiring(Endpoint("127.0.0.1", server.port)), requests)
    kept = ByMember()
    network = start_clients(ClientJob(traffic, workers=2, sequences=plan), (None, None))
    with Clients(network, workers=2, figures=kept) as load:
        load.apply(Closed(4, count=60))
        records = collect_all(load)
    ids = [{number for part in parts for number in part.sequence.tolist()} for parts in kept.parts.values()]
    assert len(ids) == 2
    assert ids[0].isdisjoint(ids[1])
    counts = np.bincount(records.sequence)
    assert set(counts[counts > 0].tolist()) == {5}
    assert len(records) == 60 == len(server.requests)


def test_a_share_of_all_requests_is_cancelled():
    with ScriptedServer(lambda request: late(0.05, answer(b"good"))) as server:
        cancellation = Cancellation(after_ns=5 * NS_PER_MS, share=0.5, seed=3)
        job = ClientJob(traffic_to(server.port), cancellation=cancellation)
        with clients(job, (None, None)) as load:
            load.apply(Closed(4, count=40))
            records = collect_all(load)
            load.stop()
            totals = load.totals()
    assert len(records) == 40
    assert 8 <= len(records.withdrawn) == totals.withdrawn <= 32


def test_replies_are_compared_by_every_client():
    tensor = Tensor("OUT", "INT32", (1,), b"\1\0\0\0")
    document = {"outputs": [{"name": "OUT", "datatype": "INT32", "shape": [1], "data": [2]}]}
    with ScriptedServer(lambda request: answer_json(document)) as server:
        traffic = traffic_to(server.port)._replace(validation=Validation(((tensor,),)))
        with clients(ClientJob(traffic), (None, None)) as load:
            load.apply(Closed(2, count=10))
            records = collect_all(load)
            examples = load.examples()
    assert records.status.tolist() == [outcome.MISMATCH] * 10
    assert "Output doesn't match expected output" in examples[outcome.MISMATCH]
