"""Cost of requests of a given size to one worker on this machine, measured several times."""

from collections.abc import Callable
from math import sqrt
from statistics import fmean, stdev

from inferometer.base.frozen import frozen
from inferometer.load.plan import Closed
from inferometer.selftest.drive import NullServer, ServerReport, run_load, workers
from inferometer.selftest.limits import CONCURRENCY, limited_by
from inferometer.selftest.null_server import Behaviour
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import student_t

REPEATS = 6
SURE = 0.975  # share below the upper end of a 95 % interval


@frozen
class Exchanged:
    """Protocol and sizes of a request."""

    protocol: str  # http or grpc
    request_size: int
    reply_size: int


@frozen
class OneWorker:
    """Rate and CPU time per request of each repeat; bytes include all protocol headers."""

    rates: tuple[float, ...]
    costs_us: tuple[float, ...]
    sent_bytes: float  # per request
    received_bytes: float  # per reply
    limits: tuple[str, ...]  # what limited the rate
    failed: int

    @property
    def cost_us(self) -> Estimate:
        return mean_of(self.costs_us)


def mean_of(values: tuple[float, ...]) -> Estimate:
    """Return the mean with its confidence interval."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean)
    half = student_t(SURE, len(values) - 1) * stdev(values) / sqrt(len(values))
    return Estimate(mean, max(mean - half, min(values) / 2), mean + half)


def measure_worker(exchanged: Exchanged, seconds: float, said: Callable[[int], None]) -> OneWorker:
    """Measure one saturated worker several times; call `said` after each time."""
    rates, costs, limits, failed = [], [], [], 0
    sent = received = requests = 0
    behaviour = Behaviour(exchanged.protocol, reply_size=exchanged.reply_size)
    with (
        NullServer(behaviour) as server,
        workers(server, exchanged.protocol, exchanged.request_size) as load,
    ):
        for number in range(REPEATS):
            before = server.report()
            found, _ = run_load(load, Closed(CONCURRENCY), seconds)
            after = server.report()
            sent += after.received_bytes - before.received_bytes
            received += after.sent_bytes - before.sent_bytes
            requests += after.requests - before.requests
            rates.append(found.infer_per_s.value)
            costs.append(found.client.cpu_us_per_request)
            limits.append(limited_by(found.client.cpu_share, _share(before, after)))
            failed += found.failed_count
            said(number + 1)
    return OneWorker(tuple(rates), tuple(costs), sent / requests, received / requests, tuple(limits), failed)


def _share(before: ServerReport, after: ServerReport) -> float:
    """Return the share of a core that the server used."""
    return (after.cpu_ns - before.cpu_ns) / (after.now_ns - before.now_ns)
