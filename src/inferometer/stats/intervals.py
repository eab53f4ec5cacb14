"""Precision of figures: 95 % confidence intervals that allow for correlated requests.

Neighbouring requests share queues and stalls, so the textbook interval of independent values is far too narrow. Here
the measured time is cut into sections of about equal length, and the spread between sections gives the interval of
their mean (Student's t). Each section is compared with its expected part of the whole.

* Neighbouring sections that are correlated are too short: half as many, twice as long, are then used; the remaining
  correlation widens the interval, as in a series where each value depends on the previous one. If even the fewest
  sections are strongly correlated, the run is too short, and no interval is given.
* Sections can also compensate each other: a late end is missing in one and counted in the next. The spread between
  longer sections is then far smaller, and is used.
* The mean of a figure that goes up or down during the measurement is no less precise. A trend, which may be curved, is
  therefore removed if it stands out from the noise. If neighbours are still strongly correlated, it may be steeper than
  polynomials, and a monotonic step function is removed instead. If that does not help either, no interval is given.
* If a few sections are far above the others, the interval extends further up (Johnson 1978), and likewise down.

A percentile is not a mean, but the share of requests below a duration is. So the interval of that share is computed at
the percentile itself, and the two percentiles at its ends form the interval, which is asymmetric in a tail. It is never
narrower than with independent requests in each section. The percentile must have enough requests on either side,
counted as independent ones; otherwise it has no interval, and neither have percentiles further out. The number of
requests equivalent to one independent request also takes into account the percentiles on the way from the median: the
few slowest requests of a run may look independent only because the run missed a slow period, and exactly such runs
would otherwise get an interval.

With a constant number of requests in flight, throughput is that number over the mean latency (Little's law), so the
interval of the mean latency gives its interval. Requests cut by the ends of the measured time widen it, and so does the
relative deviation of the number in flight. Otherwise, or where it is narrower, throughput is counted in sections of
time that begin and end with the end of a request. (Sections alone are too wide if many clients send one request after
the other: a request that just missed one section is counted in the next, which does not affect the whole.)

If answers come in bunches, because requests begin and end together, sections consist of whole bunches, since the time
from the end of one bunch to the end of another contains exactly the answers produced in it. The effect of the first and
last pause of the measured time on the count is known from the rate between the bunches, and is added.

With a constant number in flight, throughput also has an interval if the latencies of sections are too strongly
correlated for one of their mean: it then extends as far as the sections differ, on either side.

An interval covers the mean figure of very many runs like this one: the same load, for the same time, on a server in the
same condition. If the server drifts, that is its mean over a drift like the one measured, not its later state; the
drift itself is reported separately (`stats.doubts`). Events rarer than a few times per run are not covered.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_US
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.series import Series, Sketch, Sorted, rank

MOST_SECTIONS = 64
FEWEST_SECTIONS = 8
LEAST_UNITS = 2  # requests, pieces or bunches in a section
ALIKE = 0.3  # absolute correlation of neighbouring sections above which they are too short
TOO_ALIKE = 0.45  # limit for the fewest sections, and for any after removal of a trend
FEW = 3  # fewest values with an interval if they are long and few
MOST_ALIKE = 0.8  # largest correlation that is compensated
MOST_OPPOSED = 0.5
FAR_SMALLER = 0.3  # variance with the fewest sections, relative to that with more
STANDS_OUT = 14.0  # F statistic of a trend
MOST_BENDS = 5
LEAST_BEYOND = 5.0  # independent requests on either side of a percentile
STEPS = (1, 5, 10, 25, 50, 75, 90, 95, 99)  # percentiles examined on the way out from the median
SURE = 1.96  # standard errors
LONG_GAP = 1.5  # multiple of the mean gap between ends
PAUSE = 1 / 3  # share of the usual gap between bunches below which a gap is inside a bunch
BUNCHED = 2 / 3  # share of the time in long gaps

Sections = NDArray[np.float64]
"""A figure in each section; the number of sections is a power of two."""


class Margin(NamedTuple):
    """Extent of the 95 % interval of a mean, down and up."""

    down: float
    up: float


def margin(sections: Sections) -> Margin | None:
    """Return the margin of the mean of consecutive figures; None if they are too strongly correlated."""
    noise, lost = _without_trend(sections)
    lengths = [noise]
    while len(lengths[-1]) > FEWEST_SECTIONS:
        lengths.append((lengths[-1][::2] + lengths[-1][1::2]) / 2)
    shortest, longest = _Stage(noise, lost), _Stage(lengths[-1], lost)
    between = (_Stage(sections, lost) for sections in lengths[1:-1])  # rarely evaluated
    chosen = next((stage for stage in chain([shortest], between) if abs(stage.alike) <= ALIKE), longest)
    if lost > 1 and shortest.alike > ALIKE:  # the trend may be steeper than a polynomial
        steep = _Stage(*_without_stairs(sections))
        if steep.freedom >= FEWEST_SECTIONS and abs(steep.alike) <= ALIKE:
            return steep.margin(0.0)
    is_bent = lost > 1 and shortest.alike > TOO_ALIKE  # in a way that was not removed
    if is_bent or (chosen is longest and chosen.alike > TOO_ALIKE):
        return None
    is_opposed = longest.variance(0.0) < FAR_SMALLER * shortest.variance(0.0)
    if is_opposed and longest.variance(0.0) < chosen.variance(0.0):
        return longest.margin(-MOST_OPPOSED)
    return chosen.margin(0.0)


class _Stage:
    """Statistics of a series that is cut into a given number of sections."""

    __slots__ = ("_noise", "_squares", "alike", "freedom")

    def __init__(self, noise: Sections, lost: int) -> None:
        self._noise = noise
        self.freedom = len(noise) - lost
        self._squares = float(noise @ noise)
        self.alike = _correlation(noise, self._squares, lost)

    def variance(self, least: float) -> float:
        """Return the variance of the mean; `least` is the lowest correlation of neighbours that is compensated."""
        alike = allowed(self.alike, least)
        return self._squares / self.freedom / len(self._noise) * (1 + alike) / (1 - alike)

    def margin(self, least: float) -> Margin:
        error = math.sqrt(self.variance(least))
        if error == 0:
            return Margin(0.0, 0.0)
        t, count = student_t(0.975, self.freedom), len(self._noise)
        skew = float((self._noise**3).sum()) / count / (self._squares / count) ** 1.5
        further = skew * (2 * t * t + 1) / (6 * math.sqrt(count))
        return Margin(error * (t + max(-further, 0.0)), error * (t + max(further, 0.0)))


def _without_trend(sections: Sections) -> tuple[Sections, int]:
    """Return the sections without their trend, and the degrees of freedom used."""
    count = len(sections)
    noise, lost = sections - sections.sum() / count, 1
    for course in _courses(count):
        height = float(course @ noise)
        rest = noise - height * course
        squares = float(rest @ rest)
        alike = allowed(_correlation(rest, squares, lost + 1))
        independent = count * (1 - alike) / (1 + alike)
        if height * height * (independent - lost - 1) > STANDS_OUT * squares:
            noise, lost = rest, lost + 1
    return noise, lost


def _without_stairs(sections: Sections) -> tuple[Sections, int]:
    """Return the sections without a monotonic step function, and its number of steps (isotonic regression)."""
    middle = len(sections) // 2
    sign = 1.0 if sections[:middle].sum() < sections[middle:].sum() else -1.0
    steps: list[tuple[float, int]] = []
    for value in sign * sections:
        height, width = float(value), 1
        while steps and steps[-1][0] >= height:
            before, length = steps.pop()
            height, width = (height * width + before * length) / (width + length), width + length
        steps.append((height, width))
    heights, widths = zip(*steps, strict=True)
    return sections - sign * np.repeat(heights, widths), len(steps)


def correlation(parts: Sequence[Sections], lost: int) -> float:
    """Return the correlation of neighbours in all parts, corrected for the bias of the fitted parameters."""
    squares = sum(float(part @ part) for part in parts)
    neighbours = sum(float(part[:-1] @ part[1:]) for part in parts)
    return neighbours / squares + lost / sum(map(len, parts)) if squares > 0 else 0.0


def _correlation(part: Sections, squares: float, lost: int) -> float:
    """Return the correlation in one part with a known sum of squares."""
    return float(part[:-1] @ part[1:]) / squares + lost / len(part) if squares > 0 else 0.0


def allowed(alike: float, least: float = 0.0) -> float:
    """Return the part of a correlation that an interval compensates."""
    return min(max(alike, least), MOST_ALIKE)


@cache
def _courses(count: int) -> tuple[NDArray[np.float64], ...]:
    """Return orthonormal polynomials, from a straight line up."""
    degree = min(MOST_BENDS, count // 4 - 1)
    powers = np.vander(np.linspace(-1, 1, count), degree + 1, increasing=True)
    return tuple(np.ascontiguousarray(np.linalg.qr(powers)[0].T[1:]))


# --- latencies


def mean_margin(series: Series) -> Margin | None:
    """Return the margin of the mean of durations ordered by end; None if there are too few."""
    parts = _Parts.of(series)
    return None if parts is None else parts.margin(parts.sums())


def few_margin(series: Series) -> Margin | None:
    """Return the margin of the mean; a handful of values, too few to test, are assumed to be independent."""
    if series.count >= FEWEST_SECTIONS * LEAST_UNITS or series.count < FEW:
        return mean_margin(series)
    reach = student_t(0.975, series.count - 1) * series.deviation / math.sqrt(series.count)
    return Margin(reach, reach)


def mean_estimate(value: float, width: Margin | None) -> Estimate:
    """The mean with its interval."""
    if width is None:
        return Estimate(value)
    return Estimate(value, max(0.0, value - width.down), value + width.up)


def percentile_estimates(series: Series, wanted: Iterable[float]) -> dict[float, Estimate]:
    """Return percentiles of at least one value with their intervals. If one has no interval, neither have those further
    out."""
    whole, parts = series.sorted(), _Parts.of(series)
    asked: set[float] = {50, *wanted}
    found: dict[float, Estimate] = {}
    shares: dict[float, _Share | None] = {}  # the median is shared by both directions
    for outwards in _outwards(asked):
        clusters: float | None = 1.0  # of the next percentile inwards; None if it has no interval
        for p in outwards:
            border = whole.at(rank(p, whole.count))
            found[p] = Estimate(float(border))
            if parts is None or clusters is None:
                continue
            share = shares[p] if p in shares else parts.share(border, p, whole.count)
            shares[p] = share
            if share is None:
                clusters = None
                continue
            clusters = share.clusters_beyond(clusters)
            share = share.reaching(clusters)
            if not share.is_enough(clusters):
                clusters = None
                continue
            low, high = share.ranks()
            found[p] = Estimate(float(border), _between(whole, low)[0], _between(whole, high)[1])
    return {p: found[p] for p in asked}


SHOWN = (50, 90, 95, 99)


def estimates(series: Series, wanted: Sequence[int] = SHOWN) -> tuple[tuple[str, Estimate], ...]:
    """Return estimates of the mean and of percentiles by name, in display order."""
    if not series.count:
        return ()
    found = percentile_estimates(series, wanted)
    mean = mean_estimate(float(series.mean), mean_margin(series))
    return (("mean", mean), *((f"p{p}", found[p]) for p in wanted))


def with_intervals(series: Series) -> Distribution:
    return replace(series.distribution(), intervals=estimates(series))


def _outwards(asked: set[float]) -> tuple[list[float], list[float]]:
    """Return percentiles from the median up and down, in steps that do not depend on the requested ones."""
    steps: set[float] = {*STEPS, *asked}
    return (
        [p for p in sorted(steps) if 50 <= p <= max(asked)],
        [p for p in sorted(steps, reverse=True) if min(asked) <= p <= 50],
    )


def _between(whole: Sorted, place: float) -> tuple[float, float]:
    """Interpolate the value at a fractional rank; for a sketch, return its lower and upper bounds."""
    first = min(math.floor(place), whole.count - 1)
    part, before, after = place - first, whole.around(first), whole.around(min(first + 1, whole.count - 1))
    return before[0] + part * (after[0] - before[0]), before[1] + part * (after[1] - before[1])


@frozen
class _Share:
    """Share of requests up to a percentile, with the margin of its interval."""

    share: float
    count: int
    width: Margin
    clusters: float  # requests equivalent to one independent request

    def clusters_beyond(self, nearer: float) -> float:
        """Combine the cluster size with that of the next percentile inwards, which is based on more requests."""
        return math.sqrt(self.clusters * max(self.clusters, nearer))

    def reaching(self, clusters: float) -> "_Share":
        """Extend the outer margin to at least that of clusters of this size, since requests that the run missed would
        lie there."""
        least = SURE * math.sqrt(self.share * (1 - self.share) / self.count * clusters)
        down, up = self.width
        if self.share > 0.5:
            up = max(up, least)
        elif self.share < 0.5:
            down = max(down, least)
        return replace(self, width=Margin(down, up))

    def is_enough(self, clusters: float) -> bool:
        """Return whether there are enough requests on either side, and the interval ends inside the run."""
        beyond = min(self.share, 1 - self.share) * self.count / clusters
        low, high = self.ranks()
        return beyond >= LEAST_BEYOND and low >= 0 and high <= self.count - 1

    def ranks(self) -> tuple[float, float]:
        """Return the ranks of the interval's ends."""
        last = self.count - 1
        return (
            (self.share - self.width.down - 0.5 / self.count) * last,
            (self.share + self.width.up + 0.5 / self.count) * last,
        )


