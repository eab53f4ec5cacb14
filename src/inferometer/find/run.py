"""Search for the highest load that meets an SLO: approach the limit from above, and spend the time close to it.

1. One request at a time, to warm up a cold server. Then the requests in flight are doubled until throughput stops
   growing: that is the load that saturates the server.
2. Open-loop levels, starting just below saturation, each at the currently most likely limit, alternating slightly above
   and below it (search.py). The load changes without a pause; the first requests of each level are left out while the
   queue of the previous load drains.
3. One fit over all levels gives the limit with its interval (fit.py). Once that is narrow, a load below it is measured
   for a quarter of the time, because rare pauses do not show in short levels.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.slo import STREAMED, Slo
from inferometer.base.units import NS_PER_S
from inferometer.find.fit import CAP_MARGIN, Capacity
from inferometer.find.keeping import LoadRun, beyond_terms, is_growing, needed_requests
from inferometer.find.search import QUEUED, Bracket, Knowledge, known, next_load, tidy
from inferometer.find.sections import LevelSections
from inferometer.load.plan import Closed, Gaps, Open, schedule_at
from inferometer.load.workers import Recorded
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_with_enough_workers
from inferometer.measure.opening import make_instrument, start_workers
from inferometer.measure.prepare import Setup
from inferometer.measure.ramp import SHORT_NS
from inferometer.measure.run import end_load
from inferometer.measure.unused import check_by_concurrency
from inferometer.options.finding import FindOptions
from inferometer.options.options import Options
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import CLIENT, Finding, JudgedLoad, Result
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

CONFIDENCE = 0.95
CLOSE = 0.02  # relative width of the interval at which the search ends early
FIRST_SHARE = 0.02  # share of the duration for the look at one request at a time,
STEP_SHARE = 0.02  # at each step while the requests in flight are doubled,
SATURATED_SHARE = 0.08  # and at saturation
RAMP = 0.2  # share of the duration after which a server that has not saturated counts as unlimited
LONG_RAMP = 0.3  # the same if answers are long
MOST_IN_FLIGHT = 4096
GAIN = 1.1  # throughput gain required from doubling the requests in flight
STILL_GROWING = 1.3  # the same from doubling them again: more than a short look errs by
LATE = 2.0  # multiple of the allowed share beyond a limit at which no higher load can meet the SLO
LATE_COUNT = 5
ANSWERS_SEEN = 2  # consecutive answers that a look lasts at least,
MOST_LOOK = 0.04  # up to this share of the duration
PATIENCE = 0.25  # share of the duration to wait for a first answer,
PATIENT = 3  # and the answer times it may take, because one of the previous load is still in flight
BELOW = 0.85  # share of the load that saturates the server: the first load to try
RAISED = 1.3  # factor above a load that meets the SLO at which saturation is then assumed
REFUTED = 2.0  # margins of the capacity above which such a load shows that it was not saturation
FIRST_LEVELS = 0.03  # share of the duration for each of the first levels,
FEW_LEVELS = 4
LEVEL = 0.06  # for later levels,
LONGEST = 0.15  # and at most, if the queue has a long memory
LONGEST_ANSWERS = 0.2  # or answers are slow
ANSWERS = 6  # consecutive answers that a level lasts
UNLIKE = 0.25  # change in the logarithm of the load that replaces the whole queue
SETTLE = 0.3  # largest share of a level that is left out while the previous queue drains
LEAST = 0.06  # share of the duration for which a load must be measured to count as proven
HOLD = 0.25  # share of the duration for the final measurement below a known limit
REST = 0.02  # share of the duration that is too short for another level
VAGUE = 2.0  # high / low from which a longer search is advised
WAITS = 5.0  # multiple of a usual answer time that a queue is assumed to last at most
WINDOWS = 40  # per level
SHORTEST_NS = 30_000_000  # shortest window
SPOILT = {
    Note.OVERLOADED: "overload",
    Note.NOT_OFFERED: "requests not sent on time",
    **dict.fromkeys(CLIENT_LIMITS, CLIENT),
}
ENOUGH_LEVELS = 8  # levels' worth of requests that a search needs


@frozen
class SearchGoal:
    """The SLO and the duration of a search."""

    promise: Slo
    duration_ns: int
    is_rate: bool = True
    distribution: str = "constant"
    burstiness: float = 1.0
    seed: int = 0
    start: float | None = None  # first load to try; by default derived from a look at one request at a time


def goal_of(own: FindOptions, options: Options) -> SearchGoal:
    """Return the goal set by the options of `find`."""
    if own.by == "concurrency":
        check_by_concurrency(options)
    for term in own.slo.terms:
        if term.figure in ("throughput", "goodput", "energy", "wrong"):
            raise UsageError(
                f"'{term.text}': find judges each load by latency and errors only",
                remedy=f"leave out {term.figure}, or use `inferometer measure --slo`",
            )
    return SearchGoal(
        promise=own.slo,
        duration_ns=round(own.duration_s * NS_PER_S),
        is_rate=own.by == "rate",
        distribution=options.request_distribution,
        burstiness=options.burstiness,
        seed=options.data.seed,
        start=own.start,
    )


def find(
    instrument: Instrument, level_settings: LevelSettings, goal: SearchGoal
) -> Iterator[tuple[Level | None, Finding | None]]:
    """Yield levels as they are measured, with the finding after the last; no level if stopped before the first."""
    search = _Search(replace(instrument, load=Recorded(instrument.load)), level_settings, goal)
    search.end_ns = instrument.clock() + goal.duration_ns
    start = search.first_load()
    level = None
    while start is not None and not search.is_over(level):
        found = search.known()
        load = next_load(found, start, search.capacity, search.least_s)
        hold_ns = search.hold_ns(found)
        if load is None or hold_ns == 0:
            break
        if level is not None:
            yield level, None
            level = None
            if search.is_over(None):
                break
        level = search.measure(load if hold_ns is None else search.held_load(found), hold_ns)
    yield level, search.finding()


def run_find(setup: Setup, goal: SearchGoal, watcher: Watcher) -> Iterator[Result]:
    """Yield the result after each level of the search; the last one has the finding."""
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
    """The state of a search and the instrument it measures with."""

    instrument: Instrument
    level_settings: LevelSettings
    goal: SearchGoal
    end_ns: int = 0
    answer_ns: int = 0  # median answer time of the last look
    capacity: Capacity | None = None  # None if unknown
    is_late: bool = False  # most requests of the last look were beyond a limit
    is_misfit: bool = False  # the curve does not fit: loads are proven one by one from then on
    looked_at: int = 0  # requests of the last look
    levels: list[Level] = field(default_factory=list)
    runs: list[LoadRun] = field(default_factory=list)

    # --- measuring

    def first_load(self) -> float | None:
        """Return a load just below saturation, or the requested one; None if the search was stopped."""
        goal = self.goal
        is_streamed = any(term.figure in STREAMED for term in goal.promise.terms)
        is_known = goal.start is not None or not goal.is_rate
        if goal.start is not None and not is_streamed:
            return goal.start
        # The first request of a cold server is not representative.
        rate = self._look(1, FIRST_SHARE, is_patient=is_streamed or is_known)
        if rate is not None and self.is_late:  # engines compile for the first requests
            rate = self._look(1, FIRST_SHARE, is_patient=is_streamed or is_known)
        if rate is None:
            return None
        if is_known:
            return goal.start or 1.0
        capacity, is_saturated = self._saturate(rate)
        if capacity is None:
            return None
        if not is_saturated:
            return tidy(capacity / 2)
        return tidy(BELOW * capacity)

    def _saturate(self, rate: float) -> tuple[float | None, bool]:
        """Double the requests in flight until throughput stops growing; return it, and whether the server saturated."""
        best, in_flight, begun_ns = rate, 2, self.instrument.clock()
        if self.is_late:
            self.capacity = Capacity(rate, _margin(self.looked_at), is_seen=False)
            return rate, True
        usual_ns = self.answer_ns  # without queueing that a look causes itself
        while self.instrument.clock() < begun_ns + self._ramp_up_ns and in_flight <= MOST_IN_FLIGHT:
            found = self._look(in_flight, STEP_SHARE)
            if found is not None and self.is_late and self._has_long_answers:
                found = self._look(in_flight, STEP_SHARE)  # engines compile when they see a new shape
            if found is None:
                return None, False
            if self.is_late and (found >= GAIN * best or self._has_long_answers):
                self.answer_ns = usual_ns
                self.capacity = Capacity(max(found, best), _margin(self.looked_at))
                return self.capacity.value, True
            usual_ns = self.answer_ns
            if found < GAIN * best:
                count = self.looked_at
                longer = self._look(2 * in_flight, SATURATED_SHARE)
                if longer is None:
                    return None, False
                if longer < STILL_GROWING * best:
                    self.answer_ns = usual_ns
                    self.capacity = _capacity(((found, count), (longer, self.looked_at)))
                    return self.capacity.value, True
                # The server was not saturated, but slow for another reason: engines compile when they see a new shape.
                found, in_flight = longer, 2 * in_flight
            best, in_flight = found, 2 * in_flight
        return best, False

    @property
    def _ramp_up_ns(self) -> int:
        """How long requests in flight may be doubled."""
        return round((LONG_RAMP if self._has_long_answers else RAMP) * self.goal.duration_ns)

    @property
    def _has_long_answers(self) -> bool:
        """Whether a look takes longer than its share of the time, and its queue takes long to drain."""
        return ANSWERS_SEEN * self.answer_ns > STEP_SHARE * self.goal.duration_ns

    def _look(self, in_flight: int, share: float, *, is_patient: bool = False) -> float | None:
        """Throughput with a fixed number of requests in flight, outside the search's levels; None if interrupted."""
        whole = self.goal.duration_ns
        duration_ns = max(1, round(max(share * whole, min(ANSWERS_SEEN * self.answer_ns, MOST_LOOK * whole))))
        recorded, clock = self.instrument.load, self.instrument.clock
        assert isinstance(recorded, Recorded)
        rule = Precision(precision=0.0, duration_ns=duration_ns, is_enough=lambda: False)
        if is_patient:
            rule = self._until_answered(rule)
        plan = Closed(in_flight)
        sections = LevelSections(self.goal.promise, in_flight, plan, recorded)
        level = self._level(rule, LoadPoint("concurrency", in_flight, plan))
        if self.is_over(level):
            return None
        run = sections.run(clock())
        self.is_late = any(
            counts.beyond.sum() > max(LATE_COUNT, LATE * term.share * counts.requests.sum())
            for counts, term in zip(run.terms, self.goal.promise.terms, strict=True)
            if term.share is not None
        )
        found = level.measurement
        self.is_late |= found is not None and self._is_slow(found)
        self.looked_at = 0 if found is None else found.request_count
        if found is None or not found.request_count:
            return 1.0
        self.answer_ns = found.latency.percentile_ns(50)
        return found.infer_per_s.value / found.batch

    def _is_slow(self, found: Measurement) -> bool:
        """Return whether most tokens of most answers are beyond a limit, which even the first round shows."""
        limit = min(
            (term.limit for term in self.goal.promise.terms if term.figure == "tpot"), default=math.inf
        )
        if found.tokens is None or found.streaming is None:
            return False
        return min(row.percentile_ns(50) for row in (found.tokens.between, found.streaming.gaps)) > limit

    def _until_answered(self, rule: Precision) -> Precision:
        """Extend the duration until a request sent within it has been answered."""
        recorded, clock = self.instrument.load, self.instrument.clock
        assert isinstance(recorded, Recorded)

        def is_enough() -> bool:
            begun_ns = recorded.begun_ns
            is_answered = any((part.sent_ns >= begun_ns).any() for part in recorded.parts)
            return clock() - begun_ns >= rule.duration_ns and is_answered

        longest_ns = max(rule.duration_ns, round(PATIENCE * self.goal.duration_ns), PATIENT * self.answer_ns)
        return replace(rule, duration_ns=longest_ns, is_enough=is_enough)

    def is_over(self, level: Level | None) -> bool:
        if self.instrument.watcher.is_interrupted() or (level is not None and level.is_cut_short):
            return True
        return self.left_ns <= REST * self.goal.duration_ns

    @property
    def left_ns(self) -> int:
        return self.end_ns - self.instrument.clock()

    def known(self) -> Knowledge:
        """Return the knowledge from all runs; a load that meets the SLO above the assumed capacity raises the
        capacity."""
        found = self._fitted()
        if self.capacity is not None and found.highest_met > self.capacity.most / (1 + CAP_MARGIN):
            self.capacity = raised(self.capacity, found.highest_met)
            found = self._fitted()
        self.is_misfit = found.is_misfit
        bracket = found.bracket()
        if self.runs:
            self.instrument.watcher.bracketed(bracket.low, bracket.high)
        return found

    def _fitted(self) -> Knowledge:
        return known(
            self.goal.promise,
            self.runs,
            None if self.capacity is None else refined(self.capacity, self.runs),
            is_whole=not self.goal.is_rate,
            is_misfit=self.is_misfit,
        )

    def hold_ns(self, found: Knowledge) -> int | None:
        """Return how much longer to measure below a known limit, because pauses are rare; None if not known yet."""
        if not found.bracket().is_near(CLOSE, is_whole=not self.goal.is_rate):
            return None
        load = self.held_load(found)
        held_s = sum(run.length_s for run in self.runs if run.load == load)
        missing_ns = round(HOLD * self.goal.duration_ns - held_s * NS_PER_S)
        return min(missing_ns, self.left_ns) if missing_ns > REST * self.goal.duration_ns else 0

    def held_load(self, found: Knowledge) -> float:
        """Return the highest load measured below the interval, or its low end."""
        low = found.bracket().low
        held = [run.load for run in self.runs if BELOW * low <= run.load <= low]
        return max(held, key=held.count) if held else low

    def measure(self, load: float, hold_ns: int | None = None) -> Level:
        """Measure a level right after the previous load, unless that left a growing queue which must drain first."""
        # Other queues are kept: a load above the limit leaves a long one and a load below it a short one, which
        # balances out in the fit over both.
        is_drained = self._leaves_queue
        if is_drained:
            self.instrument.load.apply(Closed(0))
        point = self._point(load)
        assert isinstance(self.instrument.load, Recorded)
        assert isinstance(point.plan, Open | Closed)
        length_ns = hold_ns or self._length_ns(load)
        change = abs(math.log(load / self.runs[-1].load)) if self.runs and not is_drained else math.inf
        settle_ns = self._settle_ns(load, change, length_ns) if self.goal.is_rate else 0
        sections = LevelSections(self.goal.promise, load, point.plan, self.instrument.load, settle_ns)
        rule = Precision(0.0, max(1, length_ns - settle_ns), is_enough=lambda: False)
        if not self.goal.is_rate and self.answer_ns >= SHORT_NS:
            rule = self._until_answered(rule)
        level = self._level(rule, point, settle_ns)
        self.levels.append(level)
        run, found = sections.run(self.instrument.clock()), level.measurement
        if not run.is_empty and not level.has_remark(Note.CLIENT_LOST):  # the load was not that of the level
            self.runs.append(run)
        if found is not None and found.request_count and not beyond_terms(self.goal.promise, run):
            self.answer_ns = found.latency.percentile_ns(50)
        return level

    @property
    def _leaves_queue(self) -> bool:
        """Whether the previous load left a queue that the next level would measure instead of its own."""
        if not self.runs:
            return self.capacity is not None
        run, promise = self.runs[-1], self.goal.promise
        return is_growing(run, promise) or (self._has_long_answers and bool(beyond_terms(promise, run)))

    def _settle_ns(self, load: float, change: float, length_ns: int) -> int:
        """Return how long the queue takes to adapt to the load, which is less if the load changes little."""
        wanted_ns = max(2 * self._memory_ns(load), 2 * self.answer_ns) * min(1.0, change / UNLIKE)
        return round(min(SETTLE * length_ns, wanted_ns))

    def _length_ns(self, load: float) -> int:
        """Return a level's share of the time: long compared with the memory of the queue and with an answer."""
        ramp_ns = self._ramp_ns(load)
        left, whole = self.left_ns - ramp_ns, self.goal.duration_ns
        share = FIRST_LEVELS if len(self.runs) < FEW_LEVELS else LEVEL
        wanted = min(max(share * whole, 4 * self._memory_ns(load)), LONGEST * whole)
        wanted = max(wanted, min(ANSWERS * self.answer_ns, LONGEST_ANSWERS * whole))
        return max(1, self.answer_ns, round(left if left < 1.5 * wanted + ramp_ns else wanted))

    def _ramp_ns(self, load: float) -> int:
        """Return the time until users who start one after the other have all started and been answered."""
        has_ramp = not self.goal.is_rate and load > 1 and self.level_settings.ramp is not None
        return 2 * self.answer_ns if has_ramp and self.answer_ns >= SHORT_NS else 0

    def _memory_ns(self, load: float) -> float:
        """Return the memory of a queue as long as the limit allows: 4 / capacity / (1 - utilisation)²."""
        if not self.goal.is_rate:
            return 0.0
        scales = [
            term.limit / NS_PER_S / (1.0 if term.share is None else -math.log(term.share))
            for term in self.goal.promise.terms
            if term.figure in QUEUED and (term.share is None or 0 < term.share < 1)
        ]
        if not scales:
            return 0.0
        # Latency far from the limit does not come from a queue that long.
        scale = min([*scales, WAITS * self.answer_ns / NS_PER_S])
        return 4 * load * scale**2 * NS_PER_S

    def _level(self, rule: Precision, point: LoadPoint, settle_ns: int = 0) -> Level:
        ramp = self.level_settings.ramp
        timed = replace(
            self.level_settings,
            settle_ns=settle_ns,
            # The answer time is known by now: no single request is needed to find it.
            ramp=None if ramp is None else replace(ramp, answer_ns=self.answer_ns or None),
            rule=rule,
            window_ns=max(rule.duration_ns // WINDOWS, SHORTEST_NS),
            window_count=None,
            is_whole=False,
            finds_warm_up=False,  # an SLO covers all requests
        )
        return measure_with_enough_workers(self.instrument, timed, point)

    def _point(self, load: float) -> LoadPoint:
        goal = self.goal
        if not goal.is_rate:
            return LoadPoint("concurrency", load, Closed(int(load)))
        # Each level draws new arrivals: repeating the same ones would add no information.
        seed = goal.seed + len(self.levels)
        schedule = schedule_at(load, seed, Gaps(goal.distribution, goal.burstiness))
        return LoadPoint("request_rate", load, Open(schedule), load)

    # --- results

    def finding(self) -> Finding:
        found = self.known()
        bracket = found.bracket(self.least_s)
        value = found.estimate(bracket)
        rows = found.judged(bracket)
        limited_by = self._limit(rows, value)
        if CLIENT in limited_by:  # so nothing is known of what the server does there
            bracket = replace(bracket, high=math.inf)
            rows = tuple(
                replace(row, verdict="undecided") if row.verdict == "broken" else row for row in rows
            )
        return Finding(
            promise=self.goal.promise.text,
            mode="request_rate" if self.goal.is_rate else "concurrency",
            value=value,
            low=bracket.low,
            high=None if math.isinf(bracket.high) else bracket.high,
            limited_by=limited_by,
            knee=self._knee(value),
            confidence=CONFIDENCE,
            judged=rows,
            needed_s=self._needed_s(bracket),
        )

    @property
    def least_s(self) -> float:
        return LEAST * self.goal.duration_ns / NS_PER_S

    def _needed_s(self, bracket: Bracket) -> float:
        """Return how long a search needs to see enough requests for the percentile, if this one did not."""
        seconds_s = sum(run.length_s for run in self.runs)
        requests = sum(run.requests for run in self.runs)
        if not requests or (math.isinf(bracket.high) and bracket.low):
            return 0.0
        needed_s = ENOUGH_LEVELS * needed_requests(self.goal.promise) * seconds_s / requests
        is_wide = not bracket.low or bracket.high > VAGUE * bracket.low
        return tidy(needed_s) if is_wide and needed_s > self.goal.duration_ns / NS_PER_S else 0.0

    def _limit(self, rows: tuple[JudgedLoad, ...], value: float) -> str:
        """Return the terms that the lowest load above the value violated."""
        above = next(
            (row for row in rows if row.load > value and (row.broken or row.verdict == "broken")), None
        )
        if not rows and self.levels:
            return "no answers"
        if above is None:
            return "nothing in the tested range"
        levels = [level for level in self.levels if level.value == above.load]
        if not any(level.measurement is not None and level.measurement.ended_count for level in levels):
            return "no answers"
        notes = [remark.note for level in levels for remark in level.remarks]
        spoilt = [words for note, words in SPOILT.items() if note in notes]
        return " and ".join(dict.fromkeys([*above.broken, *spoilt]))

    def _knee(self, value: float) -> float:
        """Return the highest load up to the value whose median latency is less than twice that of the lowest load."""
        measured = sorted(
            (level.value, level.measurement.latency.percentile_ns(50))
            for level in self.levels
            if level.measurement is not None and level.measurement.request_count and level.value <= value
        )
        if not measured:
            return 0.0
        base = measured[0][1]
        return max(load for load, latency in measured if latency < 2 * base or load == measured[0][0])


def _capacity(looks: Sequence[tuple[float, int]]) -> Capacity:
    """The load that saturates the server, pooled from observed throughputs and their request counts."""
    requests = max(1, sum(count for _, count in looks))
    seconds = sum(count / rate for rate, count in looks)
    value = requests / seconds if seconds else looks[-1][0]
    return Capacity(value, _margin(requests), ends=requests)


def refined(capacity: Capacity, runs: Sequence[LoadRun]) -> Capacity:
    """Return the capacity with the throughput of all levels while requests waited, if the two agree.

    They do not if requests wait for a reason other than a busy server: after a pause, as many end as arrived.
    """
    ends, seconds = sum(run.busy_ends for run in runs), sum(run.busy_s for run in runs)
    if not seconds or not capacity.ends:
        return capacity
    requests = capacity.ends + ends
    is_alike = abs(ends / seconds / capacity.value - 1) <= math.hypot(capacity.margin, _margin(ends))
    if not is_alike:
        return capacity
    return Capacity(requests / (capacity.ends / capacity.value + seconds), _margin(requests), ends=requests)


def raised(capacity: Capacity, load: float) -> Capacity:
    """Return a capacity above a load that meets the SLO; saturation was still seen if its error explains the load."""
    is_seen = capacity.is_seen and load <= (1 + REFUTED * capacity.margin) * capacity.value
    return Capacity(RAISED * load / (1 + capacity.margin), capacity.margin, is_seen=is_seen)


def _margin(requests: int) -> float:
    """Return the relative uncertainty of a throughput from this many random service times."""
    return max(CAP_MARGIN, 2 / math.sqrt(max(requests, 1)))
