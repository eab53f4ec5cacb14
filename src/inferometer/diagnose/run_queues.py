"""Cores with a run queue each, as in an operating system.

A job starts on the core where it last ran, unless another core has less to do; a core with two jobs fewer than another
one takes one over. A job that hardly ever leaves its core therefore keeps it, while jobs that come and go share the
rest: of three jobs on two cores, one may have a whole core permanently. Jobs on the same core take turns, in slices too
short to matter.

All cores have one clock, which is slower the more of them are busy. On a core with n jobs each job gets 1/n of it.
"""

import math
from functools import cache
from heapq import heappop, heappush
from typing import Generic, TypeVar

from inferometer.diagnose.pipeline import Cores

_SLIGHTLY = 1e-6  # excess over a whole number of cores that is ignored
Work = TypeVar("Work")


class Core(Generic[Work]):
    """A core, whose jobs end by its own clock."""

    __slots__ = ("jobs", "now_s", "seen_s", "version")

    def __init__(self) -> None:
        self.jobs: list[tuple[float, int, Work]] = []
        self.now_s = 0.0
        self.seen_s = 0.0  # time on the common clock of the last update
        self.version = 0


class RunQueues(Generic[Work]):
    """Run queues of all cores; with `is_even` all jobs share them evenly, as if there were a single faster core."""

    def __init__(self, cores: Cores, *, is_even: bool = False) -> None:
        self._cores: list[Core[Work]] = []
        self._most = (
            1.0
            if is_even
            else max(1.0, math.ceil(cores.count - _SLIGHTLY) if cores.count < math.inf else math.inf)
        )
        self._is_even = is_even
        self._speed_of = cache(cores.work if is_even else cores.speed)
        self._ends: list[tuple[float, int, int, Core[Work]]] = []  # may contain outdated entries
        self._busy = 0
        self._now_s = 0.0
        self._pushed = 0
        self.jobs = 0
        self.speed = self._speed_of(1)

    def next_s(self) -> float:
        """Return the real time until the first job ends, if nothing happens before."""
        ends = self._ends
        while ends and ends[0][1] != ends[0][3].version:
            heappop(ends)
        return (ends[0][0] - self._now_s) / self.speed if ends else math.inf

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds * self.speed

    def push(self, job: Work, seconds: float, home: Core[Work] | None) -> Core[Work]:
        """Start a job and return its core."""
        core = self._choice(home)
        self._look_at(core)
        self._pushed += 1
        self.jobs += 1
        heappush(core.jobs, (core.now_s + seconds, self._pushed, job))
        self._count(len(core.jobs) == 1)
        self._plan(core)
        return core

    def pop(self) -> tuple[Work, Core[Work]]:
        """Remove the job that ends now, and return it with its core. Call `balance` after its consequences are
        known."""
        core = self._ends[0][3]
        self._look_at(core)
        job = heappop(core.jobs)[2]
        self.jobs -= 1
        self._count(-(not core.jobs))
        self._plan(core)
        return job, core

    def balance(self, core: Core[Work]) -> None:
        """Let a core that has less to do take over a job from the busiest core."""
        if self.jobs <= self._busy:
            return
        fullest = max(self._cores, key=lambda row: len(row.jobs))
        if len(fullest.jobs) < len(core.jobs) + 2:
            return
        self._look_at(fullest)
        self._look_at(core)
        moved = max(fullest.jobs, key=lambda row: row[1])  # the most recent arrival
        fullest.jobs = sorted(row for row in fullest.jobs if row is not moved)
        heappush(core.jobs, (core.now_s + moved[0] - fullest.now_s, *moved[1:]))
        self._count(len(core.jobs) == 1)
        self._plan(fullest)
        self._plan(core)

    def _choice(self, home: Core[Work] | None) -> Core[Work]:
        if home is not None and not home.jobs:
            return home
        if self._busy == len(self._cores) and self._busy < self._most:
            self._cores.append(Core())
            return self._cores[-1]
        least = min(self._cores, key=lambda row: len(row.jobs))
        return least if home is None or len(least.jobs) < len(home.jobs) else home

    def _look_at(self, core: Core[Work]) -> None:
        if core.jobs:
            core.now_s += (self._now_s - core.seen_s) / len(core.jobs)
        core.seen_s = self._now_s

    def _count(self, more: int) -> None:
        self._busy += more
        self.speed = self._speed_of(max(1, self.jobs if self._is_even else self._busy))

    def _plan(self, core: Core[Work]) -> None:
        core.version += 1
        if core.jobs:
            end_s = self._now_s + (core.jobs[0][0] - core.now_s) * len(core.jobs)
            self._pushed += 1
            heappush(self._ends, (end_s, core.version, self._pushed, core))
