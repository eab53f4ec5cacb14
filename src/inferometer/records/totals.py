"""Every request of a load, counted by how it ended."""

from dataclasses import dataclass, replace

import numpy as np

from inferometer.records import status
from inferometer.records.records import Records


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the load began, over all workers it ever had."""

    sent: int = 0  # begun, as the workers count them
    good: int = 0
    failed: int = 0
    cut_off: int = 0  # still running at the end, and cancelled
    unsent: int = 0  # of those that failed or were cut off: no byte went out, since no connection was made
    resent: int = 0  # times a request was sent again: the server had closed the connection or refused it

    def and_records(self, records: Records) -> "Totals":
        good = int(np.count_nonzero(records.status == status.OK))
        cut_off = int(np.count_nonzero(records.status == status.CANCELLED))
        return replace(
            self,
            good=self.good + good,
            failed=self.failed + len(records) - good - cut_off,
            cut_off=self.cut_off + cut_off,
            unsent=self.unsent + int(np.count_nonzero(records.sent_ns == 0)),
        )
