"""Where every request of a run is: in a level's figures, left out of them, or cut off at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferometer.records.records import Totals
from inferometer.stats.measurement import Level


@dataclass(frozen=True, slots=True)
class Account:
    """sent == good + failed + empty + left_out_good + left_out_failed + cut_off.

    A server cannot have seen more requests than sent - unsent + resent.
    """

    sent: int  # requests that were begun, as the workers count them
    good: int  # in the levels' figures, as are the next two
    failed: int
    empty: int  # streams that ended well without a response
    left_out_good: int  # ended in a warm-up, between levels, in windows that do not count, or after the last
    left_out_failed: int
    cut_off: int  # still running at the end: cancelled
    unsent: int  # of all that failed or were cut off: no byte went out, since no connection was made
    resent: int  # times a request was sent again: the server had closed the connection or refused it

    @property
    def is_complete(self) -> bool:
        """Every request is in a count; after the death of a worker those that it carried are not."""
        ended = self.good + self.failed + self.empty + self.left_out_good + self.left_out_failed
        return self.sent == ended + self.cut_off


def account(levels: Sequence[Level], totals: Totals) -> Account:
    """Of a run with these levels, by workers with these totals."""
    found = [level.measurement for level in levels if level.measurement is not None]
    good = sum(row.request_count for row in found)
    failed = sum(row.failed_count for row in found)
    empty = sum(row.empty_count for row in found)
    return Account(
        sent=totals.sent,
        good=good,
        failed=failed,
        empty=empty,
        left_out_good=totals.good - good - empty,
        left_out_failed=totals.failed - failed,
        cut_off=totals.cut_off,
        unsent=totals.unsent,
        resent=totals.resent,
    )