class _Parts:
    """Sections of whole values of a series, or of whole pieces if it has only sketches."""

    __slots__ = ("_pieces", "_sizes", "_starts", "_values")

    def __init__(self, series: Series, sections: int, pieces: list[Sketch]) -> None:
        self._pieces = pieces
        self._values = series.values()
        if pieces:
            places = np.cumsum([0, *(part.count for part in pieces)])
            edges = _nearest(places, sections)
            sizes = np.diff(places[edges])
        else:
            edges = np.linspace(0, series.count, sections + 1).astype(np.int64)
            sizes = np.diff(edges)
        self._starts, self._sizes = edges[:-1], sizes.astype(np.float64)

    @staticmethod
    def of(series: Series) -> "_Parts | None":
        """Divide a series into sections; None if it is too short."""
        pieces = [] if series.is_exact else series.pieces()
        sections = _section_count(len(pieces) or series.count)
        return None if sections is None else _Parts(series, sections, pieces)

    def is_aligned(self, other: "_Parts") -> bool:
        return bool(np.array_equal(self._sizes, other._sizes))

    def sums(self) -> Sections:
        if not self._pieces:
            return np.add.reduceat(self._values, self._starts).astype(np.float64)
        return np.add.reduceat(np.array([float(part.total) for part in self._pieces]), self._starts)

    def means(self) -> Sections:
        return self.sums() / self._sizes

    def margin(self, amounts: Sections) -> Margin | None:
        """Return the margin of the overall mean from the sum in each section."""
        return _ratio_margin(amounts, self._sizes)

    def share(self, border: int, p: float, count: int) -> _Share | None:
        """Return the share of values up to a border, which is percentile `p`."""
        if not self._pieces:
            below = np.add.reduceat(self._values <= border, self._starts, dtype=np.float64)
        else:
            counts = np.array([float(part.up_to(border)) for part in self._pieces])
            below = np.add.reduceat(counts, self._starts)
        width = self.margin(below)
        if width is None:
            return None
        # At least as wide as with independent requests in each section, even if a trend makes sections differ.
        inside = float((below * (self._sizes - below) / np.maximum(self._sizes - 1, 1)).sum())
        least = SURE * math.sqrt(inside) / count
        down, up = max(width.down, least), max(width.up, least)
        independent = SURE * math.sqrt(p / 100 * (1 - p / 100) / count)
        return _Share(p / 100, count, Margin(down, up), max(min(down, up) / independent, 1.0) ** 2)


