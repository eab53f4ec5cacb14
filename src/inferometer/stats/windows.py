"""Windows: the intervals of time in which a level is measured.

A request belongs to the window in which it ends, wherever it started: throughput counts ends. Windows are contiguous,
so every request that ends while a level is measured is in exactly one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.base import status
from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.observe.metrics import MOST_SAMPLES, Sample, thinned
from inferometer.records.records import EMPTY, NO_TIMES, Column, Records, join
from inferometer.records.tasks import calls_in
from inferometer.records.visits import requests_in, visits_in
from inferometer.stats.ends import Ends, join_ends
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.readings import CounterReading
from inferometer.stats.series import EXACT, PIECES, Series, joined
from inferometer.stats.slo import began_ns, kept
from inferometer.stats.streams import (
    LANES,
    Cancellations,
    Streams,
    Tokens,
    join_cancellations,
    join_streams,
    join_tokens,
    output_tokens,
)
from inferometer.stats.tasks import TaskBook, TaskTally, as_records, join_tallies

MOST_WINDOWS = 256  # stored separately
DELAY_NS = NS_PER_MS
WAKE_NS = NS_PER_MS  # actions in one wake-up of a sender are closer together
KEPT_MOMENTS = 4096  # requests whose sends and ends are stored; a request is late by far fewer


@frozen
class FailureCount:
    """Failures with one status: their number, times and durations."""

    count: int
    first_ns: int
    last_ns: int
    total_ns: int  # latency of all, and the longest
    longest_ns: int

    def and_later(self, other: "FailureCount") -> "FailureCount":
        return FailureCount(
            count=self.count + other.count,
            first_ns=self.first_ns,
            last_ns=other.last_ns,
            total_ns=self.total_ns + other.total_ns,
            longest_ns=max(self.longest_ns, other.longest_ns),
        )


@frozen
class Expense:
    """Client-side cost of a window."""

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
    parts: tuple["Expense", ...] = ()  # per traffic class, if each has its own workers
    visits: int = 0  # or tasks, started


@dataclass(slots=True)
class Window:
    """Requests that ended between `start_ns` and `end_ns`, or in joined windows. `WindowRules` fill it."""

    start_ns: int
    end_ns: int
    latency_ns: Series  # of successful requests, in the order of their ends
    service_ns: Series  # the same series unless latency counts from due times
    lag_ns: Series | None = None  # from the due time to the send, if latency counts from due times
    sequence_ns: Series = field(
        default_factory=Series
    )  # of sequences, from the due time of their first request
    ends: Ends = field(default_factory=Ends)  # of successful requests, microseconds after the start
    send_ns: int = 0  # sum over successful requests, like the next two
    receive_ns: int = 0
    received_bytes: int = 0
    first_sent_ns: int = 0  # 0 if nothing ended
    failures: dict[int, FailureCount] = field(default_factory=dict)
    delayed: int = 0  # requests that were held up
    streams: Streams = field(default_factory=Streams)
    tokens: Tokens | None = None
    cancelled: Cancellations = field(default_factory=Cancellations)
    latest: Records = EMPTY  # the last successful streamed requests
    kept: int = 0  # requests within the limits of the SLO
    empty: int = 0  # successful streams without a response, not counted as requests
    blank: int = 0  # successful text answers without a token, counted as requests
    tasks: TaskTally | None = None  # only if requests are calls of tasks
    checked: int = 0  # answers that --check judged
    wrong: int = 0  # of these
    thought_ns: int = 0  # total think time of users in successful visits
    busy_ns: int = 0  # total time that requests were in flight in the window
    arrivals: Ends = field(
        default_factory=Ends
    )  # streamed responses that arrived in the window, whatever the outcome
    ended_events: int = 0  # responses of the requests that ended in the window, whenever they arrived
    event_squares: int = 0  # sums over these requests: of the squares of their responses,
    token_squares: int = 0  # of the squares of their tokens, which are 0 for failed ones,
    token_events: int = 0  # and of the products of both
    is_followed: bool = False  # both are known for all requests, including those in flight at its end
    expense: Expense = field(default=Expense())
    before: CounterReading | None = None  # of the server's counters
    after: CounterReading | None = None
    samples: tuple[Sample, ...] = ()  # of the server's metrics
    number: int = 1  # of joined windows
    classes: tuple["Window", ...] = ()  # same time, per traffic class

    @property
    def count(self) -> int:
        return self.latency_ns.count

    @property
    def failed_count(self) -> int:
        return sum(failure.count for failure in self.failures.values())

    @property
    def ended_count(self) -> int:
        """Requests that ended: successful, failed, empty or cancelled."""
        return self.count + self.empty + self.failed_count + self.cancelled_count

    @property
    def cancelled_count(self) -> int:
        return self.cancelled.ran_ns.count

    @property
    def answered_count(self) -> int:
        """Requests that the server answered, successfully or not."""
        return self.ended_count - self._failed(status.NO_ANSWER)

    @property
    def unsent_count(self) -> int:
        """Requests that failed before they could be sent."""
        return self._failed(status.NOT_SENT)

    def _failed(self, codes: tuple[int, ...]) -> int:
        return sum(row.count for code, row in self.failures.items() if code in codes)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    def infer_per_s(self, batch: int) -> float:
        return self.count * batch * NS_PER_S / self.duration_ns

    def columns(self) -> "Iterator[Series | Ends]":
        """Yield all series that grow with the number of requests."""
        yield from (self.latency_ns, self.ends, self.arrivals, self.sequence_ns, self.expense.loop_lags_ns)
        if self.lag_ns is not None:
            yield from (self.service_ns, self.lag_ns)
        yield self.cancelled.ran_ns
        yield from self.streams.columns()
        if self.tokens is not None:
            yield from self.tokens.columns()
        for part in self.classes:
            yield from part.columns()

    def begin_at_first_send(self) -> None:
        """Start the window at the first request instead of at its opening."""
        if self.first_sent_ns:
            self._begin_at(self.first_sent_ns)

    def _begin_at(self, start_ns: int) -> None:
        self.ends.begin_later((start_ns - self.start_ns) // NS_PER_US)
        self.arrivals.begin_later((start_ns - self.start_ns) // NS_PER_US)
        self.start_ns = start_ns
        for part in self.classes:
            part._begin_at(start_ns)


@dataclass(slots=True)
class Lateness:
    """Counts requests that were sent late because the sender was held up, not because the system woke it late.

    A sender that sleeps until a request is due and is woken a little later has kept up: it sends at once. The times at
    which it sent something or read a reply show when it was awake; those less than `WAKE_NS` apart belong to one
    wake-up. A reply is not evidence of that: it may have arrived while the sender slept, and other processes may take
    its core between the reply and the send. So a late request was held up in three cases: other requests were sent in
    earlier wake-ups after it was due (one, or as many as the sender has slots, as each caller of the classic tool sends
    its own requests), the sender has been awake ever since the request was due, or all its `cap` slots were taken until
    this wake-up. Requests of a level are added piece by piece, in the order of their ends.
    """

    cap: int | None = None  # limit of outstanding requests
    _sends: Column = field(default_factory=lambda: NO_TIMES)
    _ends: Column = field(default_factory=lambda: NO_TIMES)

    def count(self, records: Records) -> int:
        """Count the requests that were held up for longer than `DELAY_NS`."""
        sends = np.concatenate((self._sends, records.sent_ns))
        ends = np.concatenate((self._ends, records.end_ns))
        self._sends, self._ends = sends[-KEPT_MOMENTS:], ends[-KEPT_MOMENTS:]
        late = records.sent_ns - records.due_ns > DELAY_NS
        if not late.any():
            return 0
        sent, due = records.sent_ns[late], records.due_ns[late]
        moments = np.sort(np.concatenate((sends[sends > 0], ends)))
        starts = np.flatnonzero(np.diff(moments, prepend=-WAKE_NS - 1) > WAKE_NS)  # of wake-ups
        places = np.searchsorted(moments, sent, side="right") - 1
        first = starts[np.searchsorted(starts, places, side="right") - 1]
        woken = moments[first]
        sent_before = _counted(sends[sends > 0], woken)
        ahead = sent_before - _counted(sends[sends > 0], due + DELAY_NS)
        if len(sends) > KEPT_MOMENTS:  # earlier times were dropped: it was awake then, too
            ahead = np.where(first == 0, KEPT_MOMENTS, ahead)
        held = (ahead >= (1 if self.cap is None else self.cap)) | (woken <= due)
        if self.cap is not None:
            outstanding = sent_before - _counted(ends[sends > 0], woken)
            held |= outstanding >= self.cap
        return int(held.sum())


def _counted(moments: Column, before: Column) -> Column:
    """Count the moments before each of the times."""
    found: Column = np.searchsorted(np.sort(moments), before, side="left")
    return found


@frozen
class WindowRules:
    """Rules by which the requests of a level are counted."""

    is_open: bool = False  # latency counts from due times, not from the send
    has_tokens: bool = False
    asked_tokens: Column | None = None  # most tokens requested by each step; 0 if unlimited
    promise: Slo | None = None  # SLO for each request
    drops_empty: bool = False  # a stream without a response has no latency, and is not counted
    lateness: Lateness = field(default_factory=Lateness)  # across all windows
    classes: tuple["WindowRules", ...] = ()  # of each traffic class
    class_of_step: Column | None = None  # class of each step's request
    has_visits: bool = False  # counts visits; the classes are their steps
    tasks: TaskBook | None = None  # counts tasks; the classes are their steps
    follows_work: bool = False  # see `Window.busy_ns`

    def new_window(self, start_ns: int) -> Window:
        latency = Series(pieces=PIECES)
        return Window(
            start_ns,
            start_ns,
            latency_ns=latency,
            service_ns=Series(pieces=PIECES) if self.is_open else latency,
            lag_ns=Series(pieces=PIECES) if self.is_open else None,
            tokens=Tokens() if self.has_tokens else None,
            tasks=None if self.tasks is None else TaskTally(),
            classes=tuple(rules.new_window(start_ns) for rules in self.classes),
        )

    def add(self, window: Window, records: Records) -> None:
        """Add requests that ended in this window, in the order of their ends."""
        if not len(records):
            return
        self._add_classes(window, self._requests(records))
        if self.has_visits:
            records, thought_ns = visits_in(records)
            window.thought_ns += thought_ns
        elif self.tasks is not None:
            self._add_calls(window, calls_in(records).good)
            tasks = self.tasks.take(records)
            assert window.tasks is not None
            window.tasks.add(tasks)
            records = as_records(tasks, is_open=self.is_open)
        else:
            records = records.requests
        if not len(records):
            return
        sent = int(began_ns(records, is_open=False).min())
        window.first_sent_ns = min(window.first_sent_ns or sent, sent)
        if self.follows_work:
            _add_work(window, records)
            _add_products(window, records)
        self._add_failures(window, records.failed)
        window.cancelled.add(records.withdrawn)
        good = records.good
        if self.drops_empty:
            ended, good = len(good), good.where(good.responses > 0)
            window.empty += ended - len(good)
        if good.checked.any():
            window.checked += int(np.count_nonzero(good.checked))
            window.wrong += int(np.count_nonzero(good.checked == status.FALSE))
        latency = good.end_ns - (good.due_ns if self.is_open else good.sent_ns)
        window.latency_ns.append(latency)
        if window.lag_ns is not None:
            window.service_ns.append(good.end_ns - good.sent_ns)
            window.lag_ns.append(good.sent_ns - good.due_ns)
            window.delayed += self.lateness.count(records)
        # The end mark of a stream may arrive a window later than its last response, which then counts as at the start.
        window.ends.append(np.maximum((good.end_ns - window.start_ns) // NS_PER_US, 0), latency)
        # A server may answer before it has taken the whole request; then sending ends with the first byte of the reply.
        wrote_ns = np.where(good.wrote_ns > 0, good.wrote_ns, good.first_ns)
        window.send_ns += int((wrote_ns - good.sent_ns).sum())
        # Responses of a stream arrive one by one, each at once: the time between them is the server's.
        window.receive_ns += int((good.end_ns - good.first_ns)[good.stamps == 0].sum())
        window.received_bytes += int(good.received.sum())
        if self.tasks is None:
            self._add_calls(window, good)
        if self.promise is not None:
            window.kept += kept(good, self.promise, is_open=self.is_open)
        if not any(rules.has_visits or rules.tasks is not None for rules in self.classes):
            last = good.sequence_started_ns > 0
            window.sequence_ns.append((good.end_ns - good.sequence_started_ns)[last])

    def _requests(self, records: Records) -> Records:
        """Return the requests alone, without the visits or tasks that their rows also describe."""
        if self.has_visits:
            return requests_in(records)
        return records if self.tasks is None else calls_in(records)

    def _add_calls(self, window: Window, good: Records) -> None:
        """Add the figures of successful requests other than latency: streams and tokens."""
        window.streams.add(good)
        if window.tokens is not None:
            window.tokens.add(good, self.asked_tokens)
            window.blank += int((good.responses == 0).sum())
            window.latest = _latest(window.latest, good)

    def add_running(self, window: Window, records: Records, end_ns: int) -> None:
        """Add the work so far on requests in flight when the window ends; `records` end later."""
        if not self.follows_work:
            return
        is_in_time = records.times <= end_ns
        owner = np.repeat(np.arange(len(records)), records.stamps)
        stamps = np.bincount(owner[is_in_time], minlength=len(records)).astype(np.int64)
        ends = np.full_like(records.end_ns, end_ns)
        _add_work(window, replace(records, end_ns=ends, stamps=stamps, times=records.times[is_in_time]))
        window.is_followed = True
        if self.class_of_step is not None:
            numbers = self.class_of_step[records.step]
            for number, (rules, part) in enumerate(zip(self.classes, window.classes, strict=True)):
                rules.add_running(part, records.where(numbers == number), end_ns)

    def _add_classes(self, window: Window, records: Records) -> None:
        if self.class_of_step is None:
            return
        numbers = self.class_of_step[records.step]
        for number, (rules, part) in enumerate(zip(self.classes, window.classes, strict=True)):
            rules.add(part, records.where(numbers == number))

    def _add_failures(self, window: Window, failed: Records) -> None:
        if not len(failed):
            return
        began = began_ns(failed, is_open=self.is_open)
        for code in np.unique(failed.status):
            alike = failed.status == code
            ends = failed.end_ns[alike]
            took = ends - began[alike]
            found = FailureCount(len(ends), int(ends[0]), int(ends[-1]), int(took.sum()), int(took.max()))
            _add_failure(window.failures, int(code), found)


def _add_work(window: Window, records: Records) -> None:
    """Add the time these requests were in flight in the window, and their responses that arrived in it."""
    start_ns = window.start_ns
    was_sent = records.sent_ns > 0
    began = np.maximum(records.sent_ns, start_ns)
    window.busy_ns += int(np.maximum(records.end_ns - began, 0)[was_sent].sum())
    came = np.sort(records.times[records.times > start_ns])
    window.arrivals.append((came - start_ns) // NS_PER_US, np.zeros_like(came))


def _latest(before: Records, good: Records) -> Records:
    """Return the last streamed requests, without the times of their responses."""
    streamed = good.where(good.stamps > 0)
    found = join([before, replace(streamed, times=NO_TIMES, stamps=np.zeros_like(streamed.stamps))])
    return found.where(slice(-LANES, None))


def _add_failure(failures: dict[int, FailureCount], code: int, later: FailureCount) -> None:
    failures[code] = failures[code].and_later(later) if code in failures else later


def add_failures(windows: Sequence[Window]) -> dict[int, FailureCount]:
    """Sum the failures of consecutive windows by status."""
    total: dict[int, FailureCount] = {}
    for window in windows:
        for code, found in window.failures.items():
            _add_failure(total, code, found)
    return total


def split(records: Records, end_ns: int) -> tuple[Records, Records]:
    """Split records into those that ended up to `end_ns` and the others."""
    return records.cut(int(np.searchsorted(records.end_ns, end_ns, side="right")))


def condensed(windows: Sequence[Window]) -> list[Window]:
    """Bound the memory of windows: merge pairs of many windows, and turn many requests into sketches."""
    kept = list(windows)
    if len(kept) > MOST_WINDOWS:
        kept = [join_windows(kept[start : start + 2]) for start in range(0, len(kept), 2)]
    if sum(len(window.samples) for window in kept) > MOST_SAMPLES:
        for window in kept:
            window.samples = thinned(window.samples)
    pieces = max(PIECES // max(len(kept), 1), 1)
    for column in zip(*(window.columns() for window in kept), strict=True):
        if sum(part.held for part in column) > EXACT or not all(part.is_exact for part in column):
            for part in column:
                part.condense(pieces)
    return kept


def _add_products(window: Window, records: Records) -> None:
    """Add the responses of ended requests, and the sums that show how much the tokens of a response vary."""
    events = records.stamps.astype(np.int64)
    window.ended_events += int(events.sum())
    if window.tokens is not None:
        counted = np.where(records.status == status.OK, output_tokens(records), 0)
        window.event_squares += int(events @ events)
        window.token_squares += int(counted @ counted)
        window.token_events += int(counted @ events)


def join_windows(windows: Sequence[Window]) -> Window:
    """Join consecutive windows into one."""
    first, last = windows[0], windows[-1]
    if len(windows) == 1:
        return first
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
        **_sums(
            windows, "send_ns", "receive_ns", "received_bytes", "delayed", "kept", "empty", "blank", "number"
        ),
        **_sums(windows, "thought_ns", "busy_ns", "ended_events", "checked", "wrong"),
        **_sums(windows, "event_squares", "token_squares", "token_events"),
        tasks=None
        if first.tasks is None
        else join_tallies([window.tasks for window in windows if window.tasks is not None]),
        arrivals=join_ends(
            [(window.arrivals, (window.start_ns - first.start_ns) // NS_PER_US) for window in windows]
        ),
        is_followed=all(window.is_followed for window in windows),
        first_sent_ns=min((window.first_sent_ns for window in windows if window.first_sent_ns), default=0),
        failures=add_failures(windows),
        lag_ns=joined(lags) if lags else None,
        streams=join_streams([window.streams for window in windows]),
        cancelled=join_cancellations([window.cancelled for window in windows]),
        latest=join([window.latest for window in windows]).where(slice(-LANES, None)),
        tokens=join_tokens([window.tokens for window in windows if window.tokens is not None]),
        expense=join_expenses([window.expense for window in windows]),
        before=first.before,
        after=last.after,
        samples=tuple(sample for window in windows for sample in window.samples),
        classes=tuple(map(join_windows, zip(*(window.classes for window in windows), strict=True))),
    )


def join_expenses(parts: Sequence[Expense]) -> Expense:
    return Expense(
        cpu_ns=tuple(sum(each) for each in zip(*(part.cpu_ns for part in parts), strict=True)),
        **_sums(parts, "elapsed_ns", "sent", "due", "reconnects", "connects", "connect_ns", "stolen_ns"),
        visits=sum(part.visits for part in parts),
        files=max(part.files for part in parts),
        file_limit=max(part.file_limit for part in parts),
        loop_lags_ns=joined([part.loop_lags_ns for part in parts]),
        parts=tuple(map(join_expenses, zip(*(part.parts for part in parts), strict=True))),
    )


def _sums(parts: Sequence[Window] | Sequence[Expense], *names: str) -> dict[str, int]:
    return {name: sum(getattr(part, name) for part in parts) for name in names}


def has_answers(rows: Iterable[WindowFigures]) -> bool:
    """Return whether any request succeeded in these windows."""
    return any(row.request_count or row.empty_count for row in rows)


def figures(window: Window, *, level_start_ns: int, batch: int, chosen: int | None) -> WindowFigures:
    """Summarize a window; `chosen` is the percentile to show instead of the mean."""
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
        answered_count=window.answered_count,
        due_count=None if window.lag_ns is None else window.expense.due,
        sent_count=window.expense.sent,
        counted_ns=window.expense.elapsed_ns,
        output_tokens=_output_tokens(window),
        cancelled_count=window.cancelled_count,
    )


def _output_tokens(window: Window) -> int:
    """Return the tokens that arrived in the window if known, else those of answers that ended in it."""
    if window.tokens is None:
        return 0
    ended = window.tokens.output.total
    if not window.is_followed:
        return ended
    arrived = window.arrivals.count
    return round(arrived * ended / window.ended_events) if window.ended_events else arrived


def _figure(durations: Series, chosen: int | None) -> int:
    return durations.mean if chosen is None else durations.percentile(chosen)
