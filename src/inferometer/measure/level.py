"""One load level: warm it up, measure windows until the stopping rule is satisfied, and conclude."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace

from inferometer.base import status
from inferometer.base.errors import LocalError
from inferometer.base.notes import Note, Remark
from inferometer.load.plan import Closed, Open, Periodic, Plan
from inferometer.measure.conclusion import conclude
from inferometer.measure.instrument import FAR_NS, Instrument, LevelSettings, LoadPoint
from inferometer.measure.level_report import report_warm_up
from inferometer.measure.level_run import LevelRun
from inferometer.measure.level_start import start_level
from inferometer.measure.liveness import GONE_NS, Silence
from inferometer.stats.measurement import Level
from inferometer.stats.stopping import GO_ON, StopDecision
from inferometer.stats.windows import Lateness, Window, WindowRules


def warm_up(instrument: Instrument, plan: Plan, longest_ns: int | None = None) -> bool:
    """Send the plan's requests and wait for them, or apply the load for this time, without recording anything.

    Return whether any request was answered before its timeout.
    """
    begun_ns = last_good_ns = instrument.clock()
    instrument.load.apply(plan)
    silence = Silence(instrument.silence_ns, begun_ns)
    is_answered = False
    while not instrument.watcher.is_interrupted():
        now = instrument.clock()
        if longest_ns is not None and now >= begun_ns + longest_ns:
            break
        collected = instrument.load.collect(now + FAR_NS if longest_ns is None else begun_ns + longest_ns)
        ours = collected.records.where(collected.records.sent_ns >= begun_ns)  # not from an earlier load
        report_warm_up(instrument.watcher, begun_ns, collected, ours)
        is_answered = is_answered or bool((ours.status != status.TIMEOUT).any())
        if len(collected.records.good):
            last_good_ns = collected.seen_ns
        is_gone = len(collected.records) > 0 and collected.seen_ns - last_good_ns > GONE_NS
        if collected.is_finished or is_gone or silence.is_over(collected):
            break
    return is_answered


def measure_level(instrument: Instrument, settings: LevelSettings, point: LoadPoint) -> Level:
    """Apply the point's plan and measure it according to the settings."""
    return measure_level_windows(instrument, settings, point)[0]


def measure_level_windows(
    instrument: Instrument, settings: LevelSettings, point: LoadPoint
) -> tuple[Level, tuple[Window, ...]]:
    """Measure a level and return it with its windows, for callers that merge them with others."""
    instrument.watcher.level_started(point.mode, point.value)
    host, clients = instrument.host, instrument.clients
    loads = tuple(zip(clients, _client_loads(settings, point), strict=True)) if clients else ()
    for counted, (rules, _) in loads:
        counted.begin(rules)
    run = LevelRun(instrument, settings, point, start_level(instrument, settings, point))
    run.report_start()
    for counted in clients:
        counted.start(run.start_ns)
    with instrument.metrics or nullcontext():
        decision = _measure_windows(instrument, run)
        if settings.ends_load:
            with suppress(LocalError):  # a lost worker is reported when the load is stopped
                instrument.load.apply(Closed(0))
    raw = run.raw(decision)
    if clients:
        span_ns = (raw.whole.start_ns, raw.whole.end_ns)
        found = [
            counted.end(*span_ns, level_start_ns=run.start_ns, batch=batch) for counted, (_, batch) in loads
        ]
        raw = replace(raw, clients=tuple(client for part in found for client in part))
    if host is not None:
        raw = replace(raw, host=host.end(), server_end=host.ended(), devices=host.devices)
    level = conclude(raw)
    if instrument.journal is not None:
        instrument.journal.add_level(point.mode, point.value, run.spanned_ns, start_ns=run.start_ns)
    instrument.watcher.level_finished(level)
    return level, tuple(run.closed.windows)


def _client_loads(settings: LevelSettings, point: LoadPoint) -> list[tuple[WindowRules, int]]:
    """Return the counting rules and batch of clients, for each class if clients serve one class each."""
    pairs = [(settings, point)]
    if point.classes:
        pairs = [(row.level, own) for row, own in zip(settings.classes, point.classes, strict=True)]
    return [(_client_rules(each, own.plan), each.batch) for each, own in pairs]


def _client_rules(settings: LevelSettings, plan: Plan) -> WindowRules:
    return WindowRules(
        is_open=isinstance(plan, Open),
        drops_empty=settings.model.is_decoupled,
        lateness=Lateness(plan.cap if isinstance(plan, Open) else None),
    )


def _measure_windows(instrument: Instrument, run: LevelRun) -> StopDecision:
    decision = GO_ON
    while not decision.is_done:
        try:
            run.measure_window()
        except LocalError as error:
            run.abandon()
            _cut(instrument, run)
            return StopDecision(is_done=True, is_stable=False, remark=Remark(Note.WORKER_LOST, str(error)))
        _cut(instrument, run)
        instrument.watcher.window_finished(len(run.closed.figures), run.closed.figures[-1])
        if instrument.host is not None:
            instrument.host.look()
        decision = run.decide()
    return decision


def _cut(instrument: Instrument, run: LevelRun) -> None:
    """Close the window of every client too."""
    for counted in instrument.clients:
        counted.cut(run.spanned_ns[-1])


# --- more workers for a client-limited level


def measure_with_enough_workers(
    instrument: Instrument,
    settings: LevelSettings,
    point: LoadPoint,
    again: Callable[[], None] | None = None,
) -> Level:
    """Measure the level, doubling the workers while they limit it and more are allowed.

    `again` is called before each further measurement.
    """
    level = measure_level(instrument, settings, point)
    workers = instrument.resizable
    if workers is None:
        return level
    most = instrument.most_workers
    if isinstance(point.plan, Closed):
        most = min(most, point.plan.concurrency)  # each needs a request of its own
    elif isinstance(point.plan, Periodic):
        most = 1
    while workers.count < most and not instrument.watcher.is_interrupted():
        if level.is_cut_short or not level.has_remark(Note.CLIENT_LIMITED):
            break
        if instrument.journal is not None:
            instrument.journal.forget_level()
        workers.resize(min(2 * workers.count, most))
        if again is not None:
            again()
        level = measure_level(instrument, settings, point)
    return level
