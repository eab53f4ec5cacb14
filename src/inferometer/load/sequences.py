"""Choice of the next request of a sequence, as a pure function of the lane.

A **lane** carries one live sequence at a time, request after request; when it has ended, the next sequence begins, with
a new ID, on the next stream of the data. With a concurrency each slot is a lane. With a rate, a fixed number of lanes
takes turns.
"""

import random
from collections import deque
from typing import NamedTuple


class Mark(NamedTuple):
    """Sequence parameters of a request."""

    sequence_id: int
    is_start: bool
    is_end: bool
    lane: int = 0
    started_ns: int = 0  # last request of a sequence only: when the first one was due


class SequencePlan(NamedTuple):
    """Parameters of sequences. `streams` are the steps of each data stream."""

    streams: tuple[tuple[int, ...], ...]
    is_given: bool  # user-provided data: a sequence is as long as its stream unless a length is given
    length: int | None = None
    variation: float = 20.0  # percent
    first_id: int = 1
    last_id: int = 2**32 - 1  # inclusive
    lanes: int = 4  # by rate
    is_serial: bool = False
    seed: int = 0
    is_once: bool = (
        False  # each stream is one session, played once; an interrupted one needs no closing request
    )
    delays_ns: tuple[int, ...] = ()  # pause of the lane after the answer to each step
    is_repeated: bool = False  # play sessions again after all were played


BASE_LENGTH = 20


class _Lane:
    __slots__ = ("length", "outstanding", "position", "sequence_id", "started_ns", "stream")

    def __init__(self) -> None:
        self.sequence_id = 0
        self.stream: tuple[int, ...] = ()
        self.length = 0
        self.position = 0  # of the next request; 0 if no sequence is live
        self.outstanding = 0
        self.started_ns = 0  # when the live sequence's first request was due

    @property
    def is_live(self) -> bool:
        """Whether the server may still receive requests of its sequence."""
        return self.position > 0 or self.outstanding > 0


class Sequences:
    """The lanes of worker `index` of `parts`; workers use different IDs and streams."""

    def __init__(self, plan: SequencePlan, index: int = 0, parts: int = 1) -> None:
        self.plan = plan
        self.index = index
        self.parts = parts
        self._lanes: list[_Lane] = []
        self._begun = index
        self._waiting: deque[int] = deque()  # lanes in the order of their turns, with a rate
        self._random = random.Random(plan.seed * parts + index)

    # --- lanes with a rate

    def open_lanes(self) -> None:
        """Create the lanes that take turns."""
        count = max(1, self.plan.lanes // self.parts + (self.index < self.plan.lanes % self.parts))
        self._lane(count - 1)
        self._waiting = deque(range(count))

    def pick(self) -> int:
        """Return the next lane without an outstanding request, otherwise the next lane, except in serial plans."""
        for _ in range(len(self._waiting)):
            lane = self._waiting[0]
            self._waiting.rotate(-1)
            if not self._lanes[lane].outstanding:
                return lane
        lane = self._waiting[0]
        self._waiting.rotate(-1)
        return lane

    @property
    def turns(self) -> int:
        """Number of lanes that take turns."""
        return len(self._waiting)

    @property
    def has_free_lane(self) -> bool:
        return not self.plan.is_serial or any(not self._lanes[lane].outstanding for lane in self._waiting)

    # --- requests

    def next(self, lane_number: int, due_ns: int) -> tuple[int, Mark]:
        """Return the step and the mark of the lane's next request."""
        lane = self._lane(lane_number)
        if lane.position == 0:
            self._begin(lane, due_ns)
        step = lane.stream[lane.position % len(lane.stream)]
        is_end = lane.position == lane.length - 1
        started_ns = lane.started_ns if is_end else 0  # the lane may continue before this request has ended
        mark = Mark(lane.sequence_id, lane.position == 0, is_end, lane_number, started_ns)
        lane.position = 0 if mark.is_end else lane.position + 1
        lane.outstanding += 1
        return step, mark

    @property
    def is_over(self) -> bool:
        """Whether no lane can begin another sequence."""
        plan = self.plan
        return plan.is_once and not plan.is_repeated and self._begun >= len(plan.streams)

    def has_next(self, lane_number: int) -> bool:
        """Return whether the lane has another request."""
        return not self.is_over or (lane_number < len(self._lanes) and self._lanes[lane_number].position > 0)

    def pause_ns(self, step: int) -> int:
        """Return how long a lane pauses after the answer to this step."""
        return self.plan.delays_ns[step] if self.plan.delays_ns else 0

    def is_idle_and_unfinished(self, lane_number: int) -> bool:
        if lane_number >= len(self._lanes) or self.plan.is_once:
            return False
        lane = self._lanes[lane_number]
        return lane.position > 0 and not lane.outstanding

    def close(self, lane_number: int) -> tuple[int, Mark]:
        """Return the request that ends an unfinished sequence early: the last step of its stream."""
        lane = self._lanes[lane_number]
        lane.position = 0
        lane.outstanding += 1
        return lane.stream[-1], Mark(lane.sequence_id, False, True, lane_number, lane.started_ns)

    def unfinished(self) -> list[int]:
        return [number for number, lane in enumerate(self._lanes) if lane.position > 0]

    def ended(self, mark: Mark) -> None:
        """Record the end of a request."""
        self._lanes[mark.lane].outstanding -= 1

    def _lane(self, number: int) -> _Lane:
        while number >= len(self._lanes):
            self._lanes.append(_Lane())
        return self._lanes[number]

    def _begin(self, lane: _Lane, due_ns: int) -> None:
        lane.stream = self.plan.streams[self._begun % len(self.plan.streams)]
        lane.length = self._length(lane.stream)
        lane.sequence_id = self._next_id(lane)
        lane.started_ns = due_ns
        self._begun += self.parts

    def _length(self, stream: tuple[int, ...]) -> int:
        if self.plan.is_given and self.plan.length is None:
            return len(stream)
        base = self.plan.length or BASE_LENGTH
        return max(1, base + int(self._random.uniform(-1, 1) * self.plan.variation / 100 * base))

    def _next_id(self, asking: _Lane) -> int:
        """Return the next ID; IDs wrap around within the range and skip those of unfinished sequences."""
        plan = self.plan
        span = plan.last_id - plan.first_id + 1
        candidate = plan.first_id + self._begun % span
        used = {lane.sequence_id for lane in self._lanes if lane is not asking and lane.is_live}
        if candidate not in used:
            return candidate
        if asking.sequence_id and asking.sequence_id not in used:
            return asking.sequence_id
        later = (plan.first_id + (self._begun + turn * self.parts) % span for turn in range(1, len(used) + 1))
        return next((identifier for identifier in later if identifier not in used), candidate)
