"""When a level gives up on a server that no longer answers, and what it says then."""

from array import array

import pytest

from inferometer.base import status
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.workers import Collected, Cost
from inferometer.measure.liveness import GONE_NS, Liveness, Silence
from inferometer.records.records import EMPTY, Records, from_cells

START_NS = 10 * NS_PER_S
NO_COST = Cost(cpu_ns=(0,), sent=0, reconnects=0, connects=0, connect_ns=0)


def records(*rows: tuple[float, int]) -> Records:
    """Requests by (seconds into the level at which they ended, status)."""
    cells = array("q")
    for seconds, code in rows:
        end_ns = START_NS + round(seconds * NS_PER_S)
        received = 100 if code == status.OK else 0
        sent_ns = end_ns - NS_PER_MS
        cells.extend((sent_ns, sent_ns, sent_ns, end_ns, end_ns, code, 0, received, 1, 0, 0, 0, 0, 0))
    return from_cells(cells, array("q"))


def liveness(*, gives_up: bool = True) -> Liveness:
    return Liveness(START_NS, Silence(3 * NS_PER_S, START_NS), gives_up=gives_up)


GONE_S = GONE_NS / NS_PER_S


@pytest.mark.parametrize(
    ("rows", "is_given_up"),
    [
        (((1, status.OK), (2, status.CONNECT), (2.1 + GONE_S, status.CONNECT)), True),
        (((1, status.OK), (2, status.CONNECT), (1.9 + GONE_S, status.CONNECT)), False),
        (((2, status.CONNECT), (5, status.OK), (2.1 + GONE_S, status.CONNECT)), False),
        (((1, status.OK), (2, status.TIMEOUT), (2.1 + GONE_S, status.TIMEOUT)), False),
        (((1, status.OK), (2.1 + GONE_S, status.CONNECT)), False),
    ],
    ids=["long failure", "short failure", "answer between", "timeouts alone", "pause in the schedule"],
)
def test_a_server_is_given_up_after_a_long_time_of_unanswered_requests(rows, is_given_up):
    together, one_by_one = liveness(), liveness()
    together.add(records(*rows))
    for row in rows:
        one_by_one.add(records(row))
    assert together.is_given_up == one_by_one.is_given_up == is_given_up


def test_a_timed_level_never_gives_up():
    timed = liveness(gives_up=False)
    timed.add(records((1, status.CONNECT), (2 + GONE_S, status.CONNECT)))
    assert not timed.is_given_up


def test_the_remark_says_when_the_server_fell_silent_and_how_much_was_not_sent():
    found = liveness()
    assert found.remark(None, 0).text == "the server gave no successful answer"
    found.add(records((1.5, status.OK)))
    assert found.remark(1000, 1000).text == "the last successful answer came 1.5 s into the level"
    found.hear(Collected(EMPTY, START_NS + 2 * NS_PER_S, NO_COST, is_finished=False, outstanding=1, heard=1))
    found.hear(Collected(EMPTY, START_NS + 5 * NS_PER_S, NO_COST, is_finished=False, outstanding=1, heard=1))
    remark = found.remark(2500, 1000)
    assert remark.note is Note.NO_ANSWER
    assert remark.text.endswith("with no answer at all for 3 s; 1,500 of 2,500 requests were not sent")
