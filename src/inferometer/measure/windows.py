"""Windows: the pieces of time a level is measured in.

A request belongs to the window in which it ends, wherever it started: throughput counts ends. Windows follow each
other without a gap, so every request that ends while a level is measured is in exactly one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.measure.goodput import Limits, kept
from inferometer.measure.growing import Growing
from inferometer.measure.lateness import Lateness
from inferometer.measure.measurement import WindowFigures
from inferometer.measure.quantiles import Durations, deviation, mean, percentile
from inferometer.measure.tokens import Tokens, join_tokens, tokens
from inferometer.observe.metrics import Sample
from inferometer.observe.statistics import Snapshot
from inferometer.records.records import Records

THINNED_COUNT = 1 << 20


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often one status came, when, and after how long."""

    count: int
    first_ns: int
    last_ns: int
    total_ns: int  # latencies of all, and the longest
    longest_ns: int

    def and_later(self, other: "FailureCount") -> "FailureCount":
        return FailureCount(
            count=self.count + other.count,
            first_ns=self.first_ns,
            last_ns=other.last_ns,
            total_ns=self.total_ns + other.total_ns,
            longest_ns=max(self.longest_ns, other.longest_ns),
        )


@dataclass(frozen=True, slots=True)
class Expense:
    """What the client spent within a window."""

    cpu_ns: tuple[int, ...] = ()
    elapsed_ns: int = 0
    sent: int = 0
    reconnects: int = 0
    connects: int = 0
    connect_ns: int = 0
    files: int = 0
    file_limit: int = 0
    stolen_ns: int = 0
    loop_lags_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Streams:
    """Of the good requests of a window that were answered with a stream."""

    responses: Durations  # how many each had
    first_ns: Durations  # from the send to the first response
    gap_ns: Durations  # between responses


def streams(records: Records) -> Streams | None:
    """None when nothing was streamed."""
    if not len(records.times):
        return None
    answered = records.stamps > 0
    starts = np.cumsum(records.stamps[answered])[:-1]  # where the times of all but the first request begin
    gaps = np.diff(records.times)
    within = np.ones(len(gaps), dtype=np.bool_)
    within[starts - 1] = False  # from the last of one request to the first of the next
    return Streams(records.responses, (records.first_ns - records.sent_ns)[answered], gaps[within])


