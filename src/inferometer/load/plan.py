"""Plans that determine when requests are sent: pure numbers, no clock.

A closed plan keeps a number of requests outstanding. An open plan follows a schedule: request n is due at a time that
does not depend on the server, so a slow server cannot slow down the load. A periodic plan
adds requests as the streams of earlier ones progress.
"""

import bisect
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from inferometer.base.drawn_times import ThinkTime
from inferometer.base.errors import LocalError, Name, UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns

NEVER = 1 << 62
ROUNDING = 1e-6  # fraction of a request: sums of rates and times are not exact


class Closed(NamedTuple):
    """Keep `concurrency` requests outstanding; stop after `count` if given."""

    concurrency: int
    count: int | None = None  # type: ignore[assignment]  # nobody calls tuple.count on a plan
    ramp_ns: int = 0  # time over which idle slots start, evenly
    phase: float = 0.0  # of this worker among those that share the ramp, from 0 to 1
    think: ThinkTime | None = None  # pause of a slot between an answer and its next request

    def share(self, index: int, parts: int) -> "Closed":
        """Return the share of worker `index`; the first workers take the remainder."""
        return self._replace(
            concurrency=_share(self.concurrency, index, parts),
            count=_maybe_share(self.count, index, parts),
            phase=index / parts,
            think=None if self.think is None else self.think._replace(worker=index),
        )

    def starts_ns(self, slots: int, now_ns: int, last_ns: int | None) -> list[int]:
        """Return the start time of each of the idle slots; `last_ns` is the latest earlier start."""
        spacing = self.ramp_ns / slots
        first_ns = now_ns + self.phase * spacing if last_ns is None else max(now_ns, last_ns + spacing)
        return [round(first_ns + number * spacing) for number in range(slots)]


class Schedule(Protocol):
    """Due times of requests 0, 1, 2 ... in nanoseconds after the start; they never decrease."""

    def due_ns(self, number: int) -> int:
        """Return the due time of a request; NEVER after the end of the schedule."""


class Arrivals:
    """Number of requests of an open plan due by a time; times must not decrease."""

    def __init__(self, plan: "Open") -> None:
        self._plan = plan
        self._number = 0
        schedule = plan.schedule
        # A random schedule can only be traversed once, and the sender traverses the plan's own.
        self._schedule: Schedule = (
            Renewal(schedule.rate, schedule.seed, schedule.until_ns, schedule.gaps)
            if isinstance(schedule, Renewal)
            else schedule
        )

    def by(self, after_ns: int) -> int:
        """Return the number due in the whole plan, over all workers; `after_ns` is the time since its start."""
        due_ns, number = self._schedule.due_ns, self._number
        if isinstance(self._schedule, Renewal):
            while due_ns(number) <= after_ns:
                number += 1
        else:
            number = bisect.bisect_right(range(NEVER), after_ns, lo=number, key=due_ns)
        self._number = number
        return number if self._plan.count is None else min(number, self._plan.count)


class Open(NamedTuple):
    """Send each request when it is due; with `cap`, only when fewer than that are outstanding.

    With `steps`, request n sends step `steps[n]` of the dataset; without, steps are sent in order.
    """

    schedule: Schedule
    cap: int | None = None
    count: int | None = None  # type: ignore[assignment]  # nobody calls tuple.count on a plan
    steps: Sequence[int] | None = None
    first: int = 0  # this worker's requests are first, first + stride, first + 2 * stride ...
    stride: int = 1

    def share(self, index: int, parts: int) -> "Open":
        """Return the share of worker `index` of `parts`: every request whose number has that remainder."""
        return self._replace(
            cap=None if self.cap is None else max(1, _share(self.cap, index, parts)),
            count=_maybe_share(self.count, index, parts),
            first=index,
            stride=parts,
        )


class Periodic(NamedTuple):
    """Start with `start` requests; add `step` whenever the latest have received `period` responses, up to `end`."""

    start: int
    end: int
    step: int
    period: int
    count: None = None  # type: ignore[assignment]

    def share(self, index: int, parts: int) -> "Periodic | Closed":
        """Return the whole plan for the first worker: a batch is complete only when all its requests are."""
        return Closed(0, 0) if index else self


