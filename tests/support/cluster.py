"""Loads from several clients on this machine, for tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.load.workers import Load
from inferometer.records.records import Records, join
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring
from tests.support.agents import PlantedClock, start_clients

REQUEST = b"GET /%d HTTP/1.1\r\nHost: here\r\n\r\n"


def traffic_to(port: int, steps: int = 1) -> Traffic:
    """Traffic whose requests have their step as path."""
    return Traffic(Wiring(Endpoint("127.0.0.1", port)), tuple(REQUEST % step for step in range(steps)))


@contextmanager
def clients(
    job: ClientJob, clocks: Sequence[PlantedClock | None], spool_fds: Sequence[int] = ()
) -> Iterator[Clients]:
    network = start_clients(job, clocks)
    with Clients(network, workers=job.workers, spool_fds=spool_fds) as load:
        yield load


def collect_all(load: Load, parts: list[Records] | None = None) -> Records:
    """Collect all records until the plan is finished."""
    parts = [] if parts is None else parts
    while True:
        collected = load.collect(1 << 62)
        parts.append(collected.records)
        if collected.is_finished:
            return join(parts)


def numbers(records: Records, start_ns: int, rate: float) -> list[int]:
    """Numbers of these requests in a constant schedule, from their due times."""
    return sorted((np.rint((records.due_ns - start_ns) * rate / 1e9).astype(int) - 1).tolist())
