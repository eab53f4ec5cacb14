"""Differences between two variants, from figures measured in turns.

Both variants are measured in every round, in alternating order, so that noise of the machine affects both equally.
Each round gives the logarithm of the ratio of their figures; the interval follows from the spread of these over the
rounds. Five choices:

* A drift of the machine raises the ratio in one order and lowers it in the other. Half the difference between the
  orders is that drift, and is removed.
* A stall of the machine spoils a whole round. So the mean is trimmed, by a fifth at either end, with the interval of
  a trimmed mean (Yuen 1974: the spread of the winsorized values).
* Neighbouring rounds may be correlated and then carry less information; the interval is widened accordingly.
* The reported change is that of the figures over all rounds, as in tables and charts; the interval is widened to
  include it, so that no claim contradicts them.
* With many figures, some show a difference by chance. So every interval is wide enough for all of them to hold
  jointly (Bonferroni correction).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S
from inferometer.compare.comparison import (
    FASTER,
    INCONCLUSIVE,
    MIXED,
    NO_DIFFERENCE,
    SLOWER,
    THROUGHPUT,
    Difference,
    LevelDifference,
)
from inferometer.compare.turns import PERCENTILES, TurnSeries
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import Metric, named
from inferometer.stats.intervals import allowed, correlation, relative_difference, student_t
from inferometer.stats.measurement import Level
from inferometer.stats.series import joined
from inferometer.stats.verdict import NOT_SHOWN, SHOWN, rule_either_way

CONFIDENCE = 0.98  # of all intervals of a comparison jointly
TRIMMED = 0.2  # share trimmed at either end
TRIMMED_FROM = 10
_ENDLESS = 20.0
NO_REQUESTS = "a file without individual requests has no interval"
FEWEST = 4  # pairs needed for an interval

Logs = NDArray[np.float64]


def paired_percent(base: Sequence[float], other: Sequence[float], looks: int) -> Estimate:
    """Return the difference in percent. Even pairs were measured in one order, odd pairs in the other.

    `looks` is the number of intervals that must hold jointly.
    """
    ratios = np.log(np.asarray(other, dtype=np.float64) / np.asarray(base, dtype=np.float64))
    count = len(ratios)
    if count < FEWEST:
        return Estimate(_percent(float(np.median(ratios))))
    ratios = _without_drift(ratios)
    cut = _cut(count)
    ordered = np.sort(ratios)
    centre = float(ordered[cut : count - cut].mean())
    kept = count - 2 * cut
    pulled_in = np.clip(ratios, ordered[cut], ordered[count - cut - 1])
    error = float(pulled_in.std(ddof=1)) * math.sqrt((count - 1) / (kept * (kept - 1))) * _likeness(pulled_in)
    margin = student_t(1 - (1 - CONFIDENCE) / looks / 2, kept - 2) * error
    return Estimate(_percent(centre), _percent(centre - margin), _percent(centre + margin))


def _without_drift(ratios: Logs) -> Logs:
    even, odd = ratios[::2], ratios[1::2]
    drift = (_trimmed_mean(even) - _trimmed_mean(odd)) / 2
    return ratios - drift * np.where(np.arange(len(ratios)) % 2, -1.0, 1.0)


def _trimmed_mean(values: Logs) -> float:
    cut = _cut(len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _likeness(ratios: Logs) -> float:
    """Return the factor that widens the interval for correlated neighbouring pairs."""
    deviations = ratios - ratios.mean()
    alike = allowed(correlation([deviations], lost=0))
    return math.sqrt((1 + alike) / (1 - alike))


def _cut(count: int) -> int:
    """Return how many values to trim at either end; none if there are few."""
    return int(TRIMMED * count) if count >= TRIMMED_FROM else 0


def _percent(ratio: float) -> float:
    """Convert the logarithm of a ratio to percent, capped so that an unbounded interval stays finite."""
    return math.expm1(min(ratio, _ENDLESS)) * 100


def unpaired_percent(base: Estimate, other: Estimate, looks: int) -> Estimate:
    """Return the difference in percent of two separately measured figures, from their own 95 % intervals."""
    found = relative_difference(base, other)
    value = found.value * 100
    if found.low is None or found.high is None or found.low <= -1 or math.isinf(found.high):
        return Estimate(value)
    # The file does not record how many sections an interval is based on; eight is the minimum.
    wider = student_t(1 - (1 - CONFIDENCE) / looks / 2, 7) / student_t(0.975, 7)
    centre, low, high = (math.log1p(part) for part in (found.value, found.low, found.high))
    return Estimate(
        value, _percent(centre - wider * (centre - low)), _percent(centre + wider * (high - centre))
    )


# --- differences of turns and of saved results, with verdicts


def headline_metrics(chosen: int | None, more: Sequence[int] = ()) -> tuple[Metric, ...]:
    """Return the headline figures, including the requested percentiles."""
    wanted = sorted({*PERCENTILES, *more, *(() if chosen is None else (chosen,))})
    return tuple(row for name in (THROUGHPUT, *(f"p{p}" for p in wanted)) if (row := named(name)) is not None)


def difference_verdict(metric: Metric, percent: Estimate) -> str:
    """Return the verdict that the interval supports: a direction, no relevant difference, or an inconclusive one."""
    ruling = rule_either_way(percent).ruling
    if ruling != SHOWN or percent.low is None:
        return NO_DIFFERENCE if ruling == NOT_SHOWN else INCONCLUSIVE
    return FASTER if (percent.low > 0) == metric.is_higher_better else SLOWER


def of_turns(
    base: TurnSeries, other: TurnSeries, wanted: Sequence[Metric], looks: int
) -> tuple[Difference, ...]:
    """Return the differences of two candidates that took turns; `looks` intervals must hold jointly."""
    rounds = min(len(base.windows), len(other.windows))
    return tuple(_of_turns(metric, base, other, rounds, looks) for metric in wanted)


def _of_turns(metric: Metric, base: TurnSeries, other: TurnSeries, rounds: int, looks: int) -> Difference:
    whole, value = (_figure(metric, series, range(rounds)) for series in (base, other))
    change = (value / whole - 1) * 100 if whole else 0.0
    blocks = _blocks(metric, base, other, rounds)
    if len(blocks) < FEWEST:
        few = f"only {rounds} rounds" if rounds < FEWEST else f"needs {FEWEST * metric.need} requests"
        return Difference(metric.short, whole, value, Estimate(change), INCONCLUSIVE, few)
    pairs = [[_figure(metric, series, block) for block in blocks] for series in (base, other)]
    percent = with_measured(paired_percent(pairs[0], pairs[1], looks), change)
    return Difference(metric.short, whole, value, percent, difference_verdict(metric, percent))


def with_measured(percent: Estimate, change: float) -> Estimate:
    """Return the measured change, as in every table and chart, with an interval that includes it.

    Stalls of the machine pull the figures of a whole run away from those of most rounds. The rounds alone must then
    not claim a difference that the figures contradict.
    """
    if percent.low is None or percent.high is None:
        return Estimate(change)
    return Estimate(change, min(percent.low, change), max(percent.high, change))


def _blocks(metric: Metric, base: TurnSeries, other: TurnSeries, rounds: int) -> list[range]:
    """Group rounds into blocks with enough requests for the figure; leftover rounds join the last block.

    An odd number of rounds per block keeps the order of blocks alternating.
    """
    for size in range(1, rounds // FEWEST + 1, 2):
        blocks = [range(start, start + size) for start in range(0, rounds - size + 1, size)]
        if blocks and rounds > blocks[-1].stop:
            blocks[-1] = range(blocks[-1].start, rounds)
        counts = [sum(map(series.requests, block)) for series in (base, other) for block in blocks]
        if min(counts, default=0) >= metric.need:
            return blocks
    return []


def _figure(metric: Metric, series: TurnSeries, rounds: range) -> float:
    windows = [window for number in rounds for window in series.windows[number]]
    if metric.percentile is None:
        span_ns = sum(window.duration_ns for window in windows)
        inferences = sum(window.count for window in windows) * series.candidate.level_settings.batch
        return inferences * NS_PER_S / max(span_ns, 1)
    return float(joined([window.latency_ns for window in windows]).percentile(metric.percentile))


def of_levels(base: Level, other: Level, wanted: Sequence[Metric], looks: int) -> tuple[Difference, ...]:
    """Return the differences of two separately measured levels, from their intervals."""
    if base.measurement is None or other.measurement is None:
        return ()
    found = []
    for metric in wanted:
        assert metric.interval is not None  # all headline figures have one
        one, two = metric.interval(base.measurement), metric.interval(other.measurement)
        if one is None or two is None or one.value <= 0 or two.value <= 0:
            continue
        percent = unpaired_percent(one, two, looks)
        reason = _why_open(base, other) if percent.low is None else ""
        verdict = difference_verdict(metric, percent)
        found.append(Difference(metric.short, one.value, two.value, percent, verdict, reason))
    return tuple(found)


def _why_open(*levels: Level) -> str:
    if any(level.has_remark(Note.SUMMARY_ONLY) for level in levels):
        return NO_REQUESTS
    return "too few requests for an interval"


def speedup(row: Difference) -> Estimate:
    """Return the speedup over the baseline, for rates and times alike; above 1 is faster."""
    sign = 1 if row.metric == THROUGHPUT else -1
    ends = [_times(part, sign) for part in (row.percent.value, *(row.percent.limits or ()))]
    return Estimate(ends[0], *sorted(ends[1:]))


def _times(percent: float, sign: int) -> float:
    """Convert a difference in percent to a factor, capped so that an unbounded interval stays finite."""
    ratio = math.log(max(1 + percent / 100, math.exp(-_ENDLESS)))
    return math.exp(sign * min(ratio, _ENDLESS))


def overall(levels: Sequence[LevelDifference]) -> str:
    """Return the overall verdict for a variant from its figures at all levels."""
    found = {difference.verdict for level in levels for difference in level.differences}
    shown = found & {FASTER, SLOWER}
    if len(shown) == 2:
        return MIXED
    if shown:
        return shown.pop()
    first = {row.verdict for level in levels if (row := headline(level)) is not None}
    return NO_DIFFERENCE if first == {NO_DIFFERENCE} else INCONCLUSIVE


def headline(level: LevelDifference) -> Difference | None:
    """Return the main figure of a level: throughput, or the first percentile at a rate."""
    rows = [row for row in level.differences if (row.metric == THROUGHPUT) == (level.mode == "concurrency")]
    return rows[0] if rows else None
