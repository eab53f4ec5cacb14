"""Several groups of workers as one load: each executes the plan of one class of traffic, on a common clock.

The steps of a group are numbered after those of the previous groups, so that a record identifies its class.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from inferometer.base.errors import LocalError
from inferometer.base.frozen import frozen
from inferometer.base.units import Clock, monotonic_ns
from inferometer.load.plan import Closed, Joint, Open, Plan, Stairs
from inferometer.load.workers import HEAD_START_NS, ROUND_NS, Collected, Cost, Load
from inferometer.records.records import Records, Totals, join


@frozen
class Pace:
    """How far ahead the groups receive a schedule, in turn, and the interval between polls."""

    start_ns: int = HEAD_START_NS
    each_ns: int = HEAD_START_NS // 2
    round_ns: int = ROUND_NS


class Group(Load, Protocol):
    """A load whose schedule can start at a given time."""

    def apply(self, plan: Plan, start_ns: int | None = None) -> int: ...


@dataclass(slots=True)
class Together:
    """Load of all groups. `steps` is the number of different requests of each."""

    groups: Sequence[Group]
    steps: Sequence[int]
    clock: Clock = monotonic_ns
    pace: Pace = field(default_factory=Pace)
    taps: Sequence[Callable[[Records], None] | None] = ()  # each sees all records of its group
    _turn: int = 0  # the group that waits next
    _stairs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # remaining steps by group

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for group in self.groups for pid in getattr(group, "pids", ()))

    def apply(self, plan: Plan) -> int:
        """Apply the plan; schedules and stairs begin at the same moment, closed plans as soon as their workers receive
        them."""
        plans = _each(plan, len(self.groups))
        start_ns = self.clock() + self.pace.start_ns + self.pace.each_ns * len(self.groups)
        self._stairs = {}
        order = sorted(range(len(plans)), key=lambda number: not isinstance(plans[number], Open))
        for number in order:
            part = plans[number]
            if isinstance(part, Stairs):
                self._stairs[number] = [(start_ns + after_ns, height) for after_ns, height in part.steps]
                part = Closed(0)
            self.groups[number].apply(part, start_ns)
        return start_ns

    def wait(self, until_ns: int) -> None:
        while True:
            self._climb()
            now_ns = self.clock()
            if now_ns >= until_ns:
                return
            part_ns = min([until_ns, now_ns + ROUND_NS, *(rest[0][0] for rest in self._rests())])
            for group in self._in_turn():  # each group empties its rings
                group.wait(part_ns)

    def _in_turn(self) -> list[Group]:
        """Return all groups, starting with a different one each time, which gets the whole wait, in which clients
        compare clocks."""
        self._turn = (self._turn + 1) % len(self.groups)
        return [*self.groups[self._turn :], *self.groups[: self._turn]]

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        self.wait(min(until_ns, self.clock() + self.pace.round_ns))
        parts = [group.collect(0, with_running=with_running) for group in self.groups]
        for tap, part in zip(self.taps, parts, strict=False):
            if tap is not None:
                tap(part.records)
        running = [
            self._numbered(number, part.running)
            for number, part in enumerate(parts)
            if part.running is not None
        ]
        return Collected(
            records=join([self._numbered(number, part.records) for number, part in enumerate(parts)]),
            seen_ns=min(part.seen_ns for part in parts),
            cost=_sum([part.cost for part in parts]),
            is_finished=not self._rests() and all(part.is_finished for part in parts),
            loop_lag_ns=max(part.loop_lag_ns for part in parts),
            outstanding=sum(part.outstanding for part in parts),
            heard=sum(part.heard for part in parts),
            running=join(running) if running else None,
        )

    def examples(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for group in self.groups:
            found = {**group.examples(), **found}
        return found

    def examples_of(self, number: int) -> dict[int, str]:
        """Return the error examples of one group."""
        return self.groups[number].examples()

    def stop(self, *, is_urgent: bool = False) -> int:
        """Stop all groups from sending, then wait for each."""
        self._stairs = {}
        for group in self.groups:
            if not is_urgent:
                group.apply(Closed(0, 0))
        with ThreadPoolExecutor(len(self.groups)) as pool:  # no group waits for another to become silent
            return sum(pool.map(lambda group: group.stop(is_urgent=is_urgent), self.groups))

    def totals(self) -> Totals:
        parts = [group.totals() for group in self.groups]
        names = ("sent", "good", "failed", "withdrawn", "cut_off", "unsent", "resent")
        counts = {name: sum(getattr(part, name) for part in parts) for name in names}
        padded = [
            np.concatenate([part.steps, np.zeros(max(0, steps - len(part.steps)), dtype=np.int64)])[:steps]
            for part, steps in zip(parts, self.steps, strict=True)
        ]
        return Totals(**counts, steps=np.concatenate(padded))

    def _numbered(self, number: int, records: Records) -> Records:
        offset = sum(self.steps[:number])
        return replace(records, step=records.step + offset) if offset and len(records) else records

    def _rests(self) -> list[list[tuple[int, int]]]:
        return [rest for rest in self._stairs.values() if rest]

    def _climb(self) -> None:
        """Apply the next step of every stair that is due."""
        now_ns = self.clock()
        for number, rest in self._stairs.items():
            height = None
            while rest and rest[0][0] <= now_ns:
                height = rest.pop(0)[1]
            if height is not None:
                self.groups[number].apply(Closed(height))


def _each(plan: Plan, count: int) -> tuple[Closed | Open | Stairs, ...]:
    """Return the plan of each group; a plan that stops sending applies to all."""
    if isinstance(plan, Joint) and len(plan.plans) == count:
        return plan.plans
    if isinstance(plan, Closed) and plan.concurrency == 0:
        return (plan,) * count
    raise LocalError(f"{count} groups of workers need one plan each, but got {plan}")


def _sum(parts: Sequence[Cost]) -> Cost:
    return Cost(
        cpu_ns=tuple(spent for part in parts for spent in part.cpu_ns),
        sent=sum(part.sent for part in parts),
        reconnects=sum(part.reconnects for part in parts),
        connects=sum(part.connects for part in parts),
        connect_ns=sum(part.connect_ns for part in parts),
        files=max(part.files for part in parts),
        file_limit=max(part.file_limit for part in parts),
        stolen_ns=max(part.stolen_ns for part in parts),  # all groups share the machines
        parts=tuple(parts),
        visits=sum(part.visits for part in parts),
    )
