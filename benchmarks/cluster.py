"""CPU cost of load from several clients of a Ray cluster, compared with workers only, all on this machine.

Only Inferometer's processes are counted: controller, actors, workers and the bridge to Ray. Ray's own daemons are
not.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import psutil

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import two_cores
from benchmarks.drive import get_traffic
from benchmarks.nginx import nginx
from inferometer.base.units import NS_PER_S, NS_PER_US, monotonic_ns
from inferometer.cluster.clients import Clients
from inferometer.cluster.messages import ClientJob
from inferometer.cluster.ray_clients import RayNetwork
from inferometer.cluster.ray_messages import LOCAL, RaySettings
from inferometer.cluster.ray_process import RayProcess
from inferometer.load.plan import Closed, Constant, Open, Plan
from inferometer.load.workers import Collected, Workers

CLIENTS = 4
RATE = 4_000  # requests per second, the same for both
_WARM_NS = NS_PER_S // 2

AT_A_RATE = Open(Constant(RATE))
IN_FLIGHT = Closed(8)


def cluster_cpu(plan: Plan) -> Callable[[Setting], AbstractContextManager[Contest]]:
    """CPU per request of four clients with one worker each, and of one client with four workers."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        count = setting.count(CLIENTS, smoke=1)
        with nginx(two_cores().server) as port, RayProcess(RaySettings(LOCAL, count)) as ray:
            job = ClientJob(get_traffic(port), workers=1, total=count)
            bridge = psutil.Process(*ray.pids)

            def ours() -> Sample:
                network = RayNetwork(ray, [replace(job, first=number) for number in range(count)])
                with Clients(network) as load:
                    return _cost(load, plan, setting.seconds, lambda: _own_ns(load) + _spent_ns(bridge))

            def theirs() -> Sample:
                with Workers(job.traffic, count=CLIENTS) as load:
                    return _cost(load, plan, setting.seconds, lambda: 0)

            yield Contest(ours, theirs)

    return opened


def _spent_ns(process: psutil.Process) -> int:
    times = process.cpu_times()
    return round((times.user + times.system) * NS_PER_S)


def _own_ns(load: Clients) -> int:
    """CPU time of the process that controls the workers, for each client."""
    return sum(0 if member.report is None else member.report.own_cpu_ns for member in load.members)


def _cost(load: Clients | Workers, plan: Plan, seconds: float, own_ns: Callable[[], int]) -> Sample:
    load.apply(plan)
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
    """Collect until `end_ns`; return the last collection and the number of successful requests."""
    collected = load.collect(end_ns)
    count = len(collected.records.good)
    while collected.seen_ns < end_ns:
        collected = load.collect(end_ns)
        count += len(collected.records.good)
    return collected, count
