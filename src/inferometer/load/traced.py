"""The engine with spans: it samples requests and sends their ids to the server.

A request is sampled before it is sent, and then carries its ids in `traceparent`. The others carry none: rendering a
header into every request would cost more than the whole rest of the path. This module only reports which requests were
sampled, and the error texts of failed requests; the controller finds both kinds, and the slowest requests, among the
records (records/span_matcher.py).

The usual path, `next_step`, is that of the engine without spans. The number of requests until the next sampled one is
drawn in advance. If that is far off, requests are not counted one by one: the number of rows is compared between rounds
of the loop. Then all slots become unsteady, so that the next request is sent by `_send`, and is sampled. The rest of
the round came too late for that; the next draw is shortened by their number, so that the share is right.
"""

import math
import random
from array import array
from typing import Any

from inferometer.base import status as outcome
from inferometer.load.engine import LOOK_EVERY, Engine
from inferometer.load.link import LinkBase
from inferometer.load.plan import NEVER, Plan
from inferometer.load.sequences import Mark
from inferometer.records.spans import MOST_ROWS, TRACE_CELLS, Failure, SpanReport

NEAR = 16  # requests that are counted one by one
TEXT = 256  # characters of an error text


class TracedEngine(Engine):
    """An engine that samples some of its requests."""

    link: LinkBase  # type: ignore[assignment]  # every link of a worker is one

    def __init__(self, *, share: float, worker: int = 0, **given: Any) -> None:
        self._share = share
        self._worker = worker
        self._random = random.Random()
        self._left = self._gap()  # requests before the next sampled one; NEVER while they are not counted
        self._far = NEVER  # rows from which on requests are counted again
        self._late = 0  # by how many requests the last sampled one came too late
        self._steady: list[bool] | None = None  # which slots are steady, while all pretend not to be
        self._carried = -1  # the step whose request the link has exchanged
        self._traces = array("Q")
        self._texts: list[Failure] = []
        self._dropped = 0
        self._text = ""
        super().__init__(**given)
        self._look = self._look_ahead
        self._send_untraced = self._send
        self._send = self._send_traced

    def take_spans(self) -> SpanReport:
        """Return the samples and failures noted since the last call."""
        report = SpanReport(self._traces, tuple(self._texts), self._dropped)
        self._traces = array("Q")
        self._texts.clear()
        self._dropped = 0
        return report

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        if self._left >= NEVER:
            self._left = self._gap()  # as good as what was left of the last one: the draws have no memory
        self._be_steady()
        super().apply(plan, start_ns)
        if self._left < NEVER:
            self._pretend_unsteady()

    # --- which requests

    def _gap(self) -> int:
        """Draw the number of requests until the next sampled one: independent of every period of the load."""
        if self._share >= 1:
            return 0
        if self._share <= 0:
            return NEVER
        return int(math.log(1 - self._random.random()) / math.log1p(-self._share))

    def _look_ahead(self) -> int:
        """Stop counting requests, or begin again; return the number of rows at which to look again."""
        written = self._ring.written
        if not self._is_endless:
            return written + LOOK_EVERY
        if self._left < NEVER and not self._stops_counting():
            return written
        if written < self._far:
            return min(self._far, written + LOOK_EVERY)
        self._late, self._far, self._left = written - self._far, NEVER, 0
        self._pretend_unsteady()
        return written

    def _stops_counting(self) -> bool:
        """Leave the requests before the next sampled one uncounted, if there are enough of them."""
        if self._left <= NEAR or not self._is_endless:
            return False
        self._far, self._left = self._ring.written + self._left, NEVER
        self._be_steady()
        return True

    def _pretend_unsteady(self) -> None:
        if self._is_endless and self._steady is None:
            self._steady, self._is_steady = self._is_steady, [False] * len(self._is_steady)

    def _be_steady(self) -> None:
        if self._steady is not None:
            more = len(self._is_steady) - len(self._steady)
            self._is_steady, self._steady = self._steady + [False] * more, None

    def _settle(self, slot: int) -> None:
        super()._settle(slot)
        if self._steady is not None:
            self._steady[slot], self._is_steady[slot] = self._is_steady[slot], False

    # --- a request

    def _send_traced(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if self._carried >= 0:  # sent while the sampled one is: that failed at once
            self._end_carrying()
        if self._left:
            if self._left < NEVER:
                self._left -= 1
            self._send_untraced(slot, step, now_ns, mark)
            return
        gap, late = self._gap(), self._late
        self._left, self._late = max(0, gap - late), max(0, late - gap)
        self._begin_trace(slot, step)
        self._send_untraced(slot, step, now_ns, mark)
        if self._carried >= 0:
            self._end_carrying()
        self._stops_counting()

    def _begin_trace(self, slot: int, step: int) -> None:
        draw = self._random.getrandbits
        high, low, span_id = draw(64), draw(64) or 1, draw(64) or 1  # 0 is not valid
        is_propagated = self.link.carry(step, f"00-{high:016x}{low:016x}-{span_id:016x}-01")
        if is_propagated:
            self._carried = step
        if len(self._traces) < MOST_ROWS * TRACE_CELLS:
            self._traces.extend(
                (self._due[slot], step, self._worker, slot, high, low, span_id, is_propagated)
            )
        else:
            self._dropped += 1

    def _end_carrying(self) -> None:
        step, self._carried = self._carried, -1
        self.link.drop(step)

    def _explain(self, status: int, text: str) -> None:
        if status != outcome.WITHDRAWN:
            self._text = text[:TEXT]
        super()._explain(status, text)

    def _failed(self, slot: int, now_ns: int, is_answered: bool) -> bool:
        text, self._text = self._text, ""
        if self._steady is not None:
            self._steady[slot] = False
        if len(self._texts) < MOST_ROWS:
            failure = Failure(self._due[slot], self._steps[slot], self._worker, slot, text)
            self._texts.append(failure)
        return super()._failed(slot, now_ns, is_answered)
