"""Traffic classes of a level during its measurement: the same windows as the whole level, per class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.slo import Slo
from inferometer.load.plan import Arrivals, Closed, Open, is_all_open
from inferometer.measure.conclusion import RawLevel, conclude
from inferometer.measure.instrument import ClassSettings, Instrument, LevelSettings, LoadPoint
from inferometer.observe.statistics import Snapshot
from inferometer.records.records import Records
from inferometer.stats.measurement import STEP, ClassFigures, WindowFigures
from inferometer.stats.merge import counters_were_reset
from inferometer.stats.outages import OutageWatch
from inferometer.stats.promises import OWN_TIMES
from inferometer.stats.readings import CounterReading, CounterReadings
from inferometer.stats.slo import began_ns
from inferometer.stats.task_figures import TaskFigures
from inferometer.stats.tasks import task_figures
from inferometer.stats.windows import Expense, Lateness, Window, WindowRules, figures, has_answers

SEPARATOR = "\0"  # between class number and model name in the combined counters


def of_class(number: int, counters: Snapshot) -> Snapshot:
    """Mark the counters with the number of their class."""
    return {(f"{number}{SEPARATOR}{name}", version): row for (name, version), row in counters.items()}


def part_of(number: int, counters: Snapshot) -> Snapshot:
    """Return the counters of one class from the combined counters."""
    mark = f"{number}{SEPARATOR}"
    return {
        (name.removeprefix(mark), version): row
        for (name, version), row in counters.items()
        if name.startswith(mark)
    }


def rules_of(
    settings: LevelSettings, *, is_open: bool, classes: Sequence[bool] = (), cap: int | None = None
) -> WindowRules:
    """Return the counting rules; `classes` says for each class whether its requests have due times, `cap` limits the
    outstanding requests."""
    return WindowRules(
        is_open=is_open,
        has_tokens=settings.has_tokens,
        asked_tokens=np.array(settings.asked_tokens) if any(settings.asked_tokens) else None,
        promise=_own_times(settings),
        drops_empty=settings.model.is_decoupled,
        classes=tuple(
            rules_of(row.level, is_open=is_due, classes=(is_due,) * len(row.level.classes))
            for row, is_due in zip(settings.classes, classes, strict=True)
        ),
        class_of_step=np.array(settings.class_of_step) if settings.class_of_step else None,
        has_visits=settings.has_visits,
        tasks=settings.tasks,
        follows_work=settings.follows_work,
        lateness=Lateness(cap),
    )


def _own_times(settings: LevelSettings) -> Slo | None:
    """Return the SLO for each request, or each task: of a task it limits only the duration."""
    if settings.tasks is None or settings.promise is None:
        return settings.promise
    terms = tuple(term for term in settings.promise.terms if term.figure in OWN_TIMES)
    return Slo(terms, settings.promise.text)


@dataclass(slots=True)
class ClassCourse:
    """One class of a level: the server's counters and our own counts, its schedule, and its figures by window."""

    number: int
    settings: ClassSettings
    point: LoadPoint
    readings: CounterReadings = field(default_factory=CounterReadings)
    read: dict[int, CounterReading] = field(default_factory=dict)  # by request time of the combined reading
    figures: list[WindowFigures] = field(default_factory=list)
    outages: OutageWatch | None = None
    arrivals: Arrivals | None = None
    due: int = 0
    parts: "ClassCourses | None" = None  # its addresses, or the steps of visits or tasks

    def close(self, window: Window, whole: Window, expense: Expense, level_start_ns: int) -> Window:
        """Close the window of this class together with that of the whole level."""
        before, after = (
            None if reading is None else self.read.get(reading.asked_ns)
            for reading in (whole.before, whole.after)
        )
        closed = replace(window, end_ns=whole.end_ns, expense=expense, before=before, after=after)
        settings = self.settings.level
        self.figures.append(
            figures(closed, level_start_ns=level_start_ns, batch=settings.batch, chosen=settings.percentile)
        )
        kept = {reading.asked_ns for reading in (whole.before, whole.after) if reading is not None}
        self.read = {asked_ns: reading for asked_ns, reading in self.read.items() if asked_ns in kept}
        return closed


