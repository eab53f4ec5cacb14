"""One client in a process of its own, asked by hand."""

import time
from typing import Any

from inferometer.base.units import NS_PER_MS, monotonic_ns
from inferometer.cluster.blocks import unpack
from inferometer.cluster.messages import ApplyPlan, AskTime, ClientJob, Collect, FinishClient, StopLoad
from inferometer.load.plan import Closed, Constant, Open
from inferometer.load.resumed import Timing
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring
from tests.support.agents import PlantedClock, start_clients
from tests.support.servers import ScriptedServer, answer

REQUEST = b"GET /%d HTTP/1.1\r\nHost: here\r\n\r\n"


def traffic(server: ScriptedServer, steps: int = 1) -> Traffic:
    return Traffic(Wiring(Endpoint("127.0.0.1", server.port)), tuple(REQUEST % step for step in range(steps)))


def ask(network, client, message):
    pending = client.ask(message)
    found: list[Any] = []
    while not found:
        found = network.wait([pending], 10.0)
    return found[0][1]


def test_a_client_sends_its_share_and_reports_the_outcome():
    with ScriptedServer(lambda request: answer(b"good")) as server:
        job = ClientJob(traffic(server, 4), workers=2)
        with start_clients(job, (None, None)) as network:
            for number, client in enumerate(network.clients):
                ask(network, client, ApplyPlan(Closed(4, count=10), Timing(monotonic_ns()), 2 * number, 4))
            rows = []
            for client in network.clients:
                while not (report := ask(network, client, Collect())).is_finished:
                    rows.append(unpack(report.block))
                rows.append(unpack(report.block))
                stopped = ask(network, client, StopLoad())
                assert (stopped.cancelled, stopped.totals.sent, stopped.totals.good) in ((0, 6, 6), (0, 4, 4))
                ask(network, client, FinishClient())
    assert sum(map(len, rows)) == 10 == len(server.requests)
    assert sorted({request.path for request in server.requests}) == ["/0", "/1", "/2", "/3"]


def test_a_planted_clock_is_that_of_the_client_and_its_workers():
    offset_ns = 50 * NS_PER_MS
    with ScriptedServer(lambda request: answer(b"good")) as server:
        job = ClientJob(traffic(server))
        with start_clients(job, (PlantedClock(offset_ns, 50e-6),)) as network:
            (client,) = network.clients
            before = monotonic_ns()
            told = ask(network, client, AskTime()).now_ns
            assert told - before >= offset_ns
            start_ns = told + 50 * NS_PER_MS
            ask(network, client, ApplyPlan(Open(Constant(200), count=20), Timing(start_ns), 0, 1))
            report = ask(network, client, Collect())
            records = [unpack(report.block)]
            while not report.is_finished:
                time.sleep(0.01)
                report = ask(network, client, Collect())
                records.append(unpack(report.block))
    due = sorted(time_ns for part in records for time_ns in part.due_ns)
    assert due == [start_ns + number * 5 * NS_PER_MS for number in range(1, 21)]
    assert all((part.sent_ns >= part.due_ns).all() for part in records)
