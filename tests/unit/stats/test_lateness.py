"""Requests that were held up are told apart from late timer wake-ups."""

import numpy as np
import pytest

from inferometer.records.records import COLUMNS, from_rows
from inferometer.stats.windows import Lateness

MS = 1_000_000


def records(*requests):
    """Of (due, sent, end) in milliseconds."""
    rows = np.zeros((len(requests), len(COLUMNS)), dtype=np.int64)
    for row, times in zip(rows, requests, strict=True):
        for name, value in zip(("due_ns", "sent_ns", "end_ns"), times, strict=True):
            row[COLUMNS.index(name)] = round(value * MS)
    return from_rows(rows)


@pytest.mark.parametrize(
    ("requests", "delayed"),
    [
        ([(10, 10, 12), (20, 20.1, 22)], 0),
        ([(10, 13, 15), (20, 24, 26), (30, 30, 32)], 0),  # woken late, and sent at once
        ([(10, 10, 50), (20, 50, 90), (30, 90, 130)], 2),  # one at a time, and each takes longer than the gap
        ([(10, 10, 50), (20, 50.1, 90), (30, 90.1, 130)], 2),
        ([(10, 10, 50), (20, 50, 51), (50.5, 51, 52)], 1),  # half a millisecond is nothing
        ([(1, 10, 40), (2, 13, 41), (3, 16, 42)], 2),  # each send takes three milliseconds
        ([(10, 0, 40), (20, 20, 41)], 0),  # the first never left
    ],
)
def test_a_request_is_delayed_when_the_sender_was_held_up(requests, delayed):
    assert Lateness().count(records(*requests)) == delayed
    lateness = Lateness()
    assert sum(lateness.count(records(request)) for request in requests) == delayed


def test_replies_of_others_that_come_later_do_not_hold_up():
    """The second is sent late while nothing happens, and the first ends in between the second's send and end."""
    assert Lateness().count(records((10, 10, 27), (20, 25, 30))) == 0
