"""Requests that the client cancels on purpose, as users do who close the page before the answer is complete."""

import random
from collections.abc import Iterator
from typing import NamedTuple


class Cancellation(NamedTuple):
    """A share of the requests is cancelled so long after each was sent, unless it has ended by then."""

    after_ns: int
    share: float  # 0 to 1
    seed: int = 0

    def draws(self, worker: int) -> Iterator[bool]:
        """Of one request after the other of this worker, whether it is to be cancelled: the same for the same seed."""
        draw = random.Random(f"cancel {self.seed} {worker}")
        while True:
            yield draw.random() < self.share
