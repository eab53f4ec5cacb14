"""A replica that generates text, derived from its measurements.

The engine is fitted to the measured loads (`diagnose.text_fit`), so requests of other lengths than the measured ones
can be planned for. Its step times include one additional standard deviation of the fit. If the number of slots is
unknown, a replica runs no more requests at once than were measured.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import share
from inferometer.capacity.replica import End, MeasuredLoad, measured_loads
from inferometer.capacity.traffic import ExpectedTraffic, Times
from inferometer.diagnose.text_engine import TextEngine, TextRequest, TextServer
from inferometer.diagnose.text_fit import (
    FittedText,
    TextObservation,
    fit_text,
    maybe_text_observation,
    usual_pairs,
)
from inferometer.diagnose.text_lengths import Pair, mean_lengths, reduced
from inferometer.diagnose.text_load import TTFT, TextLoad, open_loop, simulate_text
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result

FEWEST_LOADS = 2  # to which an engine can be fitted
_ALIKE = 0.03  # relative difference between mean lengths that does not count
_SATURATED = 2  # multiple of the slots in flight at which a replica is saturated
_ROUNDS = 6  # rounds of answers that are simulated for the throughput
_SETTLING = 3  # requests before a stretch, in multiples of the slots


@frozen
class TextRun:
    """Times of each request in order of arrival; `inside` counts the requests in its replica, itself included."""

    latencies_s: NDArray[np.float64]
    inside: NDArray[np.int64]
    first_s: NDArray[np.float64]
    between_s: NDArray[np.float64]  # mean time between tokens; 0 for a single token


@frozen
class TextReplica:
    """A fitted engine with the lengths of the expected requests."""

    engine: TextEngine
    pairs: tuple[Pair, ...]
    mode: str  # concurrency or request_rate: how it was measured
    loads: tuple[MeasuredLoad, ...]
    is_growing: bool
    most_per_s: float
    has_streams: bool
    beyond: str = ""  # why figures are extrapolated, whatever the load
    remarks: tuple[str, ...] = ()

    @property
    def places(self) -> int:
        return self.engine.slots or 1

    @property
    def settling(self) -> int:
        """Number of requests simulated per replica before a stretch, so that it does not start with empty queues."""
        return _SETTLING * self.places

    @property
    def alone_s(self) -> float:
        prompt, output = mean_lengths(self.pairs)
        return self.engine.alone_s(round(prompt), max(1, round(output)))[1]

    @property
    def most_inside(self) -> int:
        return int(self.loads[-1].load) if self.mode == "concurrency" else self.places

    def failed_share(self, rate: float) -> float:
        """Return the largest error rate of the measured loads up to this rate, and of the next higher load."""
        above = next(
            (number for number, row in enumerate(self.loads) if row.sent_per_s > rate), len(self.loads)
        )
        return max((row.failed_share for row in self.loads[: above + 1]), default=0.0)

    def alone(self, requests: int, random: np.random.Generator) -> TextRun:
        """Return the times of requests that have a replica to themselves."""
        chosen = [self.pairs[place] for place in random.integers(len(self.pairs), size=requests).tolist()]
        known = {pair: self.engine.alone_s(*pair) for pair in set(chosen)}
        first, end = (np.array([known[pair][place] for pair in chosen]) for place in (0, 1))
        outputs = np.array([pair[1] for pair in chosen])
        return TextRun(end, np.ones(requests, dtype=np.int64), first, _between(first, end, outputs))


def simulate_replicas(
    replica: TextReplica,
    count: int,
    balancer: str,
    arrivals: tuple[Times, Sequence[Pair] | None],
    random: np.random.Generator,
) -> TextRun:
    """Simulate requests that arrive at these times, with these lengths or with those of the replica."""
    times, pairs = arrivals
    if pairs is None:
        chosen = random.integers(len(replica.pairs), size=len(times)).tolist()
        pairs = [replica.pairs[place] for place in chosen]
    seed = int(random.integers(1 << 31))
    if balancer == "least-outstanding":
        rows, places = _to_the_least(replica.engine, count, times, pairs, seed)
    else:
        if balancer == "random":
            places = random.integers(count, size=len(times))
        else:
            places = (int(random.integers(count)) + np.arange(len(times))) % count
        rows = []
        for place in range(count):
            mine = np.flatnonzero(places == place)
            own = [pairs[number] for number in mine.tolist()]
            ended = open_loop(replica.engine, times[mine].tolist(), own, seed=seed + place)
            for row in ended:
                row.user = int(mine[row.user])
            rows += ended
    rows.sort(key=lambda row: row.user)
    end, first = np.array([row.end_s for row in rows]), np.array([row.first_s for row in rows])
    return TextRun(
        end - times,
        _inside(times, end, places, count),
        first - times,
        _between(first, end, np.array([row.output for row in rows])),
    )


def _to_the_least(
    engine: TextEngine, count: int, times: Times, pairs: Sequence[Pair], seed: int
) -> tuple[list[TextRequest], NDArray[np.int64]]:
    """Assign each request to the replica with the fewest requests, in turn among equals."""
    servers = [TextServer(engine) for _ in range(count)]
    delays = np.random.default_rng(seed).uniform(0.0, 2 * engine.outside_s, len(times)).tolist()
    places, turn = np.zeros(len(times), dtype=np.int64), 0
    for number, at_s in enumerate(times.tolist()):
        for server in servers:
            while server.now_s < at_s:
                server.advance(at_s)
        order = (*range(turn, count), *range(turn))
        least = min(order, key=lambda place: servers[place].inside)
        servers[least].take(TextRequest(at_s, *pairs[number], number), delays[number])
        places[number], turn = least, (least + 1) % count
    for server in servers:
        while server.inside:
            server.advance(math.inf)
    return [row for server in servers for row in server.ended], places


def _inside(times: Times, ends: Times, places: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the number of requests in its replica when each request arrives, itself included."""
    found = np.zeros(len(times), dtype=np.int64)
    for place in range(count):
        mine = places == place
        gone = np.searchsorted(np.sort(ends[mine]), times[mine], side="right")
        found[mine] = np.arange(1, int(mine.sum()) + 1) - gone
    return found