def _ratio_margin(amounts: Sections, sizes: Sections) -> Margin | None:
    """Return the margin of the sum of amounts over the sum of sizes; None if all sizes are zero."""
    if not sizes.any():
        return None
    found = margin(amounts - sizes * (amounts.sum() / sizes.sum()))
    size = float(sizes.sum()) / len(sizes)
    return None if found is None else Margin(found.down / size, found.up / size)


def paired_margin(amounts: Series, sizes: Series) -> Margin | None:
    """Return the margin of the ratio of two sums, given both terms of each request in the same order; None if there
    are too few."""
    count = amounts.count
    if (
        FEW <= count < FEWEST_SECTIONS * LEAST_UNITS
    ):  # too few to test, so assumed to be independent, as above
        rest = amounts.values() - amounts.total / sizes.total * sizes.values()
        reach = (
            student_t(0.975, count - 1) * math.sqrt(float(rest @ rest) * count / (count - 1)) / sizes.total
        )
        return Margin(reach, reach)
    above, below = _Parts.of(amounts), _Parts.of(sizes)
    if above is None or below is None or not above.is_aligned(below):
        return None
    return _ratio_margin(above.sums(), below.sums())


def ratio_sections(total: NDArray[np.int64], times: NDArray[np.int64]) -> Margin | None:
    """Return the margin of a cumulative count over time; None if there are too few times."""
    sections = _section_count(len(times) - 1)
    if sections is None:
        return None
    edges = _nearest(times, sections)
    return _ratio_margin(np.diff(total[edges]).astype(np.float64), np.diff(times[edges]).astype(np.float64))


