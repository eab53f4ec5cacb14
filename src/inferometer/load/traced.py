"""The engine with spans: it chooses requests to trace, sends their ids to the server, and reports how they went.

A request is **sampled** before it is sent, and then carries its ids in `traceparent`. Whether a request fails, or is
among the slowest, is known only when it ends: such a request gets a span as well, with ids that the server never saw.
Rendering a header into every request would cost more than the whole rest of the path, so the others carry none.

The usual path costs a few comparisons more than without spans: `next_step` counts down to the next sampled request.
For that one, the link exchanges the rendered request (`carry`), which it reads right after `next_step` returns; at the
next call it gets the usual one back (`drop`).
"""

import math
import random
from collections.abc import Sequence
from heapq import heappush, heappushpop
from typing import Any

from inferometer.base import status as outcome
from inferometer.load.engine import Engine
from inferometer.load.link import LinkBase
from inferometer.load.plan import NEVER, Plan
from inferometer.load.sequences import Mark
from inferometer.records.ring import FIRST_BYTE, ROW_BYTES, pack_row
from inferometer.records.spans import FAILED, MOST_EVENTS, SAMPLED, SLOW, SpanReport, SpanRow

SLOWEST = 10  # successful requests of a load that always get a span
MOST_ROWS = 4096  # between two reports
TEXT = 256  # characters of an error text
NOT_FAILED = (outcome.OK, outcome.WITHDRAWN, outcome.CANCELLED)


