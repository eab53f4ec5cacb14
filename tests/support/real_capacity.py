"""Check capacity plans on real servers: `python -m tests.support.real_capacity` (make capacity-check).

Each of three planted servers is a process of the embedded Triton whose model sleeps. One is measured, a plan is made
for a trace with bursts, and the planned number of replicas is run under that trace, and one and two fewer. The plan is
right if the planned number meets the SLO and one fewer violates it, and one too high if only two fewer violate it.
Requests are assigned to the replicas in turn. A server takes about three minutes on a quiet machine: other programs
would make the servers slower than when they were measured. `--only NAME` checks one of them.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from inferometer import api
from inferometer.base.units import NS_PER_MS
from inferometer.capacity.plan import CapacityPlan, PlannedOption
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from tests.support.planted import PlantedStep, plant_steps

CONCURRENCY = (1, 2, 4, 8)
MEASURED_S = 8.0  # each
PHASES = ((8.0, 0.5), (16.0, 1.0), (8.0, 0.7))  # phases of the trace: seconds, and share of the highest rate
TOGETHER, EVERY = 4, 40  # size of a burst, and number of individual requests per burst
MOST_FAILED = 0.001
SEED = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A planted server, its traffic and its SLO."""

    step: PlantedStep
    peak: float  # requests per second
    limit_ms: int

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def slo(self) -> str:
        return f"p99<{self.limit_ms}ms, errors<{MOST_FAILED:.1%}"