def _between(
    first: NDArray[np.float64], end: NDArray[np.float64], outputs: NDArray[np.int64]
) -> NDArray[np.float64]:
    return np.where(outputs > 1, (end - first) / np.maximum(outputs - 1, 1), 0.0)


# --- from a result


def _fixed_levels(result: Result) -> list[Level]:
    """Return the levels of a fixed load; only constant and Poisson arrivals are simulated."""
    is_simulated = result.effective.distribution in ("constant", "poisson")
    modes = ("concurrency", "request_rate") if is_simulated else ("concurrency",)
    return [level for level in result.levels if level.mode in modes]


def text_observations(result: Result) -> list[TextObservation]:
    """Return the figures of the loads that an engine can be fitted to."""
    is_random = result.effective.distribution == "poisson"
    return [
        row
        for level in _fixed_levels(result)
        if level.is_as_asked and (row := maybe_text_observation(level, is_random=is_random)) is not None
    ]


def text_replica_of(
    result: Result, name: str, pairs: tuple[Pair, ...] | None, end: End = "planned"
) -> TextReplica:
    """Fit the engine to the levels of a result; `pairs` are the lengths of the traffic, if they are known."""
    rows = text_observations(result)
    if len(rows) < FEWEST_LOADS:
        raise UsageError(
            f"'{name}' has {len(rows)} usable load{'s' * (len(rows) != 1)}, but a plan for text needs at least two",
            remedy="save a result with three or four: inferometer measure URL MODEL -c 1,4,16,64 --json machine.json",
        )
    if pairs is not None and not rows[-1].knows_prompts:
        raise UsageError(
            f"the server of '{name}' did not report the lengths of prompts, so traffic with lengths cannot be planned",
            remedy="measure a server that reports usage, or leave the lengths out",
        )
    fitted = fit_text(rows)
    engine = _at_end(fitted, end)
    most = max(round(row.load.value) for row in rows) if rows[0].load.mode == "concurrency" else None
    remarks = list(fitted.notes)
    if engine.slots is None:
        engine = replace(
            engine, slots=most or max(1, round(rows[-1].requests_per_s * rows[-1].figures["mean"] / 1e9))
        )
    lengths = usual_pairs(rows) if pairs is None else reduced(pairs)
    longest = max(sum(pair) for pair in lengths)
    if engine.kv_tokens is not None and engine.kv_tokens < longest:
        raise UsageError(
            f"a request of {longest:,} tokens exceeds the KV cache of '{name}', which holds {engine.kv_tokens:,}",
            remedy="leave such requests out of the traffic",
        )
    loads, is_growing = measured_loads(_fixed_levels(result), end)
    return TextReplica(
        engine=engine,
        pairs=lengths,
        mode=rows[0].load.mode,
        loads=loads,
        is_growing=is_growing,
        most_per_s=_most_per_s(engine, lengths),
        has_streams=any(TTFT in row.figures for row in rows),
        beyond=_beyond(lengths, rows),
        remarks=tuple(f"{note[0].upper()}{note[1:]}." for note in remarks),
    )


