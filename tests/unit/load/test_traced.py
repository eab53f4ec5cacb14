"""The engine with spans, on a simulated clock: which requests are traced, and what their rows say."""

from array import array
from itertools import count
from typing import Any

import pytest

from inferometer.base import status
from inferometer.load.plan import Closed, Constant, Open
from inferometer.load.sampled import SampleGaps
from inferometer.load.traced import TracedEngine
from inferometer.records.records import EMPTY, RingReader
from inferometer.records.ring import RingWriter
from inferometer.records.span_matcher import SpanMatcher
from inferometer.records.spans import FAILED, SAMPLED, SLOW, SLOWEST
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, new_cells

MS = 1_000_000


class Traced:
    """A traced engine on a fake server whose network counts what it carries."""

    def __init__(self, script, *, share, can_carry=True):
        self.clock = FakeClock()
        self.carried: list[str] = []
        self.held: list[tuple[int, str]] = []
        self.sent: list[str | None] = []
        cells = new_cells()
        self.reader, ring = RingReader(cells), RingWriter(cells)

        def open_link(callbacks):
            self.server = FakeServer(script)
            network: Any = self.server.open(self.clock, callbacks)
            send = network.send

            def carry(step, traceparent):
                assert not self.held
                self.carried.append(traceparent)
                if can_carry:
                    self.held.append((step, traceparent))
                return can_carry

            def drop(step):
                assert self.held.pop()[0] == step

            def sending(slot, step, now_ns, mark):
                self.sent.append(self.held[-1][1] if self.held and self.held[-1][0] == step else None)
                send(slot, step, now_ns, mark)

            network.carry, network.drop, network.send = carry, drop, sending
            self.network = network
            return network

        class Reactor:
            def wait(_, until_ns):
                self.network.wait(until_ns)

        self.engine = TracedEngine(
            gaps=SampleGaps(share, 5), steps=3, open_link=open_link, reactor=Reactor(), ring=ring, clock=self.clock,
            on_crowded=lambda: None,
        )  # fmt: skip

    def run(self, plan, seconds=100):
        """Return the spans of a load, of which a part is collected while requests are in flight."""
        matcher, rows = SpanMatcher(), []
        matcher.begin(counts_from_due=isinstance(plan, Open))
        self.engine.apply(plan, self.clock())
        for end_ns in (self.clock() + 100 * MS, self.clock() + seconds * 1000 * MS):
            self.engine.run(end_ns, lambda: self.engine.is_finished)
            self.engine._ring.publish()
            matcher.add([self.engine.take_spans()])
            rows += matcher.match(self.reader.take())
        return rows


def traceparents(rows):
    return [f"00-{row.trace_id:032x}-{row.span_id:016x}-01" for row in rows]


PLANS = {
    "closed": Closed(4, count=400),
    "one at a time": Closed(1, count=400),
    "by rate": Open(Constant(1000.0), count=400),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_sampled_request_carries_the_ids_of_its_span(plan):
    traced = Traced(lambda number, _: Reply(MS), share=0.2)
    sampled = [row for row in traced.run(plan) if row.reason == SAMPLED]
    assert 40 < len(sampled) < 130
    assert len(traced.sent) == 400
    assert sorted(traceparents(sampled)) == sorted(value for value in traced.sent if value is not None)
    assert len(set(traced.carried)) == len(traced.carried)
    assert not traced.held
    assert all(row.is_propagated and row.sent_ns < row.end_ns for row in sampled)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 200)])
def test_none_and_all_can_be_sampled(share, expected):
    rows = Traced(lambda number, _: Reply(MS), share=share).run(Closed(2, count=200))
    assert sum(row.reason == SAMPLED for row in rows) == expected


def test_failures_and_the_slowest_always_have_a_span():
    took = {number: (number * 7919 % 1000 + 1) * 1000 for number in count_to(1000)}

    def script(number, _):
        code = status.HTTP + 500 if number % 50 == 3 else status.OK
        return Reply(took[number], status=code)

    rows = Traced(script, share=0.0).run(Closed(1, count=1000))
    failed = [row for row in rows if row.reason == FAILED]
    assert len(failed) == 20
    assert not any(row.is_propagated for row in rows)
    slowest = sorted((took[n] for n in took if n % 50 != 3), reverse=True)[:SLOWEST]
    noted = sorted((row.took_ns for row in rows if row.reason == SLOW), reverse=True)
    assert noted[:SLOWEST] == slowest
    assert len(noted) < 150  # ten, and those that were among them for a while


def count_to(number):
    return range(number)


def test_a_link_that_cannot_carry_still_has_spans():
    rows = Traced(lambda number, _: Reply(MS), share=1.0, can_carry=False).run(Closed(2, count=50))
    assert len(rows) == 50
    assert not any(row.is_propagated for row in rows)


def test_requests_that_fail_at_once_keep_their_own_ids():
    numbers = count()

    def script(number, _):
        return Reply(MS, status=status.CONNECT, is_unsent=next(numbers) % 2 == 0)

    traced = Traced(script, share=1.0)
    rows = traced.run(Closed(1, count=20))
    assert len(rows) == len({row.span_id for row in rows}) == 20
    assert {row.status for row in rows} == {status.CONNECT}
    assert all("connect" in row.text for row in rows if not row.sent_ns)
    assert not traced.held


def test_rows_between_two_reports_are_bounded(monkeypatch):
    monkeypatch.setattr("inferometer.load.traced.MOST_ROWS", 30)
    traced = Traced(lambda number, _: Reply(MS), share=1.0)
    traced.engine.apply(Closed(2, count=100), 0)
    traced.engine.run(10**12, lambda: traced.engine.is_finished)
    report = traced.engine.take_spans()
    assert (len(list(report.traces)), report.dropped) == (30, 70)
    assert traced.engine.take_spans() == (array("Q"), (), 0)


def test_slots_that_fail_while_requests_are_counted_pause_and_recover():
    traced = Traced(
        lambda number, _: Reply(MS, status=status.HTTP + 500 if number % 7 == 3 else status.OK), share=0.3
    )
    rows = traced.run(Closed(5), seconds=1)
    failed = [row for row in rows if row.reason == FAILED]
    assert len(failed) > 600
    assert all(row.slot is not None and "500" in row.text for row in failed)
    assert not any(traced.engine._failures[slot] > 1 for slot in range(5))


def test_records_wait_for_the_reports_of_their_time():
    traced = Traced(lambda number, _: Reply(MS), share=1.0)
    traced.engine.apply(Closed(1, count=5), 0)
    traced.engine.run(10**12, lambda: traced.engine.is_finished)
    traced.engine._ring.publish()
    records, matcher = traced.reader.take(), SpanMatcher()
    assert matcher.match(records, reported_ns=int(records.end_ns[0]) - 1) == []
    matcher.add([traced.engine.take_spans()])
    assert [row.reason for row in matcher.match(EMPTY)] == [SAMPLED] * 5
