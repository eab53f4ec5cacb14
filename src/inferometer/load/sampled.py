"""The engine with samples: random shares of the requests that are prepared before they are sent.

The gaps between the requests of a sample are drawn in advance. In a closed load every request, after the first ones,
follows the end of an earlier request, so the engine need not count requests one by one: it is called at the row after
which the next request of a sample is sent (`stop` of the ring). Until then requests take exactly the path of an engine
without samples. Then the link marks the slot, whose next request takes that path, too; or, if the sample needs another
request, all slots become unsteady one row earlier, so that `_send` sends the next request.

In all other loads, and while slots of a closed load pause, `_send` counts each request. There a sample chosen by rows
would be biased: if many requests end together and many are sent later, only the first of these could be in the sample.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from inferometer.load.engine import Engine
from inferometer.load.plan import NEVER, Closed, Plan
from inferometer.load.sequences import Mark
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES


class SampleGaps:
    """Random numbers of requests between those of a sample: regular ones would always meet the same requests of a
    dataset that repeats."""

    def __init__(self, share: float, seed: int | None = None) -> None:
        self._share = share
        self._random = random.Random(seed)

    def next(self) -> int:
        if self._share >= 1:
            return 0
        if self._share <= 0:
            return NEVER
        return int(math.log(1 - self._random.random()) / math.log1p(-self._share))


class RequestSample(NamedTuple):
    """A random share of the requests, with callbacks around the send of each."""

    gaps: SampleGaps
    begin: Callable[[int, int], None]  # (slot, step): called before the send
    end: Callable[[], None]  # called after it
    mark: Callable[[Any, int, int], None] | None = (
        None  # (link, slot, step): enough, if the link itself sends it
    )


class SampledEngine(Engine):
    """An engine that takes samples of its requests."""

    def __init__(self, *, samples: Sequence[RequestSample], **given: Any) -> None:
        self._samples = samples
        self._next = [sample.gaps.next() for sample in samples]  # number of the next request of each sample
        self._number = min(self._next)  # the lowest of them
        self._left = self._number  # requests before that one, while they are counted
        self._far = NEVER  # otherwise the number of rows after which one more comes before it
        self._is_marked = False  # the link can mark that request
        self._begun: list[RequestSample] = []  # samples of the request that is being sent
        self._follows = False  # the plan sends a request after each row, unless a slot pauses
        self._begun_rows = 0  # rows when the plan began: until there are more, its first requests are sent
        self._steady: list[bool] | None = None  # which slots are steady, while all pretend not to be
        self._is_marked = all(sample.mark is not None for sample in self._drawn())
        super().__init__(**given)
        self._send_usual = self._send
        self._send = self._send_counted

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        if self._far < NEVER:
            self._count(self._far - self._ring.written)
        self._follows = isinstance(plan, Closed) and plan.think is None and self._sequences is None
        self._begun_rows = self._ring.written
        self._be_steady()
        super().apply(plan, start_ns)
        self._pretend_unsteady()

    # --- which requests

    def _count(self, left: int) -> None:
        """Count the requests: this many come before the next one of a sample."""
        self._left, self._far, self._send = left, NEVER, self._send_counted
        self._ring.stop = self._ring.end
        self._pretend_unsteady()

    def _follow(self) -> None:
        """Leave the requests before the next one of a sample uncounted."""
        ring = self._ring
        self._far, self._send = ring.written + self._left, self._send_usual
        self._aim(ring.position, ring.written)
        self._be_steady()

    def _aim(self, position: int, written: int) -> None:
        rows = self._far + self._is_marked - written
        self._ring.stop = min(self._ring.end, position + rows * ROW_BYTES)

    def _stopped(self, position: int, slot: int, *, sends_next: bool) -> int:
        ring, written = self._ring, self._ring.written + 1
        if position == ring.end:
            position = FIRST_BYTE
        if written < self._far + self._is_marked:
            self._aim(position, written)
        elif self._is_marked and sends_next:
            self._mark(slot, position, written)
        else:
            self._count(0 if sends_next or self._is_marked else 1)
        return position

    def _mark(self, slot: int, position: int, written: int) -> None:
        """Take the request that follows this row, without counting."""
        for sample in self._drawn():
            assert sample.mark is not None
            sample.mark(self.link, slot, self._step)
        self._draw()
        if self._left:
            self._far = written + self._left
            self._aim(position, written)
        else:
            self._count(0)

    def _drawn(self) -> list[RequestSample]:
        """Return the samples that the next request of any belongs to."""
        number = self._number
        return [sample for sample, own in zip(self._samples, self._next, strict=True) if own == number]

    def _draw(self) -> None:
        """Draw the next request of every sample that the current one belongs to."""
        number = self._number
        for index, sample in enumerate(self._samples):
            if self._next[index] == number:
                self._next[index] += 1 + sample.gaps.next()
        self._number = min(self._next)
        self._left = self._number - number - 1
        self._is_marked = all(sample.mark is not None for sample in self._drawn())

    def _failed(self, slot: int, now_ns: int, is_answered: bool) -> bool:
        if self._steady is not None:
            self._steady[slot] = False
        is_pausing = super()._failed(slot, now_ns, is_answered)
        if is_pausing and self._far < NEVER:
            self._count(self._far - self._ring.written + 1)  # none has followed this row
        return is_pausing

    # --- slots that pretend to be unsteady

    def _pretend_unsteady(self) -> None:
        if self._is_endless and self._steady is None:
            self._steady, self._is_steady = self._is_steady, [False] * len(self._is_steady)

    def _be_steady(self) -> None:
        if self._steady is not None:
            self._is_steady, self._steady = self._steady, None

    def _grow(self, slots: int) -> None:
        super()._grow(slots)
        if self._steady is not None:
            self._steady += [False] * (len(self._is_steady) - len(self._steady))

    def _settle(self, slot: int) -> None:
        super()._settle(slot)
        if self._steady is not None:
            self._steady[slot], self._is_steady[slot] = self._is_steady[slot], False

    # --- a request

    def _send_counted(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if self._left:
            self._left -= 1
        else:
            self._begin_samples(slot, step)
        if self._left and self._follows and self._ring.written > self._begun_rows and not self._times.pauses:
            self._follow()
        self._send_usual(slot, step, now_ns, mark)
        if self._begun:
            self._end_samples()

    def _begin_samples(self, slot: int, step: int) -> None:
        if self._begun:  # sent while another one is: that failed at once
            self._end_samples()
        for sample in self._drawn():
            sample.begin(slot, step)
            self._begun.append(sample)
        self._draw()

    def _end_samples(self) -> None:
        for sample in self._begun:
            sample.end()
        self._begun.clear()
