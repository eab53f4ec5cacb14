"""Records as columns: sorted, cut, selected and joined without mixing up their times."""

import numpy as np
import pytest

from inferometer.base import status
from inferometer.records.records import COLUMNS, EMPTY, Records, Totals, from_rows, join


def records(*requests: tuple[int, int, tuple[int, ...]]) -> Records:
    """Build records from (end, status, times)."""
    rows = np.zeros((len(requests), len(COLUMNS)), dtype=np.int64)
    for row, (end, code, times) in zip(rows, requests, strict=True):
        row[COLUMNS.index("end_ns")] = end
        row[COLUMNS.index("status")] = code
        row[COLUMNS.index("stamps")] = len(times)
    return from_rows(rows, np.array([time for _, _, times in requests for time in times], dtype=np.int64))


MIXED = records((30, 0, (21, 22)), (10, status.RESET, ()), (20, 0, (11,)))


def said(found: Records) -> list[tuple[int, list[int]]]:
    starts = np.cumsum(found.stamps) - found.stamps
    return [
        (int(end), found.times[start : start + count].tolist())
        for end, start, count in zip(found.end_ns, starts, found.stamps, strict=True)
    ]


def test_sorted_by_end_with_their_times():
    assert said(MIXED) == [(10, []), (20, [11]), (30, [21, 22])]


@pytest.mark.parametrize(
    ("count", "first", "second"),
    [
        (-1, [], [10, 20, 30]),
        (0, [], [10, 20, 30]),
        (1, [10], [20, 30]),
        (2, [10, 20], [30]),
        (3, [10, 20, 30], []),
        (4, [10, 20, 30], []),
    ],
)
def test_cut(count, first, second):
    parts = MIXED.cut(count)
    assert [part.end_ns.tolist() for part in parts] == [first, second]
    assert [time for part in parts for _, times in said(part) for time in times] == [11, 21, 22]


def test_good_and_failed_are_separated():
    assert said(MIXED.good) == [(20, [11]), (30, [21, 22])]
    assert said(MIXED.failed) == [(10, [])]
    assert MIXED.good.good is not EMPTY
    assert len(MIXED.good.failed) == 0


def test_totals_start_at_zero():
    assert Totals() == Totals(sent=0, good=0, failed=0, cut_off=0, unsent=0, resent=0)


def test_totals_count_every_record_once():
    cut_off, unsent = (5, status.CANCELLED, ()), (6, status.CONNECT, ())
    rows = records((1, 0, ()), (2, 0, ()), (3, 0, ()), (4, status.RESET, ()), cut_off, unsent)
    rows.sent_ns[:5] = 1
    before = Totals(sent=6, good=10, failed=20, cut_off=30, unsent=40, resent=50)
    assert before.and_records(rows) == Totals(sent=6, good=13, failed=22, cut_off=31, unsent=41, resent=50)


def test_any_reply_of_the_server_counts_as_answered():
    assert MIXED.is_answered.tolist() == [False, True, True]


def test_joined_parts_are_sorted_again():
    assert said(join([records((5, 0, (4,)), (40, 0, (39,))), MIXED])) == [
        (5, [4]),
        (10, []),
        (20, [11]),
        (30, [21, 22]),
        (40, [39]),
    ]
    assert join([]) is EMPTY
    assert join([MIXED]) is MIXED
