"""Changes in the history of a figure: the runs between which it changed, their size, and their certainty.

A run's own interval shows how precisely that run was measured. It does not show how far two runs of the same server
differ: that spread is usually larger, and only the history shows it. So the test uses only the logarithms of the
values, and their spread between changes is the noise.

The test looks for two shapes: a step (all runs before it against all after it), and an excursion (some runs in the
middle against those on both sides, such as a regression that was fixed). For each, the strongest place is taken, with
at least `SIDE` runs in every part, so that a single bad run is never a change. It is tested as follows:

* A permutation test. Runs without a change could have come in any order, so the actual order is compared with random
  ones. This holds for any distribution of the noise. Outliers are first pulled in to `FAR` times the usual distance
  from the median, so that a spoiled run hides no change.
* Up to `SHORT` runs there are too few orders to see a change near an end, or in very few runs. So Student's t is a
  second test, at a level divided among all examined places (Bonferroni). Heavy tails and skewed noise mislead it
  more in longer histories, so its share of the rate shrinks from 40 % for 6 runs to 12 % for 20. The permutation
  test then has half of the rate.

Half of the false-alarm rate is for steps, half for excursions. The parts between detected changes are searched again,
and share the rate among them. So the probability that a change is found in a history without any is at most
`FALSE_ALARMS`, whatever its length. This assumes independent runs: to this test, noise that drifts over several runs
is a change too. Measured rates are in docs/gate.md, from benchmarks/trend.py.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.stats.intervals import student_t

FALSE_ALARMS = 0.002  # share of histories without a change in which one is reported
LEAST = 0.01  # smaller changes are not reported
SIDE = 3  # runs on either side of a change
FEWEST = 2 * SIDE
SHORT = 20  # runs up to which a permutation test has too few orders
FAR = 3.0
SURE = 0.95  # confidence of a change's interval
_OF_T = 2.4  # share of the rate of a short history, times its runs
_OF_ORDERS = 0.5
_MAD = 1.4826  # ratio of standard deviation to median distance for normal noise
_ORDERS = 4.0  # random orders, as a multiple of the minimum that the rate needs
_FIRST_ORDERS = 100  # first batch, enough for most histories without a change
_AT_ONCE = 2_000_000  # values of random orders in memory at a time

Logs = NDArray[np.float64]


@frozen
class TrendPoint:
    """A figure of one run, in its unit; positive."""

    run_id: str
    started_at: str
    value: float
    low: float | None = None
    high: float | None = None


@frozen
class TrendChange:
    """A change between two runs; `ratio` is the level of the figure after the change over its level before, with its 95
    % interval."""

    index: int  # of the first run after it
    before_id: str
    after_id: str
    ratio: float
    low: float
    high: float


def missing_runs(count: int) -> int:
    """Return how many more runs are needed for a test."""
    return max(0, FEWEST - count)


def changes(
    points: Sequence[TrendPoint], *, false_alarms: float = FALSE_ALARMS, least: float = LEAST
) -> tuple[TrendChange, ...]:
    """Return all significant changes of a history in run order; empty if it is too short."""
    if len(points) < FEWEST:
        return ()
    logs = np.log([point.value for point in points])
    places = sorted(_places(logs, false_alarms))
    while True:
        places = _refitted(logs, places)
        found = tuple(_changes(points, logs, places))
        weakest = min(found, key=_size, default=None)
        if weakest is None or _size(weakest) >= math.log1p(least):
            return found
        places.remove(weakest.index)


def _size(change: TrendChange) -> float:
    return abs(math.log(change.ratio))


def smallest_visible(points: Sequence[TrendPoint], *, false_alarms: float = FALSE_ALARMS) -> float | None:
    """Return the relative step in the middle that would be detected half of the time; None if the history is too
    short."""
    logs = np.log([point.value for point in points])
    count = len(logs)
    if count < FEWEST:
        return None
    places = [change.index for change in changes(points, false_alarms=false_alarms)]
    part = _OF_T / count if count <= SHORT else 1.0
    limit = student_t(1 - part * false_alarms / 4 / (count - FEWEST + 1), count - 2)
    return math.expm1(limit * _spread(logs, places) * 2 / math.sqrt(count))


# --- locating changes


def _places(logs: Logs, rate: float) -> Iterator[int]:
    """Yield the first run after each change."""
    if len(logs) < FEWEST:
        return
    for shape in (_steps(len(logs)), _excursions(len(logs))):
        edges = _real(logs, shape, rate / 2)
        if edges:
            yield from edges
            parts = list(pairwise((0, *edges, len(logs))))
            for start, end in parts:
                for place in _places(logs[start:end], rate / len(parts)):
                    yield start + place
            return


@frozen
class _Shape:
    """Parts of a history, from `first` up to `last`, each compared with the rest."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def strengths(self, rows: Logs) -> Logs:
        """Return the difference of the means for each row at each place, in units of its standard error for unit
        variance."""
        count = rows.shape[1]
        sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)
        sums = np.concatenate((np.zeros((len(rows), 1)), sums), axis=1)
        inside = self.last - self.first
        scale = np.sqrt(count / (inside * (count - inside)))
        found: Logs = np.abs(sums[:, self.last] - sums[:, self.first]) * scale
        return found

    def edges(self, place: int, count: int) -> tuple[int, ...]:
        return tuple(int(edge) for edge in (self.first[place], self.last[place]) if 0 < edge < count)


