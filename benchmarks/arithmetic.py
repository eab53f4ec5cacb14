"""Numbers out of numbers: marginal cost, medians, verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.bar import BenchError, Direction, Sample

HELD, MISSED, INFORMATION, NOT_MEASURED = "held", "MISSED", "-", "not measured"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run of a tool cost, and how many requests the server saw of it."""

    cpu_s: float
    requests: int


def marginal_us(short: Usage, long: Usage) -> float:
    """CPU microseconds for one more request: start-up and wind-down are in both runs and cancel out."""
    more = long.requests - short.requests
    if more <= 0:
        raise BenchError(
            f"the long run sent {long.requests} requests and the short one {short.requests}: "
            "nothing can be learned from the difference; give more --seconds"
        )
    return (long.cpu_s - short.cpu_s) / more * 1e6


def lag_us(sent_ns: Sequence[int], rate: float, p: float) -> float:
    """Percentile of how far sends lie behind a constant rate whose start is not known: behind the most punctual one."""
    gap_ns = 1e9 / rate
    behind = sorted(time - number * gap_ns for number, time in enumerate(sorted(sent_ns)))
    return (behind[min(len(behind) - 1, int(p / 100 * len(behind)))] - behind[0]) / 1e3


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of all rounds, and how far they lie apart."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def ratios(ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[float]:
    """Ours over theirs, round by round: what disturbs the machine disturbs both."""
    return [mine.value / other.value for mine, other in zip(ours, theirs, strict=True)]


def verdict(value: float, direction: Direction, target: float | None) -> str:
    if target is None:
        return INFORMATION
    is_held = value <= target if direction is Direction.AT_MOST else value >= target
    return HELD if is_held else MISSED


def middle_info(samples: Sequence[Sample]) -> dict[str, float]:
    """The median of each number that was noted beside the samples."""
    names = dict.fromkeys(name for sample in samples for name in sample.info)
    return {name: median([sample.info[name] for sample in samples if name in sample.info]) for name in names}


def starts_with_ours(round_number: int) -> bool:
    """Who goes first changes every round, so that neither always finds the machine warm."""
    return round_number % 2 == 0
