"""Times at which both engines act on a plan: due times of an open plan, pauses of slots, checks for time-outs."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from inferometer.base.units import NS_PER_MS, plain_number
from inferometer.load.link import Link
from inferometer.load.plan import NEVER, Closed, Open
from inferometer.load.resumed import ENDLESS, Progression, Timing, adjusted

FIRST_PAUSE_NS = 10 * NS_PER_MS
LONGEST_PAUSE_NS = 1000 * NS_PER_MS
PATIENCE = 16  # failed answers in a row before a slot pauses
BURST = 64
PACE_NS = 20 * NS_PER_MS  # between bursts of new connections
PREPARED = 8  # connections opened before an open plan starts


class PlanClock:
    """The plan in effect: which request is due next, how many remain, and which slots pause until when.

    The engines read the attributes directly: on the hot path, a method call would cost more than the access.
    """

    __slots__ = ("_start_ns", "last_start_ns", "next_due", "number", "open", "pauses", "remaining")

    def __init__(self) -> None:
        self.open: Open | None = None
        self.remaining = ENDLESS  # requests still to start
        self.number = 0  # number in the open plan of the request that is due next
        self.next_due = NEVER  # or later, after the end of the schedule
        self.pauses: list[tuple[int, int]] = []  # heap of (until, slot); never replaced, since loops hold it
        self.last_start_ns = 0  # when the last slot of a closed plan starts, unless a ramp spreads the starts
        self._start_ns = 0

    def begin_closed(self, plan: Closed) -> None:
        self.open, self.next_due = None, NEVER
        self.remaining = ENDLESS if plan.count is None else plan.count

    def begin_open(self, plan: Open, start_ns: int, link: Link) -> None:
        self.open, self.number, self._start_ns, self.last_start_ns = plan, plan.first, start_ns, 0
        self.remaining = ENDLESS if plan.count is None else plan.count
        # If the count is small, some workers get nothing.
        self.next_due = start_ns + plan.schedule.due_ns(plan.first) if self.remaining else NEVER
        link.prepare(min(PREPARED, NEVER if plan.cap is None else plan.cap))

    def adjust(self, timing: Timing, more: Sequence[Progression], cap: int | None) -> None:
        """Continue the open plan with another timing and with more of its requests."""
        if self.open is None:
            return
        own = self.remaining if self.next_due < NEVER else 0
        self.open, self.remaining = adjusted(self.open, cap, self.number, own, more, timing)
        self.number, self._start_ns = 0, timing.start_ns
        self.next_due = timing.start_ns + self.open.schedule.due_ns(0) if self.remaining else NEVER

    def take_due(self, plan: Open) -> int:
        """Return the due time of the next request of the open plan, and proceed to the one after it."""
        due_ns, self.number = self.next_due, self.number + plan.stride
        if self.remaining > 0:
            self.remaining -= 1
        self.next_due = self._start_ns + plan.schedule.due_ns(self.number) if self.remaining else NEVER
        return due_ns

    # --- pauses

    def pause(self, slot: int, until_ns: int) -> None:
        heappush(self.pauses, (until_ns, slot))

    def ended_pauses(self, now_ns: int) -> Iterator[tuple[int, int]]:
        """Yield ended pauses as (until, slot), a limited number at a time so that replies are read in between."""
        pauses = self.pauses
        for _ in range(BURST):
            if not pauses or pauses[0][0] > now_ns:
                return
            yield heappop(pauses)

    def drop_pauses(self, is_dropped: Callable[[int], bool] = lambda slot: True) -> int:
        """Drop the pauses of these slots; return how many there were."""
        before = len(self.pauses)
        self.pauses[:] = [pause for pause in self.pauses if not is_dropped(pause[1])]
        heapify(self.pauses)
        return before - len(self.pauses)

    def start(
        self,
        slots: Sequence[int],
        now_ns: int,
        link: Link,
        begin: Callable[[int], None],
        *,
        burst: int = BURST,
    ) -> None:
        """Start idle slots of a closed plan: at once on open connections, in bursts on new ones; with a smaller
        `burst`, the loop runs between two bursts on open connections, too."""
        self.last_start_ns = now_ns
        for first in range(0, len(slots), burst):
            if first and link.opening:
                self.last_start_ns = now_ns + first * PACE_NS // BURST
            for slot in slots[first : first + burst]:
                if self.last_start_ns > now_ns or (first and burst != BURST):
                    self.pause(slot, self.last_start_ns)
                else:
                    begin(slot)

    @property
    def is_starting(self) -> bool:
        """Whether slots wait for their burst. Those that a ramp starts later do not count."""
        return bool(self.pauses) and self.pauses[0][0] <= self.last_start_ns


def pause_after(failures: int, *, is_answered: bool) -> int:
    """Return the pause after this many failures in a row: longer each time if the server does not answer at all.

    A server that answers, but refuses every request or sends malformed replies, gets the shortest pause after a
    while, so that the client does not spin and a plan with a count still ends if all its requests fail.
    """
    if is_answered:
        return FIRST_PAUSE_NS if failures >= PATIENCE else 0
    return min(FIRST_PAUSE_NS << min(failures - 1, 16), LONGEST_PAUSE_NS) if failures else 0


class Timeout:
    """Time limit of a request, checked some twenty times during it; 0 for none."""

    __slots__ = ("limit_ns", "text")

    def __init__(self, limit_ns: int) -> None:
        self.limit_ns = limit_ns
        self.text = f"no complete reply within {plain_number(limit_ns / 1e9)} s"

    def next_check_ns(self, now_ns: int) -> int:
        return now_ns + max(self.limit_ns // 20, NS_PER_MS) if self.limit_ns else NEVER
