"""Choice of the address of each request, if there are several. No socket is involved.

The requests of address n are steps n * size to (n + 1) * size - 1, so that the step in a record identifies its address.
"""

from collections.abc import Callable
from typing import Any

from inferometer.load.link import Finish
from inferometer.load.sequences import Mark

NOWHERE = -1


Send = Callable[[int, int, int, Mark | None], None]
"""(slot, step, time, mark): send the request of this step."""


class Balance:
    """Spreads the requests of one worker over `count` addresses."""

    def __init__(self, policy: str, count: int, size: int, *, first: int = 0) -> None:
        self._count = count
        self._size = size  # requests in the data
        self._first = first  # workers begin at different addresses
        self._next = first % count  # address whose turn it is
        self._outstanding = [0] * count
        self._address_of: list[int] = []  # by slot; NOWHERE if its request has ended
        self._of_sequence: dict[int, int] = {}
        self._policy = {
            "round-robin": self._in_turn,
            "least-outstanding": self._least_loaded,
            "session-affinity": self._same_as_before,
        }[policy]

    def sending(self, send: Send, steps: list[int]) -> Send:
        """Return `send` with an address chosen for each request; its step is noted in `steps`, by slot."""

        def send_balanced(slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
            steps[slot] = step = step + self._size * self.choose(slot, mark)
            send(slot, step, now_ns, mark)

        return send_balanced

    def ending(self, finish: Finish) -> Finish:
        """Return `finish` with the end of each request noted."""

        def finish_balanced(slot: int, *values: Any, **named: Any) -> None:
            self.end(slot)
            finish(slot, *values, **named)

        return finish_balanced

    def choose(self, slot: int, mark: Mark | None = None) -> int:
        """Return the address of the slot's next request."""
        address = self._policy(slot, mark)
        while slot >= len(self._address_of):
            self._address_of.append(NOWHERE)
        self._address_of[slot] = address
        self._outstanding[address] += 1
        return address

    def end(self, slot: int) -> None:
        """Note the end of the slot's request."""
        address, self._address_of[slot] = self._address_of[slot], NOWHERE
        self._outstanding[address] -= 1

    # --- policies

    def _in_turn(self, slot: int, mark: Mark | None) -> int:
        address = self._next
        self._next = (address + 1) % self._count
        return address

    def _least_loaded(self, slot: int, mark: Mark | None) -> int:
        """Take turns among the addresses with the fewest requests in flight."""
        least = min(self._outstanding)
        while self._outstanding[self._next] != least:
            self._next = (self._next + 1) % self._count
        return self._in_turn(slot, mark)

    def _same_as_before(self, slot: int, mark: Mark | None) -> int:
        """Send the sequence, or the user if there are no sequences, to its previous address."""
        if mark is None:
            return (slot + self._first) % self._count
        if mark.is_start or mark.sequence_id not in self._of_sequence:
            self._of_sequence[mark.sequence_id] = self._in_turn(slot, mark)
        if mark.is_end:
            return self._of_sequence.pop(mark.sequence_id)
        return self._of_sequence[mark.sequence_id]
