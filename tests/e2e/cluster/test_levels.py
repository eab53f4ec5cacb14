"""Levels measured by several clients: one answer, the same by client, and the same again in the exported requests."""

import time
from functools import partial

import numpy as np
import pytest

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.cluster.by_client import ByClient, sizes
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.journal import RequestJournal
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.series import percentile
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.agents import PlantedClock, start_clients
from tests.support.cluster import traffic_to
from tests.support.servers import ScriptedServer, answer, late

MODEL = ModelSpec("fake", "", (), ())
WINDOW_NS = 300 * NS_PER_MS


def settings(windows=3, **more):
    rule = Precision(0.0, windows * WINDOW_NS)
    return LevelSettings(MODEL, 1, None, rule, window_ns=more.pop("window_ns", WINDOW_NS), **more)


class Killing(Watcher):
    """Ends a client after the first window."""

    def __init__(self, load):
        self.load = load
        self.windows = 0

    def window_finished(self, number, window):
        self.windows += 1
        if self.windows == 1:
            self.load.members[1].client.kill()


def measured(port, plan, tmp_path, clocks, how, *, watcher=None, keeps=True, workers=2):
    """The level, and the exported requests of it."""
    traffic = traffic_to(port, 3)
    journal = RequestJournal(tmp_path / "export.json", "kserve", "", [()] * 3, {}, lambda *_: {})
    fds = journal.open_spools(workers * len(clocks)) if keeps else ()
    network = start_clients(ClientJob(traffic, workers=workers, keeps_requests=keeps), clocks)
    figures = ByClient(sizes(traffic.requests))
    with Clients(network, workers=workers, spool_fds=fds, figures=figures) as load:
        follower = Watcher() if watcher is None else watcher(load)
        instrument = Instrument(
            load, monotonic_ns, lambda: None, follower, journal=journal if keeps else None, clients=(figures,)
        )
        mode = "request_rate" if isinstance(plan, Open) else "concurrency"
        level = measure_level(instrument, how, LoadPoint(mode, 10.0, plan, asked_per_s=200.0))
        load.stop()
        assert load.spool_problem == ""
    if not keeps:
        return level, ()
    return level, [request for exported in journal.export().levels for request in exported.requests]


def assert_exported(level, requests, is_open):
    """To the nanosecond."""
    good = [request for request in requests if request.status == "ok"]
    latency = np.array(
        [request.end_ns - (request.due_ns if is_open else request.sent_ns) for request in good]
    )
    found = level.measurement
    assert found.request_count == len(good)
    assert found.latency.percentiles == tuple(
        (p, percentile(latency, p)) for p, _ in found.latency.percentiles
    )
    assert (found.latency.min_ns, found.latency.max_ns) == (latency.min(), latency.max())


def assert_by_client(level):
    """All that clients did is what all of them did."""
    found, clients = level.measurement, level.clients
    assert sum(client.request_count for client in clients) == found.request_count
    assert sum(client.failed_count for client in clients) == found.failed_count
    assert sum(client.infer_per_s for client in clients) == pytest.approx(found.infer_per_s.value)
    assert sum(client.received_bytes for client in clients) >= found.received_bytes
    assert min(client.percentile_ns(50) for client in clients if client.percentiles) <= (
        found.latency.percentile_ns(50)
    )


PLANTED = (PlantedClock(40 * NS_PER_MS, 50e-6), PlantedClock(-40 * NS_PER_MS, -50e-6))


@pytest.mark.parametrize("plan", [Closed(6), Open(Constant(300))], ids=["closed", "open"])
def test_a_level_of_several_clients(plan, tmp_path):
    is_open = isinstance(plan, Open)
    with ScriptedServer(lambda request: answer(b"good")) as server:
        level, requests = measured(server.port, plan, tmp_path, PLANTED, settings())
    assert_exported(level, requests, is_open)
    assert_by_client(level)
    assert [client.name for client in level.clients] == ["client 1", "client 2"]
    assert not level.has_remark(Note.CLIENT_LOST, Note.CLIENT_FAR)
    for client in level.clients:
        assert client.cpu_us_per_request > 0
        assert client.sent_bytes >= client.request_count * 30
        assert 0 < client.floor_ns <= client.percentile_ns(50)
        assert (client.lag_p99_ns > 0) == is_open
    assert (
        level.clients[0].clock.offset_ns > 30 * NS_PER_MS > -30 * NS_PER_MS > level.clients[1].clock.offset_ns
    )


def test_a_whole_plan_of_several_clients(tmp_path):
    """Every request is in the figures, from the first to the last."""
    plan = Open(Constant(200), count=150)
    with ScriptedServer(lambda request: answer(b"good")) as server:
        how = settings(is_whole=True, window_ns=None, window_count=150)
        level, requests = measured(server.port, plan, tmp_path, (None, None, None), how)
    assert len(requests) == 150 == level.measurement.request_count == len(server.requests)
    assert_exported(level, requests, is_open=True)
    assert_by_client(level)
    assert [client.request_count for client in level.clients] == [50, 50, 50]


@pytest.mark.machine(reason="a window has its requests only where other processes leave the clients a core")
@pytest.mark.parametrize("plan", [Closed(6), Open(Constant(300))], ids=["closed", "open"])
def test_a_client_that_is_lost_in_the_level_is_named(plan, tmp_path):
    with ScriptedServer(lambda request: answer(b"good")) as server:
        level, requests = measured(
            server.port, plan, tmp_path, (None, None), settings(5), watcher=Killing, workers=1
        )
    assert_exported(level, requests, isinstance(plan, Open))
    assert_by_client(level)
    (remark,) = (remark for remark in level.remarks if remark.note is Note.CLIENT_LOST)
    assert remark.text.startswith("client 2 (127.0.0.3) was lost 0.")
    is_open = isinstance(plan, Open)
    assert (
        "the other clients have sent its share since then" if is_open else "its share is missing"
    ) in remark.text
    assert level.clients[0].lost is None
    assert level.clients[1].lost.is_taken_over == is_open
    assert not level.is_as_asked
    if is_open:  # the last windows have all requests again
        assert level.windows[-1].request_count == pytest.approx(300 * WINDOW_NS / NS_PER_S, rel=0.2)


def test_a_client_that_is_far_away_is_named(tmp_path):
    """Its requests take a way that is longer by 5 ms: the server tells it by its connections."""
    with ScriptedServer(partial(_far, seen={})) as server:
        level, _ = measured(
            server.port, Closed(3), tmp_path, (None, None, None), settings(), keeps=False, workers=1
        )
    assert [remark.text.partition(":")[0] for remark in level.remarks if remark.note is Note.CLIENT_FAR] in (
        [f"client {number} (127.0.0.{number + 1}) is far away"] for number in (1, 2, 3)
    )


def _far(request, seen):
    """All requests on the first connection that sent some are answered late."""
    first = seen.setdefault("first", request.connection)
    return late(0.005, answer(b"good")) if request.connection == first else answer(b"good")


def test_nothing_grows_between_levels(tmp_path):
    """What comes while no level is measured is not kept for one."""
    traffic = traffic_to(1)
    figures = ByClient(sizes(traffic.requests))
    with ScriptedServer(lambda request: answer(b"good")) as server:
        network = start_clients(ClientJob(traffic_to(server.port)), (None,))
        with Clients(network, figures=figures) as load:
            load.apply(Closed(1))
            time.sleep(0.05)
            assert len(load.collect(0).records)
            assert not figures._courses
