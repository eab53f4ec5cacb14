"""Runs of the exact simulation of a text server (`tests.support.batching`), for fits and for held-out loads.

`text_result` measures loads through the real line, as `inferometer measure` does. `truth` drives the same engine in a
loop of its own, without any of our code, for loads that a prediction is compared with: it has the random numbers of
another measurement of the same length.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush

import numpy as np

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint, Ramp
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.options.effective import Effective
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.stats.series import rank
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from inferometer.twin.fit import fit_twin
from inferometer.twin.twin import Twin
from tests.support.batching import BatchingServer, Lengths
from tests.support.clock import FakeClock
from tests.support.llm_engine import AskedSequence, Engine, EngineSettings
from tests.support.simulation import SimulatedLoad


@dataclass(frozen=True, slots=True)
class KnownText:
    """A text server with known step times, and the lengths of its requests."""

    settings: EngineSettings
    prompts: tuple[int, int]  # uniform, from the first to the second
    answers: tuple[int, int]
    latest_s: float = 0.002  # maximum of the random delay of a request

    def prompt(self) -> Lengths:
        return lambda source: source.randint(*self.prompts)

    def answer(self) -> Lengths:
        return lambda source: source.randint(*self.answers)


def text_result(known: KnownText, users: Sequence[int], seconds: float, *, seed: int = 1) -> Result:
    """Measure these concurrencies."""
    levels = tuple(_level(known, count, seconds, seed + place) for place, count in enumerate(users))
    return Result(
        tool="inferometer test",
        command="measure",
        started_at="2026-11-18T08:00:00+00:00",
        asked={"model": "tiny", "data": {"seed": 1}},
        effective=Effective(),
        host={},
        server={"url": "localhost:8000"},
        model={"name": "tiny", "version": "1"},
        levels=levels,
    )


SHORT = KnownText(
    EngineSettings(prefill_per_s=20_000, step_s=0.011, step_per_sequence_s=0.001, slots=4), (20, 60), (4, 12)
)


@cache
def short_text_result() -> Result:
    """A small server with short answers, measured in a fraction of a second."""
    return text_result(SHORT, (1, 3, 8), 4.0)


@cache
def short_text_twin() -> Twin:
    return fit_twin([short_text_result()])


def _level(known: KnownText, users: int, seconds: float, seed: int) -> Level:
    clock = FakeClock()
    server = BatchingServer(
        known.answer(), seed, known.settings, latest_s=known.latest_s, prompts=known.prompt()
    )
    instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
    duration_ns = round(seconds * NS_PER_S)
    settings = LevelSettings(
        ModelSpec("tiny", "1", (), ()),
        1,
        None,
        Precision(0.0, duration_ns),
        window_ns=max(duration_ns // 20, NS_PER_MS),
        finds_warm_up=True,
        has_tokens=True,
        follows_work=True,
        ramp=Ramp(None),
    )
    return measure_level(instrument, settings, LoadPoint("concurrency", users, Closed(users)))


@dataclass(frozen=True, slots=True)
class Truth:
    """Figures of a load, in nanoseconds and requests per second."""

    figures: dict[str, float]
    count: int


def truth(
    known: KnownText,
    *,
    users: int = 0,
    due_s: Sequence[float] = (),
    seconds: float,
    settle_s: float,
    seed: int,
) -> Truth:
    """Run the engine with users in a closed loop or with requests at due times, and count those that end after
    `settle_s`."""
    source, engine = random.Random(seed), Engine(known.settings)
    coming: list[tuple[float, int, AskedSequence]] = []
    sent: list[tuple[float, AskedSequence]] = []

    def send(at_s: float) -> None:
        asked = AskedSequence(source.randint(*known.prompts), source.randint(*known.answers))
        sent.append((at_s, asked))
        heappush(coming, (at_s + source.uniform(0.0, known.latest_s), len(sent), asked))

    end_s, now_s = settle_s + seconds, 0.0
    for user in range(users):
        send(user * settle_s / 3 / users)
    for at_s in due_s:
        send(at_s)
    while now_s < end_s:
        while coming and coming[0][0] <= now_s:
            engine.add(heappop(coming)[2])
        if engine.is_idle:
            if not coming:
                break
            now_s = coming[0][0]
            continue
        now_s += engine.step()
        for _ in engine.finish_step(now_s):
            if users:
                send(now_s)
    rows = [
        (at_s, asked.token_times)
        for at_s, asked in sent
        if asked.is_done and settle_s <= asked.token_times[-1] < end_s
    ]
    return Truth(_figures(rows, seconds), len(rows))


def random_arrivals(rate: float, until_s: float, seed: int) -> list[float]:
    source, found, now_s = random.Random(seed), [], 0.0
    while (now_s := now_s + source.expovariate(rate)) < until_s:
        found.append(now_s)
    return found


def _figures(rows: Sequence[tuple[float, Sequence[float]]], seconds: float) -> dict[str, float]:
    whole = np.sort([times[-1] - at_s for at_s, times in rows]) * NS_PER_S
    first = np.sort([times[0] - at_s for at_s, times in rows]) * NS_PER_S
    between = np.array([(times[-1] - times[0]) / (len(times) - 1) for _, times in rows if len(times) > 1])
    return {
        "throughput": len(rows) / seconds,
        "mean": float(whole.mean()),
        "p99": float(whole[rank(99, len(whole))]),
        "ttft p50": float(first[rank(50, len(first))]),
        "ttft p99": float(first[rank(99, len(first))]),
        "tpot": float(between.mean()) * NS_PER_S,
    }


def fleet_first_p99_ns(known: KnownText, replicas: int, due_s: Sequence[float], *, settle_s: float) -> float:
    """Return the p99 of the time to the first token of replicas that get requests in turn."""
    found: list[float] = []
    for place in range(replicas):
        source, engine = random.Random(place), Engine(known.settings)
        asked = [
            (at_s, AskedSequence(source.randint(*known.prompts), source.randint(*known.answers)))
            for at_s in due_s[place::replicas]
        ]
        coming, now_s = deque(asked), 0.0
        while coming or not engine.is_idle:
            if engine.is_idle:
                now_s = max(now_s, coming[0][0])
            while coming and coming[0][0] <= now_s:
                engine.add(coming.popleft()[1])
            now_s += engine.step()
            engine.finish_step(now_s)
        found += [row.token_times[0] - at_s for at_s, row in asked if at_s >= settle_s]
    return sorted(found)[rank(99, len(found))] * NS_PER_S
