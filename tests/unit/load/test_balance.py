"""Choice of an address for each request."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load.balance import Balance
from inferometer.load.sequences import Mark
from inferometer.options.options import BALANCES

ROUND_ROBIN, LEAST, AFFINITY = BALANCES


def test_round_robin_takes_turns_whatever_ends() -> None:
    balance = Balance(ROUND_ROBIN, 3, 1)
    found = [balance.choose(slot) for slot in range(4)]
    balance.end(1)
    found += [balance.choose(1), balance.choose(4)]
    assert found == [0, 1, 2, 0, 1, 2]


def test_workers_begin_at_different_addresses() -> None:
    assert [Balance(ROUND_ROBIN, 3, 1, first=worker).choose(0) for worker in range(4)] == [0, 1, 2, 0]
    assert [Balance(AFFINITY, 2, 1, first=worker).choose(0) for worker in range(3)] == [0, 1, 0]


def test_least_outstanding_avoids_the_address_that_does_not_answer() -> None:
    balance = Balance(LEAST, 2, 1)
    stuck = balance.choose(0)
    for _ in range(5):
        assert balance.choose(1) != stuck
        balance.end(1)
    balance.end(0)
    found = set()
    for slot in (0, 1):
        found.add(balance.choose(slot))
    assert found == {0, 1}


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60), st.integers(2, 4))
def test_least_outstanding_chooses_one_of_the_least_loaded(steps: list[tuple[int, bool]], count: int) -> None:
    balance, load = Balance(LEAST, count, 1), Counter(dict.fromkeys(range(count), 0))
    busy: dict[int, int] = {}
    for slot, _ in steps:
        if slot in busy:
            load[busy.pop(slot)] -= 1
            balance.end(slot)
        else:
            address = balance.choose(slot)
            assert load[address] == min(load.values())
            busy[slot] = address
            load[address] += 1


def test_a_sequence_stays_at_its_address_in_any_slot() -> None:
    balance = Balance(AFFINITY, 2, 1)
    first = balance.choose(0, Mark(7, True, False))
    other = balance.choose(1, Mark(8, True, False))
    assert {first, other} == {0, 1}
    assert balance.choose(2, Mark(7, False, False)) == first
    assert balance.choose(3, Mark(8, False, True)) == other
    assert balance.choose(4, Mark(7, False, True)) == first


def test_users_stay_at_their_addresses() -> None:
    balance = Balance(AFFINITY, 2, 1)
    assert [balance.choose(slot) for slot in (0, 1, 2, 2, 1, 0)] == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("policy", BALANCES)
def test_the_step_identifies_the_address(policy: str) -> None:
    sent, ended, steps = [], [], [0, 0]
    balance = Balance(policy, 2, 10)
    send = balance.sending(lambda slot, step, now_ns, mark: sent.append(step), steps)
    finish = balance.ending(lambda slot, *values, **named: ended.append((slot, steps[slot])))
    for slot in (0, 1):
        send(slot, 3, 0, None)
    for slot in (0, 1):
        finish(slot, 0, 1, 1, 1, 2, 5)
    assert sorted(sent) == [3, 13]
    assert sorted(step for _, step in ended) == [3, 13]
