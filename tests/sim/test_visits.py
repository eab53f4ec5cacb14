"""Visits on a simulated clock: what they send when, and what their figures are, to the nanosecond."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Excerpt, Joint, Open
from inferometer.load.resumed import Progression, Timing
from inferometer.load.together import Together
from inferometer.measure.instrument import ClassSettings, Instrument, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.visit import Call, Pause
from inferometer.records.records import join
from inferometer.records.visits import visits_in
from inferometer.services.visit_plan import VisitPlan
from inferometer.stats.measurement import PHASE, STEP
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = NS_PER_MS


class Caller:
    """The request is the name of the step and what the call gives."""

    def request(self, call):
        return f"{call.step} {call.body}".encode()


def two_steps(number):
    """A request, 20 ms of thought, another with what came."""
    said = yield Call("a", body=number)
    yield Pause(0.02)
    again = yield Call("b", body=said.decode())
    assert again == f"b a {number}".encode()


def plan(make=two_steps, *steps):
    steps = steps or ("a", "b")
    callers: Any = tuple(Caller() for _ in steps)
    return VisitPlan(make, steps, callers, "the visit")


def simulated(make=two_steps, script=lambda number, sent_ns: Reply(5 * MS), *steps, **more):
    clock = FakeClock()
    return clock, SimulatedLoad(FakeServer(script), clock, visits=plan(make, *steps), **more)


def run(load, clock, asked, seconds=1.0):
    """All records of the time."""
    start_ns = load.apply(asked)
    parts, end_ns = [], start_ns + round(seconds * NS_PER_S)
    while clock() < end_ns:
        collected = load.collect(end_ns)
        parts.append(collected.records)
        if collected.is_finished:
            break
    return start_ns, join(parts)


def test_a_visitor_makes_one_visit_after_the_other():
    clock, load = simulated()
    start_ns, records = run(load, clock, Closed(1, 3))
    assert ((records.sent_ns - start_ns) // MS).tolist() == [0, 25, 30, 55, 60, 85]
    assert records.step.tolist() == [0, 1] * 3
    visits, thought_ns = visits_in(records)
    assert (visits.end_ns - visits.due_ns).tolist() == [10 * MS] * 3
    assert thought_ns == 60 * MS
    assert records.sequence.tolist() == [0, 1, 0, 2, 0, 3]


def test_by_rate_a_visit_counts_from_when_it_was_due():
    clock, load = simulated()
    _start_ns, records = run(load, clock, Open(Constant(100), cap=1), 0.5)
    visits, _ = visits_in(records)
    # One visitor: each visit takes 30 ms and one is due every 10 ms, so they get later and later.
    waited = (visits.sent_ns - visits.due_ns) // MS
    assert waited.tolist()[:4] == [0, 20, 40, 60]
    assert ((visits.end_ns - visits.due_ns) // MS).tolist()[:4] == [10, 30, 50, 70]
    clock, load = simulated()
    _, records = run(load, clock, Open(Constant(100)), 0.5)
    visits, _ = visits_in(records)
    assert set(((visits.end_ns - visits.due_ns) // MS).tolist()) == {10}
    assert len(visits) == 47  # those that were due in the last 30 ms go on


def test_visits_of_several_workers_have_numbers_of_their_own():
    seen = []

    def noted(number):
        seen.append(number)
        yield Call("a")

    for index in (0, 1):
        clock, load = simulated(noted, lambda number, sent_ns: Reply(MS), "a", index=index, parts=2)
        run(load, clock, Closed(2, 5))
    assert sorted(seen) == list(range(10))


@pytest.mark.parametrize("asked", [Closed(1), Open(Constant(50))])
def test_a_step_that_fails_ends_its_visit(asked):
    """Every third request is refused: the visit has failed, and the next one begins."""
    refuse = lambda number, sent_ns: Reply(MS, status=status.HTTP + 500 if number % 3 == 0 else 0)  # noqa: E731
    clock, load = simulated(two_steps, refuse)
    _, records = run(load, clock, asked)
    visits, thought_ns = visits_in(records)
    failed = visits.status != 0
    assert failed.sum() == (records.status != 0).sum()
    assert set(visits.status[failed].tolist()) == {status.HTTP + 500}
    assert thought_ns == 20 * MS * int((~failed).sum())
    assert load.examples() == {status.HTTP + 500: "scripted http 500"}


def test_code_that_raises_fails_its_visit_and_not_its_request():
    def strict(number):
        yield Call("a")
        if number % 2:
            raise ValueError("odd")

    clock, load = simulated(strict, lambda number, sent_ns: Reply(MS), "a")
    _, records = run(load, clock, Closed(1, 10))
    assert not records.status.any()
    visits, _ = visits_in(records)
    assert visits.status.tolist() == [0, status.VISIT] * 5
    assert load.examples()[status.VISIT].startswith("ValueError: odd (")


def test_a_server_that_is_gone_is_asked_again_after_longer_and_longer_pauses():
    clock, load = simulated(two_steps, lambda number, sent_ns: Reply(0, status=status.CONNECT))
    start_ns, records = run(load, clock, Closed(1))
    assert ((records.due_ns - start_ns) // MS).tolist() == [0, 10, 30, 70, 150, 310, 630]
    assert len(visits_in(records)[0]) == 7


def test_a_request_that_takes_too_long_is_given_up():
    clock, load = simulated(two_steps, lambda number, sent_ns: Reply(NS_PER_S * 60), timeout_ns=100 * MS)
    _, records = run(load, clock, Closed(2), 0.15)
    assert set(records.status.tolist()) == {status.TIMEOUT}
    assert set(visits_in(records)[0].status.tolist()) == {status.TIMEOUT}


def test_visitors_who_leave_end_with_their_request_and_their_visits_do_not_count():
    clock, load = simulated()
    run(load, clock, Closed(4), 0.027)  # all have sent their second request
    load.apply(Closed(1))
    _, records = run(load, clock, Closed(1), 0.1)
    load.apply(Closed(0))
    assert load.collect(clock() + NS_PER_S).is_finished
    before = len(visits_in(records)[0])
    # Of the four that were there one went on; the visits of all four were over with the request they carried.
    assert before == 4 + 3
    clock, load = simulated()
    run(load, clock, Closed(4), 0.01)  # all think
    load.apply(Closed(0))
    _, records = run(load, clock, Closed(0), 0.1)
    assert len(records) == 0
    assert load.totals().good == 4


def test_a_visit_that_goes_on_survives_another_rate():
    clock, load = simulated()
    _first_ns, first = run(load, clock, Open(Constant(100)), 0.1)
    _, second = run(load, clock, Open(Constant(10)), 0.4)
    visits, _ = visits_in(join([first, second]))
    assert len(visits) == 10 + 3
    assert set(((visits.end_ns - visits.due_ns) // MS).tolist()) == {10}


def test_pauses_before_the_first_and_after_the_last_request_are_not_latency():
    def slow(number):
        yield Pause(0.003)
        yield Call("a")
        yield Pause(0.007)

    clock, load = simulated(slow, lambda number, sent_ns: Reply(5 * MS), "a")
    start_ns, records = run(load, clock, Closed(1, 3))
    assert ((records.sent_ns - start_ns) // MS).tolist() == [3, 18, 33]
    visits, thought_ns = visits_in(records)
    assert (visits.end_ns - visits.due_ns).tolist() == [5 * MS] * 3
    assert (visits.sent_ns - visits.due_ns).tolist() == [0] * 3
    assert thought_ns == 9 * MS


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ((lambda number: (yield from ())), "it ends before its first request"),
        ((lambda number: (yield Call("c"))), "the visit calls 'c', but its steps are a, b"),
        ((lambda number: (yield 5)), "yielded an object of type int, not call(...) or pause(...)"),
    ],
)
@pytest.mark.parametrize("asked", [Closed(1), Closed(8), Open(Constant(20))])
def test_visits_that_all_fail_to_start_are_reported_soon(make, said, asked):
    clock, load = simulated(make)
    with pytest.raises(UsageError) as caught:
        run(load, clock, asked, 0.2)
    assert said in str(caught.value)
    assert caught.value.remedy


def test_a_function_that_is_not_a_visit_is_refused_at_once():
    _clock, load = simulated(lambda number: iter(()))
    with pytest.raises(UsageError, match="returns a tuple_iterator, not a generator"):
        load.apply(Closed(1))


@pytest.mark.parametrize("asked", [Closed(2), Open(Constant(100))])
def test_a_visit_that_fails_before_its_first_request_is_a_failed_one(asked):
    def every_fourth_fails(number):
        if number % 4 == 0:
            raise ValueError(f"no data for {number}")
        yield Call("a")

    clock, load = simulated(every_fourth_fails, lambda number, sent_ns: Reply(5 * MS), "a")
    _, records = run(load, clock, asked, 0.4)
    visits, _ = visits_in(records)
    assert len(visits) == len(records) >= 30
    failed = (records.sequence - 1) % 4 == 0
    assert (visits.status == np.where(failed, status.VISIT, status.OK)).all()
    assert (records.status == visits.status).all()
    assert (records.received[failed] == 0).all()
    assert load.totals().unsent == failed.sum()
    assert "no data for 0" in load.examples()[status.VISIT]


@pytest.mark.parametrize("is_begun", [False, True], ids=["before", "half-way"])
def test_visits_by_rate_go_on_by_a_clock_that_is_moved_and_with_more_of_the_plan(is_begun):
    """This worker has every other visit of 100/s; after 245 ms it gets those of the other one, too."""
    clock, load = simulated()
    start_ns = load.apply(Open(Excerpt(Constant(100), 0, NS_PER_S), first=0, stride=2))
    parts = []
    while is_begun and clock() < start_ns + 245 * MS:
        parts.append(load.collect(start_ns + 245 * MS).records)
    moved = Timing(start_ns + 3 * MS)
    more = (Progression(1, 2).from_number(24 if is_begun else 0),)
    load.adjust(moved, more)
    is_finished = False
    while not is_finished:
        collected = load.collect(start_ns + 2 * NS_PER_S)
        is_finished = collected.is_finished
        parts.append(collected.records)
    visits, _ = visits_in(join(parts))
    due_ms = ((np.sort(visits.due_ns - 20 * MS) - start_ns) // MS).tolist()
    first = [10 + 20 * number for number in range(12)] if is_begun else []
    rest = range(len(first) * 2 if is_begun else 0, 99)
    assert due_ms == [*first, *(13 + 10 * number for number in rest)]


# --- figures


@pytest.fixture
def phase(level_settings):
    """Four seconds of 10 visits a second, beside requests at 30/s."""

    def make(script, **more):
        clocks = [FakeClock(), FakeClock()]
        loads = [
            SimulatedLoad(FakeServer(lambda number, sent_ns: Reply(5 * MS)), clocks[0]),
            SimulatedLoad(FakeServer(script), clocks[1], visits=plan()),
        ]
        load = Together(loads, [1, 2], clocks[0])
        timed = level_settings(
            window_ns=NS_PER_S // 2, rule=Precision(0.0, 4 * NS_PER_S), is_timed=True, judges_promise=True
        )
        steps = tuple(ClassSettings(name, "http://here", timed) for name in ("a", "b"))
        visits = replace(timed, has_visits=True, classes=steps, class_of_step=(-1, 0, 1), **more)
        classes = (ClassSettings("plain", "http://here", timed), ClassSettings("shop", "http://here", visits))
        settings = replace(timed, classes=classes, class_of_step=(0, 1, 1))
        points = [LoadPoint("request_rate", rate, Open(Constant(rate)), rate) for rate in (30, 10)]
        point = LoadPoint(
            f"{PHASE}peak",
            1,
            Joint(tuple(Open(Constant(row.value)) for row in points)),
            40,
            name="peak",
            classes=tuple(points),
        )
        instrument = Instrument(load, clocks[0], lambda: None, Watcher(), examples_of=load.examples_of)
        return measure_level(instrument, settings, point)

    return make


def test_a_class_of_visits_has_its_steps_below_it_and_the_sum_counts_requests(phase):
    level = phase(lambda number, sent_ns: Reply(5 * MS), promise=parse_slo("p99<11ms"))
    plain, shop = level.classes
    first, second = shop.steps
    assert (shop.measurement.request_count, shop.rates.due_per_s, shop.rates.sent_per_s) == (39, 10, 10)
    assert (first.mode, first.measurement.request_count, second.measurement.request_count) == (STEP, 39, 39)
    assert shop.measurement.latency.percentile_ns(50) == 10 * MS
    assert first.measurement.latency.percentile_ns(99) == 5 * MS
    assert shop.think_ns == 20 * MS
    assert level.measurement.request_count == 119 + 2 * 39
    assert level.measurement.sequences is None
    assert (plain.think_ns, plain.steps) == (0, ())
    assert np.isclose(shop.share, 78 / 197)
    assert np.isclose(first.share, 39 / 197)
    assert shop.promise.verdict != "broken"
    assert shop.remarks == ()
    assert [len(row.windows) for row in (plain, shop, first)] == [len(level.windows)] * 3


def test_failed_steps_are_failures_of_their_visits(phase):
    level = phase(lambda number, sent_ns: Reply(5 * MS, status=status.HTTP + 503 if number % 4 == 1 else 0))
    shop = level.classes[1].measurement
    first, second = (step.measurement for step in level.classes[1].steps)
    assert shop.failed_count == first.failed_count + second.failed_count == level.measurement.failed_count
    assert shop.request_count == second.request_count
    assert shop.failures[0].example == "scripted http 503"
