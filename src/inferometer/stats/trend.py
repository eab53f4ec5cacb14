"""Where the history of a figure changed: between which two runs, by how much, and how sure that is.

A run's own interval says how well that run was measured. It does not say how far two runs of the same server lie apart:
that spread is usually larger, and only the history itself shows it. So the test looks at the logarithms of the values
alone, and their spread between changes is the noise.

Two shapes are looked for: a step (all runs before it against all after it), and an excursion (some runs in the middle
against those on both sides, such as a regression that was mended). For each the strongest place is taken, with at least
`SIDE` runs in every part, so that a single bad run is never a change. Whether it is real:

* A permutation test. Runs without a change could have come in any order, so the order they came in is compared with
  random ones. That holds for any distribution of the noise. Far values are pulled in first, to `FAR` times the usual
  distance from the median, so that a spoiled run hides no change.
* Up to `SHORT` runs there are too few orders to see a change near an end, or in very few runs. So Student's t is a
  second chance: at a level that is divided among all places that were looked at (Bonferroni). Heavy tails and skewed
  noise deceive it the more, the longer a history is; so its share of the rate shrinks, from 40 % of 6 runs to 12 % of
  20. The permutation test has half of the rate then.

Half of the false-alarm rate is for steps, half for excursions. Parts between changes that were found are looked at
again, and share the rate among them. So the chance that a history without any change shows one is at most
`FALSE_ALARMS`, whatever its length. It is a promise about runs that do not depend on each other: noise that drifts over
several runs is a change to this test, too. The rates as measured are in docs/gate.md, by benchmarks/trend.py.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inferometer.stats.intervals import student_t

FALSE_ALARMS = 0.002  # share of histories without a change in which one is shown
LEAST = 0.01  # a change of less than that is not worth a name
SIDE = 3  # runs on either side of a change
FEWEST = 2 * SIDE
SHORT = 20  # runs up to which a permutation test would have too few orders
FAR = 3.0
SURE = 0.95  # confidence of a change's interval
_OF_T = 2.4  # of the rate of a short history, divided by its runs
_OF_ORDERS = 0.5
_MAD = 1.4826  # from the median distance to the standard deviation, of normal noise
_ORDERS = 4.0  # random orders, times what the rate needs at least
_FIRST_ORDERS = 100  # of them, which are enough for most histories without a change
_AT_ONCE = 2_000_000  # numbers of random orders in memory

Logs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A figure of one run, in its unit; above zero."""

    run_id: str
    started_at: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TrendChange:
    """Between two runs; `ratio` is the level of the figure after it over the one before, with its 95 % interval."""

    index: int  # of the first run after it
    before_id: str
    after_id: str
    ratio: float
    low: float
    high: float


def missing_runs(count: int) -> int:
    """How many more runs are needed before anything can be said."""
    return max(0, FEWEST - count)


def changes(
    points: Sequence[TrendPoint], *, false_alarms: float = FALSE_ALARMS, least: float = LEAST
) -> tuple[TrendChange, ...]:
    """All real changes of a history that is in the order of its runs; none where it is too short."""
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
    """The share by which a step in the middle must change the figure to be seen half of the time; None: too short."""
    logs = np.log([point.value for point in points])
    count = len(logs)
    if count < FEWEST:
        return None
    places = [change.index for change in changes(points, false_alarms=false_alarms)]
    part = _OF_T / count if count <= SHORT else 1.0
    limit = student_t(1 - part * false_alarms / 4 / (count - FEWEST + 1), count - 2)
    return math.expm1(limit * _spread(logs, places) * 2 / math.sqrt(count))


# --- where it changed


def _places(logs: Logs, rate: float) -> Iterator[int]:
    """The first runs after each change."""
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


@dataclass(frozen=True, slots=True)
class _Shape:
    """Parts of a history, from `first` up to `last`, that are each set against the rest."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def strengths(self, rows: Logs) -> Logs:
        """Of each row of values at each place: the difference of the means, in units of its error if values have 1."""
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
"""Whether values of this shape are stronger at one place than noise is anywhere, at a rate."""


def _steps(count: int) -> _Shape:
    last = np.arange(SIDE, count - SIDE + 1)
    return _Shape(np.zeros_like(last), last)


def _excursions(count: int) -> _Shape:
    first, last = np.triu_indices(count + 1, SIDE)
    is_inside = (first >= SIDE) & (last <= count - SIDE)
    return _Shape(first[is_inside], last[is_inside])


def _real(logs: Logs, shape: _Shape, rate: float) -> tuple[int, ...]:
    """The edges of the strongest place, if it is more than noise shows at this rate."""
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
    """Random orders are drawn until too many are as strong; the same history gets the same ones."""
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
    """With far values no further from the median than `far` times the usual distance."""
    middle = float(np.median(values))
    usual = _MAD * float(np.median(np.abs(values - middle)))
    return values if usual == 0 else np.clip(values, middle - far * usual, middle + far * usual)


def _refitted(logs: Logs, places: Sequence[int]) -> list[int]:
    """Each change where it fits best between its neighbours, which were not known when it was found."""
    found = list(places)
    for number in range(len(found)):
        start = found[number - 1] if number else 0
        end = found[number + 1] if number + 1 < len(found) else len(logs)
        part = pulled_in(logs[start:end])
        shape = _steps(len(part))
        if len(shape.last):
            found[number] = start + int(shape.last[shape.strengths(part[None])[0].argmax()])
    return found


# --- how large the changes are


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
    """The standard deviation of runs inside of parts without a change."""
    near = [pulled_in(part, far) for part in parts]
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in near)
    return math.sqrt(squares / max(1, sum(map(len, near)) - len(near)))
