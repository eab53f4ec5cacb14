"""Cores with a queue each, as an operating system has them: who works where, how fast, and who is next to end.

Work that begins goes to the core where it was last, unless another one has less to do; a core with two jobs less than
another takes one over. So who hardly ever leaves its core keeps it, while those that come and go share what is left:
of three jobs on two cores, one may have a whole core for good. Jobs on the same core take turns, too short to matter.

All cores have one clock, which goes slower the more of them are busy. On a core with n jobs each gets 1/n of it.
"""

import math
from functools import cache
from heapq import heappop, heappush
from typing import Generic, TypeVar

from inferometer.diagnose.pipeline import Cores

_SLIGHTLY = 1e-6  # more than a whole number of cores is no further core
Work = TypeVar("Work")


class Core(Generic[Work]):
    """One of them; jobs end when its own clock says so."""

    __slots__ = ("jobs", "now_s", "seen_s", "version")

    def __init__(self) -> None:
        self.jobs: list[tuple[float, int, Work]] = []
        self.now_s = 0.0
        self.seen_s = 0.0  # by the clock of all cores, when this one was looked at last
        self.version = 0


class RunQueues(Generic[Work]):
    """Of so many cores; with `is_even` all jobs share all of them evenly, as if there were one that is faster."""

    def __init__(self, cores: Cores, *, is_even: bool = False) -> None:
        self._cores: list[Core[Work]] = []
        self._most = (
            1.0
            if is_even
            else max(1.0, math.ceil(cores.count - _SLIGHTLY) if cores.count < math.inf else math.inf)
        )
        self._is_even = is_even
        self._speed_of = cache(cores.work if is_even else cores.speed)
        self._ends: list[tuple[float, int, int, Core[Work]]] = []  # some of them out of date
        self._busy = 0
        self._now_s = 0.0
        self._pushed = 0
        self.jobs = 0
        self.speed = self._speed_of(1)

    def next_s(self) -> float:
        """Real time until the first job ends, if nothing comes in between."""
        ends = self._ends
        while ends and ends[0][1] != ends[0][3].version:
            heappop(ends)
        return (ends[0][0] - self._now_s) / self.speed if ends else math.inf

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds * self.speed

    def push(self, job: Work, seconds: float, home: Core[Work] | None) -> Core[Work]:
        """Tells where it works."""
        core = self._choice(home)
        self._look_at(core)
        self._pushed += 1
        self.jobs += 1
        heappush(core.jobs, (core.now_s + seconds, self._pushed, job))
        self._count(len(core.jobs) == 1)
        self._plan(core)
        return core

    def pop(self) -> tuple[Work, Core[Work]]:
        """The job that ends now, and where it worked. Call `balance` once what follows from it is known."""
        core = self._ends[0][3]
        self._look_at(core)
        job = heappop(core.jobs)[2]
        self.jobs -= 1
        self._count(-(not core.jobs))
        self._plan(core)
        return job, core

    def balance(self, core: Core[Work]) -> None:
        """A core that has got less to do takes over from the fullest."""
        if self.jobs <= self._busy:
            return
        fullest = max(self._cores, key=lambda row: len(row.jobs))
        if len(fullest.jobs) < len(core.jobs) + 2:
            return
        self._look_at(fullest)
        self._look_at(core)
        moved = max(fullest.jobs, key=lambda row: row[1])  # that came last
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
