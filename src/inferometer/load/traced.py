"""The engine with spans: it samples requests and sends their ids to the server.

A request is sampled before it is sent, and then carries its ids in `traceparent`. The others carry none: rendering a
header into every request would cost more than the whole rest of the path. This module only reports which requests were
sampled, and the error texts of failed requests; the controller finds both kinds, and the slowest requests, among the
records (records/span_matcher.py).
"""

import random
from array import array
from collections.abc import Sequence
from typing import Any

from inferometer.base import status as outcome
from inferometer.load.link import LinkBase
from inferometer.load.sampled import RequestSample, SampledEngine, SampleGaps
from inferometer.records.spans import MOST_ROWS, TRACE_CELLS, Failure, SpanReport

TEXT = 256  # characters of an error text


class TracedEngine(SampledEngine):
    """An engine that samples some of its requests as spans."""

    link: LinkBase  # type: ignore[assignment]  # every link of a worker is one

    def __init__(
        self, *, gaps: SampleGaps, worker: int = 0, samples: Sequence[RequestSample] = (), **given: Any
    ) -> None:
        self._worker = worker
        self._random = random.Random()
        self._carried = -1  # the step whose request the link has exchanged
        self._traces = array("Q")
        self._texts: list[Failure] = []
        self._dropped = 0
        self._text = ""
        super().__init__(samples=(RequestSample(gaps, self._begin_trace, self._end_trace), *samples), **given)

    def take_spans(self) -> SpanReport:
        """Return the samples and failures noted since the last call."""
        report = SpanReport(self._traces, tuple(self._texts), self._dropped)
        self._traces = array("Q")
        self._texts.clear()
        self._dropped = 0
        return report

    def _begin_trace(self, slot: int, step: int) -> None:
        draw = self._random.getrandbits
        high, low, span_id = draw(64), draw(64) or 1, draw(64) or 1  # 0 is not valid
        is_propagated = self.link.carry(step, f"00-{high:016x}{low:016x}-{span_id:016x}-01")
        self._carried = step if is_propagated else -1
        if len(self._traces) < MOST_ROWS * TRACE_CELLS:
            self._traces.extend(
                (self._due[slot], step, self._worker, slot, high, low, span_id, is_propagated)
            )
        else:
            self._dropped += 1

    def _end_trace(self) -> None:
        if self._carried >= 0:
            self.link.drop(self._carried)

    def _explain(self, status: int, text: str) -> None:
        if status != outcome.WITHDRAWN:
            self._text = text[:TEXT]
        super()._explain(status, text)

    def _failed(self, slot: int, now_ns: int, is_answered: bool) -> bool:
        text, self._text = self._text, ""
        if len(self._texts) < MOST_ROWS:
            failure = Failure(self._due[slot], self._steps[slot], self._worker, slot, text)
            self._texts.append(failure)
        return super()._failed(slot, now_ns, is_answered)
