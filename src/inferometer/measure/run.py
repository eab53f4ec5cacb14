"""A run: levels one after the other, each yielded as soon as it is measured."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.base.deadline import INTERRUPT, End, ending
from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns, plain_number
from inferometer.load.cancellation import Cancellation
from inferometer.load.plan import Closed, Open
from inferometer.load.workers import Load, Workers
from inferometer.measure.address import connection_to
from inferometer.measure.counters import ClassCounters
from inferometer.measure.host import HostWatch, LocalServer
from inferometer.measure.instrument import SILENCE_NS, Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_with_enough_workers, warm_up
from inferometer.measure.points import LastOutcome, is_rate, level_count, points
from inferometer.measure.prepare import Setup
from inferometer.measure.recognize import CLASSIC, maybe_hint, maybe_other_kind
from inferometer.measure.saturation import Tried, level_time, sweep_ns
from inferometer.observe.host import is_this_host
from inferometer.observe.poller import Poller
from inferometer.observe.statistics import Snapshot, snapshot
from inferometer.options.options import Options
from inferometer.services.kind import KINDS
from inferometer.services.traffic import Traffic
from inferometer.services.undo import Tracer, asked_settings, traced
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result, account
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher, until

if TYPE_CHECKING:  # needed only by runs on a cluster
    from inferometer.cluster.by_client import ByClient
    from inferometer.cluster.messages import ClientJob
    from inferometer.cluster.ray_process import RayProcess
    from inferometer.measure.clients import AnyLoad

MOST_WORKERS = 1024
NOTICE = 0.1  # share of a request timeout after which its failures are certainly seen


def run(setup: Setup, watcher: Watcher, *, ray: "RayProcess | None" = None) -> Iterator[Result]:
    """Yield the result after each level, and once more at the end, so that measured levels survive later failures."""
    result, limit_s = setup.result, setup.options.time_limit_s
    end_ns = math.inf if limit_s is None else monotonic_ns() + limit_s * NS_PER_S
    limited = until(watcher, lambda: monotonic_ns() >= end_ns)
    watcher.prepared(result.effective)
    watcher.planned(level_count(setup.options, setup.last), limit_s)
    with start_workers(setup, watcher, ray=ray) as load:
        try:
            for level in sweep(setup, load, limited):
                result = replace(result, levels=(*result.levels, level))
                yield result
        except LocalError as error:  # a worker died between levels: earlier levels remain valid
            yield _without_worker(result, load, error)
            return
        if limit_s is not None and limited.is_interrupted() and not watcher.is_interrupted():
            remark = Remark(Note.TIME_LIMIT, f"the time limit of {plain_number(limit_s)} s was reached")
            result = replace(result, remarks=(*result.remarks, remark))
        yield end_load(setup, result, load, limited)


def end_load(setup: Setup, result: Result, load: Load, watcher: Watcher) -> Result:
    """End the load; return the result with an account of all requests and their prompts."""
    try:
        cut = load.stop(is_urgent=watcher.is_interrupted())
    except LocalError as error:
        return _without_worker(result, load, error)
    totals = load.totals()
    prompts = None if setup.prompts is None else setup.prompts.figures(totals)
    result = replace(result, account=account(result.levels, totals), prompts=prompts)
    if not cut:
        return result
    requests = "1 request was" if cut == 1 else f"{cut:,} requests were"
    remark = Remark(Note.CUT_OFF, f"{requests} still in flight at the end and dropped")
    return replace(result, remarks=(*result.remarks, remark))


def _without_worker(result: Result, load: Load, error: LocalError) -> Result:
    """Keep the levels measured before a worker died; without any, raise the error."""
    if not result.levels:
        raise error
    remarks = (*result.remarks, Remark(Note.WORKER_LOST, str(error)))
    return replace(result, remarks=remarks, account=account(result.levels, load.totals()))


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
    """Include the code of visits, which other machines do not have."""
    from inferometer.load.visit_file import VisitFile

    visits = traffic.visits
    if visits is None or not isinstance(visits.make, VisitFile):
        return traffic
    return traffic._replace(visits=visits._replace(make=visits.make.carried()))


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
    return len(os.sched_getaffinity(0)) if setup.options.workers == "auto" else 1


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
        _counters(setup) if setup.result.command == CLASSIC else _bounded(_counters(setup), watcher),
        watcher,
        poller,
        setup.journal,
        resizable=load if options.workers == "auto" else None,
        most_workers=_most_workers(setup) if options.ray is None else _most_of_clients(load),
        host=None if setup.result.command == CLASSIC else _host_watch(setup, load),
        clients=() if options.ray is None else by_client(load),
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


def _bounded(read: Callable[[], Snapshot | None], watcher: Watcher) -> Callable[[], Snapshot | None]:
    """Read counters without delaying the end of a run by a call in progress."""
    end = End("the run had to end", check=watcher.is_interrupted)

    def bounded() -> Snapshot | None:
        with ending(end):
            return read()

    return bounded


def _counters(setup: Setup) -> Callable[[], Snapshot | None]:
    if setup.parts:
        return ClassCounters(setup.parts)
    return lambda: snapshot(setup.service.statistics(setup.model)) if setup.has_statistics else None


def _host_watch(setup: Setup, load: "AnyLoad") -> HostWatch:
    endpoint = setup.traffic.wiring.endpoint
    server = LocalServer(endpoint.port) if is_this_host(endpoint.host) else None
    return HostWatch(server, lambda: load.pids)


def _most_slots(setup: Setup) -> int:
    """Return the most workers that are useful: each needs a request of its own."""
    if setup.options.periodic_concurrency is not None:
        return 1
    if setup.options.session_concurrency is not None:
        return setup.options.session_concurrency
    if is_rate(setup.options) or setup.options.sweep or not setup.last:
        return MOST_WORKERS
    start = 1 if setup.options.concurrency is None else int(setup.options.concurrency.start)
    return max(start, int(setup.last))


def sweep(setup: Setup, load: "AnyLoad", watcher: Watcher) -> Iterator[Level]:
    """Measure the levels of the search one by one."""
    options = setup.options
    instrument = make_instrument(setup, load, watcher)
    outcome = LastOutcome()
    before, begun_ns = 0.0, instrument.clock()
    for point in points(options, setup.last, outcome, setup.agenda):
        if before and (isinstance(point.plan, Open) or point.value < before):
            load.apply(Closed(0))  # requests left in the server's queue do not belong to this level
        before = point.value
        if options.warmup_request_count or options.warmup_s:
            watcher.level_started(point.mode, point.value)
            warm_up_as_asked(instrument, options, point)
        settings = _ramped(_long_enough(setup, outcome, point), outcome.tried)
        level = _with_hint(setup, measure_with_enough_workers(instrument, settings, point))
        yield level
        outcome.add(level)
        if (rule := _maybe_free_rule(setup)) is not None:
            spent_ns = instrument.clock() - begun_ns
            outcome.left_ns = sweep_ns(outcome.tried, rule.duration_ns) - spent_ns
        if level.is_cut_short or watcher.is_interrupted():
            return


def _maybe_free_rule(setup: Setup) -> Precision | None:
    """Return the rule for levels without a fixed duration, in a sweep without a time limit."""
    rule = setup.level_settings.rule
    is_free = setup.options.sweep and "duration_s" not in setup.options.given
    return rule if is_free and isinstance(rule, Precision) else None


def _long_enough(setup: Setup, outcome: LastOutcome, point: LoadPoint) -> LevelSettings:
    """Set the duration of a level in such a sweep by its response times and precision."""
    rule = _maybe_free_rule(setup)
    if rule is None:
        return setup.level_settings
    time = level_time(outcome.tried, point.value, rule.duration_ns, outcome.left_ns)
    rule = replace(rule, duration_ns=time.most_ns, least_ns=time.least_ns)
    return replace(setup.level_settings, rule=rule)


def _ramped(settings: LevelSettings, tried: Sequence[Tried]) -> LevelSettings:
    """Set the ramp from the response time at the previous level."""
    if settings.ramp is None or not tried or not tried[-1].latency_ns:
        return settings
    return replace(settings, ramp=replace(settings.ramp, answer_ns=round(tried[-1].latency_ns)))


def warm_up_as_asked(instrument: Instrument, options: Options, point: LoadPoint) -> None:
    """Warm up by count with the requests before the plan's own, by time with the plan itself."""
    if options.warmup_request_count:
        plan = point.before
        if plan is None:
            assert isinstance(point.plan, Closed | Open)
            plan = point.plan._replace(count=options.warmup_request_count)
        warm_up(instrument, plan)
    if options.warmup_s:
        plan = point.plan
        if options.request_count:
            assert isinstance(plan, Closed | Open)
            plan = plan._replace(count=None)
        warm_up(instrument, plan, round(options.warmup_s * NS_PER_S))
        instrument.load.apply(Closed(0))  # outstanding requests do not belong to the level


def _with_hint(setup: Setup, level: Level) -> Level:
    """Add a hint if every request failed and the kind of server was not checked before the load."""
    found = level.measurement
    if KINDS[setup.options.service_kind].is_asked or found is None or found.request_count:
        return level
    connection = connection_to(setup.options, setup.traffic.wiring.endpoint)
    command = setup.result.command
    if command == CLASSIC:
        hint = maybe_other_kind(setup.options, connection)
    else:
        hint = str(maybe_hint(setup.options, connection, command) or "")
    return replace(level, remarks=(*level.remarks, Remark(Note.WRONG_KIND, hint))) if hint else level
