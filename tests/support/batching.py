"""A continuous-batching text server on the simulated clock, exact to the nanosecond, and its stationary figures.

`BatchingServer` drives the engine of `tests.support.llm_engine` as the network of a `SimulatedLoad`: every step adds a
token to each running answer, so tokens of unfinished answers arrive when they are generated. `stationary` runs the same
engine in a closed loop for a very long time, without any of our code: its figures are the true values for short levels.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from inferometer.base import status as outcome
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.link import Callbacks, Responded
from inferometer.load.plan import Closed
from inferometer.load.sequences import Mark
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint, Ramp
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.measurement import Level
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.llm_engine import AskedSequence, Engine, EngineSettings
from tests.support.simulation import SimulatedLoad

PROMPT = 128
KNOWN_ENGINE = EngineSettings(
    prefill_per_s=10_000.0,  # 0.1 ms for each token of a prompt
    step_s=0.0202,  # with one answer in it
    step_per_sequence_s=0.0002,
    slots=32,
)
Lengths = Callable[[random.Random], int]


def fixed(tokens: int) -> Lengths:
    return lambda source: tokens


def between(low: int, high: int) -> Lengths:
    return lambda source: source.randint(low, high)


@dataclass(slots=True)
class Troubles:
    """Additional costs of a step."""

    compile_s: float = 0.0  # for each new number of running answers, rounded up to a power of two
    stall_s: float = 0.0
    stalls_per_s: float = 0.0  # at random
    first_slower: float = 1.0  # factor of every step until `slow_until_s`
    slow_until_s: float = 0.0
    seen: set[int] = field(default_factory=set)

    def extra_s(self, running: int, now_s: float, took_s: float, source: random.Random) -> float:
        extra = took_s * (self.first_slower - 1) if now_s < self.slow_until_s else 0.0
        shape = 1 << max(running - 1, 0).bit_length()
        if self.compile_s and shape not in self.seen:
            self.seen.add(shape)
            extra += self.compile_s
        if self.stalls_per_s and source.random() < took_s * self.stalls_per_s:
            extra += self.stall_s
        return extra


@dataclass(slots=True)
class BatchingServer:
    """The server that `SimulatedLoad` opens a link to."""

    lengths: Lengths
    seed: int = 0
    settings: EngineSettings = KNOWN_ENGINE
    troubles: Troubles | None = None
    latest_s: float = 0.002  # maximum of the random delay of a request
    prompts: Lengths = lambda source: PROMPT
    is_streamed: bool = True  # otherwise answers arrive whole

    def open(self, clock: FakeClock, callbacks: Callbacks) -> "_BatchingNetwork":
        return _BatchingNetwork(self, clock, callbacks)


class _BatchingNetwork:
    """Link and reactor in one: it advances the clock from the end of one step to the end of the next."""

    def __init__(self, server: BatchingServer, clock: FakeClock, callbacks: Callbacks) -> None:
        self.reconnects = self.resent = self.connects = self.connect_ns = self.opening = 0
        self.heard = 0
        self.is_flushed = True
        self.responded: Responded | None = None
        self.marks: list[tuple[int, Mark]] = []
        self._server = server
        self._clock = clock
        self._finish = callbacks.finish
        self._explain = callbacks.explain
        self._source = random.Random(server.seed)
        self._engine = Engine(server.settings)
        self._live: dict[int, tuple[int, AskedSequence]] = {}  # slot -> (sent, sequence)
        self._slots: dict[int, int] = {}  # id of an asked sequence -> slot
        self._step_end_ns: int | None = None
        self._coming: list[tuple[int, int, AskedSequence]] = []  # heap of (arrival, order, sequence)
        self._sent = 0

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        asked = AskedSequence(self._server.prompts(self._source), self._server.lengths(self._source))
        self._live[slot] = (now_ns, asked)
        self._slots[id(asked)] = slot
        self._sent += 1
        arrives_ns = now_ns + round(self._source.uniform(0, self._server.latest_s) * NS_PER_S)
        heappush(self._coming, (arrives_ns, self._sent, asked))

    @property
    def made(self) -> int:
        """Total number of generated tokens."""
        return self._engine.generated

    def prepare(self, slots: int) -> None:
        pass

    def close(self, slot: int) -> None:
        pass

    def sent_ns(self, slot: int) -> int:
        return self._live[slot][0]

    def said(self, slot: int) -> Sequence[str]:
        return ()

    def times(self, slot: int) -> Sequence[int]:
        return _times_ns(self._live[slot][1]) if self._server.is_streamed else ()

    def cancel(self, slot: int, status: int, text: str) -> None:
        sent_ns, asked = self._live.pop(slot)
        self._slots.pop(id(asked))
        for rows in (self._engine.running, self._engine.waiting):
            if asked in rows:
                rows.remove(asked)
        self._coming = [row for row in self._coming if row[2] is not asked]
        heapify(self._coming)
        self._explain(status, text)
        times = _times_ns(asked)
        first_ns = times[0] if times else 0
        self._finish(slot, status, sent_ns, sent_ns, first_ns, self._clock(), 0, len(times), times)

    def _arrive(self, now_ns: int) -> None:
        while self._coming and self._coming[0][0] <= now_ns:
            self._engine.add(heappop(self._coming)[2])

    def wait(self, until_ns: int | None) -> None:
        if self._step_end_ns is None:
            self._arrive(self._clock())
        if self._step_end_ns is None and self._engine.is_idle and self._coming:
            arrives_ns = self._coming[0][0]
            self._clock.move_to(arrives_ns if until_ns is None else min(until_ns, arrives_ns))
            return
        if self._step_end_ns is None and not self._engine.is_idle:
            took_s = self._engine.step()
            troubles = self._server.troubles
            if troubles is not None:
                now_s = self._clock() / NS_PER_S
                took_s += troubles.extra_s(len(self._engine.running), now_s, took_s, self._source)
            self._step_end_ns = self._clock() + round(took_s * NS_PER_S)
        if self._step_end_ns is None or (until_ns is not None and self._step_end_ns > until_ns):
            if until_ns is not None:
                self._clock.move_to(until_ns)
            return
        now_ns, self._step_end_ns = self._step_end_ns, None
        self._clock.move_to(now_ns)
        self.heard += 1
        for asked in self._engine.finish_step(now_ns):
            slot = self._slots.pop(id(asked))
            sent_ns, _ = self._live.pop(slot)
            times = _times_ns(asked) if self._server.is_streamed else [now_ns]
            stamps = times if self._server.is_streamed else ()
            self._finish(
                slot, outcome.OK, sent_ns, sent_ns, times[0], now_ns, 100, len(times), stamps, asked.answer,
                asked.prompt,
            )  # fmt: skip


def _times_ns(asked: AskedSequence) -> list[int]:
    """Arrival times of the tokens; the engine is driven in nanoseconds here."""
    return [int(time) for time in asked.token_times]


# --- the truth


@dataclass(frozen=True, slots=True)
class Stationary:
    tokens_per_s: float
    requests_per_s: float
    first_p50_ns: float
    first_p90_ns: float
    first_p99_ns: float
    gap_p99_ns: float
    mean_ns: float


_LENGTHS = {"fixed 64": fixed(64), "32..96": between(32, 96)}


class _Loop:
    """A closed loop without any of our code; users start one after the other."""

    def __init__(self, lengths: str, users: int, seed: int, troubles: Troubles | None = None) -> None:
        self.clock, self.ended = FakeClock(0), list[tuple[int, int, Sequence[int]]]()  # end, send, tokens
        callbacks = Callbacks(self._finish, lambda *row: (-1, 0), lambda *row: None)  # type: ignore[arg-type]
        self.network = BatchingServer(_LENGTHS[lengths], seed, troubles=troubles).open(self.clock, callbacks)
        for slot in range(users):
            self.run_until(slot * 2 / users)
            self.network.send(slot, 0, self.clock(), None)

    def _finish(self, slot: int, status: int, sent_ns: int, *row: Any) -> None:
        self.ended.append((self.clock(), sent_ns, row[5]))
        self.network.send(slot, 0, self.clock(), None)

    def run_until(self, seconds: float) -> None:
        until_ns = round(seconds * NS_PER_S)
        while self.clock() < until_ns:
            self.network.wait(until_ns)


@cache
def stationary(
    lengths: str,
    users: int,
    seconds: float = 3000.0,
    seed: int = 99,
    stalls: tuple[float, float] = (0.0, 0.0),
) -> Stationary:
    """Figures of a very long closed loop, without its first hundredth; `stalls` are their duration and frequency."""
    loop = _Loop(lengths, users, seed, Troubles(stall_s=stalls[0], stalls_per_s=stalls[1]))
    loop.run_until(seconds / 100)
    begin_ns, made = loop.clock(), loop.network.made
    loop.ended.clear()
    loop.run_until(seconds)
    span_s = (loop.clock() - begin_ns) / NS_PER_S
    first_p50_ns, first_p99_ns, gap_p99_ns = _times(loop.ended)
    return Stationary(
        tokens_per_s=(loop.network.made - made) / span_s,
        requests_per_s=len(loop.ended) / span_s,
        first_p50_ns=first_p50_ns,
        first_p90_ns=float(np.percentile([times[0] - sent_ns for _, sent_ns, times in loop.ended], 90)),
        first_p99_ns=first_p99_ns,
        gap_p99_ns=gap_p99_ns,
        mean_ns=float(np.mean([times[-1] - sent_ns for _, sent_ns, times in loop.ended])),
    )


def own_times(
    lengths: str, users: int, seconds: float, count: int, seed: int = 7
) -> list[tuple[float, float, float]]:
    """Return TTFT p50 and p99 and the p99 of gaps of windows of the same server after each other."""
    warm_s, loop = 20.0, _Loop(lengths, users, seed)
    loop.run_until(warm_s + count * seconds)
    places = [int((end / NS_PER_S - warm_s) // seconds) for end, *_ in loop.ended]
    return [
        _times([row for row, place in zip(loop.ended, places, strict=True) if place == number])
        for number in range(count)
    ]


def _times(ended: Sequence[tuple[int, int, Sequence[int]]]) -> tuple[float, float, float]:
    first = np.array([times[0] - sent_ns for _, sent_ns, times in ended])
    gaps = np.concatenate([np.diff(times) for *_, times in ended])
    p50, p99 = np.percentile(first, (50, 99))
    return float(p50), float(p99), float(np.percentile(gaps, 99))


# --- a level through the real line


def measured(
    lengths: str,
    users: int,
    *,
    seed: int,
    seconds: float = 10.0,
    ramp_ns: int | None = None,
    troubles: Troubles | None = None,
    is_streamed: bool = True,
) -> Level:
    """Measure a level like `inferometer measure -c USERS -d SECONDS`."""
    clock = FakeClock()
    server = BatchingServer(
        _LENGTHS[lengths],
        seed,
        troubles=None if troubles is None else replace(troubles, seen=set()),
        is_streamed=is_streamed,
    )
    instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
    duration_ns = round(seconds * NS_PER_S)
    settings = LevelSettings(
        ModelSpec("", "", (), ()),
        1,
        None,
        Precision(0.0, duration_ns),
        window_ns=max(duration_ns // 20, NS_PER_MS),
        finds_warm_up=True,
        has_tokens=True,
        follows_work=True,
        ramp=Ramp(ramp_ns),
    )
    return measure_level(instrument, settings, LoadPoint("concurrency", users, Closed(users)))
