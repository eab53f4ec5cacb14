"""`python -m benchmarks.long_requests`: short levels on servers with long answers and on servers near their capacity.

The server generates text with continuous batching: a step takes 20 ms, plus 0.2 ms for each running answer and 0.1 ms
for each token of a prompt that starts in it; 32 answers run at once. The true values are those of the same server
after a long time.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import NamedTuple

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Constant, Open, Poisson
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.stats.measurement import Level
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.batching import Stationary, Troubles, measured, own_times, stationary
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

USERS = (1, 8, 32, 64)
LENGTHS = ("fixed 64", "32..96")
TRUTH_S = 2000.0
SHORT_S, LONG_S = 10.0, 30.0
NEAR = 0.03  # error of a time
_Times = Sequence[tuple[float, ...]]


class Case(NamedTuple):
    """A closed load of text requests with answers of these lengths."""

    lengths: str
    users: int
    seconds: float
    seed: int
    troubles: Troubles | None = None


class Found(NamedTuple):
    """Errors of one level, relative to the true values."""

    error: float
    half_width: float | None
    is_covered: bool
    is_unsteady: bool  # the level reports it
    times: tuple[float, float, float]  # errors of TTFT p50, p99 and of the p99 of gaps


def level_of(case: Case) -> Found:
    truth = truth_of(case)
    level = measured(case.lengths, case.users, seed=case.seed, seconds=case.seconds, troubles=case.troubles)
    return compared(level, truth)


def truth_of(case: Case) -> Stationary:
    """Return the figures after a long time, in which a server that stalls does so all the time."""
    troubles = case.troubles or Troubles()
    return stationary(case.lengths, case.users, TRUTH_S, stalls=(troubles.stall_s, troubles.stalls_per_s))


def own_of(case: Case) -> list[tuple[float, ...]]:
    """Return the errors of times in the server's own windows, of which there are as many as `case.seed` says."""
    truth = truth_of(case)
    true = (truth.first_p50_ns, truth.first_p99_ns, truth.gap_p99_ns)
    windows = own_times(case.lengths, case.users, case.seconds, case.seed)
    return [tuple(one / other - 1 for one, other in zip(row, true, strict=True)) for row in windows]


def compared(level: Level, truth: Stationary) -> Found:
    found = level.measurement
    assert found is not None
    assert found.tokens is not None
    assert found.streaming is not None
    tokens, streaming = found.tokens.output_interval, found.streaming
    assert tokens is not None
    low, high = tokens.limits or (0.0, 0.0)
    times = (
        streaming.first.percentile_ns(50) / truth.first_p50_ns - 1,
        streaming.first.percentile_ns(99) / truth.first_p99_ns - 1,
        streaming.gaps.percentile_ns(99) / truth.gap_p99_ns - 1,
    )
    return Found(
        tokens.value / truth.tokens_per_s - 1,
        tokens.relative_half_width,
        low <= truth.tokens_per_s <= high,
        level.doubt is not None,
        times,
    )


