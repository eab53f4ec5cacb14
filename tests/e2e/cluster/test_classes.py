"""Classes of a scenario whose load comes from clients: each class has clients of its own, all follow one clock."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS
from inferometer.cluster.by_client import ByClient, sizes
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.load.plan import Closed, Constant, Excerpt, Joint, Open
from inferometer.load.together import Pace, Together
from inferometer.load.visit_file import VisitFile
from inferometer.measure.clients import CLASSES_PACE
from inferometer.measure.instrument import ClassSettings, Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.measurement import PHASE
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.agents import PlantedClock, start_clients
from tests.support.cluster import traffic_to
from tests.support.servers import ScriptedServer, answer

CLOCKS = (PlantedClock(40 * NS_PER_MS, 50e-6), PlantedClock(-40 * NS_PER_MS, -50e-6))
LENGTH_NS = 500 * NS_PER_MS
DUE = Excerpt(Constant(100), 0, LENGTH_NS)
PLANS = (Open(DUE), Closed(4))
NAMES = ("steady", "users")


class KillingOne(Watcher):
    """Ends the second client of the second class after the first window."""

    def __init__(self, load):
        self.victim = load.groups[1].members[1].client

    def window_finished(self, number, window):
        if number == 1:
            self.victim.kill()


def phase(port):
    """A level of two classes, each with two clients whose clocks are off, of which one is lost."""
    with ExitStack() as stack:
        groups = [
            stack.enter_context(
                Clients(start_clients(ClientJob(traffic_to(port, 2)), CLOCKS), figures=figures)
            )
            for figures in (ByClient(sizes(traffic_to(port, 2).requests), class_name=name) for name in NAMES)
        ]
        load = Together(groups, [2, 2], pace=CLASSES_PACE)
        timed = LevelSettings(
            ModelSpec("fake", "", (), ()),
            1,
            None,
            Precision(0.0, LENGTH_NS),
            window_ns=100 * NS_PER_MS,
            is_timed=True,
        )
        classes = tuple(ClassSettings(name, "http://here", timed) for name in NAMES)
        settings = replace(timed, classes=classes, class_of_step=(0, 0, 1, 1), ends_load=True)
        points = (
            LoadPoint("request_rate", 100, PLANS[0], 100.0),
            LoadPoint("concurrency", 4, PLANS[1]),
        )
        point = LoadPoint(f"{PHASE}one", 1.0, Joint(PLANS), name="one", classes=points)
        figures = tuple(group.figures for group in groups)
        instrument = Instrument(load, load.clock, lambda: None, KillingOne(load), clients=figures)
        level = measure_level(instrument, settings, point)
        load.stop()
        return level, load.totals()


def test_figures_of_clients_add_up_by_class_and_a_lost_one_is_named_with_its_class():
    with ScriptedServer(lambda request: answer(b"good")) as server:
        level, totals = phase(server.port)
    assert [(client.class_name, client.name) for client in level.clients] == [
        (name, f"client {number}") for name in NAMES for number in (1, 2)
    ]
    for row in level.classes:
        clients = [client for client in level.clients if client.class_name == row.name]
        counted = sum(client.request_count for client in clients)
        assert counted >= row.measurement.request_count > 0  # clients count a cold start, too
    assert totals.steps[:2].sum() == DUE.count  # the whole phase was sent, and nothing twice
    steady = level.classes[0].measurement
    assert steady.client.lag_p50_ns < 40 * NS_PER_MS  # due times are those of our clock, on every clock
    (remark,) = (row for row in level.remarks if row.note is Note.CLIENT_LOST)
    assert remark.text.startswith("client 2")
    assert "for class 'users' was lost" in remark.text
    assert "its share is missing" in remark.text


def test_clocks_of_all_classes_are_compared_while_a_phase_goes_on():
    """Whoever waits first has the whole wait; each class does in its turn."""
    waits = []

    class Group:
        def __init__(self, name):
            self.name = name

        def wait(self, until_ns):
            waits.append(self.name)
            now[0] = max(now[0], until_ns)

    now = [0]
    groups: list[Any] = [Group("a"), Group("b"), Group("c")]
    load = Together(groups, [1, 1, 1], lambda: now[0], Pace())
    for number in range(1, 4):
        load.wait(number * NS_PER_MS)
    assert set(waits[::3]) == {"a", "b", "c"}


def test_a_visit_is_the_file_that_was_read_not_one_of_the_same_name_elsewhere(tmp_path):
    path = tmp_path / "shoppers.py"
    path.write_text("def visit(number):\n    return 'mine'\n")
    carried = VisitFile(str(path), "visit").carried()
    path.write_text("def visit(number):\n    return 'another'\n")
    assert carried(0) == "mine"
