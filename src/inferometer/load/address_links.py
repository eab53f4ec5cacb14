"""A link that combines one link for each of several addresses. The step of a request determines its address."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol, cast

from inferometer.load.link import Callbacks, Link, LinkSetup, OpenLink, Responded
from inferometer.load.sequences import Mark
from inferometer.records.path import PathReport
from inferometer.services.traffic import Wiring


class WorkerLink(Link, Protocol):
    """The interface of every link of a worker."""

    wiring: Wiring

    def carry(self, step: int, traceparent: str) -> bool: ...
    def drop(self, step: int) -> None: ...
    def take_path(self) -> PathReport: ...


class AddressLinks:
    """Links of the same protocol, in the order of their addresses."""

    def __init__(self, links: Sequence[WorkerLink], size: int) -> None:
        self._links = links
        self._size = size  # requests per address
        self._of_slot: list[WorkerLink] = []
        self._trace = ""  # trace context of the next request
        self._carried: tuple[WorkerLink, int] | None = None

    @classmethod
    def opener(cls, setup: LinkSetup, open_link: Callable[[LinkSetup], OpenLink]) -> OpenLink:
        wirings = (setup.wiring._replace(others=()), *setup.wiring.others)
        size = len(setup.requests) // len(wirings)
        opens = [
            open_link(
                setup._replace(wiring=wiring, requests=setup.requests[number * size : (number + 1) * size])
            )
            for number, wiring in enumerate(wirings)
        ]

        def opened(callbacks: Callbacks) -> Link:
            links = [cast(WorkerLink, each(callbacks)) for each in opens]
            return cast(Link, cls(links, size))  # its counters are read-only

        return opened

    # --- called by the engine

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        link, own_step = self._links[step // self._size], step % self._size
        while slot >= len(self._of_slot):
            self._of_slot.append(link)
        self._of_slot[slot] = link
        if self._trace:
            link.carry(own_step, self._trace)
            self._trace, self._carried = "", (link, own_step)
        link.send(slot, own_step, now_ns, mark)

    def carry(self, step: int, traceparent: str) -> bool:
        """Send this trace context with the next request, whose address is not chosen yet."""
        if self._links[0].wiring.is_streaming:
            return False
        self._trace = traceparent
        return True

    def drop(self, step: int) -> None:
        self._trace = ""
        if self._carried is not None:
            link, own_step = self._carried
            self._carried = None
            link.drop(own_step)

    def prepare(self, slots: int) -> None:
        for link in self._links:
            link.prepare(slots)

    def cancel(self, slot: int, status: int, text: str) -> None:
        self._of_slot[slot].cancel(slot, status, text)

    def sent_ns(self, slot: int) -> int:
        return self._of_slot[slot].sent_ns(slot)

    def times(self, slot: int) -> Sequence[int]:
        return self._of_slot[slot].times(slot)

    def said(self, slot: int) -> Sequence[str]:
        return self._of_slot[slot].said(slot)

    def close(self, slot: int) -> None:
        for link in self._links:
            link.close(slot)

    # --- counters

    @property
    def responded(self) -> Responded | None:
        return self._links[0].responded

    @responded.setter
    def responded(self, responded: Responded | None) -> None:
        for link in self._links:
            link.responded = responded

    @property
    def is_flushed(self) -> bool:
        return all(link.is_flushed for link in self._links)

    @property
    def opening(self) -> int:
        return sum(link.opening for link in self._links)

    @property
    def heard(self) -> int:
        return sum(link.heard for link in self._links)

    @property
    def reconnects(self) -> int:
        return sum(link.reconnects for link in self._links)

    @property
    def resent(self) -> int:
        return sum(link.resent for link in self._links)

    @property
    def connects(self) -> int:
        return sum(link.connects for link in self._links)

    @property
    def connect_ns(self) -> int:
        return sum(link.connect_ns for link in self._links)

    def take_path(self) -> PathReport:
        reports = [link.take_path() for link in self._links]
        return PathReport(
            max(report.resolve_ns for report in reports),
            tuple(chain.from_iterable(report.openings for report in reports)),
            tuple(chain.from_iterable(report.firsts for report in reports)),
        )
