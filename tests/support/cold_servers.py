"""Simulated servers that are slow at first or change their speed, with the limit that they have once they are warm."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.link import Callbacks
from tests.support.batching import BatchingServer, Troubles, fixed
from tests.support.clock import FakeClock
from tests.support.llm_engine import EngineSettings
from tests.support.queues import Known
from tests.support.simulation import FakeServer, Reply

TEXT_SLO = "ttft p99<500ms, tpot p95<40ms"
FIRST_LIMIT_NS, GAP_LIMIT_NS = 500 * NS_PER_MS, 40 * NS_PER_MS
ANSWER = 64
ENGINE = EngineSettings(
    prefill_per_s=100_000.0, step_s=0.0138, step_per_sequence_s=0.0008, slots=40, prefill_budget=8_192
)


def text_server(**troubles: Any) -> Callable[[int], BatchingServer]:
    """Continuous batching: a step takes 13 ms and 0.8 ms for each running answer."""
    return lambda seed: BatchingServer(fixed(ANSWER), seed, ENGINE, Troubles(**troubles))


def text_shares(rate: float, seconds: float, seed: int = 5) -> tuple[float, float]:
    """Share of the requests beyond either limit at a constant rate, once every shape has been compiled."""
    clock, rows = FakeClock(0), list[tuple[float, float]]()

    def finish(slot: int, status: int, sent_ns: int, *row: Any) -> None:
        times = row[5]
        rows.append((times[0] - sent_ns, (times[-1] - times[0]) / (len(times) - 1)))

    callbacks = Callbacks(finish, lambda *row: (-1, 0), lambda *row: None)  # type: ignore[arg-type]
    network = BatchingServer(fixed(ANSWER), seed, ENGINE).open(clock, callbacks)
    for number in range(int(seconds * rate)):
        due_ns = round(number / rate * NS_PER_S)
        while clock() < due_ns:
            network.wait(due_ns)
        network.send(number, 0, clock(), None)
    first, gap = np.array(rows[len(rows) // 10 :]).T
    return float((first >= FIRST_LIMIT_NS).mean()), float((gap >= GAP_LIMIT_NS).mean())


@cache
def text_limit(seconds: float = 300.0) -> float:
    """The highest constant rate that meets the SLO, by long runs at fixed rates."""
    low, high = 1.0, 40.0
    while high > 1.002 * low:
        middle = (low + high) / 2
        late, slow = text_shares(middle, seconds)
        low, high = (low, middle) if late > 0.01 or slow > 0.05 else (middle, high)
    return low


def slow_start(service_ms: float, slower: float, until_s: float) -> Callable[[int], FakeServer]:
    """One request after the other, each that begins before a time takes longer."""

    def make(seed: int) -> FakeServer:
        free = [0]
        begun = [-1]

        def script(number: int, sent_ns: int) -> Reply:
            if begun[0] < 0:
                begun[0] = sent_ns
            start_ns = max(sent_ns, free[0])
            factor = slower if start_ns - begun[0] < until_s * NS_PER_S else 1.0
            free[0] = start_ns + round(service_ms * factor * NS_PER_MS)
            return Reply(free[0] - sent_ns)

        return FakeServer(script)

    return make


TEXT_LIMIT = 12.84  # by `text_limit`
COMPILING = Known(
    "text, compiles every batch size", TEXT_SLO, TEXT_LIMIT, text_server(compiles_s=(0.3, 1.0)), is_text=True
)
STEADY = Known("text, steady", TEXT_SLO, TEXT_LIMIT, text_server(), is_text=True)
# Its slowest phase decides: there a step takes 40 ms with 23.75 answers instead of 33.75.
SWINGING = Known(
    "text, compiles, speed +-25 %",
    TEXT_SLO,
    9.3,
    text_server(compiles_s=(0.3, 1.0), swing=0.25),
    is_text=True,
)
COLD = Known(
    "fixed service, 10 times slower for 5 s", "p99<60ms", 62.9, slow_start(10, 10, 5), distribution="poisson"
)
COLD_SERVERS = ((STEADY, 120.0), (COMPILING, 120.0), (SWINGING, 120.0), (COLD, 20.0))
