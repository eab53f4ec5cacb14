"""When a deadline passes: at its own time, or shortly after the surrounding work had to end."""

import pytest

from inferometer.base import deadline as deadlines
from inferometer.base.deadline import INTERRUPT, Deadline, DeadlineError, End, ending, within
from inferometer.base.units import NS_PER_S


@pytest.fixture
def clock(monkeypatch):
    """A clock in seconds, moved by hand."""
    now = [100.0]
    monkeypatch.setattr(deadlines, "monotonic_ns", lambda: round(now[0] * NS_PER_S))
    monkeypatch.setattr(INTERRUPT, "at_ns", None)
    return now


ROWS = (
    # the call's own limit, the end of the surrounding work, the grace period; when it passes, and the message
    ("its own time", 20, None, 2, 20, "within 20 s"),
    ("an end before it", 20, 5, 2, 7, "before the budget was spent"),
    ("an end too late to matter", 20, 19, 2, 20, "within 20 s"),
    ("an end that held already", 20, -9, 2, 0, "before the budget was spent"),
)


@pytest.mark.parametrize(
    ("limit_s", "end_s", "last_s", "passes_s", "words"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_a_deadline_passes_at_its_time_or_soon_after_an_end(clock, limit_s, end_s, last_s, passes_s, words):
    begun = clock[0]
    end = End("the budget was spent", None if end_s is None else round((begun + end_s) * NS_PER_S))
    with ending(end, last_s=last_s):
        deadline = Deadline.after(limit_s)
    if passes_s:
        clock[0] = begun + passes_s - 0.5
        assert deadline.left_s() == 0.5
    clock[0] = begun + passes_s
    with pytest.raises(DeadlineError, match=words):
        deadline.left_s()


def test_an_interrupt_ends_calls_in_progress_before_those_that_undo_changes(clock):
    call = Deadline.after(600)
    with ending(last_s=deadlines.UNDO_LAST_S):
        undo = Deadline.after(600)
    stop = Deadline.after(600, last_s=deadlines.STOP_LAST_S)
    INTERRUPT.at_ns = round(clock[0] * NS_PER_S)
    left = [row.left_s() for row in (call, undo, stop)]
    assert left == sorted(left)
    assert left[-1] < 5


def test_a_polled_end_counts_from_when_it_was_noticed(clock):
    is_gone = False
    with ending(End("the server ended", check=lambda: is_gone), last_s=1):
        deadline = Deadline.after(600)
    assert deadline.left_s() == 600
    is_gone = True
    assert deadline.left_s() == 1
    clock[0] += 1
    assert deadline.has_passed()


def test_all_calls_share_the_time_of_their_context(clock):
    with within(3):
        first = Deadline.after(20)
        clock[0] += 2
        second = Deadline.after(20)
    assert (first.left_s(), second.left_s()) == (1, 1)
    assert Deadline.after(20).left_s() == 20


def test_waits_are_short_enough_to_notice_a_signal(clock):
    deadline = Deadline.after(600)
    assert deadline.wait_s() == deadlines.SLICE_S
    assert Deadline.after(0.01).wait_s() == 0.01
