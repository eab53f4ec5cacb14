"""The path to the server, from the reports of all workers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inferometer.base import status
from inferometer.records.path import MOST_OPENINGS, Opening, PathReport
from inferometer.records.records import Records


class Phases(NamedTuple):
    """Durations of a request, in nanoseconds."""

    send_ns: int  # until the last byte was sent
    wait_ns: int  # until the first byte of the reply
    receive_ns: int  # until its last byte


@dataclass(slots=True)
class NetworkPath:
    """Observations of the path to the server by all workers so far."""

    resolve_ns: int = 0  # of the slowest worker
    openings: list[Opening] = field(default_factory=list)
    firsts: dict[int, Opening] = field(
        default_factory=dict
    )  # first requests on their connections, by send time
    phases: list[Phases] = field(default_factory=list)  # of those that succeeded
    _pending: set[int] = field(default_factory=set)  # send times of those that have not ended

    def add(self, reports: Iterable[PathReport]) -> None:
        for report in reports:
            self.resolve_ns = max(self.resolve_ns, report.resolve_ns)
            self.openings += report.openings[: max(0, MOST_OPENINGS - len(self.openings))]
            fresh = report.firsts[: max(0, MOST_OPENINGS - len(self.firsts))]
            self.firsts.update(fresh)
            self._pending.update(sent_ns for sent_ns, _ in fresh)

    def match(self, records: Records) -> None:
        """Find the first requests among those that have ended."""
        if not self._pending or not len(records):
            return
        ended = records.where(np.isin(records.sent_ns, list(self._pending)))
        self._pending.difference_update(ended.sent_ns.tolist())
        good = ended.good
        times = (good.sent_ns, good.wrote_ns, good.first_ns, good.end_ns, good.status)
        for sent, wrote, first, end, code in zip(*(column.tolist() for column in times), strict=True):
            if code == status.OK and wrote and first:
                self.phases.append(Phases(wrote - sent, max(0, first - wrote), end - first))
