"""Times that are fixed, drawn from a distribution, or recorded: pauses of tools, think times of users."""

import math
import re
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns

_DRAWN = re.compile(r"(uniform|exponential|lognormal)\(([^()]*)\)")
_EXAMPLE = "write 300ms, uniform(1s, 3s), exponential(2s), lognormal(2s, 0.5) or a list of recorded times"
_LONGEST_S = 24 * 3600.0
_MOST_SIGMA = 5.0
_BITS = (1 << 64) - 1


class DrawnTime(NamedTuple):
    """A time in nanoseconds: fixed, drawn, or recorded."""

    kind: str = "fixed"  # fixed, uniform, exponential, lognormal or recorded
    first: float = 0.0  # the time, the lowest, the mean, or the median
    second: float = 0.0  # the highest, or the standard deviation of the logarithm
    recorded: tuple[int, ...] = ()

    def draw_ns(self, seed: int, task: int, node: int) -> int:
        """Return the time for this node of a task; it does not depend on the order in which times are drawn."""
        if self.kind == "fixed":
            return round(self.first)
        if self.kind == "recorded":
            return self.recorded[(task + node) % len(self.recorded)]
        share = _uniform(seed, task, node)
        if self.kind == "uniform":
            return round(self.first + share * (self.second - self.first))
        if self.kind == "exponential":
            return round(-self.first * math.log(share))
        # Box-Muller needs a second number; it is independent of the first.
        other = _uniform(seed ^ 0x5DEECE66D, task, node)
        normal = math.sqrt(-2 * math.log(share)) * math.cos(2 * math.pi * other)
        return round(self.first * math.exp(self.second * normal))


def _uniform(seed: int, task: int, node: int) -> float:
    """Return a pseudo-random number above 0 and below 1, computed from the three arguments (SplitMix64)."""
    state = (seed * 0x9E3779B97F4A7C15 + task * 0xBF58476D1CE4E5B9 + node + 1) & _BITS
    for _ in range(2):
        state = (state + 0x9E3779B97F4A7C15) & _BITS
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _BITS
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & _BITS
        state ^= state >> 31
    return ((state >> 11) + 0.5) / (1 << 53)


NO_TIME = DrawnTime()


class ThinkTime(NamedTuple):
    """Think times of users, who pause between an answer and their next request. The same seed gives the same times."""

    time: DrawnTime
    seed: int = 0
    worker: int = 0

    def first_ns(self, user: int) -> int:
        """Return the pause of a user before its first request: users start in the middle of a think time."""
        whole = DrawnTime("uniform", 0, self.time.draw_ns(self.seed, self._place(user), 0))
        return whole.draw_ns(~self.seed, self._place(user), 0)

    def next_ns(self, user: int, number: int) -> int:
        """Return the pause of a user after this answer, counted from 1."""
        return self.time.draw_ns(self.seed, self._place(user), number)

    def _place(self, user: int) -> int:
        return self.worker << 32 | user


def parse_time(value: Any) -> DrawnTime:
    """Parse a time, a distribution, or recorded times; a ValueError says what is wrong."""
    if isinstance(value, DrawnTime):
        return value
    if isinstance(value, list | tuple):
        times = tuple(round(_time(each) * NS_PER_S) for each in value)
        if not times:
            raise ValueError(f"the list of recorded times is empty; {_EXAMPLE}")
        return DrawnTime("recorded", recorded=times)
    found = _DRAWN.fullmatch(str(value).strip())
    if found is None:
        return DrawnTime("fixed", _time(value) * NS_PER_S)
    kind, words = found[1], [word.strip() for word in found[2].split(",")]
    if len(words) != (1 if kind == "exponential" else 2):
        raise ValueError(f"'{value}' has {len(words)} values; {_EXAMPLE}")
    first = _time(words[0])
    if kind == "exponential":
        return DrawnTime(kind, first * NS_PER_S)
    if kind == "uniform":
        second = _time(words[1])
        if second < first:
            raise ValueError(f"'{value}' ends before it begins; write uniform({words[1]}, {words[0]})")
        return DrawnTime(kind, first * NS_PER_S, second * NS_PER_S)
    try:
        sigma = float(words[1])
    except ValueError:
        sigma = -1.0
    if not 0 <= sigma <= _MOST_SIGMA:
        raise ValueError(
            f"'{words[1]}' in '{value}' is not a spread; lognormal takes the median and the standard deviation of "
            "the logarithm, such as lognormal(2s, 0.5)"
        )
    return DrawnTime(kind, first * NS_PER_S, sigma)


def _time(value: Any) -> float:
    try:
        found = (
            float(value) if type(value) in (int, float) else parse_duration_ns(str(value), "it") / NS_PER_S
        )
    except (UsageError, OverflowError):
        raise ValueError(f"'{value}' is not a pause; {_EXAMPLE}") from None
    if not 0 <= found <= _LONGEST_S:
        raise ValueError(f"'{value}' is not a pause from 0 s to 24 h")
    return found


def written_time(time: DrawnTime) -> Any:
    """Return a time as it is written in a file."""
    first, second = time.first / NS_PER_S, time.second
    if time.kind == "recorded":
        return [each / NS_PER_S for each in time.recorded]
    if time.kind == "fixed":
        return first
    if time.kind == "exponential":
        return f"exponential({first}s)"
    if time.kind == "uniform":
        return f"uniform({first}s, {second / NS_PER_S}s)"
    return f"lognormal({first}s, {second})"
