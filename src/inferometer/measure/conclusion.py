"""From what was seen of a level to the level itself. Pure: windows and a decision in, figures and remarks out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.load.plan import Open, Plan
from inferometer.measure.instrument import LevelSettings, LoadPoint
from inferometer.measure.remarks import (
    client_remarks,
    count_remarks,
    file_remarks,
    host_remarks,
    member_remarks,
    port_remarks,
    rate_remark,
    rate_remarks,
)
from inferometer.observe.metrics import Sample
from inferometer.records.records import Column, Records
from inferometer.stats.doubts import DoubtEvidence, explain, moving_figure, slow_ends
from inferometer.stats.ends import join_groups
from inferometer.stats.measurement import Doubt, Estimate, Level, Measurement, Rates, WindowFigures
from inferometer.stats.merge import Subject, counters_were_reset, measurement, start_figures
from inferometer.stats.readings import bounds
from inferometer.stats.series import Series, joined
from inferometer.stats.stopping import Precision, StopDecision, is_over
from inferometer.stats.warm_up import fast_start
from inferometer.stats.windows import Window

SLACK = 0.02  # share of the plan's time by which requests may be late at its end
LEAST_NS = 50 * NS_PER_MS
SLOWER = 3  # times a quick request's service that is no sign of a growing queue
LAST = 0.1  # of the requests show how it ended
FEWEST = 5


@dataclass(slots=True)
class _Span:
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, times: Column) -> None:
        if not len(times):
            return
        first_ns, last_ns = int(times.min()), int(times.max())
        self.first_ns = min(self.first_ns, first_ns) if self.count else first_ns
        self.last_ns = max(self.last_ns, last_ns)
        self.count += len(times)

    @property
    def length_ns(self) -> int:
        return self.last_ns - self.first_ns

    @property
    def per_s(self) -> float:
        """Between the first and the last; 0 when there is no time between them."""
        return (self.count - 1) * NS_PER_S / self.length_ns if self.length_ns else 0.0


@dataclass(slots=True)
class ScheduleTiming:
    """When the requests of a plan that ends by itself were due and sent; fed with the records as they come."""

    _due: _Span = field(default_factory=_Span)
    _sent: _Span = field(default_factory=_Span)

    def add(self, records: Records) -> None:
        self._due.add(records.due_ns)
        self._sent.add(records.sent_ns[records.sent_ns > 0])

    @property
    def sent_per_s(self) -> float:
        return self._sent.per_s

    def pressed(self, windows: Sequence[Window]) -> Note | None:
        """Whether the requests at the end were still sent when due, and answered as fast as others."""
        service = joined([window.service_ns for window in windows])
        lags = [window.lag_ns for window in windows if window.lag_ns is not None]
        if not service.count or not lags:
            return None
        room_ns = max(SLACK * self._due.length_ns, LEAST_NS)
        if _at_the_end(service) > SLOWER * service.percentile(25) + room_ns:
            return Note.OVERLOADED
        return Note.NOT_OFFERED if _at_the_end(joined(lags)) > room_ns else None


def _at_the_end(durations: Series) -> float:
    """The median of the last ones; `durations` in the order of ends."""
    return durations.last(max(FEWEST, round(LAST * durations.count))).percentile(50)


_UNSURE = (Note.NOT_PRECISE, Note.NOT_STABLE)


@dataclass(frozen=True, slots=True)
class RawLevel:
    """A level as it went."""

    settings: LevelSettings
    point: LoadPoint
    decision: StopDecision
    cold: Sequence[Window]  # left out at the start
    windows: Sequence[Window]  # that are merged
    figures: Sequence[WindowFigures]  # of all windows
    start_ns: int
    examples: Mapping[int, str]
    samples: tuple[Sample, ...] | None
    statistics_error: PeerError | None
    metrics_remarks: tuple[Remark, ...]
    timing: ScheduleTiming | None = None  # of a schedule that ends by itself

    @property
    def is_capped(self) -> bool:
        """By rate: it was the user's choice that requests wait before they are sent."""
        return is_capped(self.settings, self.point.plan)


def is_capped(settings: LevelSettings, plan: Plan) -> bool:
    return isinstance(plan, Open) and (plan.cap is not None or settings.is_serial)


def latency_name(chosen: int | None) -> str:
    return "mean latency" if chosen is None else f"p{chosen} latency"


def conclude(raw: RawLevel) -> Level:
    """The level with its figures and the remarks on them."""
    settings = raw.settings
    subject = Subject(
        model=settings.model,
        batch=settings.batch,
        percentile=settings.percentile,
        level_start_ns=raw.start_ns,
        examples=raw.examples,
        promise="" if settings.promise is None else settings.promise.text,
        samples=raw.samples,
    )
    start = start_figures(raw.cold, subject)
    ended = any(window.count or window.failures for window in raw.windows)
    pressed = raw.timing.pressed(raw.windows) if raw.timing is not None and ended else None
    found = measurement(raw.windows, subject) if ended else None
    rates = None if found is None else _maybe_rates(raw, found)
    if found is not None and rates is not None and raw.timing is not None:
        found = _as_scheduled(raw, found, rates)
    remarks = (*_said(raw), *_about(raw, found, rates, pressed))
    return Level(
        mode=raw.point.mode,
        value=float(raw.point.value),
        measurement=found,
        windows=tuple(raw.figures),
        is_stable=raw.decision.is_stable,
        is_over_limit=is_over(_latency_ns(found, settings.percentile), settings.latency_limit_ms),
        remarks=remarks,
        start=start,
        doubt=_maybe_doubt(raw, found),
        rates=rates,
    )