_Test = Callable[[Logs, _Shape, float, float], bool]
"""Function that returns whether one place is stronger than noise is at any place, at this rate of false alarms."""


def _steps(count: int) -> _Shape:
    last = np.arange(SIDE, count - SIDE + 1)
    return _Shape(np.zeros_like(last), last)


def _excursions(count: int) -> _Shape:
    first, last = np.triu_indices(count + 1, SIDE)
    is_inside = (first >= SIDE) & (last <= count - SIDE)
    return _Shape(first[is_inside], last[is_inside])


def _real(logs: Logs, shape: _Shape, rate: float) -> tuple[int, ...]:
    """Return the edges of the strongest place, if it exceeds the noise at this rate."""
    if not len(shape.first) or not np.ptp(logs) > 0:
        return ()
    if len(logs) > SHORT:
        return _strongest(_is_beyond_orders, pulled_in(logs), shape, rate)
    by_t = _strongest(_is_beyond_t, logs, shape, _OF_T / len(logs) * rate)
    return by_t or _strongest(_is_beyond_orders, pulled_in(logs), shape, _OF_ORDERS * rate)


def _strongest(test: _Test, values: Logs, shape: _Shape, rate: float) -> tuple[int, ...]:
    strengths = shape.strengths(values[None])[0]
    place = int(strengths.argmax())
    is_real = test(values, shape, float(strengths[place]), rate)
    return shape.edges(place, len(values)) if is_real else ()


def _is_beyond_t(values: Logs, shape: _Shape, strongest: float, rate: float) -> bool:
    count = len(values)
    left = max(float(((values - values.mean()) ** 2).sum()) - strongest**2, 0.0)
    limit = student_t(1 - rate / len(shape.first) / 2, count - 2)
    return strongest > limit * math.sqrt(left / (count - 2))


def _is_beyond_orders(values: Logs, shape: _Shape, strongest: float, rate: float) -> bool:
    """Draw random orders until too many are as strong; equal histories get equal orders."""
    orders = math.ceil(_ORDERS / rate) - 1
    allowed = rate * (orders + 1) - 1
    chance = np.random.default_rng(len(values))
    most = max(1, _AT_ONCE // max(len(values), len(shape.first)))
    drawn = as_strong = 0
    while drawn < orders:
        size = min(most, orders - drawn, _FIRST_ORDERS if not drawn else orders)
        rows = chance.permuted(np.broadcast_to(values, (size, len(values))), axis=1)
        as_strong += int((shape.strengths(rows).max(axis=1) >= strongest * (1 - 1e-9)).sum())
        drawn += size
        if as_strong > allowed:
            return False
    return True


def pulled_in(values: Logs, far: float = FAR) -> Logs:
    """Clip values to `far` times the usual distance from the median."""
    middle = float(np.median(values))
    usual = _MAD * float(np.median(np.abs(values - middle)))
    return values if usual == 0 else np.clip(values, middle - far * usual, middle + far * usual)


def _refitted(logs: Logs, places: Sequence[int]) -> list[int]:
    """Move each change to its best fit between its neighbours, which were unknown when it was found."""
    found = list(places)
    for number in range(len(found)):
        start = found[number - 1] if number else 0
        end = found[number + 1] if number + 1 < len(found) else len(logs)
        part = pulled_in(logs[start:end])
        shape = _steps(len(part))
        if len(shape.last):
            found[number] = start + int(shape.last[shape.strengths(part[None])[0].argmax()])
    return found


# --- size of changes


def _changes(points: Sequence[TrendPoint], logs: Logs, places: Sequence[int]) -> Iterator[TrendChange]:
    edges = (0, *places, len(logs))
    spread = _spread(logs, places)
    margin = student_t((1 + SURE) / 2, max(1, len(logs) - len(edges) + 1)) * spread
    for start, place, end in zip(edges, places, edges[2:], strict=False):
        before, after = (pulled_in(logs[part]) for part in (slice(start, place), slice(place, end)))
        size = float(after.mean() - before.mean())
        error = margin * math.sqrt(1 / len(before) + 1 / len(after))
        ratio, low, high = (math.exp(size + part) for part in (0.0, -error, error))
        yield TrendChange(place, points[place - 1].run_id, points[place].run_id, ratio, low, high)


def _spread(logs: Logs, places: Sequence[int]) -> float:
    return spread([logs[start:end] for start, end in pairwise((0, *places, len(logs)))])


def spread(parts: Sequence[Logs], far: float = FAR) -> float:
    """Return the standard deviation of runs within parts without a change."""
    near = [pulled_in(part, far) for part in parts]
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in near)
    return math.sqrt(squares / max(1, sum(map(len, near)) - len(near)))