class ClassCourses:
    """All classes of a level; empty if the traffic is of one kind."""

    def __init__(self, instrument: Instrument, settings: LevelSettings, point: LoadPoint) -> None:
        self._instrument = instrument
        points = point.classes or (point,) * len(settings.classes)
        self._has_own_plans = bool(point.classes)
        self._shared_mode = STEP if settings.has_steps else settings.class_mode
        self._classes = tuple(
            ClassCourse(
                number,
                row,
                own,
                arrivals=Arrivals(own.plan) if self._has_own_plans and isinstance(own.plan, Open) else None,
                parts=ClassCourses(instrument, row.level, own) if row.level.classes else None,
            )
            for number, (row, own) in enumerate(zip(settings.classes, points, strict=True))
        )
        self.is_due = tuple(is_all_open(row.point.plan) for row in self._classes)
        self._class_of_step = np.array(settings.class_of_step, dtype=np.int64)

    def begin(self, start_ns: int, schedule_ns: int, seen_ns: int) -> None:
        """Start the level."""
        for row in self._classes:
            row.outages = OutageWatch(start_ns)
            if row.arrivals is not None:
                row.due = row.arrivals.by(seen_ns - schedule_ns)
            if row.parts is not None:
                row.parts.begin(start_ns, schedule_ns, seen_ns)

    def read(self, reading: CounterReading) -> None:
        """Pass a reading of the combined counters to each class."""
        for row in self._classes:
            counters = part_of(row.number, reading.counters)
            if row.parts is not None:
                row.parts.read(replace(reading, counters=counters))
            elif counters and row.settings.has_own_counters:
                row.read[reading.asked_ns] = row.readings.begin(
                    counters, reading.asked_ns, reading.answered_ns
                )

    def add(self, records: Records, seen_ns: int, outstanding: int) -> None:
        """Add requests that have ended since the last call."""
        for row, mine in self._of_each(records):
            row.readings.add(records.end_ns[mine], records.status[mine], seen_ns, outstanding)
            if row.parts is not None:
                row.parts.add(records.where(mine), seen_ns, outstanding)

    def take(self, records: Records) -> None:
        """Add requests of the current window."""
        for row, mine in self._of_each(records):
            assert row.outages is not None
            latency_ns = records.end_ns - began_ns(records, is_open=self.is_due[row.number])
            row.outages.add(records.end_ns[mine], latency_ns[mine], records.status[mine])
            if row.parts is not None:
                row.parts.take(records.where(mine))

    def close(
        self, window: Window, whole: Window, schedule_ns: int, seen_ns: int, level_start_ns: int
    ) -> tuple[Window, ...]:
        """Close the windows of all classes together with that of the whole level."""
        found = []
        for row, part in zip(self._classes, window.classes, strict=True):
            expense = self._expense(row, part, window.expense)
            if row.arrivals is not None:
                due, row.due = row.due, row.arrivals.by(seen_ns - schedule_ns)
                expense = replace(expense, due=row.due - due)
            closed = row.close(part, whole, expense, level_start_ns)
            if row.parts is not None:
                closed.classes = row.parts.close(closed, whole, schedule_ns, seen_ns, level_start_ns)
            found.append(closed)
        return tuple(found)

    def _expense(self, row: ClassCourse, part: Window, whole: Expense) -> Expense:
        """Return the expense of a class. With shared workers its cost is unknown, and about as many requests were sent
        as ended."""
        if whole.parts:
            own = whole.parts[row.number]
            return replace(own, sent=own.visits) if row.settings.level.has_steps else own
        return Expense(elapsed_ns=whole.elapsed_ns, sent=part.ended_count)

    def _of_each(self, records: Records) -> Iterator[tuple[ClassCourse, NDArray[np.bool_]]]:
        """Yield each class with a mask of its requests."""
        if not self._classes:
            return
        numbers = self._class_of_step[records.step]
        for row in self._classes:
            yield row, numbers == row.number

    @property
    def have_answered(self) -> bool:
        """Whether every loaded class has at least one successful answer."""
        return all(has_answers(row.figures) for row in self._classes if row.point.plan != Closed(0))

    def conclude(
        self, whole: RawLevel, counted: Sequence[Window], ended: int | None = None
    ) -> tuple[ClassFigures, ...]:
        """Return the figures of every class over the windows of the whole level; `ended` counts all requests."""
        if ended is None:
            ended = sum(part.ended_count for part in _request_windows(whole.whole))
        return tuple(self._figures(row, whole, counted, ended) for row in self._classes)

    def _figures(
        self, row: ClassCourse, whole: RawLevel, counted: Sequence[Window], ended: int
    ) -> ClassFigures:
        number, settings = row.number, row.settings
        examples_of = self._instrument.examples_of
        raw = RawLevel(
            settings=settings.level,
            point=row.point,
            decision=whole.decision._replace(remark=None),
            cold=None if whole.cold is None else whole.cold.classes[number],
            whole=whole.whole.classes[number],
            were_counters_reset=counters_were_reset([window.classes[number] for window in counted]),
            figures=row.figures,
            start_ns=whole.start_ns,
            examples=examples_of(number) if examples_of and self._has_own_plans else whole.examples,
            samples=None,
            statistics_error=None,
            metrics_remarks=(),
            has_own_plan=self._has_own_plans,
        )
        level, outages = conclude(raw), row.outages
        has_addresses = (
            row.parts is not None and not settings.level.has_steps
        )  # which have outages of their own
        own = sum(part.ended_count for part in _request_windows(raw.whole))
        windows = [window.classes[number] for window in counted]
        return ClassFigures(
            name=settings.name,
            model=settings.level.model.name,
            url=settings.url,
            mode=row.point.mode if self._has_own_plans else self._shared_mode,
            value=float(row.point.value if self._has_own_plans else settings.weight or 0.0),
            share_asked=settings.share,
            share=own / ended if ended else 0.0,
            measurement=level.measurement,
            windows=level.windows,
            remarks=level.remarks,
            rates=level.rates,
            promise=level.promise,
            outages=() if outages is None or has_addresses else outages.outages(),
            steps=() if row.parts is None else row.parts.conclude(raw, windows, ended),
            think_ns=raw.whole.thought_ns // raw.whole.count if raw.whole.count else 0,
            tasks=_maybe_tasks(settings.level, raw),
        )


def _maybe_tasks(settings: LevelSettings, raw: RawLevel) -> TaskFigures | None:
    if settings.tasks is None or raw.whole.tasks is None:
        return None
    return task_figures(raw.whole.tasks, settings.tasks, raw.start_ns)


def _request_windows(window: Window) -> tuple[Window, ...]:
    """Return the windows that count requests: those of a class of visits or tasks are its steps."""
    if not window.classes:
        return (window,)
    return tuple(found for part in window.classes for found in _request_windows(part))
