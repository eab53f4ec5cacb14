"""Deadlines of calls: one deadline covers a whole exchange, and is brought forward if the surrounding work has to end.

    deadline = Deadline.after(20)          # when the call begins
    sock.settimeout(deadline.wait_s())     # before each wait: a slice of the time left; DeadlineError if none is left

A timeout per read is not enough: a peer that sends one byte at a time never reaches it. A call therefore computes its
deadline once and passes it down.

Work can end for reasons outside a call: a signal, a spent budget, a dead server. An `End` is such a reason. Calls made
inside `ending(end)` may continue for a short while after it: first measuring calls, then calls that undo changes, last
the wait for our own processes, so that a command finishes within five seconds. Waits are cut into slices so that a
signal takes effect in the middle of one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Self

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number

SLICE_S = 0.1  # the longest single wait

FOREVER_S = 1e9
CALL_LAST_S = 1.0  # grace period after an end: for calls in progress and for the final figures,
UNDO_LAST_S = 2.2  # for undoing changes,
STOP_LAST_S = 2.6  # and for our own processes to exit


class DeadlineError(TimeoutError):
    """A deadline has passed; the message says which."""


@dataclass(slots=True, eq=False)
class End:
    """A reason to end the work; `at_ns` is the time it took effect, None until then."""

    why: str
    at_ns: int | None = None
    check: Callable[[], bool] | None = None  # polled if nothing sets the time
    is_hard: bool = False  # no grace period

    def since_ns(self) -> int | None:
        if self.at_ns is None and self.check is not None and self.check():
            self.at_ns = monotonic_ns()
        return self.at_ns

    def is_over(self) -> bool:
        since_ns = self.since_ns()
        return since_ns is not None and monotonic_ns() >= since_ns


INTERRUPT = End("the command was interrupted")
"""Interrupt of this process: set by the first signal, cleared when the command ends."""


class _Around(NamedTuple):
    ends: tuple[End, ...] = ()
    last_s: float = CALL_LAST_S


_NOTHING = _Around()
_AROUND: ContextVar[_Around] = ContextVar("around", default=_NOTHING)


@contextmanager
def ending(*ends: End, last_s: float | None = None) -> Iterator[None]:
    """Make deadlines created in this context expire `last_s` after the first of these ends and the surrounding ones.

    Use it around plain calls, never around a `yield`: a generator runs in the context of its caller.
    """
    outer = _AROUND.get()
    token = _AROUND.set(_Around((*outer.ends, *ends), outer.last_s if last_s is None else last_s))
    try:
        yield
    finally:
        _AROUND.reset(token)


def has_to_end() -> bool:
    """Return whether an end around this call has taken effect."""
    return any(end.is_over() for end in (INTERRUPT, *_AROUND.get().ends))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the total time of all calls in this context."""
    end = End(
        f"{plain_number(seconds)} s had passed", monotonic_ns() + round(seconds * NS_PER_S), is_hard=True
    )
    with ending(end):
        yield


@frozen
class Deadline:
    """Time by which a whole exchange must be finished."""

    at_ns: int
    limit_s: float
    ends: tuple[End, ...]
    last_ns: int

    @classmethod
    def after(cls, limit_s: float, *, last_s: float | None = None) -> Self:
        around = _AROUND.get()
        last_ns = round(min(around.last_s if last_s is None else last_s, FOREVER_S) * NS_PER_S)
        ends = (INTERRUPT, *around.ends)
        return cls(monotonic_ns() + round(limit_s * NS_PER_S), limit_s, ends, last_ns)

    def left_s(self) -> float:
        """Return the seconds until the deadline or an earlier end; raise DeadlineError if it has passed."""
        now_ns = monotonic_ns()
        nearest_ns, words = self.at_ns, f"within {plain_number(self.limit_s)} s"
        for end in self.ends:
            since_ns = end.since_ns()
            if since_ns is None:
                continue
            passes_ns = since_ns + (0 if end.is_hard else self.last_ns)
            if passes_ns < nearest_ns:
                nearest_ns, words = passes_ns, f"before {end.why}"
        if now_ns >= nearest_ns:
            raise DeadlineError(words)
        return (nearest_ns - now_ns) / NS_PER_S

    def wait_s(self, most_s: float = SLICE_S) -> float:
        """Return how long to wait before checking the deadline again."""
        return min(self.left_s(), most_s)

    def has_passed(self) -> bool:
        try:
            self.left_s()
        except DeadlineError:
            return True
        return False

    def sleep(self, seconds: float) -> None:
        """Sleep in slices; raise DeadlineError if the deadline passes meanwhile."""
        until_ns = monotonic_ns() + round(seconds * NS_PER_S)
        while (left_ns := until_ns - monotonic_ns()) > 0:
            time.sleep(self.wait_s(min(left_ns / NS_PER_S, SLICE_S)))
