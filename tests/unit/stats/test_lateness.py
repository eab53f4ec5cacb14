"""Requests that were held up are distinguished from late timer wake-ups."""

import numpy as np
import pytest

from inferometer.records.records import COLUMNS, from_rows
from inferometer.stats.windows import Lateness

MS = 1_000_000


def records(*requests):
    """Build records from (due, sent, end) in milliseconds."""
    rows = np.zeros((len(requests), len(COLUMNS)), dtype=np.int64)
    for row, times in zip(rows, requests, strict=True):
        for name, value in zip(("due_ns", "sent_ns", "end_ns"), times, strict=True):
            row[COLUMNS.index(name)] = round(value * MS)
    return from_rows(rows)


@pytest.mark.parametrize(
    ("cap", "requests", "delayed"),
    [
        (None, [(10, 10, 12), (20, 20.1, 22)], 0),
        (None, [(10, 13, 15), (20, 24, 26), (30, 30, 32)], 0),  # woken late, and sent at once
        (
            1,
            [(10, 10, 50), (20, 50, 90), (30, 90, 130)],
            2,
        ),  # one at a time, and each takes longer than the gap
        (1, [(10, 10, 50), (20, 50.1, 90), (30, 90.1, 130)], 2),
        (2, [(10, 10, 50), (11, 11, 60), (20, 50, 70), (21, 60, 80)], 2),  # both slots taken
        (1, [(10, 10, 50), (20, 50, 51), (50.5, 51, 52)], 1),  # half a millisecond is ignored
        (None, [(1, 10, 40), (2, 13, 41), (3, 16, 42)], 2),  # each send takes three milliseconds
        (None, [(10, 0, 40), (20, 20, 41)], 0),  # the first was never sent
        (16, [(10, 10, 25), (20, 25.1, 27)], 0),  # a reply read in the same late wake-up
        (
            16,
            [(10, 10, 25), (11, 11, 25), (20, 25.1, 40), (21, 25.2, 41), (22, 25.3, 42)],
            0,
        ),  # and several sends
        (16, [(10, 10, 23), (20, 25.1, 27)], 0),  # a reply read before other processes took the core
        (
            4,
            [(10, 10, 12), (20, 23, 25), (22, 27, 29)],
            0,
        ),  # the core taken between two of four callers' sends
        (4, [(k, 3 * k, 200 + k) for k in range(10, 30)], 16),  # each send takes three times the gap
        (
            None,
            [(0.4 * k, 0.5 * k, 9000 + k) for k in range(1, 40)],
            29,
        ),  # further and further behind, and never asleep
    ],
)
def test_a_request_is_delayed_when_the_sender_was_held_up(cap, requests, delayed):
    assert Lateness(cap).count(records(*requests)) == delayed
    lateness = Lateness(cap)
    assert sum(lateness.count(records(request)) for request in requests) == delayed


def test_later_replies_to_other_requests_do_not_hold_up():
    """The second is sent late while nothing happens, and the first ends between the second's send and end."""
    assert Lateness().count(records((10, 10, 27), (20, 25, 30))) == 0
