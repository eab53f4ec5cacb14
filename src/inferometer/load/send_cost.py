"""What it costs to send a request that the socket takes whole: processor time of the call, sampled.

The wall time of such a call says little about sending. It wakes the server, which may take our processor before the
call returns, and what is then seen as sending is the server at work. So a request that goes out in one piece counts
as sent after the processor time that recent calls took; only one that the socket would not take at once counts until
its last byte is out.
"""

import time
from collections import deque
from collections.abc import Callable

from inferometer.wire.frames import Buffer

RECENT = 15  # samples that count,
OUTLIERS = 3  # without so many at either end: interrupts are charged to whoever runs
MASK, FIRST = 1023, 8  # send n of a connection is sampled if n & MASK < FIRST: a look costs a fifth of a send


class SendCost:
    """Of one worker."""

    __slots__ = ("_clock", "_own_ns", "_recent", "ns")

    def __init__(self, clock: Callable[[], int] = time.thread_time_ns) -> None:
        self.ns = 0  # a request
        self._clock = clock
        self._recent: deque[int] = deque(maxlen=RECENT)
        self._own_ns = min(-clock() + clock() for _ in range(RECENT))  # what it takes to look

    def sampled(self, send: Callable[..., int], data: Buffer) -> int:
        """Send, and note what it took."""
        begun = self.begin()
        sent = send(data)
        self.note(begun)
        return sent

    def begin(self) -> int:
        return self._clock()

    def note(self, begun: int, requests: int = 1) -> None:
        """So many requests were sent since `begin` said so."""
        took = self._clock() - begun - self._own_ns
        self._recent.append(max(took, 0) // requests)
        ordered = sorted(self._recent)
        usual = ordered[OUTLIERS:-OUTLIERS] or ordered[: len(ordered) // 2 + 1]
        self.ns = sum(usual) // len(usual)
