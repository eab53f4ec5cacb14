"""Client-side cost of the load of a level, window by window."""

from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.load.plan import Arrivals
from inferometer.load.workers import Collected, Cost
from inferometer.stats.series import Series
from inferometer.stats.windows import Expense


@dataclass(slots=True)
class ExpenseMeter:
    """Cost since the last closed window, and the requests that were due in it."""

    arrivals: tuple[Arrivals, ...]
    schedule_ns: int  # when the plan began
    cost: Cost  # at the end of the last closed window
    seen_ns: int
    due: int = 0  # by then
    loop_lags: Series = field(default_factory=Series)

    def __post_init__(self) -> None:
        self.due = self._due_by(self.seen_ns)

    def _due_by(self, time_ns: int) -> int:
        return sum(arrivals.by(time_ns - self.schedule_ns) for arrivals in self.arrivals)

    def add(self, collected: Collected) -> None:
        self.loop_lags.append(np.array([collected.loop_lag_ns]))

    def close(self, collected: Collected) -> Expense:
        old, new = self.cost, collected.cost
        due, self.due = self.due, self._due_by(collected.seen_ns)
        elapsed_ns = collected.seen_ns - self.seen_ns
        parts = (_spent(was, now, elapsed_ns) for was, now in zip(old.parts, new.parts, strict=True))
        expense = replace(
            _spent(old, new, elapsed_ns), due=self.due - due, loop_lags_ns=self.loop_lags, parts=tuple(parts)
        )
        self.cost, self.seen_ns, self.loop_lags = new, collected.seen_ns, Series()
        return expense


def _spent(old: Cost, new: Cost, elapsed_ns: int) -> Expense:
    return Expense(
        cpu_ns=tuple(now - then for now, then in zip(new.cpu_ns, old.cpu_ns, strict=True)),
        elapsed_ns=elapsed_ns,
        sent=new.sent - old.sent,
        reconnects=new.reconnects - old.reconnects,
        connects=new.connects - old.connects,
        connect_ns=new.connect_ns - old.connect_ns,
        files=new.files,
        file_limit=new.file_limit,
        stolen_ns=new.stolen_ns - old.stolen_ns,
        visits=new.visits - old.visits,
    )
