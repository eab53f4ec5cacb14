"""Workers of a run, opened with all they need, and the instrument that measures their load."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

from inferometer.base.deadline import INTERRUPT, End
from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.system import usable_cores
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.load.plan import Cancellation
from inferometer.load.workers import Workers
from inferometer.measure.counters import BoundedReading, ClassCounters
from inferometer.measure.host import HostWatch, LocalServer
from inferometer.measure.instrument import SILENCE_NS, Instrument
from inferometer.measure.points import is_rate
from inferometer.measure.prepare import Setup
from inferometer.measure.recognize import CLASSIC
from inferometer.observe.host import is_this_host
from inferometer.observe.poller import Poller
from inferometer.observe.statistics import Snapshot, snapshot
from inferometer.options.options import Options
from inferometer.services.traffic import Traffic
from inferometer.services.undo import Tracer, asked_settings, traced
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:  # needed only by runs on a cluster
    from inferometer.cluster.by_client import ByClient
    from inferometer.cluster.messages import ClientJob
    from inferometer.cluster.ray_process import RayProcess
    from inferometer.measure.clients import AnyLoad

MOST_WORKERS = 1024
NOTICE = 0.1  # share of a request timeout after which its failures are certainly seen


@contextmanager
def start_workers(
    setup: Setup, watcher: Watcher | None = None, *, ray: "RayProcess | None" = None
) -> "Iterator[AnyLoad]":
    """Start the workers of a run, with the shared memory and the server's trace settings they may need.

    With --ray they belong to clients on a cluster, which several loads may share.
    """
    journal = setup.journal
    load: AnyLoad | None = None
    try:
        hosted = nullcontext() if setup.host is None else closing(setup.host)
        with _traced(setup), registered_memory(setup), hosted, ExitStack() as stack:
            if setup.options.ray is None:
                load = stack.enter_context(_local_workers(setup))
            else:
                from inferometer.measure.clients import open_ray, start_clients

                if ray is None:
                    ray = stack.enter_context(open_ray(setup.options, watcher or Watcher()))
                load = stack.enter_context(start_clients(setup, _job(setup), ray))
            if setup.host is not None:
                setup.host.wait_until_answering(setup.traffic.wiring.endpoint.port)
            yield load
    except InferometerError:
        if journal is not None:
            journal.close()
        raise
    finally:
        if journal is not None and load is not None:
            journal.problem = load.spool_problem


def _traced(setup: Setup) -> AbstractContextManager[None]:
    wanted = asked_settings(setup.options)
    if not wanted:
        return nullcontext()
    if not isinstance(setup.service, Tracer):
        raise _no_such_calls(setup, "trace settings")
    return traced(setup.service, wanted)


def registered_memory(setup: Setup) -> AbstractContextManager[None]:
    """Register the shared memory that requests refer to, if any."""
    if setup.shared is None:
        return nullcontext()
    from inferometer.services.shared_memory import Registry, shared_region

    if not isinstance(setup.service, Registry):
        raise _no_such_calls(setup, "shared memory")
    return shared_region(setup.shared, setup.service)


def _no_such_calls(setup: Setup, what: str) -> UsageError:
    kind = setup.options.service_kind
    return UsageError(f"servers of kind {kind} do not support {what}", remedy="remove its options")


def _job(setup: Setup) -> "ClientJob":
    """Return the job of the workers of one client."""
    from inferometer.cluster.messages import ClientJob

    options = setup.options
    return ClientJob(
        _carried(setup.traffic),
        workers=_workers_asked(setup),
        timeout_ns=round(options.request_timeout_s * NS_PER_S),
        sequences=setup.sequences,
        cancellation=_maybe_cancellation(options),
        verbose=options.verbose,
        keeps_requests=setup.journal is not None,
    )


def _carried(traffic: Traffic) -> Traffic:
    """Include the code of visits and tasks, which other machines do not have."""
    from inferometer.load.visit_file import VisitFile

    visits, tasks = traffic.visits, traffic.tasks
    if visits is not None and isinstance(visits.make, VisitFile):
        return traffic._replace(visits=visits._replace(make=visits.make.carried()))
    if tasks is not None and tasks.code is not None and isinstance(tasks.code.make, VisitFile):
        code = tasks.code._replace(make=tasks.code.make.carried())
        return traffic._replace(tasks=tasks._replace(code=code))
    return traffic


def _local_workers(setup: Setup) -> Workers:
    options, journal, count = setup.options, setup.journal, _workers_asked(setup)
    most = max(count, _most_workers(setup))
    return Workers(
        setup.traffic,
        count=count,
        timeout_ns=round(options.request_timeout_s * NS_PER_S),
        sequences=setup.sequences,
        cancellation=_maybe_cancellation(options),
        verbose=options.verbose,
        start=None if setup.host is None else setup.host.start,
        spool_fds=() if journal is None else journal.open_spools(most),
        tracing=setup.tracing,
    )


def _workers_asked(setup: Setup) -> int:
    workers = setup.options.workers
    return 1 if workers == "auto" else min(workers, _most_slots(setup))


def _maybe_cancellation(options: Options) -> Cancellation | None:
    if options.cancel_after_s is None:
        return None
    share = 1.0 if options.cancel_share is None else options.cancel_share
    return Cancellation(round(options.cancel_after_s * NS_PER_S), share, options.data.seed)


def _most_workers(setup: Setup) -> int:
    """Return the largest possible number of workers: one per core with `auto`."""
    return len(usable_cores()) if setup.options.workers == "auto" else 1


def _most_slots(setup: Setup) -> int:
    """Return the largest useful number of workers: each needs at least one request."""
    if setup.options.periodic_concurrency is not None:
        return 1
    if setup.options.session_concurrency is not None:
        return setup.options.session_concurrency
    if is_rate(setup.options) or setup.options.sweep or not setup.last:
        return MOST_WORKERS
    start = 1 if setup.options.concurrency is None else int(setup.options.concurrency.start)
    return max(start, int(setup.last))


def make_instrument(setup: Setup, load: "AnyLoad", watcher: Watcher) -> Instrument:
    options = setup.options
    timeout_ns = round(options.request_timeout_s * NS_PER_S)
    window_ns = options.measurement_interval_ms * NS_PER_MS
    poller = None
    if setup.metrics is not None:
        interval_ns = options.metrics_interval_ms * NS_PER_MS
        poller = Poller(setup.metrics.look, interval_ns=interval_ns, clock=monotonic_ns)
    return Instrument(
        load,
        monotonic_ns,
        _counters(setup) if setup.result.command == CLASSIC else bounded(_counters(setup), watcher),
        watcher,
        poller,
        setup.journal,
        resizable=load if options.workers == "auto" else None,
        most_workers=_most_workers(setup) if options.ray is None else _most_of_clients(load),
        host=None if setup.result.command == CLASSIC else _host_watch(setup, load),
        clients=() if options.ray is None else by_client(load),
        is_local=is_this_host(setup.traffic.wiring.endpoint.host),
        # A longer timeout or window means that answers may take longer.
        silence_ns=max(SILENCE_NS, round(timeout_ns * (1 + NOTICE)), window_ns),
        # The first Ctrl-C lets a window of the classic tool finish.
        may_cut=INTERRUPT.is_over if setup.result.command == CLASSIC else lambda: True,
    )


def _most_of_clients(load: "AnyLoad") -> int:
    from inferometer.measure.clients import most_of

    return most_of(load)


def by_client(*loads: object) -> "tuple[ByClient, ...]":
    """Return the per-client request counts; empty for workers on this machine."""
    from inferometer.cluster.clients import Clients

    return tuple(load.figures for load in loads if isinstance(load, Clients))


def bounded(read: Callable[[], Snapshot | None], watcher: Watcher) -> BoundedReading:
    """Read counters without delaying the end of a run by a call in progress."""
    return BoundedReading(read, End("the run had to end", check=watcher.is_interrupted))


def _counters(setup: Setup) -> Callable[[], Snapshot | None]:
    if setup.parts:
        return ClassCounters(setup.parts)
    return lambda: snapshot(setup.service.statistics(setup.model)) if setup.has_statistics else None


def _host_watch(setup: Setup, load: "AnyLoad") -> HostWatch:
    ports = [row.port for row in setup.traffic.wiring.endpoints if is_this_host(row.host)]
    server = LocalServer(*ports) if ports else None
    return HostWatch(server, lambda: load.pids)
