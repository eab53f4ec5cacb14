"""The polling thread. Nothing here depends on durations; waits have a deadline."""

import threading
from dataclasses import dataclass, field

import pytest

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dialects.perf_analyzer.main import metrics_warnings
from inferometer.observe import poller as module
from inferometer.observe.metrics import Sample
from inferometer.observe.poller import Poller, warnings_about
from tests.support.clock import FakeClock

DEADLINE_S = 30.0
HOUR_NS = 3600 * NS_PER_S


@dataclass
class Looks:
    """Returns numbered samples and signals when there were enough."""

    enough: int = 1
    failing: tuple[int, ...] = ()
    count: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> Sample:
        number, self.count = self.count, self.count + 1
        if self.count > self.enough:  # the expected samples have been taken
            self.done.set()
        if number in self.failing:
            raise PeerError(f"no answer to look {number}", remedy="wait")
        return Sample(at_ns=number)


def numbers(samples) -> list[int]:
    return [sample.at_ns for sample in samples]


def test_it_polls_at_once_and_then_every_interval() -> None:
    looks = Looks(enough=3)
    poller = Poller(looks, interval_ns=NS_PER_MS, clock=FakeClock())
    with poller:
        assert looks.done.wait(DEADLINE_S)
        first = poller.take()
    rest = poller.take()
    assert numbers(first)[:3] == [0, 1, 2]
    assert numbers(first + rest) == list(range(looks.count))
    assert poller.take() == ()
    assert poller.latest == Sample(at_ns=looks.count - 1)


def test_a_level_shorter_than_the_interval_has_one_poll() -> None:
    poller = Poller(Looks(), interval_ns=HOUR_NS, clock=FakeClock())
    with poller:
        pass
    assert numbers(poller.take()) == [0]


def test_it_ends_with_the_level_however_that_ends() -> None:
    poller = Poller(Looks(), interval_ns=NS_PER_MS, clock=FakeClock())
    with pytest.raises(KeyboardInterrupt), poller:
        raise KeyboardInterrupt
    assert "server metrics" not in [thread.name for thread in threading.enumerate()]


def test_each_level_begins_afresh() -> None:
    poller = Poller(Looks(failing=(0,)), interval_ns=HOUR_NS, clock=FakeClock())
    with poller:
        pass
    assert poller.latest is None
    assert [remark.note for remark in poller.remarks()] == [Note.METRICS_MISSING]
    with poller:
        pass
    assert numbers(poller.take()) == [1]
    assert poller.remarks() == ()


def test_a_failed_poll_is_counted_and_the_next_one_follows() -> None:
    looks = Looks(enough=3, failing=(0, 2))
    poller = Poller(looks, interval_ns=NS_PER_MS, clock=FakeClock())
    with poller:
        assert looks.done.wait(DEADLINE_S)
    assert 1 in numbers(poller.take())
    (remark,) = poller.remarks()
    assert remark.text == "the server's metrics could not be read 2 times: no answer to look 0"


def test_polling_slower_than_the_interval_is_reported_once() -> None:
    clock = FakeClock()
    looks = Looks(enough=3)

    def slow() -> Sample:
        clock.now_ns += 7 * NS_PER_MS
        return looks()

    poller = Poller(slow, interval_ns=5 * NS_PER_MS, clock=clock)
    with poller:
        assert looks.done.wait(DEADLINE_S)
    (remark,) = poller.remarks()
    assert remark.note is Note.METRICS_SLOW
    assert remark.text == "reading the server's metrics took 7 ms, longer than the interval of 5 ms"
    with poller:
        pass
    assert poller.remarks() == ()


def test_a_poll_that_hangs_causes_no_delay_and_belongs_to_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    asked, go_on = threading.Event(), threading.Event()

    def hang() -> Sample:
        asked.set()
        assert go_on.wait(DEADLINE_S)
        return Sample(at_ns=99)

    looks = iter((hang, lambda: Sample(at_ns=1)))

    def look() -> Sample:
        return next(looks)()

    poller = Poller(look, interval_ns=HOUR_NS, clock=FakeClock())
    with poller:
        assert asked.wait(DEADLINE_S)
        (hanging,) = [thread for thread in threading.enumerate() if thread.name == "server metrics"]
    with poller:
        go_on.set()
        hanging.join(DEADLINE_S)
        assert not hanging.is_alive()
    assert numbers(poller.take()) == [1]


def test_warnings_after_the_first_poll() -> None:
    nothing, cpu = Sample(at_ns=0), Sample(at_ns=0, cpu_share=0.5)
    assert len(metrics_warnings(cpu)) == 4
    assert metrics_warnings(cpu)[0] == "WARNING: Unable to parse 'nv_gpu_utilization' metric."
    assert warnings_about(cpu) == ()
    assert "without any metrics of a Triton server" in warnings_about(nothing)[0]
