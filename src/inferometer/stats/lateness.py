"""Which requests were sent late because the sender could not send them, and not because the system woke it late.

A sender that sleeps until a request is due and is woken a little later has kept up: it sends at once. One that was
awake after the request was due (it sent another, or got a reply) and still had not sent it was held up: no slot was
free, or it was too slow.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.base.units import NS_PER_MS
from inferometer.records.records import NO_TIMES, Column, Records

DELAY_NS = NS_PER_MS
KEPT = 4096  # moments at which the sender was awake; a request is late by far fewer


@dataclass(slots=True)
class Lateness:
    """Of one level: requests come in the order of their ends, piece by piece."""

    _sends: Column = field(default_factory=lambda: NO_TIMES)
    _ends: Column = field(default_factory=lambda: NO_TIMES)

    def count(self, records: Records) -> int:
        """How many of these were held up for longer than `DELAY_NS`."""
        sends = np.concatenate((self._sends, records.sent_ns))
        ends = np.concatenate((self._ends, records.end_ns))
        self._sends, self._ends = sends[-KEPT:], ends[-KEPT:]
        late = records.sent_ns - records.due_ns > DELAY_NS
        if not late.any():
            return 0
        sent, due = records.sent_ns[late], records.due_ns[late]
        # Another request that was sent, or a reply that came, up to the very moment of the send.
        awake = np.maximum(_last(sends, sent - 1), _last(ends, sent))
        return int((awake - due > DELAY_NS).sum())


def _last(moments: Column, until: Column) -> Column:
    """The last of the moments up to each of the times; 0 where there is none."""
    known = np.sort(np.append(moments, 0))
    found: Column = known[np.maximum(np.searchsorted(known, until, side="right") - 1, 0)]
    return found
