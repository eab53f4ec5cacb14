"""Figures of a level by client, in the same windows as the overall figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.cluster.members import Member
from inferometer.records.records import NO_TIMES, Column, Records
from inferometer.stats.clients import ClientClockFigures, ClientFigures, LostClient
from inferometer.stats.measurement import Level
from inferometer.stats.series import Series, joined
from inferometer.stats.windows import WindowRules, split

EXACT = 1 << 21  # durations of all clients stored exactly
MOST_SLICES = 256  # per client, as for the windows of a level,
ALL_SLICES = 512  # and for all clients, but for each at least
FEWEST_SLICES = 4
SHOWN = (50.0, 90.0, 95.0, 99.0)


@frozen
class _Spent:
    """Resources spent by a client so far."""

    at_ns: int = 0
    cpu_ns: tuple[int, ...] = ()
    own_cpu_ns: int = 0


@dataclass(slots=True)
class _Slice:
    """Figures of one client in a window, or in several joined windows."""

    start_ns: int = 0
    end_ns: int = 0
    windows: int = 1
    floor_ns: int = 0  # the fastest answer; 0 if none
    count: int = 0
    failed: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    latency_ns: Series = field(default_factory=Series)
    lag_ns: Series = field(default_factory=Series)  # for open plans only
    spent: _Spent = field(default_factory=_Spent)  # at its end

    def add(self, records: Records, rules: WindowRules, request_bytes: Column) -> None:
        good = records.good
        if rules.drops_empty:
            good = good.where(good.responses > 0)
        self.count += len(good)
        self.failed += len(records.failed)
        self.received_bytes += int(records.received.sum())
        if len(request_bytes):
            self.sent_bytes += int(request_bytes[records.step].sum())
        self.latency_ns.append(good.end_ns - (good.due_ns if rules.is_open else good.sent_ns))
        if len(good):
            self.floor_ns = _least(self.floor_ns, int((good.end_ns - good.sent_ns).min()))
        if rules.is_open:
            self.lag_ns.append(good.sent_ns - good.due_ns)

    @property
    def series(self) -> tuple[Series, Series]:
        return self.latency_ns, self.lag_ns


def _least(*floors: int) -> int:
    return min((floor for floor in floors if floor), default=0)


def _joined(slices: Sequence[_Slice]) -> _Slice:
    latency, lag = (joined(each) for each in zip(*(part.series for part in slices), strict=True))
    return _Slice(
        start_ns=slices[0].start_ns,
        end_ns=slices[-1].end_ns,
        windows=sum(part.windows for part in slices),
        floor_ns=_least(*(part.floor_ns for part in slices)),
        count=sum(part.count for part in slices),
        failed=sum(part.failed for part in slices),
        sent_bytes=sum(part.sent_bytes for part in slices),
        received_bytes=sum(part.received_bytes for part in slices),
        latency_ns=latency,
        lag_ns=lag,
        spent=slices[-1].spent,
    )


@dataclass(slots=True)
class _Course:
    """State of one client in the current level."""

    member: Member
    begun: _Spent
    slices: list[_Slice] = field(default_factory=list)
    filling: _Slice = field(default_factory=_Slice)
    recent: list[Records] = field(
        default_factory=list
    )  # of the last report; some may belong to the next window
    uncertainty_ns: int = 0
    was_lost: bool = False  # before the load started: the others have its share

    @property
    def held(self) -> int:
        return sum(series.held for part in self.slices for series in part.series)


@dataclass(slots=True, eq=False)
class ByClient:
    """Collects the reports of a level and returns its figures by client."""

    request_bytes: Column = field(default_factory=NO_TIMES.copy)  # per request of the dataset
    members: Sequence[Member] = ()
    class_name: str = ""  # of the traffic, if each class has its own clients
    _rules: WindowRules = field(default_factory=WindowRules)
    _courses: dict[Member, _Course] = field(default_factory=dict)
    _start_ns: int | None = None  # None until counting starts

    def begin(self, rules: WindowRules) -> None:
        """Begin a level; later reports may belong to it."""
        self._rules, self._start_ns = rules, None
        self._courses = {
            member: _Course(member, _spent(member), was_lost=member.loss is not None)
            for member in self.members
        }

    def start(self, start_ns: int) -> None:
        """Start counting here; requests that ended earlier may still be reported."""
        self._start_ns = start_ns
        for course in self._courses.values():
            course.recent = [split(records, start_ns)[1] for records in course.recent]
            course.begun = _spent(course.member)
            course.filling.start_ns = start_ns

    def reported(self, member: Member, records: Records, now_ns: int) -> None:
        course = self._courses.get(member)
        if course is None:
            return
        course.uncertainty_ns = max(course.uncertainty_ns, member.clock.fit.uncertainty_at(now_ns))
        course.recent.append(records if self._start_ns is None else split(records, self._start_ns)[1])
        while self._start_ns is not None and len(course.recent) > 1:
            course.filling.add(course.recent.pop(0), self._rules, self.request_bytes)

    def cut(self, end_ns: int) -> None:
        """End a window at this time."""
        for course in self._courses.values():
            parts = [split(records, end_ns) for records in course.recent]
            for inside, _ in parts:
                course.filling.add(inside, self._rules, self.request_bytes)
            course.recent = [later for _, later in parts if len(later)]
            course.filling.end_ns, course.filling.spent = end_ns, _spent(course.member)
            course.slices.append(course.filling)
            course.filling = _Slice(start_ns=end_ns)
        self._condense()

    def _condense(self) -> None:
        courses = self._courses.values()
        most = min(MOST_SLICES, max(FEWEST_SLICES, ALL_SLICES // max(len(courses), 1)))
        for course in courses:
            parts = course.slices
            if len(parts) > most:
                course.slices = [_joined(parts[at : at + 2]) for at in range(0, len(parts), 2)]
        if sum(course.held for course in courses) > EXACT:
            for series in (series for course in courses for part in course.slices for series in part.series):
                series.condense(1)

    def end(
        self, start_ns: int, end_ns: int, *, level_start_ns: int, batch: int
    ) -> tuple[ClientFigures, ...]:
        """Return the figures of the whole windows between these two times."""
        courses, self._courses = self._courses, {}
        found = (
            _figures(course, start_ns, end_ns, level_start_ns=level_start_ns, batch=batch)
            for course in courses.values()
        )
        return tuple(replace(figures, class_name=self.class_name) for figures in found)

    def late_losses(self, levels: Sequence[Level]) -> Iterator[Remark]:
        """Yield a remark for each client whose loss no level names: it was lost after the last one."""
        named = {client.title for level in levels for client in level.clients if client.lost is not None}
        for member in self.members:
            title = f"{member.name} for class '{self.class_name}'" if self.class_name else member.name
            if member.loss is not None and title not in named:
                text = f"{title} was lost after the last level: {member.loss.why}"
                yield Remark(
                    Note.CLIENT_LOST, f"{text}; requests that it sent after its last report are not counted"
                )


def _spent(member: Member) -> _Spent:
    report = member.report
    if report is None:
        return _Spent()
    return _Spent(member.clock.to_our(report.seen_ns), report.cost.cpu_ns, report.own_cpu_ns)


def _figures(
    course: _Course, start_ns: int, end_ns: int, *, level_start_ns: int, batch: int
) -> ClientFigures:
    member = course.member
    before = [part for part in course.slices if part.end_ns <= start_ns]
    counted = [part for part in course.slices if part.end_ns > start_ns] or [_Slice()]
    whole = _joined(counted) if len(counted) > 1 else counted[0]
    first, last = before[-1].spent if before else course.begun, whole.spent
    elapsed_ns = max(last.at_ns - first.at_ns, 1)
    cpu_ns = [now - then for now, then in zip(last.cpu_ns, first.cpu_ns, strict=False)]
    latency, lag = whole.latency_ns.distribution(), whole.lag_ns.distribution()
    requests = whole.count + whole.failed
    if whole.windows > len(counted):  # the first was joined with uncounted windows
        start_ns = min(start_ns, whole.start_ns)
    seconds = max(end_ns - start_ns, 1) / NS_PER_S
    return ClientFigures(
        name=member.client.name,
        place=member.client.place,
        workers=member.workers,
        request_count=whole.count,
        failed_count=whole.failed,
        infer_per_s=whole.count * batch / seconds,
        mean_ns=latency.mean_ns,
        percentiles=tuple((p, latency.percentile_ns(p)) for p in SHOWN) if latency.count else (),
        floor_ns=whole.floor_ns,
        cpu_share=max(cpu_ns, default=0) / elapsed_ns,
        cpu_us_per_request=sum(cpu_ns) / NS_PER_US / requests if requests else 0.0,
        own_cpu_share=max(0, last.own_cpu_ns - first.own_cpu_ns) / elapsed_ns,
        lag_p50_ns=lag.percentile_ns(50.0),
        lag_p99_ns=lag.percentile_ns(99.0),
        sent_bytes=whole.sent_bytes,
        received_bytes=whole.received_bytes,
        clock=ClientClockFigures(
            offset_ns=member.clock.fit.offset_at(end_ns),
            drift=member.clock.fit.drift,
            uncertainty_ns=course.uncertainty_ns,
            round_trip_ns=member.clock.round_trip_ns,
            jumps=member.clock.jumps,
        ),
        lost=_maybe_lost(course, level_start_ns),
    )


def _maybe_lost(course: _Course, level_start_ns: int) -> LostClient | None:
    loss = course.member.loss
    if loss is None:
        return None
    after_s = (loss.at_ns - level_start_ns) / NS_PER_S
    if not course.was_lost:
        after_s = max(0.0, after_s)  # lost while the load started
    silent_s = min(loss.silent_ns / NS_PER_S, max(0.0, after_s))
    return LostClient(after_s, loss.why, loss.outstanding, loss.is_taken_over, silent_s)


def sizes(requests: Sequence[bytes]) -> Column:
    """Return the size in bytes of each request of the dataset."""
    return np.array([len(request) for request in requests], dtype=np.int64)