def mean_of_sections(course: NDArray[np.float64]) -> Margin | None:
    """Return the margin of the mean step of a course; None if it has too few steps."""
    sections = _section_count(len(course) - 1)
    if sections is None:
        return None
    edges = np.linspace(0, len(course) - 1, sections + 1).round().astype(np.int64)
    return _ratio_margin(np.diff(course[edges]), np.diff(edges).astype(np.float64))


# --- throughput


def rate_interval(value: float, ends: Groups, span_us: int) -> Estimate:
    """Return the interval of ends per second within `span_us`, scaled to `value`, which may be in another unit."""
    is_last = bunch_ends(ends.last_us)
    by_latency, is_steady = _rate_by_latency(ends, span_us, is_bunched=is_last is not None)
    by_sections = None
    if is_last is not None:
        by_sections = _rate_by_sections(ends, is_last, span_us)
    elif not is_steady:
        by_sections = _rate_by_sections(ends, np.ones(len(ends), dtype=np.bool_), span_us)
    known = [width for width in (by_sections, by_latency) if width is not None]
    if not known:
        return Estimate(value)
    width = min(known, key=sum)
    return mean_estimate(value, Margin(value * width.down, value * width.up))


def _rate_by_latency(ends: Groups, span_us: int, *, is_bunched: bool) -> tuple[Margin | None, bool]:
    """Return margins from Little's law, with a constant number in flight and the mean latency.

    They are relative to the rate; the second result says whether variation of the number in flight is negligible.
    """
    most = _most_outstanding(ends) if ends.is_exact else 0
    mean = _mean_or_range(Series(ends.slowest_ns)) if most > 0 else None
    mean_us = float(ends.slowest_ns.mean()) / NS_PER_US if len(ends) else 0.0
    if mean is None or mean_us == 0:
        return None, False
    # A request half done at the start of the measured time counts as a whole one; another at its end does not count.
    halves = SURE * math.sqrt(most / 6) / len(ends)
    down, up = (math.hypot(part / NS_PER_US / mean_us, halves) for part in (mean.up, mean.down))
    outstanding = len(ends) * mean_us / span_us
    # Halves of individual requests compensate each other, those of bunches do not.
    missing = max(abs(1 - outstanding / most) - (0.0 if is_bunched else halves), 0.0)
    return Margin(down + missing, up + missing), missing <= min(down, up) / 4


