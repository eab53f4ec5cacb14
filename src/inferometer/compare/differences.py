"""From turns or saved results to differences with intervals and verdicts."""

from collections.abc import Sequence

from inferometer.base.units import NS_PER_S
from inferometer.compare.comparison import (
    FASTER,
    MIXED,
    NO_DIFFERENCE,
    SLOWER,
    THROUGHPUT,
    Difference,
    LevelDifference,
)
from inferometer.compare.metrics import Metric
from inferometer.compare.paired import FEWEST, paired_percent, unpaired_percent
from inferometer.compare.turns import Course
from inferometer.stats.measurement import Estimate, Level, Measurement
from inferometer.stats.series import joined


def of_turns(base: Course, other: Course, wanted: Sequence[Metric], looks: int) -> tuple[Difference, ...]:
    """Of two lanes that took turns; `looks` is how many intervals shall hold together."""
    rounds = min(len(base.windows), len(other.windows))
    return tuple(_of_turns(metric, base, other, rounds, looks) for metric in wanted)


def _of_turns(metric: Metric, base: Course, other: Course, rounds: int, looks: int) -> Difference:
    whole = _figure(metric, base, range(rounds))
    blocks = _blocks(metric, base, other, rounds)
    if len(blocks) < FEWEST:
        few = f"only {rounds} rounds" if rounds < FEWEST else f"needs {FEWEST * metric.need} requests"
        return _without_interval(metric, whole, _figure(metric, other, range(rounds)), few)
    pairs = [[_figure(metric, course, block) for block in blocks] for course in (base, other)]
    percent = paired_percent(pairs[0], pairs[1], looks)
    return Difference(metric.name, whole, whole * (1 + percent.value / 100), percent, metric.verdict(percent))


def _blocks(metric: Metric, base: Course, other: Course, rounds: int) -> list[range]:
    """Rounds taken together until each block has requests enough for the figure; the last ones join the last block.

    An odd number of rounds in each keeps the blocks' order alternating.
    """
    for size in range(1, rounds // FEWEST + 1, 2):
        starts = list(range(0, rounds - size + 1, size))
        blocks = [range(start, start + size) for start in starts]
        if blocks and rounds > blocks[-1].stop:
            blocks[-1] = range(blocks[-1].start, rounds)
        least = min(
            (sum(map(course.requests, block)) for course in (base, other) for block in blocks), default=0
        )
        if least >= metric.need:
            return blocks
    return []


def _figure(metric: Metric, course: Course, rounds: range) -> float:
    windows = [window for number in rounds for window in course.windows[number]]
    if metric.percentile is None:
        spans = sum(window.duration_ns for window in windows)
        return (
            sum(window.count for window in windows)
            * course.lane.level_settings.batch
            * NS_PER_S
            / max(spans, 1)
        )
    return float(joined([window.latency_ns for window in windows]).percentile(metric.percentile))


def _without_interval(metric: Metric, base: float, value: float, reason: str) -> Difference:
    percent = Estimate((value / base - 1) * 100 if base else 0.0)
    return Difference(metric.name, base, value, percent, NO_DIFFERENCE, reason)


def of_levels(base: Level, other: Level, wanted: Sequence[Metric], looks: int) -> tuple[Difference, ...]:
    """Of two levels that were measured apart, from the intervals they have."""
    if base.measurement is None or other.measurement is None:
        return ()
    found = []
    for metric in wanted:
        one, two = (_estimate(metric, measured) for measured in (base.measurement, other.measurement))
        if one is None or two is None or one.value <= 0 or two.value <= 0:
            continue
        percent = unpaired_percent(one, two, looks)
        reason = "too few requests for an interval" if percent.low is None else ""
        found.append(Difference(metric.name, one.value, two.value, percent, metric.verdict(percent), reason))
    return tuple(found)


def _estimate(metric: Metric, found: Measurement) -> Estimate | None:
    if metric.percentile is None:
        return found.infer_per_s
    known = dict(found.latency_intervals)
    return known.get(metric.name)


def overall(levels: Sequence[LevelDifference]) -> str:
    """One word for a variant: what its figures show at any level."""
    shown = {difference.verdict for level in levels for difference in level.differences} - {NO_DIFFERENCE}
    if shown == {FASTER, SLOWER}:
        return MIXED
    return shown.pop() if shown else NO_DIFFERENCE


def headline(level: LevelDifference) -> Difference | None:
    """The figure that speaks for a level: throughput, or by rate the first percentile."""
    rows = [row for row in level.differences if (row.metric == THROUGHPUT) == (level.mode == "concurrency")]
    return rows[0] if rows else None
