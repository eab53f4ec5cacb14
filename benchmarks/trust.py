"""`python -m benchmarks.trust`: measure servers with known figures, and write docs/trust.md.

Servers on a simulated clock have exact figures that nothing on the machine can disturb. Servers on the real
Triton are also measured by the classic tool; their accuracy depends on the machine.
"""

import argparse
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import text_capacity, text_twin
from benchmarks.children import run
from benchmarks.long_requests import long_answers, overload, troubled
from benchmarks.machine import Machine, busy_cores, this_machine
from benchmarks.parts import real_perf_analyzer
from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open, Poisson
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.report.format import quantity
from inferometer.stats.doubts import stall_period_s
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Finding
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.planted import Planted, PlantedStep, plant
from tests.support.queues import KNOWN, QUEUES, exponential, fixed, queue, search
from tests.support.simulation import FakeServer, Reply, Script, SimulatedLoad

PAGE = Path(__file__).resolve().parent.parent / "docs" / "trust.md"
MS = NS_PER_MS
MEASURED_S = 60
CLOSE = 0.001  # relative error allowed for a figure without an interval, since windows cut requests


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one server."""

    server: str
    figure: str
    truth: float
    ours: Estimate
    unit: str = "ms"
    theirs: str = "-"

    @property
    def verdict(self) -> str:
        low, high = self.ours.low, self.ours.high
        if low is None or high is None:
            return "exact" if math.isclose(self.ours.value, self.truth, rel_tol=CLOSE) else "OFF"
        slack = CLOSE * self.truth
        return "covered" if low - slack <= self.truth <= high + slack else "NOT COVERED"

    @property
    def cells(self) -> tuple[str, ...]:
        low, high = self.ours.low, self.ours.high
        between = "none" if low is None or high is None else f"{quantity(low)} to {quantity(high)}"
        truth, ours = (f"{quantity(value)} {self.unit}" for value in (self.truth, self.ours.value))
        return self.server, self.figure, truth, ours, between, self.verdict, self.theirs


LONG_ANSWERS = (
    "Levels of 10 s on a simulated server with continuous batching: a step takes 20 ms, plus 0.2 ms for each running "
    "answer and 0.1 ms for each token of a prompt (128) that starts in it; 32 answers run at once. Errors are those of "
    "tokens/s, relative to the same server after a very long time. Errors of times are medians over levels of 30 s. "
    "Times are whole steps, so that a percentile takes one of a few values and jumps from one to the next. The last "
    "columns count the levels of 30 s whose times are within 3 %, and, as the best possible, windows of 30 s inside "
    "the server."
)
TROUBLED = "Lengths 32..96, levels of 10 s. The true value is that of the steady server, or of one that keeps stalling."
NEAR_CAPACITY = (
    "Number of levels of 10 s that were called overloaded. The server answers one request after the other, at most "
    "100/s. With exponential service times, 10 s are too short to distinguish 95 % from 105 % of the capacity: the "
    "best possible test with one false alarm in 100 levels at 95 % detects 105 % in 80 of 100."
)
TEXT_TWINS = (
    "Four engines with known step times, each fitted at four loads of 30 s and predicted at ten others: other "
    "concurrencies, random arrivals, lengths and slots. 85 to 97 % of the figures should be inside their intervals."
)
TEXT_REPLICAS = (
    "The true p99 of the TTFT with the planned number of replicas, which should meet the SLO, and with fewer."
)
COVERAGE = "Searches with different random times; 95 of 100 intervals should cover the limit."
ON_TRITON = "On the real Triton"
COLUMNS = ("server", "figure", "truth", "ours", "95 % interval", "verdict", "perf_analyzer")


# --- on a simulated clock


def simulated(server: FakeServer, point: LoadPoint, **more: Any) -> Level:
    clock = FakeClock()
    instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
    rule = Precision(0.0, MEASURED_S * NS_PER_S, is_enough=lambda: False)
    level_settings = LevelSettings(ModelSpec("", "", (), ()), 1, None, rule, window_ns=NS_PER_S, **more)
    return measure_level(instrument, level_settings, point)


def in_flight(number: int) -> LoadPoint:
    return LoadPoint("concurrency", number, Closed(number))


def rate(per_s: float, *, is_random: bool = False) -> LoadPoint:
    schedule = Poisson(per_s, 7) if is_random else Constant(per_s)
    return LoadPoint("request_rate", per_s, Open(schedule), per_s)


def figures(level: Level) -> Measurement:
    assert level.measurement is not None
    return level.measurement


def latency(found: Measurement, name: str) -> Estimate:
    ns = dict(found.latency_intervals)[name]
    low, high = (None if end is None else end / MS for end in (ns.low, ns.high))
    return Estimate(ns.value / MS, low, high)


def stalls(number: int, sent_ns: int) -> Reply:
    """Answer nothing in the first 100 ms of every second."""
    into_ns = sent_ns % NS_PER_S
    return Reply(MS + max(0, 100 * MS - into_ns))


def slow_start(number: int, sent_ns: int) -> Reply:
    return Reply(50 * MS if number < 100 else 5 * MS)


def fails(number: int, sent_ns: int) -> Reply:
    return Reply(5 * MS, status.HTTP + 503 if number % 20 == 0 else status.OK)


def batches(size: int, batch_ns: int) -> Script:
    """Answer requests that arrive together in batches of `size`."""
    ends: list[int] = []

    def script(number: int, sent_ns: int) -> Reply:
        if number % size == 0:
            ends.append(max(sent_ns, ends[-1] if ends else 0) + batch_ns)
        return Reply(ends[-1] - sent_ns)

    return script


def streams(number: int, sent_ns: int) -> Reply:
    times = tuple(50 * MS + 20 * MS * token for token in range(10))
    return Reply(times[-1], responses_ns=times)


def simulated_rows() -> Iterator[Row]:
    found = figures(simulated(queue(fixed(5))(0), in_flight(1)))
    yield Row("5 ms, one in flight", "throughput", 200, found.infer_per_s, "/s")
    yield Row("5 ms, one in flight", "p99", 5, latency(found, "p99"))
    found = figures(simulated(queue(fixed(5), 4)(0), in_flight(4)))
    yield Row("5 ms on 4 instances, 4 in flight", "throughput", 800, found.infer_per_s, "/s")
    found = figures(simulated(queue(fixed(5))(0), in_flight(4)))
    yield Row("5 ms, 4 in flight: 15 ms in the queue", "mean", 20, latency(found, "mean"))
    found = figures(simulated(queue(exponential(5))(3), rate(100, is_random=True)))
    yield Row("exponential 5 ms, 100/s at random", "mean", 10, latency(found, "mean"))
    for p in (50, 90, 99):
        truth = -math.log(1 - p / 100) * 10
        yield Row("exponential 5 ms, 100/s at random", f"p{p}", truth, latency(found, f"p{p}"))
    found = figures(simulated(FakeServer(stalls), rate(200)))
    yield Row("frozen for 0.1 s of every second, 200/s", "p95", 51, latency(found, "p95"))
    yield Row("frozen for 0.1 s of every second, 200/s", "p99", 91, latency(found, "p99"))
    found = figures(simulated(FakeServer(fails), rate(200)))
    yield Row("every 20th refused", "errors", 5, Estimate(100 * found.failed_share), "%")
    found = figures(simulated(FakeServer(batches(4, 10 * MS)), in_flight(8)))
    yield Row("batches of 4 in 10 ms, 8 in flight", "throughput", 400, found.infer_per_s, "/s")
    yield Row("batches of 4 in 10 ms, 8 in flight", "mean", 20, latency(found, "mean"))
    level = simulated(queue_of(slow_start), in_flight(1), finds_warm_up=True)
    yield Row("50 ms for 5 s, then 5 ms", "throughput", 200, figures(level).infer_per_s, "/s")
    found = figures(simulated(FakeServer(streams), in_flight(2)))
    assert found.streaming is not None
    first, gaps = found.streaming.first, found.streaming.gaps
    yield Row("10 tokens, one each 20 ms", "first token p50", 50, Estimate(first.percentile_ns(50) / MS))
    yield Row("10 tokens, one each 20 ms", "gap p99", 20, Estimate(gaps.percentile_ns(99) / MS))


def queue_of(script: Script) -> FakeServer:
    return FakeServer(script, 1)


def find_rows() -> Iterator[Row]:
    for known in KNOWN:
        finding = search(known, 1, MEASURED_S).finding
        unit = "/s" if known.is_rate else "in flight"
        high = math.inf if finding.high is None else finding.high
        limit = Estimate(finding.value, finding.low, high)
        yield Row(known.name, f"limit of {known.promise}", known.limit, limit, unit)


SEARCHED = (*KNOWN, *QUEUES)


def _found(task: tuple[int, int, float]) -> Finding:
    place, seed, duration_s = task
    return search(SEARCHED[place], seed, duration_s).finding


def coverage(seeds: int, duration_s: float) -> Iterator[str]:
    """Table of how often the interval of a search covers the limit, its width, and how often the estimate is high."""
    yield "| server | SLO | limit | covered | median high/low | estimate more than 10 % too high |\n"
    yield "|---|---|---|---|---|---|\n"
    widths: list[float] = []
    covered = high = 0
    with ProcessPoolExecutor() as pool:
        tasks = [(place, seed, duration_s) for place in range(len(SEARCHED)) for seed in range(seeds)]
        findings = pool.map(_found, tasks, chunksize=4)
    for known in SEARCHED:
        found = list(islice(findings, seeds))
        count, over = sum(map(known.covers, found)), sum(row.value > 1.1 * known.limit for row in found)
        own = [math.inf if not row.low or row.high is None else row.high / row.low for row in found]
        widths, covered, high = widths + own, covered + count, high + over
        cells = (f"{count} of {seeds}", _width(own), f"{over} of {seeds}")
        yield f"| {known.name} | {known.promise} | {quantity(known.limit)} | {' | '.join(cells)} |\n"
    total = len(widths)
    yield f"| all | | | {covered} of {total} | {_width(widths)} | {high} of {total} |\n"


def _width(widths: Sequence[float]) -> str:
    middle = float(np.median(widths))
    return "open" if math.isinf(middle) else f"{middle:.2f}"


# --- on the real Triton, by both tools

STALLING = '''"""Answers after 1 ms, but is frozen in the first 100 ms of every second."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(max(0.001, 0.1 - time.time() % 1))
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", request.inputs()[0].as_numpy())])
            for request in requests
        ]
