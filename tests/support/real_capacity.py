"""Whether a capacity plan is right, on real servers: `python -m tests.support.real_capacity` (make capacity-check).

For each of three planted servers, processes of the embedded Triton whose model sleeps: one is measured, a plan is made
for a trace with bursts, and then as many as it says are run under that trace, and two fewer. The plan is right or one
too many if the first keeps the promise and the second breaks it. Requests are given to the replicas in turn. It takes
up to six minutes and a quiet machine: what else runs on it makes servers slower than they were when they were measured.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from inferometer import api
from inferometer.capacity.plan import CapacityPlan
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.result import Result
from tests.support.planted import PlantedStep, plant_steps

CONCURRENCY = (1, 2, 4, 8)
MEASURED_S = 3.0  # each
PHASES = ((8.0, 0.5), (12.0, 1.0), (6.0, 0.7))  # of the trace: seconds, and the share of the highest rate
SEED = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A planted server, and what is asked of it."""

    step: PlantedStep
    peak: float  # requests per second
    limit_ms: int

    @property
    def slo(self) -> str:
        return f"p99<{self.limit_ms}ms"


CASES = (
    Case(PlantedStep("one_instance", sleep_ms=40.0), peak=110.0, limit_ms=140),
    Case(PlantedStep("two_instances", sleep_ms=60.0, instances=2), peak=140.0, limit_ms=180),
    Case(PlantedStep("quick_instance", sleep_ms=15.0), peak=220.0, limit_ms=80),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trace on a number of replicas."""

    replicas: int
    requests: int
    within: float  # share of the requests inside the limit
    failed: int

    @property
    def is_kept(self) -> bool:
        return self.within > 0.99 and self.failed <= 0.001 * self.requests

    @property
    def words(self) -> str:
        return (
            f"{self.replicas} replicas: {'kept' if self.is_kept else 'broken'} ({self.within:.2%} of {self.requests:,} "
            f"requests inside the limit, {self.failed} failed)"
        )


def trace_ms(case: Case) -> list[float]:
    """When requests come: independently of each other at rates that change."""
    source, now, start, times = random.Random(SEED), 0.0, 0.0, list[float]()
    for seconds, part in PHASES:
        start += seconds
        while now < start:
            times.append(1000 * now)
            now += source.expovariate(case.peak * part)
    return times


def write_trace(path: Path, times: Sequence[float]) -> Path:
    path.write_text("".join(json.dumps({"timestamp": round(time, 3)}) + "\n" for time in times))
    return path


def server(repository: Path, case: Case) -> EmbeddedTriton:
    return EmbeddedTriton(
        repository,
        load_models=(case.step.name,),
        extra_args=("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
    )


def measured(address: str, case: Case) -> Result:
    return api.measure(case.step.name, url=address, concurrency=list(CONCURRENCY), duration_s=MEASURED_S)


async def under_the_trace(addresses: Sequence[str], case: Case, folder: Path) -> Outcome:
    """Every replica gets its part of the trace, all at the same time."""
    times, count = trace_ms(case), len(addresses)
    parts = [write_trace(folder / f"part{number}.jsonl", times[number::count]) for number in range(count)]
    results = await asyncio.gather(
        *(
            api.aio.measure(case.step.name, url=address, replay=str(part), slo=case.slo)
            for address, part in zip(addresses, parts, strict=True)
        )
    )
    rows = [level.measurement for result in results for level in result.levels]
    found = [row for row in rows if row is not None]
    requests = sum(row.request_count + row.failed_count for row in found)
    good = sum(row.goodput.count for row in found if row.goodput is not None)
    return Outcome(count, requests, good / max(requests, 1), sum(row.failed_count for row in found))


def check(case: Case, folder: Path) -> bool:
    """Whether the plan is right or one too many."""
    repository = plant_steps(folder / "models", (case.step,))
    trace = write_trace(folder / "trace.jsonl", trace_ms(case))
    with ExitStack() as stack:
        replicas = [stack.enter_context(server(repository, case))]
        plan: CapacityPlan = api.capacity(
            measured(replicas[0].http_address, case),
            traffic=trace,
            slo=case.slo,
            spare=0,
            balancer="round-robin",
        )
        said = 0 if plan.chosen is None else plan.chosen.replicas
        _say(
            f"{case.step.name}: {said} replicas are said to keep {case.slo} at up to {case.peak:g} requests/s"
        )
        if said < 3:
            _say("  too few to leave two out: nothing is checked")
            return False
        replicas += [stack.enter_context(server(repository, case)) for _ in range(said - 1)]
        addresses = [replica.http_address for replica in replicas]
        outcomes = [
            asyncio.run(under_the_trace(addresses[:count], case, folder)) for count in (said, said - 2)
        ]
    for outcome in outcomes:
        _say(f"  {outcome.words}")
    is_right = outcomes[0].is_kept and not outcomes[1].is_kept
    _say(f"  {'right, or one too many' if is_right else 'WRONG'}")
    return is_right


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    began, right = time.monotonic(), 0
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="inferometer-capacity-") as folder:
            right += check(case, Path(folder))
    _say(f"{right} of {len(CASES)} right, in {time.monotonic() - began:.0f} s")
    return 0 if right == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