class Stairs(NamedTuple):
    """A changing concurrency: (nanoseconds after the start, requests outstanding from then on), in order."""

    steps: tuple[tuple[int, int], ...]

    def at(self, after_ns: int) -> int:
        """Return the concurrency at this time."""
        return next(
            (concurrency for start_ns, concurrency in reversed(self.steps) if start_ns <= after_ns), 0
        )


class Joint(NamedTuple):
    """Plans that start together, one per class of traffic. `Together` gives each to the workers of its class."""

    plans: tuple["Closed | Open | Stairs", ...]
    count: None = None  # type: ignore[assignment]

    def share(self, index: int, parts: int) -> "Plan":
        raise LocalError("a joint plan requires several groups of workers, but only one group received it")


Plan = Closed | Open | Periodic | Joint


class Cancellation(NamedTuple):
    """Cancel a share of the requests a fixed time after they were sent, unless they have ended by then, like users who
    close the page before the answer is complete."""

    after_ns: int
    share: float  # 0 to 1
    seed: int = 0

    def draws(self, worker: int) -> Iterator[bool]:
        """Yield for each request of this worker whether to cancel it; the same seed gives the same draws."""
        draw = random.Random(f"cancel {self.seed} {worker}")
        while True:
            yield draw.random() < self.share


def open_plans(plan: Plan) -> "tuple[Open, ...]":
    """Return the open plans among its parts."""
    parts = plan.plans if isinstance(plan, Joint) else (plan,)
    return tuple(part for part in parts if isinstance(part, Open))


def is_all_open(plan: Plan) -> bool:
    """Return whether all its parts are open plans."""
    return isinstance(plan, Open) or (isinstance(plan, Joint) and len(open_plans(plan)) == len(plan.plans))


def _share(total: int, index: int, parts: int) -> int:
    return total // parts + (index < total % parts)


def _maybe_share(total: int | None, index: int, parts: int) -> int | None:
    return None if total is None else _share(total, index, parts)


class Constant(NamedTuple):
    """A fixed rate: the first request is due one period after the start."""

    rate: float  # requests per second

    def due_ns(self, number: int) -> int:
        return round((number + 1) * NS_PER_S / self.rate)  # absolute, so lateness never accumulates


def _exponential(draw: random.Random, rate: float, _: float) -> float:
    return draw.expovariate(rate)


def _gamma(draw: random.Random, rate: float, shape: float) -> float:
    return draw.gammavariate(shape, 1 / (rate * shape))


def _weibull(draw: random.Random, rate: float, shape: float) -> float:
    return draw.weibullvariate(1 / (rate * math.gamma(1 + 1 / shape)), shape)


_DRAWS: Mapping[str, Callable[[random.Random, float, float], float]] = {
    "poisson": _exponential,
    "gamma": _gamma,
    "weibull": _weibull,
}


class Gaps(NamedTuple):
    """Distribution of the gaps between arrivals: constant, or a name of `_DRAWS` with its shape parameter.

    The mean gap is 1 / rate for every shape. A shape of 1 makes gamma and Weibull gaps exponential; a smaller one makes
    arrivals burstier, a larger one more regular.
    """

    distribution: str = "poisson"
    burstiness: float = 1.0

    def gap_s(self, draw: random.Random, rate: float) -> float:
        """Draw a gap in seconds."""
        return _DRAWS[self.distribution](draw, rate, self.burstiness)


REGULAR = Gaps("constant")
EXPONENTIAL = Gaps()