def join_streams(parts: Sequence[Streams]) -> Streams | None:
    if not parts:
        return None
    return Streams(
        np.concatenate([part.responses for part in parts]),
        np.concatenate([part.first_ns for part in parts]),
        np.concatenate([part.gap_ns for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """What ended between `start_ns` and `end_ns`. Twelve bytes a request: long runs stay small."""

    start_ns: int
    end_ns: int
    latency_ns: Durations  # of good requests, in the order of their ends
    service_ns: Durations  # the same array unless latency counts from due times
    sequence_ns: Durations  # whole sequences, from when their first request was due
    ended_us: NDArray[np.uint32]  # their ends, microseconds after the start
    send_ns: int  # sums over good requests
    receive_ns: int
    received_bytes: int
    first_sent_ns: int  # 0 when nothing ended
    failures: dict[int, FailureCount]
    delayed: int = 0  # requests that were held up
    streams: "Streams | None" = None
    tokens: Tokens | None = None
    kept: int = 0  # requests within the limits of the promise
    empty: int = 0  # streams that ended well without a response: they are no requests of the window
    expense: Expense = Expense()
    before: Snapshot | None = None
    after: Snapshot | None = None
    samples: tuple[Sample, ...] = ()  # of the server's metrics

    @property
    def count(self) -> int:
        return len(self.latency_ns)

    @property
    def failed_count(self) -> int:
        return sum(failure.count for failure in self.failures.values())

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    def infer_per_s(self, batch: int) -> float:
        return self.count * batch * NS_PER_S / self.duration_ns


@dataclass(slots=True)
class OpenWindow:
    """A window that still fills."""

    start_ns: int
    is_open: bool = False  # latency counts from when requests were due, not from when they were sent
    has_tokens: bool = False
    limits: Limits | None = None  # of a promise
    drops_empty: bool = False  # a request of which only the end came has no latency, and is not counted
    lateness: Lateness = field(default_factory=Lateness)  # of the whole level
    count: int = 0
    _latency: Growing[np.int64] = field(default_factory=lambda: Growing(np.int64))
    _service: Growing[np.int64] = field(default_factory=lambda: Growing(np.int64))
    _sequence: Growing[np.int64] = field(default_factory=lambda: Growing(np.int64))
    _ended: Growing[np.uint32] = field(default_factory=lambda: Growing(np.uint32))
    _shift_us: int = 0  # from the times in `_ended` to those after the start
    _delayed: int = 0
    _send_ns: int = 0
    _receive_ns: int = 0
    _received: int = 0
    _first_sent_ns: int = 0
    _failures: dict[int, FailureCount] = field(default_factory=dict)
    _streams: list[Streams] = field(default_factory=list)
    _tokens: list[Tokens] = field(default_factory=list)
    _kept: int = 0
    _empty: int = 0

    @property
    def ended_count(self) -> int:
        """Requests that ended, well or badly or without a response."""
        return self.count + self._empty + sum(failure.count for failure in self._failures.values())

    @property
    def failures(self) -> Mapping[int, FailureCount]:
        return self._failures

    def add(self, records: Records) -> None:
        """Take requests that ended in this window, in the order of their ends."""
        if not len(records):
            return
        sent = int(records.sent_ns[records.sent_ns > 0].min(initial=records.end_ns[0]))
        self._first_sent_ns = min(self._first_sent_ns or sent, sent)
        self._add_failures(records)
        good = records.good
        if self.drops_empty:
            ended, good = len(good), good.where(good.responses > 0)
            self._empty += ended - len(good)
        self.count += len(good)
        self._latency.append(good.end_ns - (good.due_ns if self.is_open else good.sent_ns))
        if self.is_open:
            self._service.append(good.end_ns - good.sent_ns)
            self._delayed += self.lateness.count(records)
        self._ended.append(((good.end_ns - self.start_ns) // NS_PER_US).astype(np.uint32))
        self._send_ns += int((good.wrote_ns - good.sent_ns).sum())
        # Responses of a stream come one by one, each at once: the time between them is the server's.
        self._receive_ns += int((good.end_ns - good.first_ns)[good.stamps == 0].sum())
        self._received += int(good.received.sum())
        streamed = streams(good)
        if streamed is not None:
            self._streams.append(streamed)
        if self.has_tokens:
            self._tokens.append(tokens(good))
        if self.limits is not None:
            self._kept += kept(good, self.limits, is_open=self.is_open)
        last = good.sequence_started_ns > 0
        self._sequence.append((good.end_ns - good.sequence_started_ns)[last])

    def _add_failures(self, records: Records) -> None:
        failed = records.failed
        if not len(failed):
            return
        # One that was never sent has waited since it was due.
        began = failed.due_ns if self.is_open else np.where(failed.sent_ns > 0, failed.sent_ns, failed.due_ns)
        for status in np.unique(failed.status):
            alike = failed.status == status
            ends = failed.end_ns[alike]
            took = ends - began[alike]
            found = FailureCount(len(ends), int(ends[0]), int(ends[-1]), int(took.sum()), int(took.max()))
            old = self._failures.get(int(status))
            self._failures[int(status)] = found if old is None else old.and_later(found)

    def begin_at_first_send(self) -> None:
        """Count time from the first request on instead of from when the window was opened."""
        if self._first_sent_ns:
            self._shift_us = (self._first_sent_ns - self.start_ns) // NS_PER_US
            self.start_ns = self._first_sent_ns

    def close(
        self, end_ns: int, *, expense: Expense, before: Snapshot | None, after: Snapshot | None
    ) -> Window:
        latency = self._latency.gather()
        ended = self._ended.gather()
        ended = (
            ended - np.uint32(self._shift_us) if self._shift_us > 0 else ended + np.uint32(-self._shift_us)
        )
        return Window(
            start_ns=self.start_ns,
            end_ns=end_ns,
            latency_ns=latency,
            service_ns=self._service.gather() if self.is_open else latency,
            sequence_ns=self._sequence.gather(),
            ended_us=ended,
            send_ns=self._send_ns,
            receive_ns=self._receive_ns,
            received_bytes=self._received,
            first_sent_ns=self._first_sent_ns,
            failures=self._failures,
            delayed=self._delayed,
            streams=join_streams(self._streams),
            tokens=join_tokens(self._tokens),
            kept=self._kept,
            empty=self._empty,
            expense=expense,
            before=before,
            after=after,
        )


def add_failures(windows: Sequence[Window]) -> dict[int, FailureCount]:
    """By status, over windows that follow each other."""
    total: dict[int, FailureCount] = {}
    for window in windows:
        for status, found in window.failures.items():
            total[status] = total[status].and_later(found) if status in total else found
    return total


def split(records: Records, end_ns: int) -> tuple[Records, Records]:
    """Those that ended up to `end_ns`, and the others."""
    return records.cut(int(np.searchsorted(records.end_ns, end_ns, side="right")))


def figures(window: Window, *, level_start_ns: int, batch: int, chosen: int | None) -> WindowFigures:
    """The window in a line; `chosen` is the percentile to show instead of the mean."""
    durations = window.latency_ns
    return WindowFigures(
        start_s=(window.start_ns - level_start_ns) / NS_PER_S,
        duration_ns=window.duration_ns,
        request_count=window.count,
        failed_count=window.failed_count,
        infer_per_s=window.infer_per_s(batch),
        latency_ns=_figure(durations, chosen),
        service_ns=_figure(window.service_ns, chosen),
        std_ns=deviation(durations),
        p50_ns=_thinned_percentile(durations, 50),
        p99_ns=_thinned_percentile(durations, 99),
        empty_count=window.empty,
    )


def _figure(durations: Durations, chosen: int | None) -> int:
    return mean(durations) if chosen is None or not len(durations) else percentile(durations, chosen)


def _thinned_percentile(durations: Durations, p: int) -> int:
    """Exact for up to `THINNED_COUNT` requests; of more, every n-th: a copy of all could not be afforded."""
    few = durations[:: 1 + len(durations) // (THINNED_COUNT + 1)]
    return percentile(few, p) if len(few) else 0
