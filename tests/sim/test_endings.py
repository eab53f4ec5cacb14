"""Ends that are no replies: requests that fail within the call that sends them, and the end of the load."""

import pytest

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Listed, Open, Periodic, Plan
from inferometer.load.sequences import SequencePlan, Sequences
from inferometer.records.records import Records, join
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MANY = 5000
REFUSED = Reply(0, status.CONNECT, is_unsent=True)


def records_of(load: SimulatedLoad, clock: FakeClock, plan: Plan) -> Records:
    load.apply(plan)
    parts = []
    while True:
        collected = load.collect(clock() + NS_PER_S)
        parts.append(collected.records)
        if collected.is_finished:
            return join(parts)


ALL_AT_ONCE = Listed((NS_PER_MS,) * MANY)
SEQUENCES = SequencePlan(streams=((0,),), is_given=False, lanes=3)


@pytest.mark.parametrize(
    ("plan", "sequences"),
    [
        pytest.param(Open(ALL_AT_ONCE), None, id="open"),
        pytest.param(Open(ALL_AT_ONCE, cap=4), None, id="open with a cap"),
        pytest.param(Open(ALL_AT_ONCE, count=MANY), SEQUENCES, id="open with sequences"),
        pytest.param(Open(Constant(1e8), count=MANY), None, id="a rate nobody can follow"),
        pytest.param(Periodic(1, MANY, 1, 1), None, id="periodic"),
        pytest.param(Closed(MANY, count=MANY), None, id="closed"),
        pytest.param(Closed(4, count=40), SEQUENCES, id="closed with sequences"),
    ],
)
def test_any_number_of_them_is_recorded(plan: Plan, sequences: SequencePlan | None) -> None:
    clock = FakeClock()
    lanes = None if sequences is None else Sequences(sequences)
    load = SimulatedLoad(FakeServer(lambda number, sent_ns: REFUSED), clock, sequences=lanes)
    found = records_of(load, clock, plan)
    asked = MANY if plan.count is None else plan.count
    assert asked <= len(found) <= asked + 4  # a sequence that was cut short has one more
    assert (found.status == status.CONNECT).all()
    assert (found.sent_ns == 0).all()
    assert load.totals().unsent == load.totals().sent == len(found)


def test_good_ones_between_them_are_sent_when_they_are_due() -> None:
    clock = FakeClock()

    def script(number: int, sent_ns: int) -> Reply:
        return Reply(NS_PER_MS) if number % 1000 == 999 else REFUSED

    load = SimulatedLoad(FakeServer(script), clock)
    found = records_of(load, clock, Open(ALL_AT_ONCE))
    assert len(found.good) == MANY // 1000
    assert (found.good.sent_ns == found.good.due_ns).all()


def test_a_slot_that_comes_free_takes_the_waiting_request_at_once() -> None:
    clock = FakeClock()
    load = SimulatedLoad(FakeServer(lambda number, sent_ns: Reply(NS_PER_MS)), clock)
    found = records_of(load, clock, Open(Listed((NS_PER_MS,) * 10), cap=1))
    assert found.sent_ns[1:].tolist() == found.end_ns[:-1].tolist()


@pytest.mark.parametrize("plan", [Closed(3), Open(Constant(100.0))], ids=["closed", "open"])
def test_a_stop_cuts_off_every_request_and_sends_none(plan: Plan) -> None:
    """Unfinished sequences of a server that does not answer are left unfinished."""
    clock = FakeClock()

    def script(number: int, sent_ns: int) -> Reply:
        return Reply(NS_PER_MS) if number < 20 else Reply(3600 * NS_PER_S)

    load = SimulatedLoad(FakeServer(script), clock, sequences=Sequences(SEQUENCES))
    load.apply(plan)
    for _ in range(10):
        load.collect(clock() + NS_PER_S)
    sent = load.totals().sent
    assert load.stop() == sent - 20
    totals = load.totals()
    assert totals.sent == sent
    assert (totals.good, totals.cut_off) == (20, sent - 20)


@pytest.mark.parametrize(
    ("code", "most_s"), [(status.MALFORMED, 2), (status.RESET, 100)], ids=["nonsense", "no answer"]
)
def test_an_invalid_reply_is_an_answer_and_delays_the_next_request_little(code: int, most_s: int) -> None:
    """A server that breaks off connections gets longer and longer pauses; one that talks nonsense does not."""
    clock = FakeClock()
    load = SimulatedLoad(FakeServer(lambda number, sent_ns: Reply(NS_PER_MS, code, received=0)), clock)
    found = records_of(load, clock, Closed(1, count=100))
    assert most_s / 10 < int(found.end_ns[-1]) / NS_PER_S < most_s
