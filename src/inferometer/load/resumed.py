"""An open plan resumed in the middle: with a better estimate of the clock, or with requests of a lost sender.

Its requests keep their numbers in the whole plan. A worker starts with one progression of numbers and may
get more; it sends them in order. Requests that were due before it received them are not sent, to avoid a burst.
"""

from collections.abc import Sequence
from typing import NamedTuple, overload

from inferometer.load.plan import NEVER, Open, Schedule

ENDLESS = -1


class Progression(NamedTuple):
    """Requests first, first + stride, first + 2 * stride ... of a plan: `length` of them, or unlimited."""

    first: int
    stride: int
    length: int = ENDLESS

    def from_number(self, number: int) -> "Progression":
        """Return the progression without the numbers before `number`."""
        passed = max(0, -((self.first - number) // self.stride)) if number > self.first else 0
        count = self.length if self.length < 0 else max(0, self.length - passed)
        return Progression(self.first + passed * self.stride, self.stride, count)

    def split(self, parts: int) -> "tuple[Progression, ...]":
        """Divide the requests among this many senders, in turn."""
        return tuple(
            Progression(
                self.first + part * self.stride,
                self.stride * parts,
                self.length if self.length < 0 else self.length // parts + (part < self.length % parts),
            )
            for part in range(parts)
        )


class Timing(NamedTuple):
    """Start of a schedule on the sender's clock, and how much faster that clock runs than the schedule's."""

    start_ns: int
    quicker: float = 0.0  # 50e-6: it advances 1.00005 s per second of the schedule


class Resumed:
    """Schedule of the remaining requests, numbered from 0. Numbers must be requested in order."""

    __slots__ = ("_asked", "number", "parts", "quicker", "reached", "schedule")

    def __init__(
        self, schedule: Schedule, parts: list[Progression], quicker: float = 0.0, reached: int = 0
    ) -> None:
        self.schedule = schedule
        self.parts = parts  # not yet requested; a single part stays unchanged
        self.quicker = quicker
        # Number in the whole plan of the request returned last; NEVER when none is left.
        self.number = NEVER
        self.reached = reached  # the highest such number
        self._asked = -1

    @property
    def left(self) -> int:
        """Number of requests at the start; negative if unlimited."""
        counts = [part.length for part in self.parts]
        return ENDLESS if any(count < 0 for count in counts) else sum(counts)

    def due_ns(self, number: int) -> int:
        if len(self.parts) == 1:  # the usual case, on the hot path
            first, stride, count = self.parts[0]
            self.number = first + number * stride if count < 0 or number < count else NEVER
            self._asked = number
        while self._asked < number:
            self._advance()
        if self.number >= NEVER:
            return NEVER
        self.reached = self.number
        due_ns = self.schedule.due_ns(self.number)
        return due_ns if due_ns >= NEVER else due_ns + round(due_ns * self.quicker)

    def _advance(self) -> None:
        self._asked += 1
        going = [part for part in self.parts if part.length]
        if not going:
            self.number = NEVER
            return
        part = min(going)
        self.number = part.first
        count = part.length if part.length < 0 else part.length - 1
        self.parts[self.parts.index(part)] = Progression(part.first + part.stride, part.stride, count)

    def rest(self, left: int) -> list[Progression]:
        """Return the `left` unsent requests, including the one returned last."""
        if not left:
            return []
        if len(self.parts) == 1:
            return [Progression(self.reached, self.parts[0].stride, left)]
        return [Progression(self.reached, 1, 1), *self.parts]


class ResumedSteps(Sequence[int]):
    """Steps of the whole plan, indexed by the numbers of the rest."""

    __slots__ = ("schedule", "steps")

    def __init__(self, steps: Sequence[int], schedule: Resumed) -> None:
        self.steps = steps
        self.schedule = schedule

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: int | slice) -> int | Sequence[int]:
        """Return the step of the request whose due time was requested last."""
        return self.steps[self.schedule.number]


def adjusted(
    plan: Open, cap: int | None, number: int, left: int, more: Sequence[Progression], timing: Timing
) -> tuple[Open, int]:
    """Return the resumed plan, with another cap if it has one, and the number of its remaining requests."""
    if cap is not None and plan.cap is not None:
        plan = plan._replace(cap=cap)
    found = resumed(plan, number, left, more, timing)
    schedule = found.schedule
    assert isinstance(schedule, Resumed)
    return found, schedule.left


def resumed(plan: Open, number: int, left: int, more: Sequence[Progression], timing: Timing) -> Open:
    """Return `plan` from request `number` on, with `left` requests (negative: unlimited), plus `more`."""
    schedule, steps, parts = plan.schedule, plan.steps, [Progression(number, plan.stride, left)]
    if isinstance(schedule, Resumed):
        number, parts, schedule = schedule.reached, schedule.rest(left), schedule.schedule
    if isinstance(steps, ResumedSteps):
        steps = steps.steps
    parts += [part.from_number(number) for part in more]
    found = Resumed(schedule, [part for part in parts if part.length], timing.quicker, reached=number)
    given = None if steps is None else ResumedSteps(steps, found)
    return plan._replace(schedule=found, first=0, stride=1, steps=given)
