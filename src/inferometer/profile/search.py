"""Which level comes next: pure, told only whether the last one passed."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bracket:
    """The highest value that passed and the lowest that failed, where known."""

    low: float | None = None
    high: float | None = None

    @property
    def is_closed(self) -> bool:
        return self.low is not None and self.high is not None


@dataclass(slots=True)
class Verdicts:
    """Where the shell puts whether the level it was given last has passed; and what a search knows by then."""

    passed: bool = True
    known: Bracket = Bracket()


def linear(start: float, end: float | None, step: float, verdicts: Verdicts) -> Iterator[float]:
    """start, start + step ... up to `end` (None: no end), as long as each one passes; the first one in any case."""
    number = 0
    while True:
        value = start + number * step
        if number and (not verdicts.passed or (end is not None and value > end)):
            return
        yield value
        number += 1


def binary(start: float, end: float, step: float, verdicts: Verdicts, *, is_whole: bool) -> Iterator[float]:
    """The two ends, then the middle between the highest that passed and the lowest that failed."""
    yield start
    if not verdicts.passed:
        return
    yield end
    if verdicts.passed:
        return
    low, high = start, end
    while high - low > step:
        middle = (low + high) // 2 if is_whole else (low + high) / 2
        yield middle
        low, high = (middle, high) if verdicts.passed else (low, middle)


def bracket(start: float, precision: float, verdicts: Verdicts, *, is_whole: bool) -> Iterator[float]:
    """Up by doubling (down by halving) until the limit lies between two values, then halving the distance until they
    are within `precision` of each other, or neighbours. `verdicts.known` ends as the bracket."""
    known = verdicts.known
    value = start
    while True:
        yield value
        known = Bracket(value, known.high) if verdicts.passed else Bracket(known.low, value)
        verdicts.known = known
        if known.low is None:
            value = value / 2 if not is_whole else value // 2
            if value < (1 if is_whole else start / 1024):
                return
        elif known.high is None:
            value = value * 2
        else:
            if known.high / known.low <= 1 + precision or (is_whole and known.high - known.low <= 1):
                return
            value = (
                float(round((known.low + known.high) / 2))
                if is_whole
                else tidy((known.low * known.high) ** 0.5)
            )


def tidy(value: float) -> float:
    """Four digits are as much as anyone wants to read."""
    return float(f"{value:.4g}")