'''
SLEEPER = PlantedStep("sleeper", sleep_ms=20.0)
PAIR = PlantedStep("pair", sleep_ms=20.0, instances=2)
STALLER = PlantedStep("staller")


@dataclass(frozen=True, slots=True)
class _Contest:
    """A model of the real server, a load for both tools, and the known figure."""

    model: str
    server: str
    load: tuple[str, ...]
    figure: str
    truth: float
    unit: str
    theirs: str  # its name in the classic tool's report


ONE, FOUR, PER_SECOND = (
    ("--concurrency-range", "1"),
    ("--concurrency-range", "4"),
    ("--request-rate-range", "100"),
)
CONTESTS = (
    _Contest("sleeper", "20 ms asleep, one in flight", ONE, "throughput", 50, "/s", "Throughput"),
    _Contest("sleeper", "20 ms asleep, 4 in flight", FOUR, "mean", 80, "ms", "Avg latency"),
    _Contest("pair", "20 ms on 2 instances, 4 in flight", FOUR, "throughput", 100, "/s", "Throughput"),
    _Contest(
        "staller", "frozen for 0.1 s of every second, 100/s", PER_SECOND, "p99", 91, "ms", "p99 latency"
    ),
)


def real_rows() -> Iterator[Row]:
    """Rows of the real server. The true values ignore its overhead per request, a fraction of a millisecond."""
    from inferometer.server.embedded import EmbeddedTriton

    real = real_perf_analyzer()
    with tempfile.TemporaryDirectory() as folder:
        models = ("sleeper", "pair", "staller")
        repository = plant(Path(folder), (Planted("all", (SLEEPER, PAIR, STALLER), "", ""),))
        (repository / "staller" / "1" / "model.py").write_text(STALLING)
        with EmbeddedTriton((repository,), load_models=models) as server:
            for contest in CONTESTS:
                command = ["-m", contest.model, "-u", server.http_address, *contest.load, "-p", "4000"]
                said = run(
                    [str(real.executable), *command], timeout_s=120, environment=real.environment
                ).output
                yield _contested(contest, server.http_address, said)


def _contested(contest: _Contest, address: str, said: str) -> Row:
    from inferometer import api
    from inferometer.options.values import Range

    name, number = contest.load
    load = {"concurrency": int(number)} if "concurrency" in name else {"request_rate": Range(float(number))}
    result = api.measure(
        contest.model, duration_s=12.0, precision=0.0, url=address, asynchronous=True, **load
    )
    found = figures(result.levels[0])
    ours = found.infer_per_s if contest.figure == "throughput" else latency(found, contest.figure)
    values = [float(value) for value in re.findall(rf"{contest.theirs}: ([\d.]+)", said)]
    theirs = "-" if not values else quantity(values[-1] / (1000 if contest.unit == "ms" else 1))
    return Row(contest.server, contest.figure, contest.truth, ours, contest.unit, f"{theirs} {contest.unit}")


# --- false alarms


def stall_alarms(samples: int = 4000) -> Iterator[str]:
    """Table of how often slow requests at independent times are called periodic stalls, by their number."""
    rng = np.random.default_rng(0)
    yield "| slow requests | called periodic |\n| --- | --- |\n"
    for count in (4, 5, 6, 7, 8, 10, 15, 30, 100, 400):
        times = np.sort(rng.integers(0, 20_000_000, (samples, count)), axis=1)
        instants = np.zeros(count, dtype=np.int64)
        alarms = sum(stall_period_s(Groups(row, instants, instants)) is not None for row in times)
        yield f"| {count} | {100 * alarms / samples:.2f} % |\n"


# --- the page


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the page, and what computes its table."""

    title: str
    words: str
    table: Callable[[argparse.Namespace], str]


PARTS = (
    Part(
        "On a simulated clock",
        "The true value is exact: fixed times, or the theory of the M/M/1 queue.",
        lambda options: table(list(simulated_rows())),
    ),
    Part(
        "Limits found by `find`",
        "One search of 60 s each; `ours` is the estimate.",
        lambda options: table(list(find_rows())),
    ),
    Part(
        "Coverage of the interval of `find` in 20 s",
        COVERAGE,
        lambda options: "".join(coverage(options.searches, MEASURED_S / 3)),
    ),
    Part(
        "Coverage of the interval of `find` in 60 s",
        COVERAGE,
        lambda options: "".join(coverage(options.searches, MEASURED_S)),
    ),
    Part("Long answers", LONG_ANSWERS, lambda options: "".join(long_answers(options.levels))),
    Part("Long answers of an unsteady server", TROUBLED, lambda options: "".join(troubled(options.levels))),
    Part("Rates near the capacity", NEAR_CAPACITY, lambda options: "".join(overload(options.levels))),
    Part(
        "Twins of text servers",
        TEXT_TWINS,
        lambda options: "".join(text_twin.table(list(text_twin.study()))),
    ),
    Part("Replicas of text servers", TEXT_REPLICAS, lambda options: "".join(text_capacity.rows())),
    Part(
        "False stalls",
        "4,000 samples each of slow requests at independent times; at most 1 % should be called periodic.",
        lambda options: "".join(stall_alarms()),
    ),
    Part(
        ON_TRITON,
        "Models that sleep. The true value ignores the server's overhead per request (a fraction of a millisecond) "
        "and other programs on the machine.",
        lambda options: table(list(real_rows())),
    ),
)


def table(rows: Sequence[Row]) -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *(row.cells for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def updated(text: str, part: Part, machine: Machine, rows: str) -> str:
    """Return the page with this part computed anew; the others stay."""
    sections = (section.partition("\n") for section in text.split("\n## ")[1:])
    bodies = {title: body for title, _, body in sections}
    when = (
        machine.line
        if part.title == ON_TRITON
        else f"{machine.date}: inferometer {machine.versions['inferometer']}"
    )
    bodies[part.title] = f"\n{part.words}\n\n{rows}\n{when}.\n"
    known = (part.title for part in PARTS if part.title in bodies)
    page = "".join(f"\n## {title}\n{bodies[title].rstrip()}\n" for title in known)
    return f"# Accuracy on servers with known figures\n\nGenerated by `make trust`.\n{page}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument(
        "--searches", type=int, default=100, help="searches per server (default: %(default)s)"
    )
    parser.add_argument(
        "--levels", type=int, default=60, help="levels per row of long answers (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="compute only the parts whose title has these words")
    parser.add_argument("--without-triton", action="store_true", help="leave out the rows of the real server")
    options = parser.parse_args()
    for part in PARTS:
        if options.only not in part.title or (options.without_triton and part.title == ON_TRITON):
            continue
        busy = busy_cores()
        rows = part.table(options)
        machine = this_machine([busy, busy_cores()])
        PAGE.write_text(updated(PAGE.read_text(), part, machine, rows))
        print(f"{part.title}: written", flush=True)


if __name__ == "__main__":
    main()
