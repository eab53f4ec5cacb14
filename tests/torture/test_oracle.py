"""The oracle finds planted errors."""

from collections import Counter

import pytest

from tests.torture.case import KINDS, draw, faults_of
from tests.torture.control_faults import FAULTS as CONTROL_FAULTS
from tests.torture.log import Log, Seen
from tests.torture.matching import match

UNSEEN = {"reset", "timeout"}


def seen(*allowed: str, may_repeat: bool = False) -> tuple[Seen, set[str]]:
    return Seen(0, 0, "", set(allowed), may_repeat), set(allowed)


GOOD, BAD, EITHER = seen("ok"), seen("http 500"), seen("ok", "reset")
AGAIN = seen("reset", may_repeat=True)


@pytest.mark.parametrize(
    ("rows", "counted", "lost", "invented", "repeated"),
    [
        ([GOOD, BAD], {"ok": 1, "http 500": 1}, 0, {}, 0),
        ([GOOD, GOOD], {"ok": 1}, 1, {}, 0),
        ([GOOD], {"ok": 2}, 0, {"ok": 1}, 0),
        ([BAD], {"ok": 1}, 1, {"ok": 1}, 0),
        ([GOOD], {"ok": 1, "reset": 3}, 0, {}, 0),
        ([EITHER, GOOD], {"ok": 1, "reset": 1}, 0, {}, 0),
        ([EITHER, EITHER], {"ok": 1, "reset": 5}, 0, {}, 0),
        ([EITHER], {"ok": 1, "reset": 1}, 0, {}, 0),
        ([AGAIN, GOOD], {"ok": 1}, 0, {}, 1),
        ([AGAIN, GOOD], {"ok": 1, "reset": 1}, 0, {}, 0),
        ([GOOD, AGAIN, GOOD], {"ok": 1, "reset": 1}, 1, {}, 0),
    ],
    ids=[
        "all there", "one lost, or one sent twice", "one invented", "the wrong outcome", "failures before the server",
        "an outcome of two, the other one taken", "the same, with more failures", "an outcome that must be there first",
        "one sent again", "one that might have been", "lost beside one that might be repeated",
    ],
)  # fmt: skip
def test_what_is_lost_doubled_or_invented_is_found(rows, counted, lost, invented, repeated):
    found = match(rows, Counter(counted), UNSEEN)
    assert (len(found.lost), dict(found.invented), found.repeated) == (lost, invented, repeated)


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_many_faults_with_distinct_names(kind: str):
    names = [fault.name for fault in faults_of(kind)]
    assert len(set(names)) == len(names) >= 40


def test_control_calls_have_many_faults_too():
    assert len({fault.name for fault in CONTROL_FAULTS}) >= 30


def test_a_case_is_drawn_again_as_it_was():
    assert draw(3, 17) == draw(3, 17) != draw(3, 18)


def test_an_answered_request_ends_as_it_was_answered():
    entry = Log().add(0, "", {"ok"})
    entry.is_answered = True
    entry.ends("reset")
    assert entry.allowed == {"ok"}


def test_a_doubt_outlasts_every_later_outcome_until_the_answer():
    entry = Log().add(0, "", {"ok"})
    entry.doubt(frozenset({"reset"}))
    entry.ends("ok")
    assert entry.allowed == {"ok", "reset"}