class TracedEngine(Engine):
    """An engine that reports some of its requests as spans."""

    link: LinkBase  # type: ignore[assignment]  # every link of a worker is one

    def __init__(self, *, share: float, worker: int = 0, **given: Any) -> None:
        self._share = share
        self._worker = worker
        self._random = random.Random()
        self._left = self._next = self._gap()  # requests before the next sampled one
        self._carried = -1  # the step whose request the link has exchanged
        self._traces: dict[int, tuple[int, int, bool]] = {}  # ids of sampled requests by slot
        self._rows: list[SpanRow] = []
        self._dropped = 0
        self._slowest: list[int] = []  # heap of latencies
        self._slow_ns = 0  # the least of them; every request is among the slowest until there are enough
        self._text = ""
        super().__init__(**given)
        self._send_untraced = self._send
        self._send = self._send_traced

    def take_spans(self) -> SpanReport:
        """Return the spans since the last call."""
        report = SpanReport(tuple(self._rows), self._dropped)
        self._rows.clear()
        self._dropped = 0
        return report

    def apply(self, plan: Plan, start_ns: int = 0) -> None:
        self._slowest, self._slow_ns = [], 0
        super().apply(plan, start_ns)

    # --- before a request is sent

    def _gap(self) -> int:
        """Draw the number of requests until the next sampled one: independent of every period of the load."""
        if self._share >= 1:
            return 0
        if self._share <= 0:
            return NEVER
        return int(math.log(1 - self._random.random()) / math.log1p(-self._share))

    def _begin_trace(self, slot: int, step: int) -> None:
        self._next = self._gap()
        trace_id, span_id = self._ids()
        is_propagated = self.link.carry(step, f"00-{trace_id:032x}-{span_id:016x}-01")
        # While the link holds an exchanged request, the countdown stands at -1, so that the usual path need not ask.
        self._carried, self._left = (step, -1) if is_propagated else (-1, self._next)
        self._traces[slot] = (trace_id, span_id, is_propagated)

    def _ids(self) -> tuple[int, int]:
        return self._random.getrandbits(128) or 1, self._random.getrandbits(64) or 1

    def _end_carrying(self) -> None:
        step, self._carried, self._left = self._carried, -1, self._next
        self.link.drop(step)

    def _send_traced(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if self._carried >= 0:
            self._end_carrying()
        if self._left:
            self._left -= 1
            self._send_untraced(slot, step, now_ns, mark)
            return
        self._begin_trace(slot, step)
        self._send_untraced(slot, step, now_ns, mark)
        if self._carried >= 0:  # a send that failed at once may have led to the next one, which ended it
            self._end_carrying()

    # --- after it has ended

    def next_step(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]:
        left = self._left
        if left <= 0 or now_ns - sent_ns > self._slow_ns or slot in self._traces or not self._is_steady[slot]:
            return self._next_unusual(slot, sent_ns, wrote_ns, now_ns, received)
        self._left = left - 1
        # The same as in Engine, saving one call ten thousand times a second.
        ring, due, steps, clock = self._ring, self._due, self._steps, self._clock
        position = ring.position
        pack_row(
            self._cells, position,
            due[slot], sent_ns, wrote_ns, now_ns, now_ns, 0, steps[slot], received, 1, 0, 0, 0, 0, 0,
        )  # fmt: skip
        position += ROW_BYTES
        ring.position = position if position != ring.end else FIRST_BYTE
        ring.written += 1
        steps[slot] = step = self._step
        following = step + self._stride
        self._step = following if following < self._step_count else following - self._step_count
        due[slot] = now = clock()
        return step, now

    def _next_unusual(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]:
        """Note a request, or sample the next one."""
        if self._carried >= 0:
            self._end_carrying()
        if self._is_steady[slot] and (now_ns - sent_ns > self._slow_ns or slot in self._traces):
            self._note(slot, 0, sent_ns, wrote_ns, now_ns, now_ns, received)
        found = Engine.next_step(self, slot, sent_ns, wrote_ns, now_ns, received)
        if found[0] >= 0:
            if self._left:
                self._left -= 1
            else:
                self._begin_trace(slot, found[0])
        return found

    def finish(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        *more: Any,
        **named: Any,
    ) -> None:
        if status or slot in self._traces or end_ns - self._begun_ns(slot, sent_ns) > self._slow_ns:
            self._note(slot, status, sent_ns, wrote_ns, first_ns, end_ns, received, *more, **named)
        Engine.finish(
            self, slot, status, sent_ns, wrote_ns, first_ns, end_ns, received, *more, **named
        )  # fmt: skip

    def _begun_ns(self, slot: int, sent_ns: int) -> int:
        """Return the time from which the request's latency counts."""
        return sent_ns if sent_ns and self._times.open is None else self._due[slot]

    def _explain(self, status: int, text: str) -> None:
        self._text = text[:TEXT]
        super()._explain(status, text)

    def _note(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        responses: int = 1,
        times: Sequence[int] = (),
        tokens: int = 0,
        prompt_tokens: int = 0,
        reasoning_tokens: int = 0,
        cached_tokens: int = 0,
        *_: int,
        **__: int,
    ) -> None:
        took_ns = end_ns - self._begun_ns(slot, sent_ns)
        is_failed = status not in NOT_FAILED
        is_slow = status == outcome.OK and self._is_among_slowest(took_ns)
        trace = self._traces.pop(slot, None)
        text, self._text = self._text, ""
        if trace is None and not is_failed and not is_slow:
            return
        if len(self._rows) >= MOST_ROWS:
            self._dropped += 1
            return
        ids = trace or (*self._ids(), False)
        reason = FAILED if is_failed else SLOW if trace is None else SAMPLED
        self._rows.append(
            SpanRow(
                reason, *ids, self._worker, slot, self._due[slot], sent_ns, wrote_ns, first_ns, end_ns, status,
                text if is_failed else "", self._steps[slot], received, responses, tuple(times[:MOST_EVENTS]),
                tokens, prompt_tokens, reasoning_tokens, cached_tokens, took_ns,
            )
        )  # fmt: skip

    def _is_among_slowest(self, took_ns: int) -> bool:
        if took_ns <= self._slow_ns:
            return False
        if len(self._slowest) < SLOWEST:
            heappush(self._slowest, took_ns)
        else:
            heappushpop(self._slowest, took_ns)
        if len(self._slowest) == SLOWEST:
            self._slow_ns = self._slowest[0]
        return True