def long_answers(levels: int, processes: int | None = None) -> Iterator[str]:
    """Table of the errors of tokens per second and of times."""
    yield (
        "| lengths, in flight | tokens/s | mean error | median error | largest error | interval | covers "
        "| TTFT p50, p99, gap p99 | within 3 % | the server's own |\n" + "|---" * 10 + "|\n"
    )
    with ProcessPoolExecutor(processes) as pool:
        for lengths in LENGTHS:
            for users in USERS:
                short = [Case(lengths, users, SHORT_S, seed) for seed in range(levels)]
                long = [Case(lengths, users, LONG_S, seed) for seed in range(max(1, levels // 3))]
                own = pool.submit(own_of, Case(lengths, users, LONG_S, len(long)))
                rows = list(pool.map(level_of, short, chunksize=4))
                later = [row.times for row in pool.map(level_of, long)]
                truth = truth_of(short[0])
                yield _row(f"{lengths}, {users}", truth, rows, later, own.result())


def _row(name: str, truth: Stationary, rows: Sequence[Found], later: _Times, own: _Times) -> str:
    errors = [abs(row.error) for row in rows]
    widths = [row.half_width for row in rows if row.half_width is not None]
    covers = sum(row.is_covered for row in rows)
    times = (median(row[place] for row in later) for place in range(3))
    cells = (
        name,
        f"{truth.tokens_per_s:,.1f}",
        f"{_mean(errors):.2%}",
        f"{median(errors):.2%}",
        f"{max(errors):.2%}",
        f"±{_mean(widths):.2%}" if widths else "none",
        f"{covers} of {len(rows)}",
        ", ".join(f"{error:+.1%}" for error in times),
        *(_near(found) for found in (later, own)),
    )
    return f"| {' | '.join(cells)} |\n"


def _near(times: _Times) -> str:
    """Count the windows in which each time is near the true value."""
    counts = (sum(abs(row[place]) <= NEAR for row in times) for place in range(3))
    return f"{', '.join(map(str, counts))} of {len(times)}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def troubled(levels: int, processes: int | None = None) -> Iterator[str]:
    """The same table for a server that compiles for each new shape or stalls."""
    yield "| disturbance | in flight | mean error | interval | covers, or is called unsteady |\n|---|---|---|---|---|\n"
    kinds = (
        ("compiles 0.7 s for each new shape", Troubles(compile_s=0.7)),
        ("3 times slower for 10 s", Troubles(first_slower=3.0, slow_until_s=11.0)),
        ("stalls of 0.5 s, one every 2 s", Troubles(stall_s=0.5, stalls_per_s=0.5)),
    )
    with ProcessPoolExecutor(processes) as pool:
        for name, troubles in kinds:
            for users in (8, 32):
                cases = [Case("32..96", users, SHORT_S, seed, troubles) for seed in range(levels)]
                rows = list(pool.map(level_of, cases, chunksize=4))
                widths = [row.half_width for row in rows if row.half_width is not None]
                held = sum(row.is_covered or row.is_unsteady for row in rows)
                mean = _mean([abs(row.error) for row in rows])
                yield f"| {name} | {users} | {mean:.2%} | ±{_mean(widths):.2%} | {held} of {len(rows)} |\n"


# --- by rate

MS = NS_PER_MS
SERVICE: dict[str, Callable[[random.Random], float]] = {
    "10 ms": lambda source: 10 * MS,
    "8 to 12 ms": lambda source: source.uniform(8, 12) * MS,
    "exponential, 10 ms": lambda source: source.expovariate(0.1) * MS,
}


class Rate(NamedTuple):
    """An open load on a server with one kind of service times."""

    service: str
    per_s: float
    is_random: bool
    seed: int


def said_of(case: Rate) -> tuple[bool, bool]:
    """Whether a level of 10 s was called overloaded, and bimodal."""
    source, clock = random.Random(f"service {case.seed}"), FakeClock()  # independent of the arrivals
    draw = SERVICE[case.service]
    server = FakeServer(lambda number, sent_ns: Reply(round(draw(source))), servers=1)
    instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
    rule = Precision(0.05, 10 * NS_PER_S)
    settings = LevelSettings(
        ModelSpec("", "", (), ()), 1, None, rule, window_ns=NS_PER_S // 2, finds_warm_up=True
    )
    schedule = Poisson(case.per_s, case.seed) if case.is_random else Constant(case.per_s)
    point = LoadPoint("request_rate", case.per_s, Open(schedule), case.per_s)
    level = measure_level(instrument, settings, point)
    return level.has_remark(Note.OVERLOADED), level.doubt is not None and level.doubt.kind == "bimodal"


def overload(levels: int, processes: int | None = None) -> Iterator[str]:
    """Table of how often a rate is called overload within 10 s."""
    loads = (50.0, 95.0, 102.0, 105.0, 120.0)
    yield (
        "| service | arrivals | " + " | ".join(f"{load:.0f} %" for load in loads) + " |\n"
        "|---|---|" + "---|" * len(loads) + "\n"
    )
    with ProcessPoolExecutor(processes) as pool:
        for service in SERVICE:
            for is_random in (False, True):
                counts = []
                for load in loads:
                    cases = [Rate(service, load, is_random, seed) for seed in range(levels)]
                    counts.append(sum(is_over for is_over, _ in pool.map(said_of, cases, chunksize=4)))
                cells = " | ".join(f"{count} of {levels}" for count in counts)
                yield f"| {service} | {'random' if is_random else 'even'} | {cells} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_requests", description=__doc__)
    parser.add_argument("--levels", type=int, default=60, help="of each case (default: %(default)s)")
    parser.add_argument("--processes", type=int, help="default: one for each core")
    options = parser.parse_args()
    for rows in (long_answers, troubled, overload):
        for line in rows(options.levels, options.processes):
            print(line, end="", flush=True)
        print()


if __name__ == "__main__":
    main()
