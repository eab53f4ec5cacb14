"""The cost of a send is the CPU time of recent calls, not their wall time."""

from collections.abc import Callable, Iterator

import pytest

from inferometer.load.link import RECENT, SendCost


def cost_of(took_ns: list[int], requests: int = 1) -> int:
    """Return the cost after calls with these durations, on a clock that is free to read."""
    now = 0

    def clock() -> int:
        return now

    def send(data: bytes) -> int:
        nonlocal now
        now += next(times)
        return len(data)

    times: Iterator[int] = iter(took_ns)
    cost = SendCost(clock)
    for _ in took_ns:
        if requests == 1:
            assert cost.sampled(send, b"request") == 7
        else:
            begun = cost.clock()
            send(b"requests")
            cost.note(begun, requests)
    return cost.ns


@pytest.mark.parametrize(
    ("took_ns", "expected_ns"),
    [
        ([], 0),
        ([900], 900),
        ([90_000, 6_000], 48_000),
        ([90_000, 6_000, 6_000], 6_000),
        ([6_000] * RECENT, 6_000),
        ([6_000] * (RECENT - 3) + [700_000] * 3, 6_000),
        ([6_000, 8_000] * RECENT, 7_000),
        ([500_000] * 99 + [6_000] * RECENT, 6_000),
    ],
    ids=["none", "one", "two", "a slow first one", "alike", "three interrupts", "two sizes", "long ago"],
)
def test_recent_calls_count_without_outliers(took_ns: list[int], expected_ns: int) -> None:
    assert abs(cost_of(took_ns) - expected_ns) <= 200


def test_calls_that_go_out_together_share_the_cost() -> None:
    assert cost_of([8_000] * RECENT, requests=4) == 2_000


def test_the_cost_of_reading_the_clock_is_excluded() -> None:
    now = 0

    def clock() -> int:
        nonlocal now
        now += 700
        return now

    cost = SendCost(clock)
    send: Callable[[bytes], int] = len
    for _ in range(RECENT):
        cost.sampled(send, b"request")
    assert cost.ns == 0
