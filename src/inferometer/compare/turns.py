"""Measurement in turns: A B, B A, A B, so that noise of the machine affects all variants equally."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from inferometer.base.errors import LocalError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, duration, quantity
from inferometer.compare.comparison import Turn
from inferometer.load.plan import Closed, Open, Plan
from inferometer.measure.conclusion import client_remarks, is_capped
from inferometer.measure.host import host_remarks, together
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint, Ramp
from inferometer.measure.level import measure_level_windows
from inferometer.stats.machine_figures import HostUse
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.merge import Subject, counters_were_reset, measurement
from inferometer.stats.series import joined
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from inferometer.stats.windows import Window, figures, join_windows

ROUNDS = 100  # short rounds: the closer two turns, the more similar the machine's state
FEWEST_ROUNDS = 10
PERCENTILES = (50, 95, 99)  # always compared
SHORTEST_TURN_NS = 100 * NS_PER_MS  # target: a few times the cost of switching
PATIENCE_NS = 10 * NS_PER_MS  # delay until the end of a turn is noticed
LEAST_PER_SLOT = 4  # requests per turn
ABOUT = 4  # factor up to which two pilot speeds, possibly distorted by a stall, count as equal
LONGER = 2  # times the requested time: worth a note
LONGEST_LOOK_NS = 60 * NS_PER_S  # a pilot run without an answer in this time fails
_OF_MOST_TURNS = (Note.OVERLOADED, Note.NOT_OFFERED)  # a short stall causes them in a single turn
# Ignored for individual turns, which need not be precise or stable; the whole level is judged again.
_OF_A_TURN = (Note.NOT_PRECISE, Note.NOT_STABLE, *CLIENT_LIMITS, Note.HOST_BUSY)


@dataclass(slots=True)
class Candidate:
    """A variant with everything needed to measure it. `steps` is the number of its distinct requests."""

    name: str
    instrument: Instrument
    level_settings: LevelSettings
    steps: int = 1
    is_alone: bool = True  # no other candidate shares its server counters


@dataclass(slots=True)
class TurnSeries:
    """The turns of one candidate at one level."""

    candidate: Candidate
    windows: list[tuple[Window, ...]] = field(default_factory=list)  # of each turn
    places: list[int] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    hosts: list[HostUse | None] = field(default_factory=list)
    is_cut_short: bool = False

    def requests(self, turn: int) -> int:
        return sum(window.count for window in self.windows[turn])

    def per_s(self, turn: int) -> float:
        """Return the requests per second of a turn."""
        windows = self.windows[turn]
        return self.requests(turn) * NS_PER_S / (windows[-1].end_ns - windows[0].start_ns)

    def infer_per_s(self, turn: int) -> float:
        return self.per_s(turn) * self.candidate.level_settings.batch


def even_rounds(most: int) -> int:
    """Return an even number of rounds up to `most`, but at least the minimum, so that both orders are equally
    common."""
    return max(FEWEST_ROUNDS, most // 2 * 2)


@frozen
class TimeBudget:
    """Budget of a comparison: time for each variant at each level, or a number of requests."""

    duration_ns: int
    request_count: int = 0
    ramp_ns: int = 0  # time over which the users of a turn start, before it is measured

    @property
    def rounds(self) -> int:
        """The maximum number of rounds in that time."""
        return even_rounds(min(ROUNDS, self.duration_ns // SHORTEST_TURN_NS))


@frozen
class PilotRun:
    """Figures of a short first run, which sizes the turns."""

    per_s: float  # requests
    latency_ns: float

    @classmethod
    def of(cls, found: Measurement) -> Self:
        return cls(found.request_count * NS_PER_S / found.duration_ns, found.latency.mean_ns)

    @property
    def least_turn_ns(self) -> int:
        """The minimum time of a turn, in which a few requests are answered."""
        return round(LEAST_PER_SLOT * max(self.latency_ns, NS_PER_S / self.per_s))


def longer_words(seconds: float, asked_s: float, slowest: str, per_s: float) -> str:
    """Explain why the comparison takes much longer than requested; empty if it does not."""
    if seconds < LONGER * asked_s:
        return ""
    return (
        f"{slowest} answers only {quantity(per_s)} requests/s; every turn needs a few, so all turns of each take about "
        f"{duration(seconds * NS_PER_S)} instead of {duration(asked_s * NS_PER_S)}"
    )


def with_count(plan: Plan, count: int | None) -> Plan:
    """Return the plan limited to `count` requests, if it supports a count."""
    return plan._replace(count=count) if isinstance(plan, Closed | Open) else plan


@frozen
class RoundPlan:
    """Number of rounds, and the size of a turn: a number of requests, or a time at a rate."""

    rounds: int
    count: int | None = None
    turn_ns: int | None = None
    awaits_answers: bool = True  # extend a turn without answers, so that a stall does not end the comparison
    ramp_ns: int = 0

    def level_settings(self, level_settings: LevelSettings) -> LevelSettings:
        return replace(
            level_settings,
            rule=Precision(0.0, self.turn_ns or 1),
            window_ns=self.turn_ns,
            window_count=self.count,
            is_whole=self.count is not None,
            awaits_answers=self.awaits_answers,
            patience_ns=PATIENCE_NS,
            ramp=Ramp(self.ramp_ns) if self.ramp_ns else None,
        )


def round_plans(
    point: LoadPoint, budget: TimeBudget, looks: Sequence[PilotRun], steps: int
) -> tuple[RoundPlan, ...]:
    """Plan as many rounds as the time allows for each candidate, based on its pilot run.

    A closed loop has a fixed number of requests per turn, proportional to the speed, so that all turns take about as
    long. Candidates about as fast as the baseline get the same number, so that even the ends of their turns match. If
    users start staggered, a turn is instead a period of time in which all users are active.
    """
    if budget.ramp_ns or not isinstance(point.plan, Closed):
        return (_timed(budget, max(looks, key=lambda look: look.latency_ns)),) * len(looks)
    per_s = [look.per_s for look in looks]
    base = per_s[0]
    near = [speed for speed in per_s if base / ABOUT <= speed <= base * ABOUT]
    common = statistics.geometric_mean(near)
    speeds = [common if speed in near else speed for speed in per_s]
    totals = [budget.request_count or math.ceil(speed * budget.duration_ns / NS_PER_S) for speed in speeds]
    least = LEAST_PER_SLOT * point.plan.concurrency
    rounds = even_rounds(min(budget.rounds, min(totals) // least))
    return tuple(
        RoundPlan(rounds, count=_count(max(least, math.ceil(total / rounds)), steps)) for total in totals
    )


def _timed(budget: TimeBudget, slowest: PilotRun) -> RoundPlan:
    """Return a plan with turns of a fixed time, for a load by rate or with a staggered start."""
    least_ns = slowest.least_turn_ns
    rounds = even_rounds(min(budget.rounds, budget.duration_ns // least_ns))
    turn_ns = max(budget.duration_ns // rounds, least_ns)
    return RoundPlan(rounds, turn_ns=turn_ns, ramp_ns=budget.ramp_ns)


def _count(count: int, steps: int) -> int:
    """Round up to whole passes through the distinct requests, so that all turns send the same requests."""
    return math.ceil(count / steps) * steps if count > steps else count


def measure_point(
    candidates: Sequence[Candidate], point: LoadPoint, budget: TimeBudget, watcher: Watcher
) -> tuple[TurnSeries, ...]:
    """Measure all turns at one level; the pilot run of each candidate warms it up and is not counted."""
    watcher.level_started(point.mode, point.value)
    all_series = tuple(TurnSeries(candidate) for candidate in candidates)
    looks: list[PilotRun] = []
    for series in all_series:
        if not watcher.is_interrupted():
            looks.append(_first_look(series, point, budget))
    if any(series.is_cut_short for series in all_series) or watcher.is_interrupted():
        return all_series
    plans = round_plans(point, budget, looks, steps=max(candidate.steps for candidate in candidates))
    _announce_duration(all_series, plans, looks, budget, watcher)
    entries = tuple(zip(all_series, plans, strict=True))
    rounds = plans[0].rounds
    for number in range(rounds):
        if watcher.is_interrupted():
            return all_series
        for place, (series, plan) in enumerate(entries if number % 2 == 0 else entries[::-1]):
            if not watcher.is_interrupted():
                _measure(series, plan, point)
                series.places.append(place)
        if watcher.is_interrupted():
            _drop_half_round(all_series, number)
            return all_series
        if any(series.is_cut_short for series in all_series):
            return all_series
        told = tuple((series.candidate.name, series.per_s(number)) for series in all_series)
        watcher.round_finished(number + 1, rounds, told)
    return all_series


def _announce_duration(
    all_series: Sequence[TurnSeries],
    plans: Sequence[RoundPlan],
    looks: Sequence[PilotRun],
    budget: TimeBudget,
    watcher: Watcher,
) -> None:
    """Notify the watcher if the comparison takes much longer than requested."""
    if budget.request_count:
        return
    seconds, series, look = max(
        zip(map(_seconds, plans, looks), all_series, looks, strict=True),
        key=lambda row: (row[0], row[2].least_turn_ns),
    )
    if words := longer_words(seconds, budget.duration_ns / NS_PER_S, series.candidate.name, look.per_s):
        watcher.said(words)


def _seconds(plan: RoundPlan, look: PilotRun) -> float:
    turn_s = (plan.turn_ns or 0) / NS_PER_S if plan.count is None else plan.count / look.per_s
    if plan.ramp_ns:
        turn_s += (plan.ramp_ns + look.latency_ns) / NS_PER_S  # the first round ends before the turn begins
    return plan.rounds * turn_s


def _drop_half_round(all_series: Sequence[TurnSeries], number: int) -> None:
    """Drop the incomplete round in which the user stopped."""
    for series in all_series:
        del series.windows[number:], series.places[number:]
        series.remarks = [remark for remark in series.remarks if remark.note is not Note.NO_REPLY]
        series.is_cut_short = False


def _first_look(series: TurnSeries, point: LoadPoint, budget: TimeBudget) -> PilotRun:
    """Run a pilot, extending it until a request is answered."""
    turn_ns = budget.duration_ns // budget.rounds
    while True:
        look = TurnSeries(series.candidate)
        level = _measure(look, RoundPlan(1, turn_ns=turn_ns, awaits_answers=False), point)
        found = level.measurement
        if found is not None and found.request_count:
            return PilotRun.of(found)
        is_failing = level.is_cut_short or (found is not None and found.failed_count > 0)
        is_interrupted = series.candidate.instrument.watcher.is_interrupted()
        if is_failing or is_interrupted or turn_ns >= LONGEST_LOOK_NS:
            series.remarks, series.is_cut_short = look.remarks, True
            if found is not None:  # report the failures
                series.windows.append(look.windows[0])
                series.places.append(0)
            return PilotRun(0.0, 0)
        turn_ns *= 4


def _measure(series: TurnSeries, plan: RoundPlan, point: LoadPoint) -> Level:
    instrument, settings = series.candidate.instrument, series.candidate.level_settings
    sized = replace(point, plan=with_count(point.plan, plan.count))
    level, windows = measure_level_windows(instrument, plan.level_settings(settings), sized)
    series.windows.append(windows)
    series.hosts.append(level.host)
    series.remarks += [remark for remark in level.remarks if remark.note not in _OF_A_TURN]
    try:  # nothing is left in the server for the next turn
        instrument.load.apply(Closed(0))
    except LocalError as error:
        series.remarks.append(Remark(Note.WORKER_LOST, str(error)))
        series.is_cut_short = True
    answered = level.measurement is not None and level.measurement.request_count > 0
    series.is_cut_short |= level.is_cut_short or not answered
    return level


# --- results


def turns(series: TurnSeries, start_ns: int) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            number=number,
            place=place,
            start_s=(windows[0].start_ns - start_ns) / NS_PER_S,
            request_count=series.requests(number),
            infer_per_s=series.infer_per_s(number),
            percentiles=_percentiles(windows),
        )
        for number, (windows, place) in enumerate(zip(series.windows, series.places, strict=True))
    )


def _percentiles(windows: Sequence[Window]) -> tuple[tuple[float, int], ...]:
    latency = joined([window.latency_ns for window in windows])
    return tuple((float(p), latency.percentile(p)) for p in PERCENTILES) if latency.count else ()


def _remarks(series: TurnSeries) -> list[Remark]:
    """Return each kind of remark once."""
    counts = Counter(remark.note for remark in series.remarks)
    first = {remark.note: remark for remark in reversed(series.remarks)}
    return [
        remark
        for note, remark in first.items()
        if note not in _OF_MOST_TURNS or 2 * counts[note] > len(series.windows)
    ]


def merged(series: TurnSeries, point: LoadPoint) -> Level:
    """Merge all turns of a candidate into one level without gaps."""
    candidate, level_settings = series.candidate, series.candidate.level_settings
    windows = list(itertools.chain.from_iterable(series.windows))
    if not windows:
        said = (*_remarks(series), Remark(Note.NO_REPLY, "no request finished"))
        return Level(point.mode, point.value, None, (), is_stable=False, is_over_limit=False, remarks=said)
    start_ns = windows[0].start_ns
    subject = Subject(
        model=level_settings.model,
        batch=level_settings.batch,
        percentile=level_settings.percentile,
        level_start_ns=start_ns,
        examples=candidate.instrument.load.examples(),
        samples=tuple(sample for window in windows for sample in window.samples)
        if candidate.instrument.metrics is not None
        else None,
    )
    shifted = without_gaps(windows, is_alone=candidate.is_alone)
    found = measurement(join_windows(shifted), subject, was_reset=counters_were_reset(shifted))
    host = together(series.hosts)
    remarks = [
        *_remarks(series),
        *host_remarks(host, found),
        *client_remarks(found, is_capped=is_capped(level_settings, point.plan)),
    ]
    return Level(
        mode=point.mode,
        value=float(point.value),
        measurement=found,
        windows=tuple(
            figures(window, level_start_ns=start_ns, batch=subject.batch, chosen=subject.percentile)
            for window in windows
        ),
        is_stable=not series.is_cut_short,
        is_over_limit=False,
        remarks=tuple(remarks),
        host=host,
    )


def without_gaps(windows: Sequence[Window], *, is_alone: bool) -> list[Window]:
    """Shift the windows of turns so that they follow each other."""
    shifted = []
    end_ns = windows[0].start_ns
    for window in windows:
        start_ns, end_ns = end_ns, end_ns + window.duration_ns
        shifted.append(replace(window, start_ns=start_ns, end_ns=end_ns))
    if not is_alone:  # the counters include the other candidates' requests
        shifted[0] = replace(shifted[0], before=None)
    return shifted
