"""Our engine against a plain HTTP server: `python -m benchmarks.drive PORT CONNECTIONS SECONDS CORE`.

One worker process is pinned to CORE; the controller only fetches records ten times per second and may run anywhere.
Prints one line of JSON.
"""

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.children import pinned
from inferometer.base.units import monotonic_ns
from inferometer.load.plan import Closed
from inferometer.load.workers import Workers
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring
from inferometer.wire.http1 import encode_request

_HOST = "127.0.0.1"
_WARM_NS = 200_000_000


@dataclass(frozen=True, slots=True)
class DriveReport:
    """Figures of the engine."""

    requests: int
    failed: int
    rate: float
    p50_us: float
    cpu_us: float  # per request, worker and controller
    core_share: float  # share of the core that the worker got


def get_traffic(port: int) -> Traffic:
    """Repeated requests for "/", with only the headers that wrk sends."""
    request = encode_request("GET", "/", (("Host", f"{_HOST}:{port}"),), None)
    return Traffic(Wiring(Endpoint(_HOST, port)), (request,))


def drive(port: int, *, connections: int, seconds: float, core: int) -> DriveReport:
    with ExitStack() as stack:
        with pinned(frozenset((core,))):
            workers = stack.enter_context(Workers(get_traffic(port), count=1))
        return _measure(workers, connections, round(seconds * 1e9))


def _measure(workers: Workers, connections: int, duration_ns: int) -> DriveReport:
    workers.apply(Closed(connections))
    warm_ns = monotonic_ns() + _WARM_NS
    before = workers.collect(warm_ns)
    while before.seen_ns < warm_ns:
        before = workers.collect(warm_ns)
    controller_ns = time.process_time_ns()
    end_ns = before.seen_ns + duration_ns
    after = before
    good = failed = 0
    latencies = []
    while after.seen_ns < end_ns:
        after = workers.collect(end_ns)
        records = after.records
        good += len(records.good)
        failed += len(records.failed)
        latencies.append(records.good.end_ns - records.good.sent_ns)
    controller_ns = time.process_time_ns() - controller_ns
    worker_ns = after.cost.cpu_ns[0] - before.cost.cpu_ns[0]
    workers.stop()
    return DriveReport(
        requests=good,
        failed=failed,
        rate=good * 1e9 / (after.seen_ns - before.seen_ns),
        p50_us=float(np.median(np.concatenate(latencies))) / 1e3 if good else 0.0,
        cpu_us=(worker_ns + controller_ns) / max(good, 1) / 1e3,
        core_share=worker_ns / (after.seen_ns - before.seen_ns),
    )


if __name__ == "__main__":
    port, connections, seconds, core = sys.argv[1:]
    report = drive(int(port), connections=int(connections), seconds=float(seconds), core=int(core))
    print(json.dumps(asdict(report)))
