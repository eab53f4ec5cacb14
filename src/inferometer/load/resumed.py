"""An open plan that goes on in the middle: by a clock that is known better now, or with requests of a lost sender.

The numbers of its requests stay those of the whole plan. A worker has one progression of numbers to begin with, and may
get more; it sends them in order. What was due before it heard of them is not sent: nobody wants a burst of late ones.
"""

from collections.abc import Sequence
from typing import NamedTuple, overload

from inferometer.load.plan import NEVER, Open, Schedule

ENDLESS = -1


class Progression(NamedTuple):
    """Requests number first, first + stride, first + 2 * stride ... of a plan: `length` of them, or without end."""

    first: int
    stride: int
    length: int = ENDLESS

    def from_number(self, number: int) -> "Progression":
        """Without those before `number`."""
        passed = max(0, -((self.first - number) // self.stride)) if number > self.first else 0
        count = self.length if self.length < 0 else max(0, self.length - passed)
        return Progression(self.first + passed * self.stride, self.stride, count)

    def split(self, parts: int) -> "tuple[Progression, ...]":
        """The same requests for so many senders, in turns."""
        return tuple(
            Progression(
                self.first + part * self.stride,
                self.stride * parts,
                self.length if self.length < 0 else self.length // parts + (part < self.length % parts),
            )
            for part in range(parts)
        )


class Timing(NamedTuple):
    """When a schedule begins on the clock of the sender, and how much quicker that clock goes than the schedule's."""

    start_ns: int
    quicker: float = 0.0  # 50e-6: in a second of the schedule it goes on by 1.00005 s


class Resumed:
    """The schedule of the requests that are left, numbered from 0. Asked for in order."""

    __slots__ = ("_asked", "number", "parts", "quicker", "reached", "schedule")

    def __init__(
        self, schedule: Schedule, parts: list[Progression], quicker: float = 0.0, reached: int = 0
    ) -> None:
        self.schedule = schedule
        self.parts = parts  # with what was not asked for yet; where there is only one, it stays as it was
        self.quicker = quicker
        # In the whole plan, of the request that was asked for last; NEVER when there was none left.
        self.number = NEVER
        self.reached = reached  # the highest of these
        self._asked = -1

    @property
    def left(self) -> int:
        """Requests at first; below 0 without end."""
        counts = [part.length for part in self.parts]
        return ENDLESS if any(count < 0 for count in counts) else sum(counts)

    def due_ns(self, number: int) -> int:
        if len(self.parts) == 1:  # the usual case, on the way of every request
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
        """What was not sent, the request that was asked for last included: `left` in all."""
        if not left:
            return []
        if len(self.parts) == 1:
            return [Progression(self.reached, self.parts[0].stride, left)]
        return [Progression(self.reached, 1, 1), *self.parts]


class ResumedSteps(Sequence[int]):
    """Steps of the whole plan, asked for by what is left of it."""

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
        """Only of the request whose due time was asked for last."""
        return self.steps[self.schedule.number]


def adjusted(
    plan: Open, cap: int | None, number: int, left: int, more: Sequence[Progression], timing: Timing
) -> tuple[Open, int]:
    """The resumed plan, with another cap where it has one, and the number of requests left in it."""
    if cap is not None and plan.cap is not None:
        plan = plan._replace(cap=cap)
    found = resumed(plan, number, left, more, timing)
    schedule = found.schedule
    assert isinstance(schedule, Resumed)
    return found, schedule.left


def resumed(plan: Open, number: int, left: int, more: Sequence[Progression], timing: Timing) -> Open:
    """`plan` from its request `number` on, of which `left` are to come (below 0: without end), and `more`."""
    schedule, steps, parts = plan.schedule, plan.steps, [Progression(number, plan.stride, left)]
    if isinstance(schedule, Resumed):
        number, parts, schedule = schedule.reached, schedule.rest(left), schedule.schedule
    if isinstance(steps, ResumedSteps):
        steps = steps.steps
    parts += [part.from_number(number) for part in more]
    found = Resumed(schedule, [part for part in parts if part.length], timing.quicker, reached=number)
    given = None if steps is None else ResumedSteps(steps, found)
    return plan._replace(schedule=found, first=0, stride=1, steps=given)
