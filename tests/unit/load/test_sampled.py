"""The engine with samples, on a simulated clock: which requests are in a sample, and that no others are counted."""

from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

from inferometer.base import status
from inferometer.base.drawn_times import DrawnTime, ThinkTime
from inferometer.load.plan import Closed, Constant, Open
from inferometer.load.sampled import RequestSample, SampledEngine, SampleGaps
from inferometer.records.ring import FIRST_BYTE, READ, ROW_BYTES, RingWriter
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, new_cells

MS = 1_000_000


class Drawn(SampleGaps):
    """SampleGaps that remember what was drawn."""

    def __init__(self, share: float, seed: int = 5) -> None:
        super().__init__(share, seed)
        self.found: list[int] = []

    def next(self) -> int:
        self.found.append(super().next())
        return self.found[-1]

    @property
    def numbers(self) -> list[int]:
        """The requests of the sample, by number."""
        return [number + gap for number, gap in enumerate(accumulate(self.found))]


class Sampled:
    """A sampled engine on a fake server; `places` has the numbers of the requests of each sample."""

    def __init__(
        self, script: Any, *shares: float, steps: int = 8, ring_rows: int = 1000, can_mark: bool = False
    ) -> None:
        self.clock = FakeClock()
        self.server = FakeServer(script)
        self.gaps = [Drawn(share, seed) for seed, share in enumerate(shares)]
        self.places: list[list[int]] = [[] for _ in shares]
        self.steps: Counter[int] = Counter()
        self.counted = self.ended = self.marked = 0
        self.can_mark = can_mark
        ring = RingWriter(new_cells())
        ring.end = ring.stop = FIRST_BYTE + ring_rows * ROW_BYTES

        def open_link(callbacks: Any) -> Any:
            self.network: Any = self.server.open(self.clock, callbacks)
            return self.network

        class Reactor:
            def wait(_, until_ns: int | None) -> None:
                self.network.wait(until_ns)

        self.engine = SampledEngine(
            samples=[self._sample(number) for number in range(len(shares))],
            steps=steps, open_link=open_link, reactor=Reactor(), ring=ring, clock=self.clock,
            on_crowded=lambda: None,
        )  # fmt: skip
        usual = self.engine._send_counted

        def counted(*values: Any) -> None:
            self.counted += 1
            usual(*values)

        self.engine._send_counted = counted  # type: ignore[method-assign, assignment]
        self.engine._send = counted
        self.ring = ring

    def _sample(self, number: int) -> RequestSample:
        def begin(slot: int, step: int) -> None:
            self.places[number].append(self.server.number)
            self.steps[step] += 1

        def end() -> None:
            self.ended += 1

        def mark(link: Any, slot: int, step: int) -> None:
            assert link is self.network
            self.marked += 1
            self.places[number].append(self.server.number)
            self.steps[step] += 1

        return RequestSample(self.gaps[number], begin, end, mark if self.can_mark else None)

    def run(self, plan: Any, requests: int) -> None:
        self.engine.apply(plan, self.clock())
        while self.server.number < requests and not self.engine.is_finished:
            self.engine.run(self.clock() + 20 * MS, lambda: self.engine.is_finished)
            self.ring.cells[READ] = self.ring.written


def uneven(number: int, _: int) -> Reply:
    return Reply((number * 7919 % 3 + 1) * MS)


PLANS = {
    "one at a time": Closed(1),
    "a few": Closed(4),
    "many": Closed(300),
    "with a count": Closed(4, count=20_000),
    "by rate": Open(Constant(1000.0), count=20_000),
    "with think time": Closed(4, think=ThinkTime(DrawnTime("exponential", 3.0 * MS))),
}


@pytest.mark.parametrize("can_mark", [False, True])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_sample_is_what_was_drawn(plan: Any, can_mark: bool) -> None:
    sampled = Sampled(uneven, 0.02, 0.05, can_mark=can_mark)
    sampled.run(plan, 10_000)
    for places, gaps in zip(sampled.places, sampled.gaps, strict=True):
        assert len(places) > 150
        assert places == gaps.numbers[: len(places)]
    assert (sampled.marked > 0) == (
        can_mark and isinstance(plan, Closed) and plan == Closed(plan.concurrency)
    )
    assert sampled.marked + sampled.ended == sum(map(len, sampled.places))


@pytest.mark.parametrize("plan", [Closed(1), Closed(40), Closed(8, count=20_000)], ids=str)
@pytest.mark.parametrize("can_mark", [False, True])
def test_a_closed_load_counts_hardly_any_request(plan: Any, can_mark: bool) -> None:
    sampled = Sampled(uneven, 0.01, can_mark=can_mark)
    sampled.run(plan, 20_000)
    if can_mark and plan.count is None:
        assert sampled.counted < 40 + plan.concurrency
    assert 140 < len(sampled.places[0]) < 270
    assert sampled.counted < 3 * len(sampled.places[0]) + plan.concurrency


def test_the_sample_is_the_same_however_the_load_changes() -> None:
    sampled = Sampled(uneven, 0.02)
    for number, slots in enumerate((4, 9, 2, 30, 1), start=1):
        sampled.run(Closed(slots), 2000 * number)
    sampled.run(Closed(3, count=2000), 12_000)
    expected = sampled.gaps[0].numbers
    late = [place - due for place, due in zip(sampled.places[0], expected, strict=False)]
    assert all(0 <= abs(number) <= 40 for number in late)
    assert len(late) > 150


@pytest.mark.parametrize("can_mark", [False, True])
def test_no_request_is_missed_in_a_server_that_answers_in_rounds(can_mark: bool) -> None:
    """Eight requests are answered at once, and the data has eight: each slot always sends the same one."""
    sampled = Sampled(lambda number, _: Reply(MS), 0.02, can_mark=can_mark)
    sampled.run(Closed(8), 20_000)
    assert len(sampled.steps) == 8
    assert min(sampled.steps.values()) > 0.5 * max(sampled.steps.values())


@pytest.mark.parametrize("can_mark", [False, True])
def test_slots_that_pause_keep_the_sample(can_mark: bool) -> None:
    def script(number: int, _: int) -> Reply:
        if number % 11 == 3:
            return Reply(MS, status=status.CONNECT, is_unsent=number % 2 == 0)
        return uneven(number, _)

    sampled = Sampled(script, 0.05, can_mark=can_mark)
    sampled.run(Closed(8), 5000)
    assert sampled.places[0] == sampled.gaps[0].numbers[: len(sampled.places[0])]
    assert len(sampled.places[0]) > 150


def test_none_and_all_can_be_sampled() -> None:
    sampled = Sampled(uneven, 0.0, 1.0)
    sampled.run(Closed(3, count=200), 200)
    assert [len(places) for places in sampled.places] == [0, 200]


def test_gaps_repeat_with_their_seed_and_have_the_share() -> None:
    one, other = SampleGaps(0.01, 7), SampleGaps(0.01, 7)
    found = [one.next() for _ in range(5000)]
    assert found == [other.next() for _ in range(5000)]
    assert 0.0095 < 5000 / (sum(found) + 5000) < 0.0105


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_a_sample_has_its_share_and_covers_a_repeating_dataset(share: float) -> None:
    gaps, numbers = SampleGaps(share, 0), []
    number = gaps.next()
    while number < 100_000:
        numbers.append(number)
        number += 1 + gaps.next()
    spread = 4 * (100_000 * share * (1 - share)) ** 0.5
    assert abs(len(numbers) - 100_000 * share) <= spread
    assert len({number % 100 for number in numbers}) == 100