class Renewal:
    """Arrivals with independent random gaps at a mean rate; the same seed gives the same arrivals in every worker."""

    def __init__(
        self, rate: float, seed: int = 0, until_ns: int | None = None, gaps: Gaps = EXPONENTIAL
    ) -> None:
        self.rate = rate
        self.seed = seed
        self.until_ns = NEVER if until_ns is None else until_ns  # no request is due after this
        self.gaps = gaps
        self._due: list[int] = []
        self._base = 0  # number of the first request in `_due`
        self._random: random.Random | None = None
        self._last_s = 0.0

    def due_ns(self, number: int) -> int:
        """Return the due time; numbers must not decrease, since earlier ones are discarded."""
        if self._random is None:
            self._random = random.Random(self.seed)
        while number - self._base >= len(self._due):
            self._extend()
        due_ns = self._due[number - self._base]
        return due_ns if due_ns < self.until_ns else NEVER

    def _extend(self) -> None:
        assert self._random is not None
        keep = self._due[-1:]
        self._base += len(self._due) - len(keep)
        for _ in range(512):
            self._last_s += self.gaps.gap_s(self._random, self.rate)
            keep.append(round(self._last_s * NS_PER_S))
        self._due = keep


Poisson = Renewal  # exponential gaps are the default


def schedule_at(rate: float, seed: int, gaps: Gaps) -> Schedule:
    """Return the schedule of a rate whose arrivals are constant, or random with these gaps."""
    return Constant(rate) if gaps.distribution == "constant" else Renewal(rate, seed, gaps=gaps)


class Intervals(NamedTuple):
    """Repeating gaps; the first request is due after the first gap."""

    times_ns: tuple[int, ...]  # cumulative gaps of one round

    def due_ns(self, number: int) -> int:
        rounds, place = divmod(number, len(self.times_ns))
        return rounds * self.times_ns[-1] + self.times_ns[place]


class Listed(NamedTuple):
    """Due times from a list, without repetition."""

    times_ns: tuple[int, ...]

    def due_ns(self, number: int) -> int:
        return self.times_ns[number] if number < len(self.times_ns) else NEVER


class Ramps:
    """Periods in each of which the rate changes linearly from one value to another.

    Within a piece the number of requests due by time t is a t + b t²; request n is due when it reaches n + 1.
    """

    def __init__(self, pieces: "tuple[Piece, ...]") -> None:
        self.pieces = pieces
        self._ends = tuple(accumulate(map(_requests_in, pieces)))  # requests due by the end of each piece
        self._starts_ns = tuple(accumulate((duration for duration, _, _ in pieces), initial=0))

    @property
    def count(self) -> int:
        """Total number of requests."""
        return int(self._ends[-1] + ROUNDING)

    def due_ns(self, number: int) -> int:
        at = bisect.bisect_left(self._ends, number + 1 - ROUNDING)
        if at == len(self.pieces):
            return NEVER
        duration, start, end = self.pieces[at]
        wanted = number + 1 - (self._ends[at - 1] if at else 0.0)
        into_ns = round(_time_of(wanted, duration / NS_PER_S, start, end) * NS_PER_S)
        return self._starts_ns[at] + min(duration, into_ns)


def _requests_in(piece: tuple[int, float, float]) -> float:
    duration, start, end = piece
    return (start + end) / 2 * duration / NS_PER_S


def _time_of(wanted: float, duration_s: float, start: float, end: float) -> float:
    """Return when a rate that changes from start to end has produced `wanted` requests."""
    slope = (end - start) / duration_s
    if abs(slope) < 1e-9:
        return wanted / start
    return float((-start + (max(0.0, start * start + 2 * slope * wanted)) ** 0.5) / slope)


class Excerpt:
    """Excerpt of a longer schedule between two times; due times count from the first of them."""

    def __init__(self, schedule: Schedule, from_ns: int, until_ns: int) -> None:
        self.schedule = schedule
        self.from_ns = from_ns
        self.until_ns = until_ns
        self.first = self._due_before(from_ns)  # number of its first request in the whole schedule

    def _due_before(self, time_ns: int) -> int:
        return bisect.bisect_left(range(NEVER), time_ns, key=self.schedule.due_ns)

    @property
    def count(self) -> int:
        """Total number of requests."""
        return self._due_before(self.until_ns) - self.first

    def due_ns(self, number: int) -> int:
        due_ns = self.schedule.due_ns(self.first + number)
        return due_ns - self.from_ns if due_ns < self.until_ns else NEVER


