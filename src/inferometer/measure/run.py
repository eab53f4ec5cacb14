"""A run: levels one after the other, each yielded as soon as it is measured."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from inferometer.base import status
from inferometer.base.errors import InferometerError, LocalError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number
from inferometer.load.plan import Closed, Open
from inferometer.load.workers import Load
from inferometer.measure.address import connection_to
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_with_enough_workers, warm_up
from inferometer.measure.level_actions import AFTER, BEFORE, check_actions, take_actions
from inferometer.measure.opening import by_client, make_instrument, start_workers
from inferometer.measure.points import LastOutcome, level_count, points
from inferometer.measure.prepare import Setup
from inferometer.measure.recognize import CLASSIC, maybe_hint, maybe_other_kind
from inferometer.measure.saturation import Tried, level_time, sweep_ns
from inferometer.options.options import Options
from inferometer.services.endpoint import Endpoint
from inferometer.services.kind import KINDS, Tasked
from inferometer.stats.measurement import ActionTaken, Level
from inferometer.stats.result import Result, account
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher, until
from inferometer.stats.wrong_answers import with_onset

if TYPE_CHECKING:  # needed only by runs on a cluster
    from inferometer.cluster.ray_process import RayProcess
    from inferometer.measure.clients import AnyLoad


_NO_STREAMS = frozenset(
    (status.kind(status.REFUSED), *(status.kind(status.HTTP + code) for code in (400, 405, 415, 422, 501)))
)
"""Failures by which a server says that it cannot stream."""


def run(
    setup: Setup, watcher: Watcher, *, ray: "RayProcess | None" = None, first_level_s: float = 0.0
) -> Iterator[Result]:
    """Yield the result after each level, and once more at the end, so that measured levels survive later failures.

    The time limit leaves the first level at least `first_level_s`, the start of the workers included. If a server
    refuses to stream where the user did not ask for streams, start again with whole answers.
    """
    begun_ns = monotonic_ns()
    refused: Result | None = None
    attempt = until(watcher, lambda: refused is not None)
    for result in _run(setup, attempt, ray, first_level_s, begun_ns):
        is_first = refused is None and len(result.levels) == 1
        if refused or (is_first and setup.whole is not None and _refuses_all(result.levels[0])):
            refused = result
            continue
        yield result
    if refused is None:
        return
    assert setup.whole is not None
    failures = refused.levels[0].measurement.failures  # type: ignore[union-attr]
    text = f"the server refused to stream ({failures[0].example or failures[0].kind}), so answers were requested whole"
    remark = Remark(Note.NOT_STREAMED, text)
    for result in _run(replace(setup.whole(), tracing=setup.tracing), watcher, ray, first_level_s, begun_ns):
        account = result.account
        if account is not None and refused.account is not None:
            account = account.after(refused.account)
        remarks = (*result.remarks, remark) if _is_answered(result) else result.remarks
        yield replace(result, account=account, remarks=remarks)


def _is_answered(result: Result) -> bool:
    """Return whether some request succeeded; if not, streaming is not the reason for the failures."""
    return any(level.measurement is not None and level.measurement.request_count for level in result.levels)


def _refuses_all(level: Level) -> bool:
    """Return whether every request of a level that was not cut short was refused."""
    found = level.measurement
    if found is None or level.is_cut_short or level.has_remark(Note.INTERRUPTED):
        return False
    if found.request_count or found.empty_count or not found.failures:
        return False
    return all(group.kind in _NO_STREAMS for group in found.failures)


def _run(
    setup: Setup, watcher: Watcher, ray: "RayProcess | None", first_level_s: float, begun_ns: int
) -> Iterator[Result]:
    result, limit_s = setup.result, setup.options.time_limit_s

    def is_over() -> bool:
        least_s = 0.0 if result.levels else first_level_s
        return limit_s is not None and monotonic_ns() >= begun_ns + max(limit_s, least_s) * NS_PER_S

    limited = until(watcher, is_over)
    check_actions(setup.options)
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
    clients = () if setup.options.ray is None else by_client(load)
    losses = [loss for figures in clients for loss in figures.late_losses(result.levels)]
    result = replace(
        result,
        levels=with_onset(result.levels),
        remarks=(*result.remarks, *losses),
        account=account(result.levels, totals),
        prompts=prompts,
    )
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


def sweep(setup: Setup, load: "AnyLoad", watcher: Watcher) -> Iterator[Level]:
    """Measure the levels that the search chooses, one by one."""
    options = setup.options
    instrument = make_instrument(setup, load, watcher)
    outcome = LastOutcome()
    before, begun_ns = 0.0, instrument.clock()
    for point in points(options, setup.last, outcome, setup.agenda):
        if before and (isinstance(point.plan, Open) or point.value < before):
            load.apply(Closed(0))  # requests left in the server's queue do not belong to this level
        before = point.value
        taken: list[ActionTaken] = []
        undone: list[ActionTaken] = []
        prepare = partial(_prepare_level, setup, instrument, point, taken)
        finish = partial(_finish_level, setup, instrument, undone)
        prepare()
        if options.before_level and watcher.is_interrupted():
            finish()
            return
        settings = _ramped(_long_enough(setup, outcome, point), outcome.tried)
        again = partial(_each, finish, prepare) if options.before_level or options.after_level else None
        level = _with_hint(setup, measure_with_enough_workers(instrument, settings, point, again))
        level = replace(level, before=tuple(taken))
        try:
            finish()
        except InferometerError:
            yield level
            raise
        level = replace(level, after=tuple(undone))
        yield level
        outcome.add(level)
        if (rule := _maybe_free_rule(setup)) is not None:
            begun_ns += sum(action.duration_ns for action in (*taken, *undone))
            spent_ns = instrument.clock() - begun_ns
            outcome.left_ns = sweep_ns(outcome.tried, rule.duration_ns) - spent_ns
        if level.is_cut_short or watcher.is_interrupted():
            return


def _prepare_level(setup: Setup, instrument: Instrument, point: LoadPoint, taken: list[ActionTaken]) -> None:
    """Take the actions before a level, add them to `taken`, then warm up."""
    options = setup.options
    taken += take_actions(BEFORE, instrument, options, _endpoints(setup), partial(_primers, setup))
    if options.warmup_request_count or options.warmup_s:
        instrument.watcher.level_started(point.mode, point.value)
        warm_up_as_asked(instrument, options, point)


def _finish_level(setup: Setup, instrument: Instrument, taken: list[ActionTaken]) -> None:
    """Take the actions after a level, and add them to `taken`."""
    taken += take_actions(AFTER, instrument, setup.options, _endpoints(setup), partial(_primers, setup))


def _primers(setup: Setup) -> tuple[bytes, ...]:
    """Return a request for each shared prefix of the prompts, for an answer of one token."""
    from inferometer.dataset.prompts import shared_prefixes
    from inferometer.dataset.tokens import open_tokenizer
    from inferometer.services.task_plan import inside

    service, data = setup.service, setup.options.data
    if not isinstance(service, Tasked):
        raise LocalError(f"{KINDS[setup.options.service_kind].title} takes no prompts")
    frame = service.task_frame(setup.model, "", 1)
    texts = shared_prefixes(data, open_tokenizer(data.tokenizer))
    return tuple(frame.request([frame.message("user", inside(text))]) for text in texts)


def _each(*steps: Callable[[], None]) -> None:
    for step in steps:
        step()


def _endpoints(setup: Setup) -> tuple[Endpoint, ...]:
    wiring = setup.traffic.wiring
    return (wiring.endpoint, *(other.endpoint for other in wiring.others))


def _maybe_free_rule(setup: Setup) -> Precision | None:
    """Return the stopping rule of levels without a fixed duration, in a sweep without a time limit."""
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
