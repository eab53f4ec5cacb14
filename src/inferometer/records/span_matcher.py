"""The records that become spans: those of sampled and of failed requests, and of the slowest others."""

import math
import random
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferometer.base import status as outcome
from inferometer.records.records import EMPTY, Column, Records, join
from inferometer.records.spans import (
    FAILED,
    MOST_EVENTS,
    MOST_ROWS,
    SAMPLED,
    SLOW,
    SLOWEST,
    Failure,
    SampledRequest,
    SpanReport,
    SpanRow,
    new_ids,
)

NOT_FAILED: Final = (*outcome.NEUTRAL, outcome.CANCELLED)


class SpanMatcher:
    """A worker reports the requests that it samples and the error texts of failures; everything else is in the records,
    which arrive later. Records are compared many at a time, so requests that do not become spans cost almost
    nothing."""

    def __init__(self) -> None:
        self._random = random.Random()
        self._traces: dict[tuple[int, int], list[SampledRequest]] = {}  # by due time and step
        self._failures: dict[tuple[int, int], Failure] = {}
        self._dropped = 0
        self._counts_from_due = False
        self._slowest: list[int] = []  # latencies, ascending
        self._waiting = EMPTY

    def begin(self, *, counts_from_due: bool) -> None:
        """Begin a load, whose latency counts from when a request was due or from when it was sent."""
        self._counts_from_due = counts_from_due
        self._slowest = []

    def add(self, reports: Iterable[SpanReport]) -> None:
        for report in reports:
            self._dropped += report.dropped
            for trace in report.traces:
                self._traces.setdefault((trace.due_ns, trace.step), []).append(trace)
            for failure in report.failures:
                self._failures[failure.due_ns, failure.step] = failure

    def take_dropped(self) -> int:
        """Return how many requests, since the last call, did not become spans because there was no room for them."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def match(self, records: Records, reported_ns: float = math.inf) -> list[SpanRow]:
        """Return the spans among the records up to the time of the last reports. Later ones wait: the requests may have
        been sampled since."""
        found: list[SpanRow] = []
        later = []
        for part in (self._waiting, records):  # not joined, which would copy them
            ended, waiting = _cut_at(part, reported_ns)
            found += self._matched(ended)
            later.append(waiting)
        self._waiting = join([part for part in later if len(part)])
        return found

    def _matched(self, records: Records) -> list[SpanRow]:
        if not len(records):
            return []
        is_ok = records.status == outcome.OK
        is_sampled = _is_among(records.due_ns, [due_ns for due_ns, _ in self._traces])
        is_failed = np.zeros(len(records), dtype=np.bool_)
        if not is_ok.all():
            is_failed = ~np.isin(records.status, NOT_FAILED)
        took_ns = self._took_ns(records)
        is_slow = self._slow(took_ns, is_ok & ~is_sampled)
        places = np.flatnonzero(is_sampled | is_failed | is_slow)
        self._dropped += max(0, len(places) - MOST_ROWS)
        return list(self._rows(records, places[:MOST_ROWS], took_ns, is_slow))

    def _took_ns(self, records: Records) -> Column:
        counts_from_due = self._counts_from_due | (records.sent_ns == 0)
        begun_ns: Column = np.where(counts_from_due, records.due_ns, records.sent_ns)
        return records.end_ns - begun_ns

    def _slow(self, took_ns: Column, is_eligible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Choose those that are among the slowest of the load so far."""
        limit_ns = self._slowest[0] if len(self._slowest) == SLOWEST else -1
        found = is_eligible & (took_ns > limit_ns)
        places = np.flatnonzero(found)
        if len(places) > SLOWEST:
            places = places[np.argpartition(took_ns[places], -SLOWEST)[-SLOWEST:]]
            found = np.zeros(len(found), dtype=np.bool_)
            found[places] = True
        if len(places):
            self._slowest = sorted([*self._slowest, *took_ns[places].tolist()])[-SLOWEST:]
        return found

    def _rows(
        self, records: Records, places: NDArray[np.intp], took_ns: Column, is_slow: NDArray[np.bool_]
    ) -> Iterator[SpanRow]:
        chosen = np.zeros(len(records), dtype=np.bool_)
        chosen[places] = True
        found = records.where(chosen)
        starts = (np.cumsum(found.stamps) - found.stamps).tolist()
        columns = (
            found.due_ns, found.sent_ns, found.wrote_ns, found.first_ns, found.end_ns, found.status, found.step,
            found.received, found.responses, found.stamps, found.tokens, found.prompt_tokens,
            found.reasoning_tokens, found.cached_tokens, took_ns[places], is_slow[places],
        )  # fmt: skip
        for start, row in zip(
            starts, zip(*(column.tolist() for column in columns), strict=True), strict=True
        ):
            (
                due, sent, wrote, first, end, status, step, received, responses, stamps, tokens, prompt_tokens,
                reasoning_tokens, cached_tokens, took, slow,
            ) = row  # fmt: skip
            trace = self._trace(due, step)
            has_failed = status not in NOT_FAILED
            if trace is None and not has_failed and not slow:  # due at the same time as a sampled one
                continue
            failure = self._failures.pop((due, step), None) if has_failed else None
            known = trace or failure
            ids = new_ids(self._random) if trace is None else (trace.trace_id, trace.span_id)
            times = found.times[start : start + min(stamps, MOST_EVENTS)].tolist()
            yield SpanRow(
                FAILED if has_failed else SLOW if trace is None else SAMPLED, *ids,
                trace is not None and trace.is_propagated, None if known is None else known.worker,
                None if known is None else known.slot, due, sent, wrote, first, end, status,
                "" if failure is None else failure.text, step, received, responses, tuple(times),
                tokens, prompt_tokens, reasoning_tokens, cached_tokens, took,
            )  # fmt: skip

    def _trace(self, due_ns: int, step: int) -> SampledRequest | None:
        found = self._traces.get((due_ns, step))
        if found is None:
            return None
        trace = found.pop(0)
        if not found:
            del self._traces[due_ns, step]
        return trace


def _cut_at(records: Records, end_ns: float) -> tuple[Records, Records]:
    if not len(records) or records.end_ns[-1] <= end_ns:
        return records, EMPTY
    return records.cut(int(np.searchsorted(records.end_ns, end_ns, side="right")))


def _is_among(values: Column, few: list[int]) -> NDArray[np.bool_]:
    """Return which values are among a few: several times faster than np.isin, which sorts them all."""
    if not few:
        return np.zeros(len(values), dtype=np.bool_)
    keys = np.sort(np.array(few, dtype=np.int64))
    places = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    found: NDArray[np.bool_] = keys[places] == values
    return found
