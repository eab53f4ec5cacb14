"""Substitute for epoll and its timer on systems without them: the calls of `select.epoll`, over `selectors`.

kqueue takes its time-out in nanoseconds, so a wait ends at the time that was set. poll takes milliseconds: a wait ends
up to a millisecond early, and the reactor spins for the rest.
"""

import select
import selectors
from typing import Final, Protocol

from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock

_TIMER: Final = -1  # stands for the timer among the descriptors
_EVENTS: Final = {
    select.POLLIN: selectors.EVENT_READ,
    select.POLLOUT: selectors.EVENT_WRITE,
    select.POLLIN | select.POLLOUT: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
_MASKS: Final = {events: mask for mask, events in _EVENTS.items()}


class EventSet(Protocol):
    """The calls of `select.epoll` that the reactor uses."""

    def register(self, fd: int, mask: int, /) -> None: ...
    def modify(self, fd: int, mask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout_s: float | None = None, at_once: int = -1, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class EventTimer(Protocol):
    """Timer in an event set: its descriptor is ready at the time that was set last."""

    @property
    def fd(self) -> int: ...
    def set(self, time_ns: int) -> None: ...
    def clear(self, mask: int) -> None: ...
    def close(self) -> None: ...


class SelectorTimer:
    """Time at which a wait without time-out ends."""

    fd = _TIMER

    def __init__(self) -> None:
        self.time_ns: int | None = None

    def set(self, time_ns: int) -> None:
        self.time_ns = time_ns

    def clear(self, mask: int) -> None:
        self.time_ns = None

    def close(self) -> None:
        """Do nothing, since no descriptor was opened."""


class SelectorSet:
    """Set of descriptors. A round reports all that are ready, so none of them waits for another round."""

    def __init__(self, timer: SelectorTimer, clock: Clock) -> None:
        self._selector = selectors.DefaultSelector()
        self._timer = timer
        self._clock = clock
        self._is_exact = hasattr(select, "kqueue")

    def register(self, fd: int, mask: int) -> None:
        if fd != _TIMER:
            self._selector.register(fd, _EVENTS[mask])

    def modify(self, fd: int, mask: int) -> None:
        self._selector.modify(fd, _EVENTS[mask])

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def close(self) -> None:
        self._selector.close()

    def poll(self, timeout_s: float | None = None, at_once: int = -1) -> list[tuple[int, int]]:
        """Return the ready descriptors and their events; the timer if its time has come and no other is ready."""
        if timeout_s is None or timeout_s < 0:
            time_ns = self._timer.time_ns
            timeout_s = None if time_ns is None else self._timeout_s(time_ns - self._clock())
            is_timed = True
        else:
            is_timed = False
        ready = self._selector.select(timeout_s)
        if not ready and is_timed:
            return [(_TIMER, select.POLLIN)]
        return [(key.fd, _MASKS[events]) for key, events in ready]

    def _timeout_s(self, left_ns: int) -> float:
        if self._is_exact:
            return max(left_ns, 0) / NS_PER_S
        # poll rounds up to milliseconds; half of one less makes sure that rounding errors add none.
        return max(left_ns // NS_PER_MS - 0.5, 0.0) / 1000
