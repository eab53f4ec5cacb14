"""Requests that the client cancels on purpose, as users do who close the page before the answer is complete."""

import random
from collections.abc import Iterator
from typing import NamedTuple


class Cancellation(NamedTuple):
    """Cancel a share of the requests a fixed time after each was sent, unless it has ended by then."""

    after_ns: int
    share: float  # 0 to 1
    seed: int = 0

    def draws(self, worker: int) -> Iterator[bool]:
        """Yield for each request of this worker whether to cancel it; the same seed gives the same draws."""
        draw = random.Random(f"cancel {self.seed} {worker}")
        while True:
            yield draw.random() < self.share
