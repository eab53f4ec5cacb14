"""Which load comes next: pure functions of what is known of the loads before it."""

import math
from collections.abc import Sequence

from inferometer.base.frozen import frozen
from inferometer.find.keeping import Judgement

LOWEST = 1024  # so many times less than the first load is not tried
WORTH = 0.25  # share of the interval's length, by its logarithm, that the next load must promise to take off


@frozen
class Bracket:
    """The highest load that keeps a promise and the lowest that breaks it, where known."""

    low: float = 0.0
    high: float = math.inf

    @property
    def is_closed(self) -> bool:
        return self.low > 0 and self.high < math.inf

    def is_near(self, precision: float, *, is_whole: bool) -> bool:
        """The ends are as near to each other as they need be."""
        return self.is_closed and (
            self.high / self.low <= 1 + precision or (is_whole and self.high - self.low <= 1)
        )


def bounds(tried: Sequence[Judgement]) -> Bracket:
    """Between which loads the limit lies: the highest that is kept below all that are broken, and the other way round.

    Where a load is kept above one that is broken, both lie between. The low end also lies below every load that was
    beyond the limits, even if that may have been by chance.
    """
    kept = [row.load for row in tried if row.verdict == "kept"]
    broken = [row.load for row in tried if row.verdict == "broken"]
    beyond = min((row.load for row in tried if row.is_beyond), default=math.inf)
    return Bracket(
        max((load for load in kept if load < beyond), default=0.0),
        min((load for load in broken if load > max(kept, default=0.0)), default=math.inf),
    )


def next_load(tried: Sequence[Judgement], start: float, precision: float, *, is_whole: bool) -> float | None:
    """Which load to measure next: up by doubling (down by halving) until the limit lies between two loads, then
    closing in from both sides on those that cannot be decided, then these again. None when the ends are near enough.
    """
    if not tried:
        return start
    rows = sorted(tried, key=lambda row: row.load)
    if all(row.is_within for row in rows):
        return rows[-1].load * 2 if is_whole else tidy(rows[-1].load * 2)
    if not any(row.is_within for row in rows):
        lower = rows[0].load // 2 if is_whole else tidy(rows[0].load / 2)
        return lower if lower >= (1 if is_whole else start / LOWEST) else None
    known = bounds(tried)
    if known.is_near(precision, is_whole=is_whole):
        return None
    inside = [row for row in rows if known.low < row.load < known.high]
    return _between(inside, known, precision, is_whole=is_whole)


def _between(inside: Sequence[Judgement], known: Bracket, precision: float, *, is_whole: bool) -> float:
    """`inside` are the loads between the bounds, lowest first: none of them is decided, or they contradict."""
    if not inside:
        return _middle(known.low, known.high, is_whole=is_whole)
    first, last = inside[0], inside[-1]
    if math.isinf(known.high):  # more load is decided soon
        return float(math.ceil(last.load * 1.5)) if is_whole else tidy(last.load * 1.5)
    if not known.low:
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


def _lower(inside: Sequence[Judgement], *, is_whole: bool) -> float:
    """Nothing is kept for certain: again the highest that is within the limits, as more load has more requests to prove
    it with; each once more, and then one that is easier to keep."""
    beyond = min((row.load for row in inside if not row.is_within), default=math.inf)
    again = [row.load for row in inside if row.load < beyond and row.runs < 2]
    if again:
        return again[-1]
    least = inside[0].load
    return max(1.0, least // 1.5) if is_whole else tidy(least / 1.5)


def _middle(low: float, high: float, *, is_whole: bool) -> float:
    return float(round((low + high) / 2)) if is_whole else tidy((low * high) ** 0.5)


def tidy(value: float) -> float:
    """Four digits are as much as anyone wants to read."""
    return float(f"{value:.4g}")
