"""Open plans resumed in the middle: every request is sent once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load.plan import NEVER, Constant, Listed, Open, Poisson
from inferometer.load.resumed import ENDLESS, Progression, Resumed, Timing, resumed

NOW = Timing(0)


def numbers(part: Progression, most: int = 1000) -> list[int]:
    count = most if part.length < 0 else part.length
    return [part.first + at * part.stride for at in range(count) if part.first + at * part.stride < most]


@given(st.integers(0, 20), st.integers(1, 9), st.integers(0, 30), st.integers(0, 200))
def test_a_progression_from_a_number_keeps_all_later_numbers(
    first: int, stride: int, count: int, start: int
) -> None:
    part = Progression(first, stride, count)
    assert numbers(part.from_number(start), 10**6) == [each for each in numbers(part, 10**6) if each >= start]
    endless = Progression(first, stride)
    assert numbers(endless.from_number(start)) == [each for each in numbers(endless) if each >= start]


@given(st.integers(0, 20), st.integers(1, 9), st.integers(ENDLESS, 30), st.integers(1, 7))
def test_parts_of_a_progression_cover_all_of_it(first: int, stride: int, count: int, parts: int) -> None:
    part = Progression(first, stride, count)
    shares = part.split(parts)
    assert sorted(each for share in shares for each in numbers(share)) == numbers(part)


def walked(plan: Open, most: int = 1000) -> list[int]:
    """Return the numbers that a sender requests, in order."""
    schedule = plan.schedule
    assert isinstance(schedule, Resumed)
    left, found = schedule.left, []
    for number in range(most if left < 0 else left):
        if schedule.due_ns(number) >= NEVER or schedule.number >= most:
            break
        found.append(schedule.number)
    return found


@given(st.integers(2, 6), st.integers(0, 100), st.data())
def test_a_lost_share_is_sent_once_by_the_others(workers: int, at: int, data: st.DataObject) -> None:
    """For a plan of 200 requests; the lost sender and the progress of the others are random."""
    lost = data.draw(st.integers(0, workers - 1))
    plan = Open(Constant(1000), count=200)
    gone = plan.share(lost, workers)
    assert gone.count is not None
    missing = Progression(gone.first, gone.stride, gone.count).from_number(at)
    shares = missing.split(workers - 1)
    sent = list[int]()
    for index in range(workers):
        if index != lost:
            own = plan.share(index, workers)
            assert own.count is not None
            rest = Progression(own.first, own.stride, own.count).from_number(at)
            more = [shares[index - (index > lost)]]
            again = resumed(replace_first(own, rest.first), rest.first, rest.length, more, NOW)
            found = walked(again)
            assert found == sorted(found)
            sent += found
    assert len(sent) == len(set(sent))
    # A sender skips requests that were due before its own next one.
    assert set(range(at + workers, 200)) <= set(sent) <= set(range(at, 200))


def replace_first(plan: Open, first: int) -> Open:
    return Open(plan.schedule, plan.cap, plan.count, plan.steps, first, plan.stride)


def test_a_plan_can_be_resumed_again_and_again() -> None:
    """Requested but unsent numbers are returned again."""
    plan = resumed(Open(Constant(100), count=10, first=1, stride=2), 1, 5, [Progression(0, 4, 3)], NOW)
    schedule = plan.schedule
    assert isinstance(schedule, Resumed)
    assert [schedule.due_ns(at) // 10_000_000 - 1 for at in range(3)] == [1, 3, 4]
    more = resumed(plan, 2, 6, [Progression(2, 4, 2)], Timing(0, 100e-6))
    assert walked(more) == [4, 5, 6, 7, 8, 9]


def test_a_finished_plan_can_get_more_requests() -> None:
    plan = resumed(Open(Constant(100), count=4, first=0, stride=2), 4, 0, [Progression(1, 2, 3)], NOW)
    assert walked(plan) == [5]
    again = resumed(plan, 1, 0, [Progression(1, 2, 4)], NOW)
    assert walked(again) == [5, 7]


def test_a_faster_clock_of_the_sender_is_compensated() -> None:
    plan = resumed(Open(Constant(1), first=0), 99, ENDLESS, [], Timing(0, 50e-6))
    assert plan.schedule.due_ns(0) == 100_005_000_000
    listed = resumed(Open(Listed((1, 2, 3))), 2, ENDLESS, [], Timing(0, 50e-6))
    assert [listed.schedule.due_ns(at) for at in range(2)] == [3, NEVER]


@pytest.mark.parametrize("seed", range(3))
def test_random_arrivals_are_traversed_in_order(seed: int) -> None:
    reference = Poisson(50, seed)
    due = [reference.due_ns(number) for number in range(3000)]
    schedule = Poisson(50, seed)
    for number in range(0, 900, 3):
        schedule.due_ns(number)
    plan = resumed(Open(schedule, first=0, stride=3), 900, ENDLESS, [Progression(1, 3)], NOW)
    found = [plan.schedule.due_ns(at) for at in range(1000)]
    assert found == [due[900 + at // 2 * 3 + at % 2] for at in range(1000)]


def test_the_steps_of_the_whole_plan_are_sent() -> None:
    steps = tuple(range(100, 120))
    plan = resumed(Open(Constant(10), count=20, steps=steps, stride=2), 4, 8, [Progression(1, 4, 5)], NOW)
    found = []
    for at in range(11):
        plan.schedule.due_ns(at)
        assert plan.steps is not None
        found.append(plan.steps[at])
    assert found == [104, 105, 106, 108, 109, 110, 112, 113, 114, 116, 117]
