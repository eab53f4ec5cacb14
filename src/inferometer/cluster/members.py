"""The controller's view of its clients: delivered records, clocks and losses."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.base.errors import LocalError
from inferometer.base.frozen import frozen
from inferometer.cluster.blocks import unpack
from inferometer.cluster.clock import ClientClock, records_by_our_clock
from inferometer.cluster.messages import ClientReport, Kept
from inferometer.cluster.network import Client
from inferometer.load.plan import NEVER
from inferometer.load.resumed import Progression
from inferometer.load.workers import Cost
from inferometer.records.records import Records, Totals
from inferometer.records.spool import retimed


@frozen
class Loss:
    """The loss of a client."""

    at_ns: int  # when it was noticed
    why: str
    outstanding: int  # requests in flight as of its last report
    silent_ns: int  # time since that report, or since the load's start
    is_taken_over: bool  # the others send the rest of its share


@dataclass(slots=True, eq=False)
class Member:
    """A client of the load."""

    client: Client
    workers: int
    clock: ClientClock = field(default_factory=ClientClock)
    report: ClientReport | None = None  # the last one, without its records
    before: Totals = field(default_factory=Totals)  # of replaced workers
    delivered: Totals = field(default_factory=Totals)
    totals: Totals | None = None  # set when its load has stopped
    loss: Loss | None = None
    parts: list[tuple[Progression, ...]] = field(default_factory=list)  # of the open plan, per worker
    spool_fds: Sequence[int] = ()  # for the exported requests of its workers
    spool_problem: str = ""
    compared_ns: int = 0  # when its clock was last compared
    _rests: dict[int, bytes] = field(default_factory=dict)  # incomplete exported requests, by worker

    @property
    def name(self) -> str:
        return f"{self.client.name} ({self.client.place})" if self.client.place else self.client.name

    def take(self, report: ClientReport) -> Records:
        """Take a report and return its records by our clock."""
        records = records_by_our_clock(unpack(report.block), self.clock)
        self.delivered = self.delivered.and_records(records) if len(records) else self.delivered
        self.keep(report.kept, report.seen_ns)
        self.spool_problem = self.spool_problem or report.spool_problem
        self.report = replace(report, block=b"", kept=Kept(), running=b"")
        return records

    def running(self, report: ClientReport) -> Records:
        """Return the requests in flight, by our clock."""
        return records_by_our_clock(unpack(report.running), self.clock)

    def keep(self, kept: Kept, until_ns: int = NEVER) -> None:
        """Write the exported requests; those that ended after the reported records wait for these."""
        for worker, data in enumerate(kept.parts):
            whole = self._rests.get(worker, b"") + data
            taken, self._rests[worker] = retimed(whole, until_ns, self._ours)
            if not self.spool_problem:
                self._write(self.spool_fds[worker], taken)

    def _ours(self, times: list[int]) -> list[int]:
        found: list[int] = self.clock.to_ours(np.array(times, dtype=np.int64)).tolist()
        return found

    def _write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            self.spool_problem = error.strerror or str(error)

    def all_totals(self) -> Totals:
        """Return the totals of the client's requests, as far as they are known."""
        if self.totals is not None:
            return self.totals
        report = self.report
        sent, resent = (0, 0) if report is None else (report.cost.sent, report.resent)
        found = self.before + self.delivered
        return replace(found, sent=self.before.sent + sent, resent=resent or found.resent)


def together(members: Sequence[Member]) -> Cost:
    """Sum the cost of all clients; for a lost one, as of its last report."""
    reports = [member.report for member in members if member.report is not None]
    costs = [report.cost for report in reports]
    limits = [cost.file_limit for cost in costs if cost.file_limit]
    stolen = {
        member.client.place: member.report.cost.stolen_ns for member in members if member.report is not None
    }
    return Cost(
        cpu_ns=tuple(used for member in members for used in _cpu_ns(member)),
        sent=sum(cost.sent for cost in costs),
        reconnects=sum(cost.reconnects for cost in costs),
        connects=sum(cost.connects for cost in costs),
        connect_ns=sum(cost.connect_ns for cost in costs),
        files=max((cost.files for cost in costs), default=0),
        file_limit=min(limits, default=0),
        stolen_ns=sum(stolen.values()),
        visits=sum(cost.visits for cost in costs),
    )


def _cpu_ns(member: Member) -> tuple[int, ...]:
    return (0,) * member.workers if member.report is None else member.report.cost.cpu_ns


def all_lost(members: Sequence[Member]) -> LocalError:
    """Return the error for the loss of all clients."""
    last = max(members, key=lambda member: 0 if member.loss is None else member.loss.at_ns)
    assert last.loss is not None
    what = "the only client" if len(members) == 1 else f"all {len(members)} clients"
    return LocalError(
        f"{what} of the load {'was' if len(members) == 1 else 'were'} lost, {last.name} last: {last.loss.why}",
        remedy="the results so far are kept; check the clients' machines",
    )
