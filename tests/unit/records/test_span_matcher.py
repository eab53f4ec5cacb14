"""Each span has the times of its own request."""

import numpy as np

from inferometer.base import status
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.records.span_matcher import SpanMatcher
from inferometer.records.spans import MOST_EVENTS


def records(*requests: tuple[int, int, tuple[int, ...]]) -> Records:
    """Build records from (end, status, times)."""
    rows = np.zeros((len(requests), len(COLUMNS)), dtype=np.int64)
    for row, (end, code, times) in zip(rows, requests, strict=True):
        row[COLUMNS.index("end_ns")] = end
        row[COLUMNS.index("sent_ns")] = 1
        row[COLUMNS.index("status")] = code
        row[COLUMNS.index("stamps")] = len(times)
    return from_rows(rows, np.array([time for _, _, times in requests for time in times], dtype=np.int64))


def test_a_span_has_the_times_of_its_request_up_to_the_limit() -> None:
    many = tuple(range(100, 100 + MOST_EVENTS + 5))
    found = records((30, status.OK, (11, 12)), (50, status.RESET, (31,)), (400, status.OK, many))
    rows = SpanMatcher().match(found)
    assert [row.times for row in rows] == [(11, 12), (31,), many[:MOST_EVENTS]]
