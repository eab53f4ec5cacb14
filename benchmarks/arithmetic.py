"""Marginal cost, medians and verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.bar import BenchError, Direction, Sample

HELD, MISSED, INFORMATION, NOT_MEASURED = "held", "MISSED", "-", "not measured"


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU cost of a run of a tool, and the number of its requests that the server counted."""

    cpu_s: float
    requests: int


def marginal_us(short: Usage, long: Usage) -> float:
    """CPU microseconds per additional request: start-up and shutdown are in both runs and cancel out."""
    more = long.requests - short.requests
    if more <= 0:
        raise BenchError(
            f"the long run sent {long.requests} requests and the short one {short.requests}: "
            "the difference is too small; give more --seconds"
        )
    return (long.cpu_s - short.cpu_s) / more * 1e6


def lag_us(sent_ns: Sequence[int], rate: float, p: float) -> float:
    """Percentile of the lag of sends behind a constant rate of unknown start, relative to the most punctual send."""
    gap_ns = 1e9 / rate
    behind = sorted(time - number * gap_ns for number, time in enumerate(sorted(sent_ns)))
    return (behind[min(len(behind) - 1, int(p / 100 * len(behind)))] - behind[0]) / 1e3


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of all rounds, and their range."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def ratios(ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[float]:
    """Ratios of ours to theirs, round by round: disturbances of the machine affect both."""
    return [mine.value / other.value for mine, other in zip(ours, theirs, strict=True)]


def verdict(value: float, direction: Direction, target: float | None) -> str:
    if target is None:
        return INFORMATION
    is_held = value <= target if direction is Direction.AT_MOST else value >= target
    return HELD if is_held else MISSED


def middle_info(samples: Sequence[Sample]) -> dict[str, float]:
    """The median of each additional number of the samples."""
    names = dict.fromkeys(name for sample in samples for name in sample.info)
    return {name: median([sample.info[name] for sample in samples if name in sample.info]) for name in names}


def starts_with_ours(round_number: int) -> bool:
    """Whether ours runs first: the order alternates, so that neither tool always finds a warm machine."""
    return round_number % 2 == 0
