"""The most load that keeps a promise, with an interval: measure where it is not known yet, for as long as it takes.

Every load that is tried is kept, broken or undecided (keeping.py). A level ends as soon as its load is decided;
one that cannot be decided in its share of the time is left for others, and comes again when they are done. The interval
goes from the highest load that is kept to the lowest that is broken: what is undecided lies between. In the end its low
end is held for a quarter of the time: what comes rarely, such as stalls, does not show in short levels.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S
from inferometer.find.keeping import Judge, Judgement, LoadRun, needed_requests
from inferometer.find.search import Bracket, bounds, next_load, tidy
from inferometer.find.sections import LevelSections
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.load.workers import Recorded
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_with_enough_workers
from inferometer.measure.prepare import Setup
from inferometer.measure.run import end_load, make_instrument, start_workers
from inferometer.measure.unused import check_by_concurrency
from inferometer.options.finding import FindOptions
from inferometer.options.options import Options
from inferometer.stats.measurement import Level
from inferometer.stats.result import Finding, JudgedLoad, Result
from inferometer.stats.slo import STREAMED, Slo, parse_slo
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

CONFIDENCE = 0.95
CLOSE = 0.02  # how near to each other the ends of the interval must be for the search to end before its time
FIRST_S = 1.0  # for the look at one request at a time, and its share of the whole time where that is less
FIRST_SHARE = 0.05
COARSE = 0.08  # share of the whole time for a level until the limit lies between two loads
FINE = 0.25  # share of the time that is left for a level after that, and for one that is measured again
AGAIN = 0.5
LEAST = 0.06  # share of the whole time that a load must have been measured for to count as kept
HOLD = 0.25  # share of the whole time for which the low end of the interval is measured in the end
REST = 0.03  # share of the whole time that is too little for another level
LIMITS = 4  # times the longest limit that a level lasts at least
ANSWERS = 4  # streams one after the other that a level lasts at least, where their parts are promised
LOOK = 1.25  # how much longer a level has lasted each time it is looked at
WINDOWS = 40  # in a level
SHORTEST_NS = 30_000_000  # of a window
ROUNDING = 0.005  # the interval is wider by this at each end: a drift that small does not show in a level
SPOILT = {
    Note.OVERLOADED: "overload",
    Note.NOT_OFFERED: "requests that were not sent in time",
    Note.CLIENT_LIMITED: "the limit of the client",
}
ENOUGH_LEVELS = 8  # that a search needs the requests of


@frozen
class SearchGoal:
    """What to find and in how much time."""

    promise: Slo
    duration_ns: int
    is_rate: bool = True
    distribution: str = "constant"
    seed: int = 0
    start: float | None = None  # the first to try; a look at one request at a time tells otherwise


def goal_of(own: FindOptions, options: Options) -> SearchGoal:
    """What `find` was asked."""
    if own.by == "concurrency":
        check_by_concurrency(options)
    promise = parse_slo(own.slo)
    for term in promise.terms:
        if term.figure in ("throughput", "goodput"):
            raise UsageError(
                f"'{term.text}': find raises the load, and judges each by times and errors alone",
                remedy=f"leave out {term.figure}, or use `inferometer measure --slo`",
            )
    return SearchGoal(
        promise=promise,
        duration_ns=round(own.duration_s * NS_PER_S),
        is_rate=own.by == "rate",
        distribution=options.request_distribution,
        seed=options.data.seed,
        start=own.start,
    )


def find(
    instrument: Instrument, level_settings: LevelSettings, goal: SearchGoal
) -> Iterator[tuple[Level | None, Finding | None]]:
    """Levels as they are measured, the finding with the last; without a level, it was stopped before the first."""
    search = _Search(replace(instrument, load=Recorded(instrument.load)), level_settings, goal)
    search.end_ns = instrument.clock() + goal.duration_ns
    start = search.first_load()
    level = None
    while start is not None and not search.is_over(level):
        judged = search.judged()
        known = bounds(judged)
        instrument.watcher.bracketed(known.low, known.high)
        load = next_load(judged, start, CLOSE, is_whole=not goal.is_rate)
        hold_ns = 0 if load is not None else search.hold_ns()
        # What the last level left in the server's queue is not the next one's.
        search.instrument.load.apply(Closed(0))
        if search.is_over(level) or (load is None and not hold_ns):
            break
        if level is not None:
            yield level, None
        level = search.measure(search.low if load is None else load, hold_ns)
    yield level, search.finding()


def run_find(setup: Setup, goal: SearchGoal, watcher: Watcher) -> Iterator[Result]:
    """The result after each level of the search; the last one has the finding."""
    result = setup.result
    watcher.prepared(result.effective)
    watcher.planned(None, goal.duration_ns / NS_PER_S)
    with start_workers(setup, watcher) as load:
        for level, finding in find(make_instrument(setup, load, watcher), setup.level_settings, goal):
            levels = result.levels if level is None else (*result.levels, level)
            result = replace(result, levels=levels, finding=finding)
            yield result
        yield end_load(setup, result, load, watcher)


@dataclass(slots=True)
class _Search:
    """What is measured with, and what was found so far."""

    instrument: Instrument
    level_settings: LevelSettings
    goal: SearchGoal
    end_ns: int = 0
    answer_ns: int = 0  # how long a stream goes on, where its parts are promised
    levels: list[Level] = field(default_factory=list)
    runs: list[LoadRun] = field(default_factory=list)

    # --- measuring

    def first_load(self) -> float | None:
        """Half of the rate of one request at a time, which is no level of the search; None when it was stopped."""
        goal = self.goal
        is_known = goal.start is not None or not goal.is_rate
        is_streamed = any(term.figure in STREAMED for term in goal.promise.terms)
        rate = 2.0
        if not is_known or is_streamed:
            level = self._look(is_patient=is_streamed)
            if self.is_over(level):
                return None
            found = level.measurement
            rate = 1.0
            if found is not None and found.request_count:
                rate = found.infer_per_s.value / found.batch
                self.answer_ns = found.latency.percentile_ns(50) if is_streamed else 0
        if goal.start is not None:
            return goal.start
        return tidy(rate / 2) if goal.is_rate else 1.0

    def _look(self, *, is_patient: bool) -> Level:
        """At one request at a time; a patient one goes on until one was answered, as far as there is time for that."""
        whole = self.goal.duration_ns
        duration_ns = round(min(FIRST_S * NS_PER_S, FIRST_SHARE * whole))
        recorded, clock = self.instrument.load, self.instrument.clock
        assert isinstance(recorded, Recorded)

        def is_enough() -> bool:
            return clock() - recorded.begun_ns >= duration_ns and any(map(len, recorded.parts))

        rule = Precision(precision=0.0, duration_ns=duration_ns, is_enough=lambda: False)
        if is_patient:
            rule = replace(rule, duration_ns=round(FINE * whole), is_enough=is_enough)
        return self._level(rule, LoadPoint("concurrency", 1, Closed(1)))

    def is_over(self, level: Level | None) -> bool:
        if self.instrument.watcher.is_interrupted() or (level is not None and level.is_cut_short):
            return True
        return self.left_ns <= REST * self.goal.duration_ns

    @property
    def left_ns(self) -> int:
        return self.end_ns - self.instrument.clock()

    @property
    def low(self) -> float:
        return bounds(self.judged()).low

    def hold_ns(self) -> int:
        """How much longer the low end must be measured, as stalls come more rarely than a load is decided."""
        if not self.low:
            return 0
        held_s = sum(run.length_s for run in self.runs if run.load == self.low)
        missing_ns = round(HOLD * self.goal.duration_ns - held_s * NS_PER_S)
        return min(missing_ns, self.left_ns) if missing_ns > REST * self.goal.duration_ns else 0

    def measure(self, load: float, hold_ns: int = 0) -> Level:
        """Until the load is decided, at the latest when its share of the time is over; or for so long in any case."""
        point = self._point(load)
        assert isinstance(self.instrument.load, Recorded)
        assert isinstance(point.plan, Open | Closed)
        sections = LevelSections(self.goal.promise, load, point.plan, self.instrument.load)
        is_enough = (lambda: False) if hold_ns else self._looks(sections)
        longest_ns = hold_ns or self._longest_ns(load)
        level = self._level(Precision(0.0, longest_ns, is_enough=is_enough), point)
        self.levels.append(level)
        self.runs.append(sections.run(self.instrument.clock()))
        return level

    def _looks(self, sections: LevelSections) -> Callable[[], bool]:
        """Whether the load that is measured is decided; to be asked after each window."""
        lowest = min((row.load for row in self.judged() if row.verdict == "broken"), default=math.inf)
        next_ns = 0

        def is_decided() -> bool:
            nonlocal next_ns
            now, begun = self.instrument.clock(), sections.recorded.begun_ns
            if now < next_ns:
                return False
            next_ns = begun + round(LOOK * (now - begun))
            run = sections.run(now)
            judging = Judge(self.goal.promise, [*self.runs, run], self.least_s)
            found = judging.judgement(run.load, judging.broken_terms(run.load), lowest)
            return found.verdict != "undecided"

        return is_decided

    def judged(self) -> tuple[Judgement, ...]:
        return Judge(self.goal.promise, self.runs, self.least_s).judgements()

    @property
    def least_s(self) -> float:
        return LEAST * self.goal.duration_ns / NS_PER_S

    def _longest_ns(self, load: float) -> int:
        """A level's share of the time: enough to decide by, where there is as much."""
        left, whole = self.left_ns, self.goal.duration_ns
        is_bracketed = {row.is_within for row in self.judged()} == {True, False}
        is_again = any(run.load == load for run in self.runs)
        share = (AGAIN if is_again else FINE) * left if is_bracketed else COARSE * whole
        limit = max((term.limit for term in self.goal.promise.terms if term.name != "errors"), default=0.0)
        wanted = max(LIMITS * limit, ANSWERS * self.answer_ns)
        if is_bracketed:
            wanted = max(wanted, 1.2 * needed_requests(self.goal.promise) / self._per_s(load) * NS_PER_S)
        return max(1, round(min(max(share, wanted), left)))

    def _per_s(self, load: float) -> float:
        """Requests, as far as they can be told."""
        if self.goal.is_rate:
            return load
        rates = [run.requests / run.length_s for run in self.runs if run.length_s > 0]
        return max(rates, default=1.0) or 1.0

    def _level(self, rule: Precision, point: LoadPoint) -> Level:
        timed = replace(
            self.level_settings,
            rule=rule,
            window_ns=max(rule.duration_ns // WINDOWS, SHORTEST_NS),
            window_count=None,
            is_whole=False,
            finds_warm_up=False,  # a promise covers all requests
        )
        return measure_with_enough_workers(self.instrument, timed, point)

    def _point(self, load: float) -> LoadPoint:
        goal = self.goal
        if not goal.is_rate:
            return LoadPoint("concurrency", load, Closed(int(load)))
        # Other arrivals in each level: the same ones again would tell nothing new.
        seed = goal.seed + len(self.levels)
        schedule = Poisson(load, seed) if goal.distribution == "poisson" else Constant(load)
        return LoadPoint("request_rate", load, Open(schedule), load)

    # --- what is known

    def finding(self) -> Finding:
        rows = self.judged()
        known = bounds(rows)
        # The most that was measured within the limits, where nothing below it was beyond.
        beyond = min((row.load for row in rows if row.is_beyond), default=math.inf)
        value = max((row.load for row in rows if row.load < beyond), default=0.0)
        return Finding(
            promise=self.goal.promise.text,
            mode="request_rate" if self.goal.is_rate else "concurrency",
            value=value,
            low=self._outwards(known.low, -1),
            high=None if math.isinf(known.high) else self._outwards(known.high, 1),
            limited_by=self._limit(rows, value),
            knee=self._knee(value),
            confidence=CONFIDENCE,
            judged=tuple(JudgedLoad(row.load, row.verdict, row.broken) for row in rows),
            needed_s=self._needed_s(value, known),
        )

    def _outwards(self, load: float, sign: int) -> float:
        return tidy(load * (1 + sign * ROUNDING)) if self.goal.is_rate else load

    def _needed_s(self, value: float, known: Bracket) -> float:
        """Where the interval is open or wide because there was no time for the requests it takes."""
        if value and known.is_closed:
            return 0.0
        load = value or min((run.load for run in self.runs), default=0.0)
        if not load:
            return 0.0
        seconds = ENOUGH_LEVELS * needed_requests(self.goal.promise) / self._per_s(load)
        return tidy(seconds) if seconds > self.goal.duration_ns / NS_PER_S else 0.0

    def _limit(self, rows: tuple[Judgement, ...], value: float) -> str:
        """What the lowest load above the value broke."""
        above = next(
            (row for row in rows if row.load > value and (row.broken or row.verdict == "broken")), None
        )
        if above is None:
            return "nothing in the range tried"
        levels = [level for level in self.levels if level.value == above.load]
        if not any(level.measurement is not None and level.measurement.ended_count for level in levels):
            return "no answers"
        notes = [remark.note for level in levels for remark in level.remarks]
        spoilt = [words for note, words in SPOILT.items() if note in notes]
        return " and ".join(dict.fromkeys([*above.broken, *spoilt]))

    def _knee(self, value: float) -> float:
        """Of the loads up to the value, the highest whose median latency is less than twice that of the lowest."""
        measured = sorted(
            (level.value, level.measurement.latency.percentile_ns(50))
            for level in self.levels
            if level.measurement is not None and level.measurement.request_count and level.value <= value
        )
        if not measured:
            return 0.0
        base = measured[0][1]
        return max(load for load, latency in measured if latency < 2 * base or load == measured[0][0])
