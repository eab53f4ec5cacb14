"""The classes of traffic of a level while it is measured: the same windows as the whole, of each class alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.load.plan import Arrivals, Open, is_all_open
from inferometer.measure.conclusion import RawLevel, conclude
from inferometer.measure.instrument import ClassSettings, Instrument, LevelSettings, LoadPoint
from inferometer.observe.statistics import Snapshot
from inferometer.records.records import Records
from inferometer.stats.measurement import MIXED, ClassFigures, WindowFigures
from inferometer.stats.merge import counters_were_reset
from inferometer.stats.outages import OutageWatch
from inferometer.stats.readings import CounterReading, CounterReadings
from inferometer.stats.windows import Expense, Window, WindowRules, figures

SEPARATOR = "\0"  # between the number of a class and the name of its model, in the counters of all


def of_class(number: int, counters: Snapshot) -> Snapshot:
    """The counters as they stand among those of all classes."""
    return {(f"{number}{SEPARATOR}{name}", version): row for (name, version), row in counters.items()}


def part_of(number: int, counters: Snapshot) -> Snapshot:
    """The counters of one class among those of all."""
    mark = f"{number}{SEPARATOR}"
    return {
        (name.removeprefix(mark), version): row
        for (name, version), row in counters.items()
        if name.startswith(mark)
    }


def rules_of(settings: LevelSettings, *, is_open: bool, classes: Sequence[bool] = ()) -> WindowRules:
    """How requests are counted; `classes` says of each class whether its requests are due at a time."""
    return WindowRules(
        is_open=is_open,
        has_tokens=settings.has_tokens,
        asked_tokens=np.array(settings.asked_tokens) if any(settings.asked_tokens) else None,
        promise=settings.promise,
        drops_empty=settings.model.is_decoupled,
        classes=tuple(
            rules_of(row.level, is_open=is_due) for row, is_due in zip(settings.classes, classes, strict=True)
        ),
        class_of_step=np.array(settings.class_of_step) if settings.class_of_step else None,
    )


@dataclass(slots=True)
class ClassCourse:
    """One class of a level: its counters beside our own counts, its schedule, its figures by window."""

    number: int
    settings: ClassSettings
    point: LoadPoint
    readings: CounterReadings = field(default_factory=CounterReadings)
    read: dict[int, CounterReading] = field(default_factory=dict)  # by when the whole reading was asked for
    figures: list[WindowFigures] = field(default_factory=list)
    outages: OutageWatch | None = None
    arrivals: Arrivals | None = None
    due: int = 0

    def close(self, window: Window, whole: Window, expense: Expense, level_start_ns: int) -> Window:
        """The window of this class, which ends with that of the whole."""
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
    """All classes of a level; none where the traffic is of one kind."""

    def __init__(self, instrument: Instrument, settings: LevelSettings, point: LoadPoint) -> None:
        self._instrument = instrument
        points = point.classes or (point,) * len(settings.classes)
        self._has_own_plans = bool(point.classes)
        self._classes = tuple(
            ClassCourse(
                number,
                row,
                own,
                arrivals=Arrivals(own.plan) if self._has_own_plans and isinstance(own.plan, Open) else None,
            )
            for number, (row, own) in enumerate(zip(settings.classes, points, strict=True))
        )
        self.is_due = tuple(is_all_open(row.point.plan) for row in self._classes)
        self._class_of_step = np.array(settings.class_of_step, dtype=np.int64)

    def begin(self, start_ns: int, schedule_ns: int, seen_ns: int) -> None:
        """The level has started."""
        for row, is_due in zip(self._classes, self.is_due, strict=True):
            row.outages = OutageWatch(start_ns, is_open=is_due)
            if row.arrivals is not None:
                row.due = row.arrivals.by(seen_ns - schedule_ns)

    def read(self, reading: CounterReading) -> None:
        """The counters of all were read just now."""
        for row in self._classes:
            counters = part_of(row.number, reading.counters)
            if counters and row.settings.has_own_counters:
                row.read[reading.asked_ns] = row.readings.begin(
                    counters, reading.asked_ns, reading.answered_ns
                )

    def add(self, records: Records, seen_ns: int, outstanding: int) -> None:
        """Requests that ended and were not added before."""
        for row, mine in self._split(records):
            row.readings.add(mine, seen_ns, outstanding)

    def take(self, records: Records) -> None:
        """Requests of the window that fills."""
        for row, mine in self._split(records):
            assert row.outages is not None
            row.outages.add(mine)

    def close(
        self, window: Window, schedule_ns: int, seen_ns: int, level_start_ns: int
    ) -> tuple[Window, ...]:
        """The windows of all classes, closed with that of the whole."""
        found = []
        for row, part in zip(self._classes, window.classes, strict=True):
            expense = self._expense(row, part, window.expense)
            if row.arrivals is not None:
                due, row.due = row.due, row.arrivals.by(seen_ns - schedule_ns)
                expense = replace(expense, due=row.due - due)
            found.append(row.close(part, window, expense, level_start_ns))
        return tuple(found)

    def _expense(self, row: ClassCourse, part: Window, whole: Expense) -> Expense:
        """Where workers are shared nobody knows what a class cost, and it has sent about what has ended."""
        if whole.parts:
            return whole.parts[row.number]
        return Expense(elapsed_ns=whole.elapsed_ns, sent=part.ended_count)

    def _split(self, records: Records) -> Iterator[tuple[ClassCourse, Records]]:
        if not self._classes:
            return
        numbers = self._class_of_step[records.step]
        for row in self._classes:
            yield row, records.where(numbers == row.number)

    def conclude(self, whole: RawLevel, counted: Sequence[Window]) -> tuple[ClassFigures, ...]:
        """The figures of every class, over the same windows as those of the whole."""
        return tuple(self._figures(row, whole, counted) for row in self._classes)

    def _figures(self, row: ClassCourse, whole: RawLevel, counted: Sequence[Window]) -> ClassFigures:
        number, settings = row.number, row.settings
        examples_of = self._instrument.examples_of
        raw = RawLevel(
            settings=settings.level,
            point=row.point,
            decision=replace(whole.decision, remark=None),
            cold=None if whole.cold is None else whole.cold.classes[number],
            whole=whole.whole.classes[number],
            were_counters_reset=counters_were_reset([window.classes[number] for window in counted]),
            figures=row.figures,
            start_ns=whole.start_ns,
            examples=whole.examples if examples_of is None else examples_of(number),
            samples=None,
            statistics_error=None,
            metrics_remarks=(),
            has_own_plan=self._has_own_plans,
        )
        level, outages = conclude(raw), row.outages
        ended = whole.whole.ended_count
        return ClassFigures(
            name=settings.name,
            model=settings.level.model.name,
            url=settings.url,
            mode=row.point.mode if self._has_own_plans else MIXED,
            value=float(row.point.value if self._has_own_plans else settings.weight or 0.0),
            share_asked=settings.share,
            share=raw.whole.ended_count / ended if ended else 0.0,
            measurement=level.measurement,
            windows=level.windows,
            remarks=level.remarks,
            rates=level.rates,
            promise=level.promise,
            outages=() if outages is None else outages.outages(),
        )
