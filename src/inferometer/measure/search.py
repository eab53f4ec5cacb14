"""Which level comes next: pure functions of what the levels before it gave."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LOWEST = 1024  # so many times less than the first load is not tried
WORTH = 0.25  # share of the interval's length, by its logarithm, that the next load must promise to take off


@dataclass(frozen=True, slots=True)
class Bracket:
    """The highest load that keeps a promise and the lowest that breaks it, where known."""

    low: float | None = None
    high: float | None = None

    @property
    def is_closed(self) -> bool:
        return self.low is not None and self.high is not None


@dataclass(slots=True)
class LastOutcome:
    """Whether the level that was measured last has passed; whoever measures it says so here."""

    passed: bool = True


def linear(start: float, end: float | None, step: float, outcome: LastOutcome) -> Iterator[float]:
    """start, start + step ... up to `end` (None: no end), as long as each one passes; the first one in any case."""
    number = 0
    while True:
        value = start + number * step
        if number and (not outcome.passed or (end is not None and value > end)):
            return
        yield value
        number += 1


def binary(start: float, end: float, step: float, outcome: LastOutcome, *, is_whole: bool) -> Iterator[float]:
    """The two ends, then the middle between the highest that passed and the lowest that failed."""
    yield start
    if not outcome.passed:
        return
    yield end
    if outcome.passed:
        return
    low, high = start, end
    while high - low > step:
        middle = (low + high) // 2 if is_whole else (low + high) / 2
        yield middle
        low, high = (middle, high) if outcome.passed else (low, middle)


@dataclass(frozen=True, slots=True)
class Tried:
    """A load of a search: what is known of it, and how often it was measured."""

    load: float
    verdict: str  # kept, broken, undecided
    is_within: bool  # what was measured is within the limits, as far as that can be seen
    runs: int = 1


def bounds(tried: Sequence[Tried]) -> Bracket:
    """Between which loads the limit lies: the highest that is kept below all that are broken, and the other way round.

    Where a load is kept above one that is broken, both lie between. The low end also lies below every load that was
    beyond the limits, even if that may have been by chance.
    """
    kept = [row.load for row in tried if row.verdict == "kept"]
    broken = [row.load for row in tried if row.verdict == "broken"]
    beyond = min(
        (row.load for row in tried if not row.is_within or row.verdict == "broken"), default=math.inf
    )
    return Bracket(
        max((load for load in kept if load < beyond), default=None),
        min((load for load in broken if load > max(kept, default=0.0)), default=None),
    )


def next_load(tried: Sequence[Tried], start: float, precision: float, *, is_whole: bool) -> float | None:
    """Which load to measure next: up by doubling (down by halving) until the limit lies between two loads, then
    closing in from both sides on those that cannot be decided, then these again. None when the ends are near enough.
    """
    if not tried:
        return start
    rows = sorted(tried, key=lambda row: row.load)
    if all(row.is_within for row in rows):
        return tidy(rows[-1].load * 2) if not is_whole else rows[-1].load * 2
    if not any(row.is_within for row in rows):
        lower = rows[0].load // 2 if is_whole else tidy(rows[0].load / 2)
        return lower if lower >= (1 if is_whole else start / LOWEST) else None
    known = bounds(tried)
    if known.is_closed and _is_near(known, precision, is_whole=is_whole):
        return None
    low, high = known.low or 0.0, known.high or math.inf
    return _between([row for row in rows if low < row.load < high], known, precision, is_whole=is_whole)


def _is_near(known: Bracket, precision: float, *, is_whole: bool) -> bool:
    assert known.low is not None
    assert known.high is not None
    return known.high / known.low <= 1 + precision or (is_whole and known.high - known.low <= 1)


def _between(inside: Sequence[Tried], known: Bracket, precision: float, *, is_whole: bool) -> float:
    """`inside` are the loads between the bounds, lowest first: none of them is decided, or they contradict."""
    if not inside:
        assert known.low is not None
        assert known.high is not None
        return _middle(known.low, known.high, is_whole=is_whole)
    first, last = inside[0], inside[-1]
    if known.high is None:  # more load is decided soon
        return tidy(last.load * 1.5) if not is_whole else float(math.ceil(last.load * 1.5))
    if known.low is None:
        return _lower(inside, is_whole=is_whole)
    least = max(math.log1p(precision), WORTH * math.log(known.high / known.low))
    for low, high in sorted(
        ((known.low, first.load), (last.load, known.high)), key=lambda gap: gap[0] / gap[1]
    ):
        middle = _middle(low, high, is_whole=is_whole)
        if math.log(high / low) > least and low < middle < high:
            return middle
    again = [row for row, is_useful in ((first, first.is_within), (last, not last.is_within)) if is_useful]
    return min(again or inside, key=lambda row: row.runs).load


def _lower(inside: Sequence[Tried], *, is_whole: bool) -> float:
    """Nothing is kept for certain: again the highest that is within the limits, as more load has more requests to prove
    it with; each once more, and then one that is easier to keep."""
    beyond = min((row.load for row in inside if not row.is_within), default=math.inf)
    again = [row.load for row in inside if row.load < beyond and row.runs < 2]
    if again:
        return again[-1]
    least = inside[0].load
    return tidy(least / 1.5) if not is_whole else max(1.0, least // 1.5)


def _middle(low: float, high: float, *, is_whole: bool) -> float:
    middle = (low * high) ** 0.5
    return float(round((low + high) / 2)) if is_whole else tidy(middle)


def tidy(value: float) -> float:
    """Four digits are as much as anyone wants to read."""
    return float(f"{value:.4g}")
