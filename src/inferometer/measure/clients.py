"""Clients on a cluster in place of this machine's workers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.cluster.by_client import ByClient, sizes
from inferometer.cluster.clients import HEAD_START_NS, ROUND_NS, Clients
from inferometer.cluster.messages import ClientJob
from inferometer.cluster.ray_clients import RayNetwork
from inferometer.cluster.ray_messages import LOCAL, RaySettings
from inferometer.cluster.ray_process import RayProcess
from inferometer.load.together import Pace
from inferometer.load.workers import Workers
from inferometer.measure.prepare import Setup
from inferometer.options.options import Options
from inferometer.stats.watcher import Watcher

AnyLoad = Workers | Clients

CLASSES_PACE = Pace(HEAD_START_NS, HEAD_START_NS // 3, ROUND_NS)
"""Pace of classes whose clients run on a cluster."""


@contextmanager
def open_ray(options: Options, watcher: Watcher) -> Iterator[RayProcess]:
    """Open the cluster of --ray with capacity for its clients."""
    assert options.ray is not None
    watcher.said(
        "starting a Ray cluster on this machine"
        if options.ray == LOCAL
        else f"connecting to the Ray cluster at {options.ray}"
    )
    settings = RaySettings(options.ray, options.clients, dict(options.client_resources or {}))
    with RayProcess(settings, watcher.is_interrupted) as ray:
        yield ray


@contextmanager
def start_clients(setup: Setup, job: ClientJob, ray: RayProcess) -> Iterator[Clients]:
    """Start one client per slot on the cluster, each with the workers of the job."""
    total = ray.count * job.workers
    jobs = [replace(job, first=number * job.workers, total=total) for number in range(ray.count)]
    network = RayNetwork(ray, jobs)
    try:
        _check_address(setup, network)
        spools = (
            () if setup.journal is None else setup.journal.open_spools(_most_spools(setup, network, total))
        )
        figures = ByClient(sizes(job.traffic.requests))
        load = Clients(network, workers=job.workers, spool_fds=spools, figures=figures)
    except BaseException:
        network.close()
        raise
    with load:
        yield load


def most_of(load: AnyLoad) -> int:
    """Return the largest possible number of workers: one per core of the clients."""
    if isinstance(load, Clients) and isinstance(load.network, RayNetwork):
        return _most(load.network)
    return load.count


def _most(network: RayNetwork) -> int:
    return min(network.cores) * len(network.cores)


def _most_spools(setup: Setup, network: RayNetwork, total: int) -> int:
    return max(total, _most(network)) if setup.options.workers == "auto" else total


def _check_address(setup: Setup, network: RayNetwork) -> None:
    """Reject a loopback address if a client runs on another machine."""
    endpoint, client = setup.traffic.wiring.endpoint, network.maybe_elsewhere()
    if client is not None and is_loopback(endpoint.host):
        raise UsageError(
            f"{endpoint.authority} is a loopback address, but {client.name} runs on another machine, {client.place}",
            remedy="give an address at which the cluster's nodes reach the server",
        )


def is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or host.startswith("127.") or host in ("::1", "0.0.0.0", "::")
