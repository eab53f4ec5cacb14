"""Models that share a machine, some of which have a bad moment, or are broken."""

import time

import pytest

from inferometer import api
from inferometer.stats.watcher import Watcher
from tests.support.servers import FakeModel, FakeTriton, answer_json, late, raw, reply

IDLE_S = 0.05  # less than a turn of another model
ASLEEP_S = 0.4  # some turns
SLOW_S = 0.05
LOOKS = 4  # turns at the start, before which it is always awake


class Listener(Watcher):
    def __init__(self):
        self.heard = []

    def said(self, text, **_):
        self.heard.append(text)


class Sleepy:
    """Falls asleep once when nobody asks: what comes next has to wait until it is awake."""

    def __init__(self):
        self.turns = 0
        self.last_s = self.awake_s = 0.0

    def __call__(self, number, request):
        now_s = time.monotonic()
        self.turns += now_s - self.last_s > IDLE_S
        self.last_s = now_s
        if self.turns == LOOKS and not self.awake_s:
            self.awake_s = now_s + ASLEEP_S
        return late(self.awake_s - now_s, raw(reply(b"{}"))) if now_s < self.awake_s else None


@pytest.mark.machine(
    reason="its server tells turns apart by pauses of 50 ms, which other processes cause too"
)
def test_a_turn_without_an_answer_goes_on_and_counts():
    sleepy = Sleepy()
    with FakeTriton(model=FakeModel("a")) as a, FakeTriton(sleepy, model=FakeModel("b")) as b:
        found = api.interfere(f"a@{a.server.address}", f"b@{b.server.address}", duration_s=1.0)
    assert sleepy.awake_s
    assert found.problems == ()
    assert found.rounds == 10
    longest_ns = max(row.latency.max_ns for row in (found.models[1].alone, found.models[1].together))
    assert longest_ns > 0.9 * ASLEEP_S * 1e9


def test_a_model_with_only_failures_is_reported():
    def broken(number, request):
        return answer_json({"error": "broken"}, 500)

    with FakeTriton(model=FakeModel("a")) as a, FakeTriton(broken, model=FakeModel("b")) as b:
        found = api.interfere(f"a@{a.server.address}", f"b@{b.server.address}", duration_s=1.0)
    assert found.models == ()
    (problem,) = found.problems
    assert problem.startswith("'b' answered no request successfully in ")
    assert "broken" in problem


def test_turns_fit_the_slowest_model_and_the_duration_is_announced():
    def slow(number, request):
        return late(SLOW_S, raw(reply(b"{}")))

    watcher = Listener()
    with FakeTriton(model=FakeModel("a")) as a, FakeTriton(slow, model=FakeModel("b")) as b:
        found = api.interfere(
            f"a@{a.server.address}", f"b@{b.server.address}", duration_s=0.3, watcher=watcher
        )
    assert found.problems == ()
    assert found.rounds == 10
    assert found.seconds >= 10 * 4 * SLOW_S
    assert all(row.alone.request_count >= 30 for row in found.models)
    assert any("b answers" in text and "instead of 300 ms" in text for text in watcher.heard)
