"""Windows: the pieces of time a level is measured in.

A request belongs to the window in which it ends, wherever it started: throughput counts ends. Windows follow each
other without a gap, so every request that ends while a level is measured is in exactly one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferometer.base import status
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.observe.metrics import Sample
from inferometer.records.records import Records
from inferometer.stats.ends import Ends, join_ends
from inferometer.stats.goodput import Limits, kept
from inferometer.stats.lateness import Lateness
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.readings import CounterReading
from inferometer.stats.series import EXACT, PIECES, Series, joined
from inferometer.stats.tokens import Tokens, join_tokens

MOST_WINDOWS = 256  # that are kept apart


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
    due: int = 0  # by the schedule of an open plan
    reconnects: int = 0
    connects: int = 0
    connect_ns: int = 0
    files: int = 0
    file_limit: int = 0
    stolen_ns: int = 0
    loop_lags_ns: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class Streams:
    """Of the good requests of a window that were answered with a stream."""

    responses: Series = field(default_factory=Series)  # how many each had
    first_ns: Series = field(default_factory=Series)  # from the send to the first response
    gap_ns: Series = field(default_factory=Series)  # between responses

    def add(self, records: Records) -> None:
        """Good requests; nothing is added when none of them was streamed."""
        if not len(records.times):
            return
        answered = records.stamps > 0
        starts = np.cumsum(records.stamps[answered])[
            :-1
        ]  # where the times of all but the first request begin
        gaps = np.diff(records.times)
        within = np.ones(len(gaps), dtype=np.bool_)
        within[starts - 1] = False  # not from the last response of one request to the first of the next
        self.responses.append(records.responses)
        self.first_ns.append((records.first_ns - records.sent_ns)[answered])
        self.gap_ns.append(gaps[within])


def join_streams(parts: Sequence[Streams]) -> Streams:
    return Streams(
        joined([part.responses for part in parts]),
        joined([part.first_ns for part in parts]),
        joined([part.gap_ns for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """What ended between `start_ns` and `end_ns`, or in windows that were joined."""

    start_ns: int
    end_ns: int
    latency_ns: Series  # of good requests, in the order of their ends
    service_ns: Series  # the same one unless latency counts from due times
    sequence_ns: Series  # whole sequences, from when their first request was due
    ends: Ends  # of good requests, microseconds after the start
    send_ns: int  # sums over good requests
    receive_ns: int
    received_bytes: int
    first_sent_ns: int  # 0 when nothing ended
    failures: dict[int, FailureCount]
    delayed: int = 0  # requests that were held up
    lag_ns: Series | None = None  # from when they were due to the send, where latency counts from due times
    streams: Streams = field(default_factory=Streams)
    tokens: Tokens | None = None
    kept: int = 0  # requests within the limits of the promise
    empty: int = 0  # streams that ended well without a response: they are no requests of the window
    expense: Expense = Expense()
    before: CounterReading | None = None  # of the server's counters
    after: CounterReading | None = None
    samples: tuple[Sample, ...] = ()  # of the server's metrics
    number: int = 1  # of windows that were joined

    @property
    def count(self) -> int:
        return self.latency_ns.count

    def columns(self) -> "Iterator[Series | Ends]":
        """All that grows with the number of requests."""
        yield from (self.latency_ns, self.ends, self.sequence_ns, self.expense.loop_lags_ns)
        if self.lag_ns is not None:
            yield from (self.service_ns, self.lag_ns)
        yield from (self.streams.responses, self.streams.first_ns, self.streams.gap_ns)
        if self.tokens is not None:
            yield from (self.tokens.output, self.tokens.prompt, self.tokens.between_ns)

    @property
    def failed_count(self) -> int:
        return sum(failure.count for failure in self.failures.values())

    @property
    def answered_count(self) -> int:
        """Requests that the server answered, well or badly."""
        return self.count + self.empty + self._failed(status.NO_ANSWER, is_among=False)

    @property
    def unsent_count(self) -> int:
        """Requests that failed before they could be sent."""
        return self._failed(status.NOT_SENT, is_among=True)

    def _failed(self, codes: tuple[int, ...], *, is_among: bool) -> int:
        return sum(row.count for code, row in self.failures.items() if (code in codes) is is_among)

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
    _latency: Series = field(default_factory=lambda: Series(pieces=PIECES))
    _service: Series = field(default_factory=lambda: Series(pieces=PIECES))
    _lag: Series = field(default_factory=lambda: Series(pieces=PIECES))
    _sequence: Series = field(default_factory=Series)
    _ends: Ends = field(default_factory=Ends)
    _delayed: int = 0
    _send_ns: int = 0
    _receive_ns: int = 0
    _received: int = 0
    _first_sent_ns: int = 0
    _failures: dict[int, FailureCount] = field(default_factory=dict)
    _streams: Streams = field(default_factory=Streams)
    _tokens: Tokens = field(default_factory=Tokens)
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
        sent = int(np.where(records.sent_ns > 0, records.sent_ns, records.due_ns).min())
        self._first_sent_ns = min(self._first_sent_ns or sent, sent)
        self._add_failures(records)
        good = records.good
        if self.drops_empty:
            ended, good = len(good), good.where(good.responses > 0)
            self._empty += ended - len(good)
        self.count += len(good)
        latency = good.end_ns - (good.due_ns if self.is_open else good.sent_ns)
        self._latency.append(latency)
        if self.is_open:
            self._service.append(good.end_ns - good.sent_ns)
            self._lag.append(good.sent_ns - good.due_ns)
            self._delayed += self.lateness.count(records)
        # The end mark of a stream may come a window later than its last response: that counts as at the start.
        self._ends.append(np.maximum((good.end_ns - self.start_ns) // NS_PER_US, 0), latency)
        self._send_ns += int((good.wrote_ns - good.sent_ns).sum())
        # Responses of a stream come one by one, each at once: the time between them is the server's.
        self._receive_ns += int((good.end_ns - good.first_ns)[good.stamps == 0].sum())
        self._received += int(good.received.sum())
        self._streams.add(good)
        if self.has_tokens:
            self._tokens.add(good)
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
        for code in np.unique(failed.status):
            alike = failed.status == code
            ends = failed.end_ns[alike]
            took = ends - began[alike]
            found = FailureCount(len(ends), int(ends[0]), int(ends[-1]), int(took.sum()), int(took.max()))
            old = self._failures.get(int(code))
            self._failures[int(code)] = found if old is None else old.and_later(found)

    def begin_at_first_send(self) -> None:
        """Count time from the first request on instead of from when the window was opened."""
        if self._first_sent_ns:
            self._ends.begin_later((self._first_sent_ns - self.start_ns) // NS_PER_US)
            self.start_ns = self._first_sent_ns

    def close(
        self, end_ns: int, *, expense: Expense, before: CounterReading | None, after: CounterReading | None
    ) -> Window:
        return Window(
            start_ns=self.start_ns,
            end_ns=end_ns,
            latency_ns=self._latency,
            service_ns=self._service if self.is_open else self._latency,
            sequence_ns=self._sequence,
            ends=self._ends,
            send_ns=self._send_ns,
            receive_ns=self._receive_ns,
            received_bytes=self._received,
            first_sent_ns=self._first_sent_ns,
            failures=self._failures,
            delayed=self._delayed,
            lag_ns=self._lag if self.is_open else None,
            streams=self._streams,
            tokens=self._tokens if self.has_tokens else None,
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
        for code, found in window.failures.items():
            total[code] = total[code].and_later(found) if code in total else found
    return total


def split(records: Records, end_ns: int) -> tuple[Records, Records]:
    """Those that ended up to `end_ns`, and the others."""
    return records.cut(int(np.searchsorted(records.end_ns, end_ns, side="right")))


def condensed(windows: Sequence[Window]) -> list[Window]:
    """The same windows in bounded memory: many of them joined in pairs, very many requests as sketches."""
    kept = list(windows)
    if len(kept) > MOST_WINDOWS:
        kept = [join_windows(kept[start : start + 2]) for start in range(0, len(kept), 2)]
    pieces = max(PIECES // max(len(kept), 1), 1)
    for column in zip(*(window.columns() for window in kept), strict=True):
        if sum(part.held for part in column) > EXACT or not all(part.is_exact for part in column):
            for part in column:
                part.condense(pieces)
    return kept


def join_windows(windows: Sequence[Window]) -> Window:
    """Windows that follow each other as one."""
    first, last = windows[0], windows[-1]
    latency = joined([window.latency_ns for window in windows])
    lags = [window.lag_ns for window in windows if window.lag_ns is not None]
    return Window(
        start_ns=first.start_ns,
        end_ns=last.end_ns,
        latency_ns=latency,
        service_ns=joined([window.service_ns for window in windows]) if lags else latency,
        sequence_ns=joined([window.sequence_ns for window in windows]),
        ends=join_ends(
            [(window.ends, (window.start_ns - first.start_ns) // NS_PER_US) for window in windows]
        ),
        send_ns=sum(window.send_ns for window in windows),
        receive_ns=sum(window.receive_ns for window in windows),
        received_bytes=sum(window.received_bytes for window in windows),
        first_sent_ns=min((window.first_sent_ns for window in windows if window.first_sent_ns), default=0),
        failures=add_failures(windows),
        delayed=sum(window.delayed for window in windows),
        lag_ns=joined(lags) if lags else None,
        streams=join_streams([window.streams for window in windows]),
        tokens=join_tokens([window.tokens for window in windows if window.tokens is not None]),
        kept=sum(window.kept for window in windows),
        empty=sum(window.empty for window in windows),
        expense=join_expenses([window.expense for window in windows]),
        before=first.before,
        after=last.after,
        samples=tuple(sample for window in windows for sample in window.samples),
        number=sum(window.number for window in windows),
    )


def join_expenses(parts: Sequence[Expense]) -> Expense:
    return Expense(
        cpu_ns=tuple(sum(each) for each in zip(*(part.cpu_ns for part in parts), strict=True)),
        elapsed_ns=sum(part.elapsed_ns for part in parts),
        sent=sum(part.sent for part in parts),
        due=sum(part.due for part in parts),
        reconnects=sum(part.reconnects for part in parts),
        connects=sum(part.connects for part in parts),
        connect_ns=sum(part.connect_ns for part in parts),
        files=max(part.files for part in parts),
        file_limit=max(part.file_limit for part in parts),
        stolen_ns=sum(part.stolen_ns for part in parts),
        loop_lags_ns=joined([part.loop_lags_ns for part in parts]),
    )


def figures(window: Window, *, level_start_ns: int, batch: int, chosen: int | None) -> WindowFigures:
    """The window in a line; `chosen` is the percentile to show instead of the mean."""
    latency = window.latency_ns
    return WindowFigures(
        start_s=(window.start_ns - level_start_ns) / NS_PER_S,
        duration_ns=window.duration_ns,
        request_count=window.count,
        failed_count=window.failed_count,
        infer_per_s=window.infer_per_s(batch),
        latency_ns=_figure(latency, chosen),
        service_ns=_figure(window.service_ns, chosen),
        std_ns=latency.deviation,
        p50_ns=latency.percentile(50),
        p99_ns=latency.percentile(99),
        empty_count=window.empty,
    )


def _figure(durations: Series, chosen: int | None) -> int:
    return durations.mean if chosen is None else durations.percentile(chosen)
