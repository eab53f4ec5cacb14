"""What load from several clients costs beside the same load from the workers of one machine, all on this one."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import two_cores
from benchmarks.drive import get_traffic
from benchmarks.nginx import nginx
from inferometer.base.units import NS_PER_S, NS_PER_US, monotonic_ns
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.cluster.network import Network
from inferometer.load.plan import Constant, Open
from inferometer.load.workers import Collected, Workers
from tests.support.agents import start_clients

CLIENTS = 4
RATE = 4_000  # requests per second: an equal load for both
_WARM_NS = NS_PER_S // 2

StartNetwork = Callable[[ClientJob, int], Network]
"""So many clients with this job; the numbers of their workers are filled in. `Clients` closes the network."""


def process_network(job: ClientJob, count: int) -> Network:
    """Clients that are plain processes: what any network costs at least."""
    return start_clients(job, (None,) * count)


def cluster_cpu(start: StartNetwork) -> Callable[[Setting], AbstractContextManager[Contest]]:
    """CPU per request of four clients with a worker each, and of one machine with four workers."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        with nginx(two_cores().server) as port:
            traffic = get_traffic(port)

            def ours() -> Sample:
                job = ClientJob(traffic, workers=1, total=CLIENTS)
                with Clients(start(job, CLIENTS)) as load:
                    return _cost(load, setting.seconds, lambda: _own_ns(load))

            def theirs() -> Sample:
                with Workers(traffic, count=CLIENTS) as load:
                    return _cost(load, setting.seconds, lambda: 0)

            yield Contest(ours, theirs)

    return opened


def _own_ns(load: Clients) -> int:
    """Of what answers for the workers of each client."""
    return sum(0 if member.report is None else member.report.own_cpu_ns for member in load.members)


def _cost(load: Clients | Workers, seconds: float, own_ns: Callable[[], int]) -> Sample:
    load.apply(Open(Constant(RATE)))
    before = _until(load, monotonic_ns() + _WARM_NS)[0]
    controller_ns, clients_ns = time.process_time_ns(), own_ns()
    after, count = _until(load, before.seen_ns + round(seconds * NS_PER_S))
    controller_ns, clients_ns = time.process_time_ns() - controller_ns, own_ns() - clients_ns
    workers_ns = sum(after.cost.cpu_ns) - sum(before.cost.cpu_ns)
    load.stop()
    if not count:
        raise BenchError("nginx answered none of the requests")
    parts = {"workers": workers_ns, "controller": controller_ns, "clients": clients_ns}
    info = {f"{name} us": spent / NS_PER_US / count for name, spent in parts.items()}
    return Sample(sum(info.values()), {**info, "requests/s": count / seconds})


def _until(load: Clients | Workers, end_ns: int) -> tuple[Collected, int]:
    """The last that was collected, and how many requests ended well meanwhile."""
    collected = load.collect(end_ns)
    count = len(collected.records.good)
    while collected.seen_ns < end_ns:
        collected = load.collect(end_ns)
        count += len(collected.records.good)
    return collected, count
