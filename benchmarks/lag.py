"""Lag of our sends behind their due times: `python -m benchmarks.lag WHAT WHERE RATE SECONDS [CORE]`.

WHAT is `nginx` (WHERE its port, the worker pinned to CORE) or `triton` (WHERE its HTTP address). Prints a line of JSON.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.children import pinned
from benchmarks.drive import get_traffic
from inferometer.base.units import monotonic_ns
from inferometer.load.plan import Constant, Open
from inferometer.load.workers import Workers
from inferometer.measure.checks import changed
from inferometer.measure.prepare import prepare
from inferometer.options.options import Options
from inferometer.records.records import Records, join
from inferometer.services.traffic import Traffic

_ROUND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LagReport:
    """Lag of all requests of the run."""

    requests: int
    failed: int
    p50_us: float
    p99_us: float


def measure_lag(traffic: Traffic, *, rate: float, seconds: float, cores: frozenset[int] | None) -> LagReport:
    with ExitStack() as stack:
        with pinned(cores):
            workers = stack.enter_context(Workers(traffic, count=1))
        records = _records(workers, Open(Constant(rate), count=round(rate * seconds)))
    behind_us = (records.sent_ns - records.due_ns)[records.sent_ns > 0] / 1e3
    return LagReport(
        requests=len(records),
        failed=len(records.failed),
        p50_us=float(np.percentile(behind_us, 50)),
        p99_us=float(np.percentile(behind_us, 99)),
    )


def _records(workers: Workers, plan: Open) -> Records:
    workers.apply(plan)
    parts = []
    while True:
        collected = workers.collect(monotonic_ns() + _ROUND_NS)
        parts.append(collected.records)
        if collected.is_finished:
            return join(parts)


def main(what: str, where: str, rate: str, seconds: str, rest: Sequence[str]) -> LagReport:
    if what == "nginx":
        traffic = get_traffic(int(where))
    else:
        options = changed(Options(), model="simple", url=where)
        traffic = prepare(options, command="measure").traffic
    cores = frozenset(map(int, rest)) if rest else None
    return measure_lag(traffic, rate=float(rate), seconds=float(seconds), cores=cores)


if __name__ == "__main__":
    what, where, rate, seconds, *rest = sys.argv[1:]
    print(json.dumps(asdict(main(what, where, rate, seconds, rest))))