CASES = (
    Case(PlantedStep("one_instance", sleep_ms=40.0), peak=110.0, limit_ms=140),
    Case(PlantedStep("two_instances", sleep_ms=60.0, instances=2), peak=140.0, limit_ms=180),
    Case(PlantedStep("quick_instance", sleep_ms=15.0), peak=220.0, limit_ms=80),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a trace on a number of replicas."""

    replicas: int
    due: int  # requests of the trace
    answered: int
    good: int  # answered within the limit
    failed: int
    p99_ms: float  # from a histogram
    held_up: int  # sent late because of the sending machine, not the server

    @property
    def within(self) -> float:
        """Share of requests within the limit; lost requests are outside."""
        return self.good / max(self.due - self.failed, self.answered, 1)

    @property
    def is_kept(self) -> bool:
        return self.within > 0.99 and self.failed < MOST_FAILED * self.due

    @property
    def is_quiet(self) -> bool:
        """Whether so few requests were sent late that they do not affect the verdict."""
        return self.held_up < 0.005 * self.due

    @property
    def words(self) -> str:
        late = f", {self.held_up} sent late by this machine" if self.held_up else ""
        return (
            f"{self.replicas} replicas: {'kept' if self.is_kept else 'broken'} (p99 {self.p99_ms:.0f} ms, "
            f"{self.within:.2%} inside the limit; {self.answered:,} of {self.due:,} requests answered, "
            f"{self.failed} failed: {self.failed / self.due:.2%}{late})"
        )


def trace_ms(case: Case) -> list[float]:
    """Arrival times: independent at changing rates, with occasional bursts."""
    source, now, end, times = random.Random(SEED), 0.0, 0.0, list[float]()
    mean = (EVERY + TOGETHER) / (EVERY + 1)
    for seconds, part in PHASES:
        end += seconds
        while now < end:
            times += [1000 * now] * (TOGETHER if source.random() < 1 / (EVERY + 1) else 1)
            now += source.expovariate(case.peak * part / mean)
    return times


def write_trace(path: Path, times: Sequence[float]) -> Path:
    path.write_text("".join(json.dumps({"timestamp": round(time, 3)}) + "\n" for time in times))
    return path


def server(repository: Path, case: Case) -> EmbeddedTriton:
    return EmbeddedTriton(
        repository,
        load_models=(case.name,),
        extra_args=("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
    )


def measured(address: str, case: Case) -> Result:
    return api.measure(case.name, url=address, concurrency=list(CONCURRENCY), duration_s=MEASURED_S)


async def under_the_trace(addresses: Sequence[str], case: Case, folder: Path) -> Outcome:
    """Run the trace: all replicas at the same time, each with its part."""
    times, count = trace_ms(case), len(addresses)
    parts = [write_trace(folder / f"part{number}.jsonl", times[number::count]) for number in range(count)]
    results = await asyncio.gather(
        *(
            api.aio.measure(case.name, url=address, replay=str(part), slo=case.slo)
            for address, part in zip(addresses, parts, strict=True)
        )
    )
    rows = [level.measurement for result in results for level in result.levels]
    found = [row for row in rows if row is not None]
    return Outcome(
        replicas=count,
        due=len(times),
        answered=sum(row.request_count for row in found),
        good=sum(row.goodput.count for row in found if row.goodput is not None),
        failed=sum(row.failed_count for row in found),
        p99_ms=p99_ms(found),
        held_up=sum(row.delayed_count for row in found),
    )


def p99_ms(rows: Sequence[Measurement]) -> float:
    """The p99 of all replicas together, accurate to a few percent."""
    counts = Counter[float]()
    for row in rows:
        counts.update(dict(row.latency.histogram))
    rest = 0.01 * counts.total()
    for bound, count in sorted(counts.items(), reverse=True):
        rest -= count
        if rest < 0:
            return bound / NS_PER_MS
    return 0.0


def planned(address: str, case: Case, trace: Path) -> PlannedOption:
    plan: CapacityPlan = api.capacity(
        measured(address, case), traffic=trace, slo=case.slo, spare=0, balancer="round-robin"
    )
    return plan.options[0]


def check(case: Case, folder: Path) -> bool:
    """Check whether the plan is right or one too high."""
    repository = plant_steps(folder / "models", (case.step,))
    trace = write_trace(folder / "trace.jsonl", trace_ms(case))
    with ExitStack() as stack:
        replicas = [stack.enter_context(server(repository, case))]
        plan = planned(replicas[0].http_address, case, trace)
        if plan.fewest is None or plan.replicas < 3:
            _say(f"{case.name}: WRONG: {plan.replicas} replicas are asked for; {plan.reason} {plan.replica}")
            return False
        said, expected_ms = plan.replicas, plan.fewest.terms[0].expected.value / NS_PER_MS
        _say(
            f"{case.name}: {said} replicas are asked for to keep '{case.slo}' at up to {case.peak:g} requests/s; a p99 "
            f"of {expected_ms:.0f} ms is expected"
        )
        replicas += [stack.enter_context(server(repository, case)) for _ in range(said - 1)]
        addresses = [replica.http_address for replica in replicas]
        outcomes = []
        for count in (said, said - 1, said - 2):
            outcomes.append(asyncio.run(under_the_trace(addresses[:count], case, folder)))
            _say(f"  {outcomes[-1].words}")
    found = verdict([outcome.is_kept for outcome in outcomes])
    _say(f"  {found}{'' if all(outcome.is_quiet for outcome in outcomes) else NOISY}")
    return found in (RIGHT, ONE_TOO_MANY)


RIGHT, ONE_TOO_MANY = "right", "one too many"
NOISY = " (but this machine was too busy for the sender to keep its times)"


def verdict(kept: Sequence[bool]) -> str:
    """Verdict from whether the SLO was met with the planned number of replicas, one fewer, and two fewer."""
    if not kept[0]:
        return "WRONG: too few"
    if kept[2]:
        return "WRONG: two too many, or more"
    return ONE_TOO_MANY if kept[1] else RIGHT


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Is the number of replicas right, on real servers?")
    parser.add_argument("--only", metavar="NAME", choices=[case.name for case in CASES])
    only = parser.parse_args().only
    cases = [case for case in CASES if only in (None, case.name)]
    began, right = time.monotonic(), 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="inferometer-capacity-") as folder:
            right += check(case, Path(folder))
    _say(f"{right} of {len(cases)} right or one too many, in {time.monotonic() - began:.0f} s")
    return 0 if right == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