def _mean_or_range(series: Series) -> Margin | None:
    """Return the margin of the mean; if sections are too strongly correlated for one, their full range."""
    parts = _Parts.of(series)
    if parts is None:
        return None
    means = parts.means()
    apart = float(means.max() - means.min())
    return parts.margin(parts.sums()) or Margin(apart, apart)


def _most_outstanding(ends: Groups) -> int:
    """Return the most requests in flight; an end and a start within the same microsecond do not overlap."""
    if not len(ends):
        return 0
    starts_us = np.sort(ends.last_us - ends.slowest_ns // NS_PER_US + 1, kind="stable")
    ended = np.searchsorted(np.sort(ends.last_us, kind="stable"), starts_us, side="right")
    return int((np.arange(1, len(starts_us) + 1) - ended).max())


def _rate_by_sections(ends: Groups, is_edge: NDArray[np.bool_], span_us: int) -> Margin | None:
    """Return margins relative to the rate, from the number of ends in sections of time between such ends."""
    ended = np.cumsum(ends.counts)
    # The last response of a stream may be older than data received before its end mark.
    last_us, counts = np.maximum.accumulate(ends.last_us)[is_edge], ended[is_edge]
    sections = _section_count(len(last_us) - 1)
    if sections is None:
        return None
    edges = _nearest(last_us, sections)
    amounts, times = np.diff(counts[edges]).astype(np.float64), np.diff(last_us[edges]).astype(np.float64)
    width = _ratio_margin(amounts, times)
    if width is None:
        return None
    # The position of the first and the last answer within the span is random too.
    between, within = amounts.sum() / times.sum(), ended[-1] / span_us
    chance = abs(between - within)
    return Margin((width.down + chance) / within, (width.up + chance) / within)


def bunch_ends(last_us: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Return which times are the last of their bunch; None unless they come in bunches with pauses between."""
    if len(last_us) < 2:
        return None
    gaps = np.diff(np.maximum.accumulate(last_us))
    total = int(gaps.sum())
    ordered = np.sort(gaps)
    # Half of the time is in gaps of at least this length: those between bunches, not inside them.
    usual = ordered[np.searchsorted(np.cumsum(ordered), total / 2)]
    is_long = gaps > max(LONG_GAP * total / len(gaps), PAUSE * float(usual))
    if not is_long.any() or gaps[is_long].sum() < BUNCHED * total:
        return None
    return np.append(is_long, True)


# --- differences


def relative_difference(before: Estimate, after: Estimate) -> Estimate:
    """Return the relative difference of two independent figures: 0.1 is ten percent more.

    The distances to the interval ends are added in quadrature on the scale of ratios, so that asymmetric intervals are
    respected and swapping both figures inverts the result.
    """
    if before.value <= 0 or after.value <= 0:
        return Estimate(0.0 if before.value == after.value else math.inf)
    relative = after.value / before.value - 1
    down, up = _distances(before), _distances(after)
    if down is None or up is None:
        return Estimate(relative)
    ratio = math.log(after.value / before.value)
    low = math.expm1(ratio - math.hypot(up[0], down[1]))
    return Estimate(relative, low, math.expm1(ratio + math.hypot(up[1], down[0])))


def _distances(estimate: Estimate) -> tuple[float, float] | None:
    """Return the distances from the value to both ends, as logarithms of ratios."""
    if estimate.low is None or estimate.high is None:
        return None
    down = math.inf if estimate.low <= 0 else math.log(estimate.value / estimate.low)
    return down, math.log(estimate.high / estimate.value)


# --- sections


def _section_count(units: int) -> int | None:
    """Return the number of sections for this many units; None if there are too few."""
    count = MOST_SECTIONS
    while count * LEAST_UNITS > units:
        count //= 2
        if count < FEWEST_SECTIONS:
            return None
    return count


def _nearest(places: NDArray[np.int64], sections: int) -> NDArray[np.int64]:
    """Return the indices of distinct places nearest to an even division of the whole."""
    wanted = np.linspace(places[0], places[-1], sections + 1)
    after = np.clip(np.searchsorted(places, wanted), 1, len(places) - 1)
    found = np.where(wanted - places[after - 1] < places[after] - wanted, after - 1, after)
    last = len(places) - 1
    order = np.arange(sections + 1)
    found = np.maximum.accumulate(found - order) + order  # strictly increasing
    return np.minimum(found, last - order[::-1])


@cache
def student_t(share: float, freedom: int) -> float:
    """Return the quantile of Student's t for a share above one half."""
    low, high = 0.0, 1.0
    while _student_below(high, freedom) < share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_below(middle, freedom) < share else (low, middle)
    return high


def _student_below(t: float, freedom: int) -> float:
    """Return the distribution function for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    is_odd = freedom % 2
    term = math.cos(angle) if is_odd else 1.0
    total = 0.0 if freedom == 1 else term
    for factor in range(2 + is_odd, freedom - 1, 2):
        term *= square * (factor - 1) / factor
        total += term
    within = 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
    return 0.5 + within / 2