def _maybe_rates(raw: RawLevel, found: Measurement) -> Rates | None:
    """By rate, what was asked, sent and answered."""
    point = raw.point
    if not isinstance(point.plan, Open):
        return None
    asked = point.value if point.asked_per_s is None else point.asked_per_s
    answered_per_s = sum(window.answered_count for window in raw.windows) * NS_PER_S / found.duration_ns
    if raw.timing is not None:
        return Rates(asked, raw.timing.sent_per_s, answered_per_s)
    elapsed_ns = sum(window.expense.elapsed_ns for window in raw.windows)
    due_per_s = sum(window.expense.due for window in raw.windows) * NS_PER_S / max(elapsed_ns, 1)
    return Rates(asked, found.send_per_s, answered_per_s, due_per_s)


def _as_scheduled(raw: RawLevel, found: Measurement, rates: Rates) -> Measurement:
    found = replace(found, send_per_s=rates.sent_per_s)
    if raw.settings.window_ns is None:
        return found
    return replace(found, infer_per_s=Estimate(found.infer_per_s.value))  # it changes as asked: no interval


def _latency_ns(found: Measurement | None, chosen: int | None) -> int:
    if found is None or not found.request_count:
        return 0
    return found.latency.mean_ns if chosen is None else found.latency.percentile_ns(chosen)


def _said(raw: RawLevel) -> Iterator[Remark]:
    if raw.decision.remark is not None:
        yield raw.decision.remark
    yield from raw.metrics_remarks


def _about(
    raw: RawLevel, found: Measurement | None, rates: Rates | None, pressed: Note | None
) -> Iterator[Remark]:
    empty = sum(window.empty for window in raw.windows)
    if empty:
        yield Remark(
            Note.NO_RESPONSE, f"{empty} {'request' if empty == 1 else 'requests'} ended without a response"
        )
    if found is None:
        if not empty and not (raw.decision.remark and raw.decision.remark.note is Note.NO_ANSWER):
            yield Remark(Note.NO_REPLY, "no request finished")
        return
    yield from file_remarks(found)
    yield from host_remarks(found)
    yield from port_remarks(found)
    if not found.request_count:
        return
    if raw.timing is not None:
        if pressed is not None and rates is not None:
            yield rate_remark(pressed, rates)
    elif rates is not None:
        is_from_start = raw.windows[0].start_ns == raw.start_ns
        yield from rate_remarks(rates, found, is_from_start=is_from_start)
    yield from client_remarks(found, is_capped=raw.is_capped)
    yield from member_remarks(found.server)
    yield from _counted(raw, found)
    if found.server is None:
        yield from _without_statistics(raw)


def _without_statistics(raw: RawLevel) -> Iterator[Remark]:
    if raw.statistics_error is not None:
        yield Remark(Note.STATISTICS_MISSING, str(raw.statistics_error))
    elif counters_were_reset(raw.windows):
        text = "the server's counters were reset: it was restarted, or the model was loaded again"
        yield Remark(Note.STATISTICS_MISSING, text)


def _counted(raw: RawLevel, found: Measurement) -> Iterator[Remark]:
    before, after = raw.windows[0].before, raw.windows[-1].after
    if found.server is None or before is None or after is None:
        return
    yield from count_remarks(raw.settings.model, found.server, bounds(before, after))


# --- why figures are not sure


def _is_unsure(raw: RawLevel) -> bool:
    rule, remark = raw.settings.rule, raw.decision.remark
    if isinstance(rule, Precision) and rule.precision == 0:
        return False  # nobody asked for any
    return remark is not None and remark.note in _UNSURE and any(window.count for window in raw.windows)


def _maybe_doubt(raw: RawLevel, found: Measurement | None) -> Doubt | None:
    """Why the figures are not as sure as asked, or else that they changed while they were measured."""
    if found is None or not found.request_count:
        return None
    counted = raw.figures[sum(window.number for window in raw.cold) :]
    started = fast_start(counted) if raw.settings.finds_warm_up else None
    if started is not None:
        return started
    if _is_unsure(raw):
        return _doubt(raw, found, counted)
    return moving_figure(counted) if raw.settings.finds_warm_up else None


def _doubt(raw: RawLevel, found: Measurement, counted: Sequence[WindowFigures]) -> Doubt:
    rule, chosen = raw.settings.rule, raw.settings.percentile
    evidence = DoubtEvidence(
        windows=counted,
        found=found,
        name=latency_name(chosen),
        latency=dict(found.latency_intervals)["mean" if chosen is None else f"p{chosen}"],
        slow_ends_us=_slow_ends(raw.windows),
        precision=rule.precision if isinstance(rule, Precision) else None,
        is_capped=raw.is_capped,
    )
    return explain(evidence)


def _slow_ends(windows: Sequence[Window]) -> NDArray[np.int64]:
    """When requests ended that took far longer than most, microseconds into the measurement."""
    median_ns = joined([window.latency_ns for window in windows]).percentile(50)
    begin_ns = windows[0].start_ns
    ends = [window.ends.groups().later((window.start_ns - begin_ns) // NS_PER_US) for window in windows]
    return slow_ends(join_groups(ends), median_ns)