def from_mid_period(schedule: Schedule, rate: float, length_ns: int = NEVER) -> Excerpt:
    """Return the schedule shifted earlier by half a period of this rate, so that a period has as many requests as its
    rate says and none is due exactly at its end. No request is due after `length_ns`."""
    half_ns = round(NS_PER_S / rate / 2)
    return Excerpt(schedule, half_ns, min(NEVER, half_ns + length_ns))


# --- shapes: a changing rate in words, such as `ramp 10..500 over 60s then hold 500 for 2m`
#
#    shape = piece { ("then" | ",") piece }
#    piece = "ramp" RATE ".." RATE "over" TIME
#          | "hold" RATE "for" TIME
#          | "burst" RATE ["on" RATE] "for" TIME "every" TIME ["over" TIME]
#
# Rates are requests per second. A burst is at the beginning of each period; the rest of the period has the rate
# given with `on`, or 0. Without `over` there is one period.

OPTION = Name("--shape-load", "shape_load")
MOST_PIECES = 100_000
_HELP = (
    "write 'ramp 10..500 over 60s', 'hold 100 for 30s' or 'burst 500 on 50 for 1s every 10s over 1m', "
    "separated by 'then' or commas"
)
_RATE = r"(\d+(?:\.\d+)?)(?:/s)?"
_TIME = r"(\d\S*)"

Piece = tuple[int, float, float]  # duration ns, rate at its start, rate at its end


def parse_shape(text: str) -> Ramps:
    """Return the schedule described by the text; raise a UsageError that names the invalid piece."""
    pieces: list[Piece] = []
    words = re.split(r"\s*,\s*(?:then\s)?|\s+then\s+", " ".join(text.lower().split()))
    for number, piece in enumerate(words, start=1):
        pieces += _piece(piece.strip(), f"piece {number} of {OPTION}")
        if len(pieces) > MOST_PIECES:
            raise UsageError(
                f"{OPTION} '{text}' has more than {MOST_PIECES} bursts", remedy="give a longer period"
            )
    schedule = Ramps(tuple(pieces))
    if not schedule.count:
        raise UsageError(
            f"{OPTION} '{text}' ends before its first request is due", remedy="give a higher rate"
        )
    return schedule


def _piece(text: str, where: str) -> list[Piece]:
    for pattern, make in _FORMS:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return list(make(found, where))
    raise UsageError(f"{where} is '{text}', which is not a ramp, hold or burst", remedy=_HELP)


def _ramp(found: re.Match[str], where: str) -> Iterator[Piece]:
    yield _duration(found[3], where), float(found[1]), float(found[2])


def _hold(found: re.Match[str], where: str) -> Iterator[Piece]:
    yield _duration(found[2], where), float(found[1]), float(found[1])


def _burst(found: re.Match[str], where: str) -> Iterator[Piece]:
    rate, base = float(found[1]), float(found[2] or 0)
    length, period = _duration(found[3], where), _duration(found[4], where)
    if length >= period:
        raise UsageError(
            f"{where} has bursts of {found[3]} every {found[4]}, which leaves no gap between them",
            remedy="make the period longer than the burst, or use hold",
        )
    left = period if found[5] is None else _duration(found[5], where)
    if left // period > MOST_PIECES:
        raise UsageError(f"{where} has more than {MOST_PIECES} bursts", remedy="give a longer period")
    while left > 0:
        yield min(length, left), rate, rate
        if left > length:
            yield min(period, left) - length, base, base
        left -= period


def _duration(text: str, where: str) -> int:
    try:
        duration = parse_duration_ns(text, where)
    except OverflowError as error:
        raise UsageError(f"{where} has the duration '{text}', which is too long", remedy=_HELP) from error
    if duration <= 0:
        raise UsageError(
            f"{where} has the duration '{text}'", remedy="give one above 0, such as 500ms or 10s"
        )
    return duration


_FORMS: tuple[tuple[str, Callable[[re.Match[str], str], Iterator[Piece]]], ...] = (
    (rf"ramp {_RATE} ?\.\. ?{_RATE} over {_TIME}", _ramp),
    (rf"hold {_RATE} for {_TIME}", _hold),
    (rf"burst {_RATE}(?: on {_RATE})? for {_TIME} every {_TIME}(?: over {_TIME})?", _burst),
)
