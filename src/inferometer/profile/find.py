"""The most load that keeps a promise: bracket it, close in, then hold just below to be sure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.measure.measurement import SPOILING, Level
from inferometer.measure.result import Finding, Result
from inferometer.measure.slo import Slo
from inferometer.measure.stopping import Precision
from inferometer.profile.level import Bench, Point, Recipe, Watcher
from inferometer.profile.prepare import Setup
from inferometer.profile.run import bench, crew, settled
from inferometer.profile.scaling import measure_with_enough_workers
from inferometer.profile.search import Verdicts, bracket, tidy

CLOSE = 0.04  # how near to each other the last that passed and the first that failed must be
MARGIN = 0.98  # of the last that passed: where the hold run is made
STEP_DOWN = 0.95  # after a hold run that broke the promise
PROBES = 14  # about as many as a search takes
HOLD_SHARE = 0.25  # of the whole time
FIRST_S = 1.0
FIRST_SHARE = 0.1  # of the whole time, where that is less


@dataclass(frozen=True, slots=True)
class Quest:
    """What to find and in how much time."""

    promise: Slo
    duration_ns: int
    is_rate: bool = True
    distribution: str = "constant"
    seed: int = 0
    start: float | None = None  # the first to try; a look at one request at a time tells otherwise


@dataclass(frozen=True, slots=True)
class Step:
    """A level of the search; `finding` comes with the last."""

    level: Level
    finding: Finding | None = None


def find(bench: Bench, recipe: Recipe, quest: Quest) -> Iterator[Step]:
    """Levels as they are measured. The last step has the finding."""
    visited: list[Level] = []
    verdicts = Verdicts()
    end_ns = bench.clock() + quest.duration_ns
    start = quest.start
    if start is None:
        look_ns = min(FIRST_S * NS_PER_S, FIRST_SHARE * quest.duration_ns)
        first = _measure(bench, recipe, Point("concurrency", 1, Closed(1)), look_ns)
        yield Step(first)
        start = 1.0 if not quest.is_rate else tidy(_rate(first) / 2)
    probe_ns = quest.duration_ns * (1 - HOLD_SHARE) / PROBES
    is_over = False
    for value in bracket(start, CLOSE, verdicts, is_whole=not quest.is_rate):
        if is_over:  # asked only now: the bracket knows of a level when it is asked for the next
            break
        level = _measure(bench, recipe, _point(quest, value), probe_ns)
        visited.append(level)
        verdicts.passed = keeps(quest.promise, level)
        yield Step(level)
        is_over = bench.watcher.is_interrupted() or level.is_cut_short or bench.clock() > end_ns
    yield from _hold(bench, recipe, quest, visited, verdicts)


def run_find(setup: Setup, quest: Quest, watcher: Watcher) -> Iterator[Result]:
    """The result after each level of the search; the last one has the finding."""
    result = setup.result
    with crew(setup) as load:
        for step in find(bench(setup, load, watcher), setup.recipe, quest):
            is_seen = step.finding is not None and step.level in result.levels
            levels = result.levels if is_seen else (*result.levels, step.level)
            result = replace(result, levels=levels, finding=step.finding)
            yield result
        yield settled(result, load, watcher)


def keeps(promise: Slo, level: Level) -> bool:
    """A level that could not be loaded as asked, or is not answered as sent, keeps no promise."""
    if level.measurement is None or not level.is_as_asked:
        return False
    return not promise.broken(level.measurement)


def _hold(
    bench: Bench, recipe: Recipe, quest: Quest, visited: list[Level], verdicts: Verdicts
) -> Iterator[Step]:
    """A longer run just below the limit; lower again until one keeps the promise."""
    low = verdicts.known.low
    if low is None or bench.watcher.is_interrupted():
        yield Step(visited[-1], _finding(quest, visited, verdicts, 0.0))
        return
    value = tidy(low * MARGIN) if quest.is_rate else low
    while value > 0:
        level = _measure(bench, recipe, _point(quest, value), quest.duration_ns * HOLD_SHARE)
        visited.append(level)
        if keeps(quest.promise, level) or bench.watcher.is_interrupted() or level.is_cut_short:
            is_kept = keeps(quest.promise, level)
            yield Step(level, _finding(quest, visited, verdicts, value if is_kept else 0.0))
            return
        yield Step(level)
        value = tidy(value * STEP_DOWN) if quest.is_rate else value - 1
    yield Step(visited[-1], _finding(quest, visited, verdicts, 0.0))


def _point(quest: Quest, value: float) -> Point:
    if not quest.is_rate:
        return Point("concurrency", value, Closed(int(value)))
    schedule = Poisson(value, quest.seed) if quest.distribution == "poisson" else Constant(value)
    return Point("request_rate", value, Open(schedule), value)


def _measure(bench: Bench, recipe: Recipe, point: Point, duration_ns: float) -> Level:
    """One probe: the whole time, since the tail is what the promise is about."""
    bench.load.apply(Closed(0))  # what the last probe left in the server's queue is not this one's
    rule = Precision(precision=0.0, duration_ns=round(duration_ns))
    timed = replace(
        recipe,
        rule=rule,
        window_ns=max(round(duration_ns) // 10, 1),
        window_count=None,
        is_whole=False,
        finds_warm_up=False,  # a promise covers all requests
    )
    level = measure_with_enough_workers(bench, timed, point)
    return replace(
        level, remarks=tuple(remark for remark in level.remarks if remark.note is not Note.NOT_PRECISE)
    )


def _rate(level: Level) -> float:
    found = level.measurement
    return 1.0 if found is None or not found.request_count else found.infer_per_s.value / found.batch


def _finding(quest: Quest, visited: list[Level], verdicts: Verdicts, value: float) -> Finding:
    return Finding(
        promise=quest.promise.text,
        mode="request_rate" if quest.is_rate else "concurrency",
        value=value,
        low=verdicts.known.low or 0.0,
        high=verdicts.known.high,
        limited_by=_limit(quest.promise, visited, verdicts.known.high),
        knee=_knee(visited),
    )


def _limit(promise: Slo, visited: list[Level], high: float | None) -> str:
    """What the lowest load that failed broke."""
    level = next((level for level in visited if level.value == high), None)
    if level is None or level.measurement is None:
        return "nothing in the range tried" if high is None else "no answers"
    broken = [term.label for term in promise.broken(level.measurement)]
    spoilt = [remark.text.partition(":")[0] for remark in level.remarks if remark.note in SPOILING]
    return " and ".join(broken + spoilt) or "nothing in the range tried"


def _knee(visited: list[Level]) -> float:
    """Of the loads tried, the highest whose median latency is less than twice that of the lowest."""
    measured = sorted(
        (level.value, level.measurement.latency.percentile_ns(50))
        for level in visited
        if level.measurement is not None and level.measurement.request_count
    )
    if not measured:
        return 0.0
    base = measured[0][1]
    return max(value for value, latency in measured if latency < 2 * base or value == measured[0][0])
