"""Simulated load on a text server: users in a closed loop, or requests with due times. Pure."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.diagnose.text_engine import TextEngine, TextRequest, TextServer
from inferometer.diagnose.text_lengths import Pair
from inferometer.stats.series import rank

TTFT, TPOT = "ttft", "tpot"
LATENCY_FIGURES = ("mean", "p50", "p90", "p99")
TIME_FIGURES = (*LATENCY_FIGURES, TTFT, "ttft p50", "ttft p99", TPOT, "tpot p50", "tpot p99")
_DECK = 1_000  # requests after which every pair of lengths was drawn equally often
_PERCENTS = {"p50": 50, "p90": 90, "p99": 99}


@frozen
class ClosedLoad:
    """Users that each send their next request when the answer to the last one has ended."""

    users: int
    ramp_s: float  # their starts are spread over this time


def closed_loop(
    engine: TextEngine, load: ClosedLoad, pairs: Sequence[Pair], *, until_s: float, seed: int
) -> list[TextRequest]:
    """Return the requests that ended by `until_s`, in order of their ends."""
    source, server = random.Random(seed), TextServer(engine)
    lengths = drawn_pairs(pairs, seed)

    def send(user: int, now_s: float) -> None:
        prompt, output = next(lengths)
        server.take(TextRequest(now_s, prompt, output, user), source.uniform(0.0, 2 * engine.outside_s))

    for user in range(load.users):
        send(user, load.ramp_s * user / load.users)
    done = 0
    while server.now_s < until_s:
        server.advance(until_s)
        for request in server.ended[done:]:
            send(request.user, request.end_s)
        done = len(server.ended)
    return server.ended


def drawn_pairs(pairs: Sequence[Pair], seed: int) -> Iterator[Pair]:
    """Yield pairs in random order, without end, each as often as any other.

    Near saturation, waiting times grow several times as fast as the work, so a simulation whose requests happen to be
    one per cent longer than those of the load would be wrong by much more than that.
    """
    source = random.Random(f"lengths {seed}")
    deck = list(pairs) * -(-_DECK // len(pairs))
    while True:
        source.shuffle(deck)
        yield from deck


def open_loop(
    engine: TextEngine,
    due_s: Sequence[float],
    pairs: Sequence[Pair],
    *,
    seed: int,
    until_s: float = float("inf"),
) -> list[TextRequest]:
    """Return the requests that ended by `until_s`, in order of their ends; request n is due at `due_s[n]`.

    With as many pairs as due times, request n has pair n; otherwise each is drawn at random.
    """
    source, server = random.Random(seed), TextServer(engine)
    lengths = iter(pairs) if len(pairs) == len(due_s) else drawn_pairs(pairs, seed)
    for number, (at_s, (prompt, output)) in enumerate(zip(due_s, lengths, strict=False)):
        server.take(TextRequest(at_s, prompt, output, number), source.uniform(0.0, 2 * engine.outside_s))
    while server.now_s < until_s and server.inside:
        server.advance(until_s)
    return server.ended


def figures_of(requests: Iterable[TextRequest]) -> Mapping[str, float]:
    """Return the time figures of requests in nanoseconds; empty without requests."""
    rows = list(requests)
    if not rows:
        return {}
    sent, first, end = (
        np.array([getattr(row, name) for row in rows]) for name in ("sent_s", "first_s", "end_s")
    )
    tokens = np.array([row.output for row in rows])
    found = dict(_named("", end - sent))
    found |= _named(TTFT, first - sent)
    several = tokens > 1
    if several.any():
        found |= _named(TPOT, (end - first)[several] / (tokens[several] - 1))
    return {name: found[name] for name in TIME_FIGURES if name in found}


def _named(figure: str, times_s: NDArray[np.float64]) -> dict[str, float]:
    ordered = np.sort(times_s) * NS_PER_S
    found = {figure or "mean": float(ordered.mean())}
    for name, percent in _PERCENTS.items():
        found[f"{figure} {name}".strip()] = float(ordered[rank(percent, len(ordered))])
    return found


# --- a measurement of a load


@frozen
class TextLoad:
    """A load by concurrency or by rate, with equally likely pairs of prompt and answer lengths."""

    mode: str  # concurrency or request_rate
    value: float
    pairs: tuple[Pair, ...]
    is_random: bool = False  # Poisson arrivals

    def scaled(self, factor: float) -> "TextLoad":
        return replace(self, value=self.value * factor)


@frozen
class SimulatedText:
    """Blocks of a simulation, each as long as a measurement, or shorter by the factor `shrink`."""

    blocks: tuple[tuple[TextRequest, ...], ...]
    block_s: float
    shrink: float  # ratio of the lengths of a block and of the measurement
    is_overloaded: bool
    preemptions: int = 0

    @property
    def requests_per_s(self) -> float:
        return sum(map(len, self.blocks)) / len(self.blocks) / self.block_s

    def figures(self) -> dict[str, float]:
        """Return the median of each figure over the blocks; percentiles of short blocks come from all of them."""
        rows = [figures_of(block) for block in self.blocks if block]
        if not rows:
            return {}
        pooled = figures_of(row for block in self.blocks for row in block)
        if self.shrink < 1:
            return dict(pooled)
        found = {name: float(np.median([row[name] for row in rows if name in row])) for name in pooled}
        return found | {name: pooled[name] for name in ("mean", TTFT, TPOT) if name in pooled}

    def chance(self) -> dict[str, float]:
        """Return the standard deviation of the logarithm of each figure between measurements."""
        rows = [figures_of(block) for block in self.blocks if block]
        names = rows[0] if rows else ()
        return {
            name: _deviation([row[name] for row in rows if name in row]) * self.shrink**0.5 for name in names
        }

    def tokens_per_s(self) -> float:
        return sum(row.output for block in self.blocks for row in block) / len(self.blocks) / self.block_s


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(np.log(values), ddof=1)) if len(values) > 1 and min(values) > 0 else 0.0


MOST_OF_BLOCK = 800  # requests of a block: a longer measurement is represented by a part of it
_BEHIND = 0.95  # share of due requests that end below which a queue grows
_GROWING = 1.5  # ratio of the last to the first latencies that shows a growing queue
_FEWEST_GROWING = 30  # requests needed to distinguish a growing queue from chance
_MOST_DUE = 300_000


def simulate_text(
    engine: TextEngine, load: TextLoad, seconds: float, *, blocks: int, seed: int, most: int = MOST_OF_BLOCK
) -> SimulatedText:
    """Simulate `blocks` measurements of this length one after the other, beginning when the load has settled."""
    response_s = response_guess_s(engine, load)
    per_s = load.value / response_s if load.mode == "concurrency" else load.value
    block_s = min(seconds, most / per_s)
    settle_s = (3 if load.mode == "concurrency" else 6) * response_s
    until_s = settle_s + blocks * block_s
    if load.mode == "concurrency":
        ended = closed_loop(
            engine, ClosedLoad(round(load.value), response_s), load.pairs, until_s=until_s, seed=seed
        )
        is_overloaded = False
    else:
        due = arrivals_s(min(load.value, _MOST_DUE / until_s), until_s, is_random=load.is_random, seed=seed)
        ended = open_loop(engine, due, load.pairs, seed=seed, until_s=until_s)
        counted = [row for row in ended if row.end_s >= settle_s]
        is_overloaded = _is_behind(counted, sum(at_s >= settle_s for at_s in due))
    found: list[list[TextRequest]] = [[] for _ in range(blocks)]
    for row in ended:
        place = int((row.end_s - settle_s) // block_s)
        if row.end_s >= settle_s and place < blocks:
            found[place].append(row)
    return SimulatedText(tuple(map(tuple, found)), block_s, block_s / seconds, is_overloaded)


def arrivals_s(per_s: float, until_s: float, *, is_random: bool, seed: int) -> list[float]:
    """Return due times, even, or random: a Poisson process with the expected number of requests, for the same reason as
    in `drawn_pairs`."""
    count = max(1, round(per_s * until_s))
    if not is_random:
        return [(number + 0.5) / per_s for number in range(count)]
    source = random.Random(seed)
    return sorted(source.uniform(0.0, until_s) for _ in range(count))


def _is_behind(ended: Sequence[TextRequest], due: int) -> bool:
    if len(ended) < _FEWEST_GROWING or len(ended) > _BEHIND * due:
        return due >= _FEWEST_GROWING and not ended
    third = max(1, len(ended) // 3)
    waits = [row.end_s - row.sent_s for row in sorted(ended, key=lambda row: row.sent_s)]
    return sum(waits[-third:]) > _GROWING * sum(waits[:third])


def response_guess_s(engine: TextEngine, load: TextLoad) -> float:
    """Return roughly how long a request takes under this load."""
    count = len(load.pairs)
    prompt, output = (sum(pair[place] for pair in load.pairs) / count for place in (0, 1))
    alone_s = engine.alone_s(round(prompt), max(1, round(output)))[1]
    if load.mode != "concurrency":
        return alone_s
    at_once = load.value if engine.slots is None else min(load.value, engine.slots)
    if engine.kv_tokens is not None:
        at_once = max(1.0, min(at_once, engine.kv_tokens / (prompt + output / 2)))
    read_s = engine.prompt_s * prompt * (1 - engine.cached)
    step_s = engine.fixed_s + at_once * (
        engine.answer_s + engine.context_s * (prompt + output / 2) + read_s / output
    )
    return engine.outside_s + output * step_s * load.value / at_once
