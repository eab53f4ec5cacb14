"""Cores with a queue each: which jobs share a core, and for how long."""

import math
from typing import Any

import pytest

from inferometer.diagnose.pipeline import Cores
from inferometer.diagnose.run_queues import RunQueues


def ended(queues: RunQueues[str]) -> tuple[str, Any]:
    """The job that ends next and the seconds until then, for comparison with pytest.approx."""
    seconds = queues.next_s()
    queues.pass_time(seconds)
    job, core = queues.pop()
    queues.balance(core)
    return job, seconds


def test_of_three_jobs_on_two_cores_one_has_a_core_to_itself() -> None:
    queues: RunQueues[str] = RunQueues(Cores(2))
    queues.push("stays", 10.0, None)
    home = queues.push("first", 4.0, None)
    queues.push("second", 4.5, home)
    assert ended(queues) == ("first", pytest.approx(8.0))
    assert ended(queues) == ("second", pytest.approx(0.5))
    assert ended(queues) == ("stays", pytest.approx(1.5))
    assert queues.next_s() == math.inf


def test_evenly_shared_jobs_are_equally_fast() -> None:
    queues: RunQueues[str] = RunQueues(Cores(2), is_even=True)
    for name, seconds in (("a", 2.0), ("b", 2.0), ("c", 3.0)):
        queues.push(name, seconds, None)
    assert ended(queues) == ("a", pytest.approx(3.0))
    assert ended(queues) == ("b", pytest.approx(0.0))
    assert ended(queues) == ("c", pytest.approx(1.0))


def test_an_idle_core_takes_over_the_most_recent_job() -> None:
    queues: RunQueues[str] = RunQueues(Cores(2))
    queues.push("short", 1.0, None)
    home = queues.push("long", 9.0, None)
    queues.push("late", 3.0, home)
    assert ended(queues) == ("short", pytest.approx(1.0))
    assert ended(queues) == ("late", pytest.approx(2.5))
    assert ended(queues) == ("long", pytest.approx(6.0))


def test_busy_cores_slow_down_by_their_scaling() -> None:
    queues: RunQueues[str] = RunQueues(Cores(2, scaling=0.5))
    queues.push("a", 1.0, None)
    queues.push("b", 2.0, None)
    assert ended(queues) == ("a", pytest.approx(math.sqrt(2)))
    assert ended(queues) == ("b", pytest.approx(1.0))