def with_reuse(replica: TextReplica, traffic: ExpectedTraffic) -> TextReplica:
    """Return the replica with the prefix hits of a trace, if its server was seen to reuse prefixes."""
    if not replica.engine.cached or traffic.pairs is None:
        return replica
    engine = replace(replica.engine, cached=min(traffic.reusable, 0.99))
    note = f"{share(traffic.reusable)} of the prompt tokens of the trace repeat earlier ones and count as prefix hits."
    return replace(
        replica,
        engine=engine,
        most_per_s=_most_per_s(engine, replica.pairs),
        remarks=(*replica.remarks, note),
    )


def _at_end(fitted: FittedText, end: End) -> TextEngine:
    """Return the engine with step times longer by one standard deviation of the fit; for the end "best", shorter."""
    engine = fitted.engine
    running = float(engine.slots or 16)
    step_s = engine.step_s(round(running), 0.0, running)
    off = sum((other.step_s(round(running), 0.0, running) / step_s - 1) ** 2 for other in fitted.plausible)
    factor = 1 + min(math.sqrt(off), 0.2)
    factor = 1 / factor if end == "best" else factor
    return replace(
        engine,
        fixed_s=engine.fixed_s * factor,
        answer_s=engine.answer_s * factor,
        context_s=engine.context_s * factor,
        prompt_s=engine.prompt_s * factor,
    )


def _most_per_s(engine: TextEngine, pairs: tuple[Pair, ...]) -> float:
    """Return the requests per second of a saturated replica."""
    users = _SATURATED * (engine.slots or 1)
    load = TextLoad("concurrency", users, pairs)
    found = simulate_text(engine, load, 1e9, blocks=1, seed=1, most=max(400, _ROUNDS * users))
    return found.requests_per_s


def _beyond(pairs: Sequence[Pair], rows: Sequence[TextObservation]) -> str:
    """Return why these lengths are outside the measured range; empty if they are not."""
    wanted = mean_lengths(pairs)
    seen = [mean_lengths(row.load.pairs) for row in rows]
    for place, words in enumerate(("prompts", "answers")):
        values = [row[place] for row in seen]
        if not min(values) * (1 - _ALIKE) <= wanted[place] <= max(values) * (1 + _ALIKE):
            return f"{words} of {wanted[place]:.0f} tokens on average, but {_range(values)} were measured"
    return ""


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
