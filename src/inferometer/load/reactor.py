"""Wait for sockets and times: epoll with a timer in the set, and a short spin before the due time.

Systems without epoll use their own selector (`selector_set`), chosen when a reactor is created.
"""

import contextlib
import ctypes
import os
import select
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from inferometer.base.errors import LocalError
from inferometer.base.units import NS_PER_S, Clock
from inferometer.load.selector_set import EventSet, EventTimer, SelectorSet, SelectorTimer

# The bits of epoll are those of poll.
READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
FAILED: Final = select.POLLERR | select.POLLHUP

AT_ONCE = 42  # events per call: a larger list would not fit Python's small-object allocator
SPIN_NS = 50_000  # minimum time before a due time at which sleeping ends and spinning begins
FEW = 4  # deferred tasks done at once
LONGEST_LATER = 64  # rounds that a deferred task waits at most, however many events arrive
LONGEST_SPIN_NS = 200_000  # on machines that wake up late; at most half of the wait


class SocketReactor:
    """One set of file descriptors; a handler for each, called with the event mask."""

    def __init__(self, clock: Clock) -> None:
        self._set, self._timer = open_set(clock)
        self._poll = self._set.poll
        self._clock = clock
        self._spin_ns = SPIN_NS
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._later: deque[tuple[int, Callable[[], None]]] = deque()  # with their round
        self._urgent = select.poll()
        self._rounds = 0  # rounds with deferred tasks
        self.add(self._timer.fd, READ, self._timer.clear)

    def add(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[fd] = handler
        self._set.register(fd, events)

    def add_urgent(self, fd: int, handler: Callable[[int], None]) -> None:
        """Add a descriptor to read that is checked in every round, even if more events are ready than a round
        handles."""
        self.add(fd, READ, handler)
        self._urgent.register(fd, select.POLLIN)

    def change(self, fd: int, events: int) -> None:
        self._set.modify(fd, events)

    def remove(self, fd: int) -> None:
        del self._handlers[fd]
        self._set.unregister(fd)

    def do_later(self, work: Callable[[], None]) -> None:
        """Defer slow work that is already timestamped, so that other received data gets its timestamp first."""
        self._later.append((self._rounds, work))

    def wait(self, until_ns: int | None) -> None:
        handlers, poll, later = self._handlers, self._poll, self._later
        due_ns = until_ns
        if later and until_ns is not None and self._clock() >= until_ns:
            due_ns = None  # behind: what is deferred must go on
        ready = (
            poll(0 if later else None, AT_ONCE) if later or until_ns is None else self._poll_until(until_ns)
        )
        for fd, mask in ready:
            # A handler of this round may have closed a descriptor later in the list.
            handler = handlers.get(fd)
            if handler is not None:
                handler(mask)
        is_more = len(ready) == AT_ONCE
        if is_more:
            for fd, mask in self._urgent.poll(0):
                handlers[fd](mask)
        if later:
            self._do_some(due_ns, is_more=is_more)

    def _do_some(self, due_ns: int | None, *, is_more: bool) -> None:
        """Do a few deferred tasks, or one every few rounds if more events arrive than a round handles; none from
        `due_ns` on, when the caller has something to send.

        Tasks that have waited long are always done: otherwise a client that is always behind would never read
        its received data or answer its controller.
        """
        self._rounds += 1
        later = self._later
        count = self._rounds % FEW == 0 if is_more else FEW
        for _ in range(min(count, len(later))):
            if due_ns is not None and self._clock() >= due_ns:
                break
            later.popleft()[1]()
        oldest = self._rounds - LONGEST_LATER
        while later and later[0][0] < oldest:
            later.popleft()[1]()

    def _poll_until(self, until_ns: int) -> list[tuple[int, int]]:
        gap = until_ns - self._clock()
        spin = min(self._spin_ns, max(SPIN_NS, gap // 2))
        if gap > spin:
            self._timer.set(until_ns - spin)
            ready = self._poll(-1, AT_ONCE)
            if ready != [(self._timer.fd, READ)]:
                return ready
            self._timer.clear(READ)
            self._learn(self._clock() - (until_ns - spin))
        poll, clock = self._poll, self._clock
        while True:
            ready = poll(0, AT_ONCE)
            if ready or clock() >= until_ns:
                return ready

    def _learn(self, late_ns: int) -> None:
        """Adapt the head start to late wake-ups: one sleep in some hundred may use up half of it."""
        if 2 * late_ns > self._spin_ns:
            self._spin_ns = min(self._spin_ns * 3 // 2, LONGEST_SPIN_NS)
        elif self._spin_ns > SPIN_NS:
            self._spin_ns -= self._spin_ns >> 10


def open_set(clock: Clock) -> tuple[EventSet, EventTimer]:
    """Return an empty set of descriptors, and the timer to register in it."""
    if hasattr(select, "epoll"):
        return select.epoll(), Timer()
    timer = SelectorTimer()
    return SelectorSet(timer, clock), timer


_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1


class _Spec(ctypes.Structure):
    """struct itimerspec: the interval, always 0, and the time."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


class Timer:
    """Timer whose `fd` becomes readable at the time set last. Epoll's own time-out is rounded to whole milliseconds."""

    def __init__(self) -> None:
        self._set_at = 0
        if sys.version_info >= (3, 13):
            self.fd = os.timerfd_create(_MONOTONIC, flags=_NONBLOCK_CLOEXEC)
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._spec = _Spec()
        self._pointer = ctypes.byref(self._spec)
        self.fd = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise LocalError(f"cannot create a timer: {os.strerror(ctypes.get_errno())}")

    def set(self, time_ns: int) -> None:
        """Set the time, on the clock of `time.monotonic_ns`; a time in the past fires at once."""
        if time_ns == self._set_at:
            return
        self._set_at = time_ns
        if sys.version_info >= (3, 13):
            os.timerfd_settime_ns(self.fd, flags=os.TFD_TIMER_ABSTIME, initial=time_ns)
            return
        self._spec.s, self._spec.ns = divmod(time_ns, NS_PER_S)
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._pointer, None)

    def clear(self, mask: int) -> None:
        """Reset the timer after it has fired."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
        self._set_at = 0

    def close(self) -> None:
        os.close(self.fd)
