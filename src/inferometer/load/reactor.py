"""Waiting for sockets with epoll."""

import select
from collections.abc import Callable

from inferometer.base.clock import Clock

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class EpollReactor:
    """One epoll set; a handler per file descriptor, called with the event mask."""

    def __init__(self, clock: Clock) -> None:
        self._epoll = select.epoll()
        self._poll = self._epoll.poll
        self._clock = clock
        self._handlers: dict[int, Callable[[int], None]] = {}

    def add(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def wait(self, until_ns: int | None) -> None:
        timeout = -1.0 if until_ns is None else max(0.0, (until_ns - self._clock()) / 1e9)
        handlers = self._handlers
        for fd, mask in self._poll(timeout):
            # A handler of this round may have closed a descriptor that is still in the list.
            handler = handlers.get(fd)
            if handler is not None:
                handler(mask)
