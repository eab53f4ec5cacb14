"""Due times and pauses that both engines share, and the batches of a periodic plan."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.load.periodic import Batches
from inferometer.load.plan import NEVER, Closed, Constant, Listed, Open, Periodic
from inferometer.load.plan_clock import (
    BURST,
    FIRST_PAUSE_NS,
    LONGEST_PAUSE_NS,
    PACE_NS,
    PATIENCE,
    PlanClock,
    Timeout,
    pause_after,
)
from inferometer.load.resumed import Progression, Timing


def link(opening: int = 0) -> Any:
    return SimpleNamespace(opening=opening, prepare=lambda slots: None)


def due_times(times: PlanClock) -> list[int]:
    found: list[int] = []
    while times.next_due < NEVER and len(found) < 5:
        assert times.open is not None
        found.append(times.take_due(times.open))
    return found


@pytest.mark.parametrize(
    ("plan", "due"),
    [
        (Open(Constant(1000)), [1, 2, 3, 4, 5]),
        (Open(Constant(1000), count=3), [1, 2, 3]),
        (Open(Constant(1000), count=2, first=1, stride=3), [2, 5]),
        (Open(Constant(1000), count=0), []),
        (Open(Listed((1_000_000, 4_000_000))), [1, 4]),
    ],
    ids=["endless", "count", "share of a worker", "nothing left for this worker", "end of the schedule"],
)
def test_requests_are_due_until_the_plan_is_used_up(plan, due):
    times = PlanClock()
    times.begin_open(plan, 7_000_000_000, link())
    assert [(time_ns - 7_000_000_000) / 1e6 for time_ns in due_times(times)] == due


def test_an_adjusted_plan_continues_with_the_requests_of_another_sender():
    times = PlanClock()
    times.begin_open(Open(Constant(1000), count=2, first=0, stride=2), 0, link())
    assert times.open is not None
    times.take_due(times.open)
    times.adjust(Timing(0), (Progression(1, 2, 2),), None)
    assert [time_ns / 1e6 for time_ns in due_times(times)] == [3, 4]


def test_adjusting_a_closed_plan_changes_nothing():
    times = PlanClock()
    times.begin_closed(Closed(4, 10))
    times.adjust(Timing(0), (), None)
    assert (times.next_due, times.remaining) == (NEVER, 10)


def test_pauses_end_in_order_and_a_burst_at_a_time():
    times = PlanClock()
    for slot in range(BURST + 2):
        times.pause(slot, 100 - slot)
    ended = [slot for _, slot in times.ended_pauses(100)]
    assert ended == list(range(BURST + 1, 1, -1))
    assert [slot for _, slot in times.ended_pauses(99)] == [1]
    assert times.drop_pauses() == 1


def test_only_the_named_pauses_are_dropped():
    times = PlanClock()
    held = times.pauses
    for slot in range(4):
        times.pause(slot, slot)
    assert times.drop_pauses({0, 3}.__contains__) == 2
    assert times.pauses is held
    assert [slot for _, slot in times.ended_pauses(9)] == [1, 2]


@pytest.mark.parametrize(("opening", "at_once"), [(0, 2 * BURST + 1), (1, BURST)])
def test_slots_on_new_connections_start_in_bursts(opening, at_once):
    times = PlanClock()
    begun: list[int] = []
    times.start(range(2 * BURST + 1), 50, link(opening), begun.append)
    assert len(begun) == at_once
    assert times.is_starting == bool(opening)
    assert {until_ns for until_ns, _ in times.pauses} == (
        {50 + PACE_NS, 50 + 2 * PACE_NS} if opening else set()
    )


@pytest.mark.parametrize("opening", [0, 8])
def test_a_smaller_burst_is_paced_alike_and_leaves_the_loop_between_two(opening):
    times, burst = PlanClock(), BURST // 8
    begun: list[int] = []
    times.start(range(2 * BURST), 50, link(opening), begun.append, burst=burst)
    assert begun == list(range(burst))
    assert times.is_starting
    assert max(until_ns for until_ns, _ in times.pauses) == (50 + PACE_NS * 15 // 8 if opening else 50)


@pytest.mark.parametrize(
    ("failures", "is_answered", "pause_ns"),
    [
        (0, False, 0),
        (1, False, FIRST_PAUSE_NS),
        (3, False, 4 * FIRST_PAUSE_NS),
        (1000, False, LONGEST_PAUSE_NS),
        (PATIENCE - 1, True, 0),
        (PATIENCE, True, FIRST_PAUSE_NS),
        (1000, True, FIRST_PAUSE_NS),
    ],
)
def test_pauses_grow_only_while_the_server_does_not_answer(failures, is_answered, pause_ns):
    assert pause_after(failures, is_answered=is_answered) == pause_ns


def test_timeouts_are_checked_some_twenty_times():
    assert Timeout(0).next_check_ns(5) == NEVER
    assert Timeout(2_000_000_000).next_check_ns(5) == 100_000_005
    assert Timeout(1_500_000_000).text == "no complete reply within 1.5 s"


def test_a_batch_begins_when_all_requests_of_the_previous_one_have_enough_responses():
    begun: list[list[int]] = []
    batches = Batches(Periodic(2, 5, 2, 3), lambda slots: begun.append(list(slots)))
    batches.launch()
    batches.responded(0, 3)
    batches.responded(1, 2)
    assert begun == [[0, 1]]
    batches.responded(1, 3)
    batches.release(2)
    batches.release(3)
    assert begun == [[0, 1], [2, 3], [4]]


def test_batches_that_fail_within_their_send_follow_each_other():
    begun: list[list[int]] = []

    def fail(slots: range) -> None:
        begun.append(list(slots))
        for slot in slots:
            batches.release(slot)

    batches = Batches(Periodic(1, 4, 2, 3), fail)
    batches.launch()
    assert begun == [[0], [1, 2], [3]]


def test_a_request_with_too_few_responses_is_an_error():
    batches = Batches(Periodic(1, 2, 1, 3), lambda slots: None)
    batches.launch()
    with pytest.raises(UsageError, match="fewer responses than the request period of 3"):
        batches.check_ended(0)
    batches.responded(0, 3)
    batches.check_ended(0)
