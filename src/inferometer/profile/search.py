"""Which level comes next: pure, told only whether the last one passed."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Verdicts:
    """Where the shell puts whether the level it was given last has passed."""

    passed: bool = True


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
