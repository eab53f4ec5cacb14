"""Conclusion of a level. Pure: windows and a decision in, figures and remarks out."""

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferometer.base.errors import PeerError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, quantity, share
from inferometer.load.plan import Closed, Open, Plan, is_all_open
from inferometer.measure.host import host_remarks
from inferometer.measure.instrument import LevelSettings, LoadPoint
from inferometer.model.spec import ModelSpec
from inferometer.observe.metrics import Sample
from inferometer.observe.statistics import ModelStatistics
from inferometer.records.records import Column, Records
from inferometer.stats.client_remarks import client_remarks_by_name
from inferometer.stats.clients import ClientFigures
from inferometer.stats.doubts import (
    FEWEST_WINDOWS,
    MEAN,
    DoubtEvidence,
    client_limit,
    drift,
    explain,
    moving_figure,
    slow_requests,
)
from inferometer.stats.energy import PoweredDevice, energies
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import HostUse, NetworkFigures
from inferometer.stats.measurement import (
    NOT_AS_ASKED,
    ClassFigures,
    Doubt,
    Level,
    Measurement,
    Rates,
    WindowFigures,
)
from inferometer.stats.merge import Subject, measurement, start_figures
from inferometer.stats.network import network_share
from inferometer.stats.overload import busy_rate, has_changed_pace, is_beyond
from inferometer.stats.promises import judge, without_client
from inferometer.stats.readings import bounds
from inferometer.stats.series import Series
from inferometer.stats.slo_outcome import PromiseOutcome
from inferometer.stats.stopping import Precision, StopDecision, fast_start, is_over
from inferometer.stats.verdict import is_precise
from inferometer.stats.windows import Window
from inferometer.stats.wrong_answers import maybe_remark

SLACK = 0.02  # tolerated relative difference of rates, and lateness at the end relative to the plan's time
LEAST_NS = 50 * NS_PER_MS
SLOWER = 3  # multiple of a fast request's service time that does not indicate a growing queue
LAST = 0.1  # share of the requests that shows how the level ended
FEWEST = 5
SLACK_COUNTED = 0.01  # tolerated share of requests that other clients add, or that the server did not count
STOLEN_CORES = 0.05
SPARE_FILES = 4  # free descriptors below which a worker's files count as used up
_NO_FILE = os.strerror(errno.EMFILE)
_NO_PORT = os.strerror(errno.EADDRNOTAVAIL)


@dataclass(slots=True)
class _Span:
    """Number of events, and the times of the first and last."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, times: Column) -> None:
        if not len(times):
            return
        first_ns, last_ns = int(times.min()), int(times.max())
        self.first_ns = min(self.first_ns, first_ns) if self.count else first_ns
        self.last_ns = max(self.last_ns, last_ns)
        self.count += len(times)

    @property
    def length_ns(self) -> int:
        return self.last_ns - self.first_ns

    @property
    def per_s(self) -> float:
        """Rate between the first and the last; 0 if no time passed between them."""
        return (self.count - 1) * NS_PER_S / self.length_ns if self.length_ns else 0.0


@dataclass(slots=True)
class ScheduleTiming:
    """Due and send times of a plan with a fixed number of requests, collected from its records."""

    due: _Span = field(default_factory=_Span)
    sent: _Span = field(default_factory=_Span)

    def add(self, records: Records) -> None:
        self.due.add(records.due_ns)
        self.sent.add(records.sent_ns[records.sent_ns > 0])

    def pressed(self, whole: Window) -> Note | None:
        """Return a note if the last requests were sent late, or answered more slowly than others."""
        service = whole.service_ns
        if not service.count or whole.lag_ns is None:
            return None
        room_ns = max(SLACK * self.due.length_ns, LEAST_NS)
        if _at_the_end(service) > SLOWER * service.percentile(25) + room_ns:
            return Note.OVERLOADED
        return Note.NOT_OFFERED if _at_the_end(whole.lag_ns) > room_ns else None


def _at_the_end(durations: Series) -> float:
    """Return the median of the last durations; `durations` is ordered by end."""
    return durations.last(max(FEWEST, round(LAST * durations.count))).percentile(50)


_UNSURE = (Note.NOT_PRECISE, Note.NOT_STABLE)


@frozen
class RawLevel:
    """The observations of a level, from which its figures are computed."""

    settings: LevelSettings
    point: LoadPoint
    decision: StopDecision
    cold: Window | None  # excluded windows at the start
    whole: Window  # all counted windows, joined
    were_counters_reset: bool  # of the server, during the level
    figures: Sequence[WindowFigures]  # of all windows, including excluded ones
    start_ns: int
    examples: Mapping[int, str]
    samples: tuple[Sample, ...] | None
    statistics_error: PeerError | None
    metrics_remarks: tuple[Remark, ...]
    timing: ScheduleTiming | None = None  # for a schedule that ends by itself
    host: HostUse | None = None
    devices: tuple[PoweredDevice, ...] = ()  # of this machine, if the server runs on it
    server_end: str = ""  # how it ended, if it ended by itself
    clients: tuple[ClientFigures, ...] = ()  # if the load came from several machines
    classes: tuple[ClassFigures, ...] = ()
    network: NetworkFigures | None = None
    first_round: Window | None = None  # of users with staggered starts, before the level
    has_own_plan: bool = True  # False for a class that shares workers: it has no rate of its own


def is_capped(settings: LevelSettings, plan: Plan) -> bool:
    """Return whether the user's options make open-loop requests wait before they are sent."""
    return isinstance(plan, Open) and (plan.cap is not None or settings.is_serial)


def asked_per_s(point: LoadPoint) -> float:
    """Return the requested rate of an open-loop load."""
    return point.value if point.asked_per_s is None else point.asked_per_s


def latency_name(chosen: int | None) -> str:
    return MEAN if chosen is None else f"p{chosen} latency"


def conclude(raw: RawLevel) -> Level:
    """Build the level with its figures and remarks."""
    settings = raw.settings
    subject = Subject(
        model=settings.model,
        batch=settings.batch,
        percentile=settings.percentile,
        level_start_ns=raw.start_ns,
        examples=raw.examples,
        promise="" if settings.promise is None else settings.promise.text,
        samples=raw.samples,
        devices=raw.devices,
    )
    ended = raw.whole.count or raw.whole.failures or raw.whole.cancelled_count
    pressed = raw.timing.pressed(raw.whole) if raw.timing is not None and ended else None
    found = measurement(raw.whole, subject, was_reset=raw.were_counters_reset) if ended else None
    if found is not None and settings.classes:
        found = replace(found, server=None)  # server counts are reported per class
    rates = None if found is None else _maybe_rates(raw, found)
    if found is not None and rates is not None and raw.timing is not None:
        found = _as_scheduled(raw, found, rates)
    level = Level(
        mode=raw.point.mode,
        value=float(raw.point.value),
        measurement=found,
        windows=tuple(raw.figures),
        is_stable=raw.decision.is_stable,
        is_over_limit=is_over(_latency_ns(found, settings.percentile), settings.latency_limit_ms),
        remarks=tuple(_remarks(raw, found, rates, pressed)),
        start=None if raw.cold is None else start_figures(raw.cold, subject),
        first_round=None if raw.first_round is None else start_figures(raw.first_round, subject),
        doubt=_maybe_doubt(raw, found),
        rates=rates,
        host=raw.host,
        clients=raw.clients,
        name=raw.point.name,
        classes=raw.classes,
        network=_maybe_network(raw, found),
    )
    if level.has_remark(*CLIENT_LIMITS):
        level = replace(level, classes=_without_client(level.classes))
    return replace(level, promise=_maybe_outcome(raw, level))


def _without_client(classes: Sequence[ClassFigures]) -> tuple[ClassFigures, ...]:
    """Replace a verdict on a class by an open one: whether the client was the limit is known only for all classes
    together."""
    return tuple(
        replace(
            row,
            promise=None if row.promise is None else without_client(row.promise),
            remarks=tuple(remark for remark in row.remarks if remark.note is not Note.OVERLOADED),
            steps=_without_client(row.steps),
        )
        for row in classes
    )


def _maybe_network(raw: RawLevel, found: Measurement | None) -> NetworkFigures | None:
    if raw.network is None or found is None or not found.request_count:
        return raw.network
    return replace(raw.network, share=network_share(raw.network, dict(found.latency_intervals).get("p50")))


def _maybe_outcome(raw: RawLevel, level: Level) -> PromiseOutcome | None:
    """Judge the SLO. A load that was not applied or answered as requested does not show that it meets the SLO."""
    settings, found = raw.settings, level.measurement
    if settings.promise is None or not settings.judges_promise:
        return None
    known = {}
    if found is not None:
        known = {"throughput": found.infer_per_s, **dict(found.latency_intervals), **energies(found)}
    outcome = judge(settings.promise, raw.whole, known)
    if level.has_remark(*CLIENT_LIMITS):
        outcome = without_client(outcome)
    if outcome.verdict != "kept" or level.is_as_asked:
        return outcome
    reason = next(remark.text for remark in level.remarks if remark.note in NOT_AS_ASKED)
    return replace(outcome, verdict="undecided", reason=reason)


def _maybe_rates(raw: RawLevel, found: Measurement) -> Rates | None:
    """Return the requested, sent and answered rates of an open loop."""
    point = raw.point
    if not is_all_open(point.plan) or not raw.has_own_plan:
        return None
    asked = asked_per_s(point)
    answered_per_s = raw.whole.answered_count * NS_PER_S / found.duration_ns
    if raw.timing is not None:
        return Rates(asked, raw.timing.sent.per_s, answered_per_s)
    due_per_s = raw.whole.expense.due * NS_PER_S / max(raw.whole.expense.elapsed_ns, 1)
    return Rates(asked, found.send_per_s, answered_per_s, due_per_s)


def _as_scheduled(raw: RawLevel, found: Measurement, rates: Rates) -> Measurement:
    found = replace(found, send_per_s=rates.sent_per_s)
    if raw.settings.window_ns is None:
        return found
    return replace(
        found, infer_per_s=Estimate(found.infer_per_s.value)
    )  # the load varies by design: no interval


def _latency_ns(found: Measurement | None, chosen: int | None) -> int:
    if found is None or not found.request_count:
        return 0
    return found.latency.mean_ns if chosen is None else found.latency.percentile_ns(chosen)


# --- remarks on a level: limits and contradictions


def _text_remarks(found: Measurement) -> Iterator[Remark]:
    """Remark on text answers without a first token, or with reasoning only."""
    if found.blank_count:
        yield Remark(
            Note.EMPTY_ANSWERS, f"{found.blank_count:,} of {found.request_count:,} answers were empty"
        )
    unanswered = 0 if found.streaming is None else found.streaming.unanswered
    if unanswered:
        yield Remark(
            Note.ENDED_REASONING,
            f"{unanswered:,} of {found.request_count:,} answers ended while still reasoning",
        )


def _client_remarks(raw: RawLevel) -> Iterator[Remark]:
    """Compare each client with those that send the same traffic."""
    loads = {"": (raw.settings, raw.point)}
    if raw.point.classes:
        pairs = zip(raw.settings.classes, raw.point.classes, strict=True)
        loads = {row.name: (row.level, own) for row, own in pairs}
    for name, (settings, point) in loads.items():
        yield from client_remarks_by_name(
            [client for client in raw.clients if client.class_name == name],
            is_open=isinstance(point.plan, Open),
            is_capped=is_capped(settings, point.plan),
            asked=getattr(point.plan, "count", None),
        )


def _remarks(
    raw: RawLevel, found: Measurement | None, rates: Rates | None, pressed: Note | None
) -> Iterator[Remark]:
    if raw.decision.remark is not None:
        yield raw.decision.remark
    if raw.server_end:
        yield Remark(Note.SERVER_ENDED, raw.server_end)
    yield from _client_remarks(raw)
    yield from raw.metrics_remarks
    empty = raw.whole.empty
    if empty:
        yield Remark(
            Note.NO_RESPONSE, f"{empty} {'request' if empty == 1 else 'requests'} ended without a response"
        )
    if found is None:
        if not empty and not (raw.decision.remark and raw.decision.remark.note is Note.NO_ANSWER):
            yield Remark(Note.NO_REPLY, "no request finished")
        return
    yield from _text_remarks(found)
    if (wrong := maybe_remark(found.checks)) is not None:
        yield wrong
    if raw.decision.remark is None:
        yield from _precision_remarks(raw, found)
    yield from machine_remarks(found)
    yield from host_remarks(raw.host, found)
    # The requests of a lost worker are in nobody's count, so the server's count has nothing to be compared with.
    is_counted = raw.decision.remark is None or raw.decision.remark.note is not Note.WORKER_LOST
    yield from _metrics_remarks(raw, found, is_counted=is_counted)
    if not found.request_count:
        return
    limits = tuple(client_remarks(found, is_capped=is_capped(raw.settings, raw.point.plan), host=raw.host))
    pressure = _pressure_remarks(raw, found, rates, pressed)
    # A client-limited level does not show the capacity of the server.
    yield from (row for row in pressure if not limits or row.note is not Note.OVERLOADED)
    yield from limits
    if found.server is None:
        yield from _without_statistics(raw)
        return
    yield from member_remarks(found.server)
    before, after = raw.whole.before, raw.whole.after
    if before is not None and after is not None and is_counted:
        fewest, most = bounds(before, after)
        yield from _count_remarks(raw.settings.model, found.server, fewest, most)


def _precision_remarks(raw: RawLevel, found: Measurement) -> Iterator[Remark]:
    """Remark on a requested count or duration that is too small for reliable figures."""
    rule = raw.settings.rule
    if not isinstance(rule, Precision) or rule.precision > 0 or not found.request_count:
        return
    chosen = raw.settings.percentile
    name = latency_name(chosen)
    latency = dict(found.latency_intervals).get("mean" if chosen is None else f"p{chosen}")
    rows = [] if latency is None else [(name, latency)]
    if raw.timing is None and found.infer_per_s.limits is not None:
        rows.insert(0, ("throughput", found.infer_per_s))
    loose = [
        f"{name} ±{share(half)}"
        if (half := row.relative_half_width) is not None
        else f"{name} has no interval"
        for name, row in rows
        if not is_precise(row)
    ]
    if loose:
        requests = "request is" if found.request_count == 1 else "requests are"
        text = f"{found.request_count:,} {requests} too few: {', '.join(loose)}"
        yield Remark(Note.NOT_PRECISE, text)


def _metrics_remarks(raw: RawLevel, found: Measurement, *, is_counted: bool) -> Iterator[Remark]:
    """Remark if an LLM server restarted, or also serves other clients."""
    llm = None if found.metrics is None else found.metrics.llm
    if llm is None:
        return
    if llm.was_restarted:
        text = "the server's metrics were reset to zero: it was restarted, and its earlier counts are lost"
        yield Remark(Note.METRICS_MISSING, text)
    present, plan = llm.present_max, raw.point.plan
    # The two gauges are not read at the same moment: a request can be in both.
    is_more = isinstance(plan, Closed) and present is not None and present > plan.concurrency * 1.1 + 1
    if is_counted and is_more:
        assert isinstance(plan, Closed)
        text = f"the server had {present:,.0f} requests in flight, but at most {plan.concurrency} came from this client"
        yield Remark(Note.OTHER_CLIENTS, text)


def _without_statistics(raw: RawLevel) -> Iterator[Remark]:
    if raw.statistics_error is not None:
        yield Remark(Note.STATISTICS_MISSING, str(raw.statistics_error))
    elif raw.were_counters_reset:
        text = "the server's counters were reset: it was restarted, or the model was reloaded"
        yield Remark(Note.STATISTICS_MISSING, text)


def _pressure_remarks(
    raw: RawLevel, found: Measurement, rates: Rates | None, pressed: Note | None
) -> Iterator[Remark]:
    """Remark if an open-loop load was not sent or answered as scheduled."""
    if rates is None:
        return
    if raw.timing is None:
        yield from _rate_remarks(rates, found, raw)
    elif pressed is not None:
        yield _rate_remark(pressed, rates)


def _rate_remarks(rates: Rates, found: Measurement, raw: RawLevel) -> Iterator[Remark]:
    """Remark if open-loop requests were not sent when due, or ended more slowly than they were sent.

    The number due is that of the schedule in the measured time: random arrivals and gaps from a file differ from the
    rate times the time.
    """
    sent, ended = rates.sent_per_s, found.ended_count * NS_PER_S / found.duration_ns
    slack = SLACK * sent + 2 * NS_PER_S / found.duration_ns  # one request at either end may be cut
    # Requests in flight are not yet a growing queue: a load that has just begun fills up with rate x service time
    # (Little's law). In a queue that grows the whole time, they are half of the missing requests.
    is_from_start = raw.whole.start_ns == raw.start_ns
    takes_ns = found.service.percentile_ns(50) + raw.whole.thought_ns // max(raw.whole.count, 1)
    in_flight = sent * takes_ns / found.duration_ns if is_from_start else 0.0
    noun = "visits" if raw.settings.has_visits else "requests" if raw.settings.tasks is None else "tasks"
    is_offered = sent >= (rates.asked_per_s if rates.due_per_s is None else rates.due_per_s) - slack
    capacity = maybe_capacity(raw.settings, raw.point, raw.whole) if is_offered else None
    if capacity is not None and is_beyond(capacity, rates.asked_per_s):
        yield Remark(Note.OVERLOADED, _beyond_capacity(rates, capacity))
    elif ended < sent - slack - in_flight and _gets_slower(raw.figures):
        if capacity is None or is_beyond(capacity, rates.asked_per_s, falls_behind=True):
            yield _rate_remark(Note.OVERLOADED, rates, noun)
    elif not is_offered:
        yield _rate_remark(Note.NOT_OFFERED, rates, noun)


def maybe_capacity(settings: LevelSettings, point: LoadPoint, whole: Window) -> Estimate | None:
    """Return the server's throughput while requests wait; None if they wait because of a cap, or almost never."""
    if not is_all_open(point.plan) or is_capped(settings, point.plan) or settings.has_steps:
        return None
    return busy_rate(whole.ends.groups(), asked_per_s(point))


def _gets_slower(rows: Sequence[WindowFigures]) -> bool:
    """Return whether latency keeps growing, as in a growing queue; a queue that happens to be long at the end does not
    count.

    With few windows, return True.
    """
    change = drift([float(row.latency_ns) for row in rows])
    return len(rows) < FEWEST_WINDOWS or (change is not None and change > 0)


def _beyond_capacity(rates: Rates, capacity: Estimate) -> str:
    asked, most = quantity(rates.asked_per_s), quantity(capacity.value)
    return f"overloaded: {asked} requests/s were requested, but the server answers only {most} while requests wait"


def _rate_remark(note: Note, rates: Rates, noun: str = "requests") -> Remark:
    """Return the remark for an overloaded or an underloaded level, with its rates."""
    sent, answered = quantity(rates.sent_per_s), quantity(rates.answered_per_s)
    if note is Note.OVERLOADED:
        return Remark(note, f"overloaded: {sent} {noun}/s were sent, but only {answered} answered")
    if rates.due_per_s is None:
        return Remark(note, f"{quantity(rates.asked_per_s)} {noun}/s were requested, but only {sent} sent")
    return Remark(note, f"{quantity(rates.due_per_s)} {noun}/s were due, but only {sent} sent")


def client_remarks(found: Measurement, *, is_capped: bool, host: HostUse | None = None) -> Iterator[Remark]:
    """Remark if this tool or this machine is the limit."""
    limit = client_limit(found, is_capped=is_capped, host=host)
    if limit is not None:
        yield Remark(Note.CLIENT_STARVED if limit.is_starved else Note.CLIENT_LIMITED, limit.text)


def machine_remarks(found: Measurement) -> Iterator[Remark]:
    """Remark on a shortage of files, local ports or, on a virtual machine, CPU time of its host."""
    client = found.client
    if client.file_limit and client.files >= client.file_limit - SPARE_FILES:
        text = f"a worker had {client.files} files open, and the limit is {client.file_limit}"
        yield Remark(Note.FEW_FILES, text)
    elif any(_NO_FILE in group.example for group in found.failures):  # at a moment between counts
        yield Remark(
            Note.FEW_FILES, f"a worker ran out of file descriptors: the limit is {client.file_limit}"
        )
    if client.stolen_cores >= STOLEN_CORES:
        text = f"the hypervisor withheld CPU time from this machine ({share(client.stolen_cores)} of a core)"
        yield Remark(Note.STOLEN, f"{text}: the figures understate the server")
    if any(_NO_PORT in group.example for group in found.failures):
        opened = f"after {client.connects} connections were opened" if client.connects else ""
        yield Remark(Note.FEW_PORTS, f"no local port was free {opened}".rstrip())


def member_remarks(server: ModelStatistics) -> Iterator[Remark]:
    """Remark on declared composing models that were not called; a cache may bypass members of an ensemble.

    Also on models whose figures are for one version while others were called too.
    """
    yield from _versions(server)
    if server.is_ensemble:
        return
    for member in server.members:
        if not member.was_called:
            yield Remark(Note.MEMBER_NOT_CALLED, f"'{server.name}' did not call '{member.name}'")


def _count_remarks(model: ModelSpec, server: ModelStatistics, fewest: int, most: int) -> Iterator[Remark]:
    """Compare the server's count with ours, which is between `fewest` and `most`."""
    counted = server.counters.success_count
    if counted > most + SLACK_COUNTED * most:
        text = f"the server counted {counted:,} requests for '{server.name}', but this client sent at most {most:,}"
        yield Remark(Note.OTHER_CLIENTS, text)
    elif counted < fewest - SLACK_COUNTED * fewest:
        text = f"the server counted {counted:,} requests for '{server.name}', but at least {fewest:,} were answered"
        yield Remark(Note.NOT_COUNTED, text)
    calls = Counter(_calls(model))
    for member in {row.name: row for row in _ensemble_members(server)}.values():
        counted, called_most = member.counters.success_count, calls[member.name] * most
        if called_most and counted > called_most + SLACK_COUNTED * called_most:
            called = f"at most {called_most:,} came from '{server.name}'"
            text = f"the server counted {counted:,} requests for '{member.name}', but {called}"
            yield Remark(Note.OTHER_CLIENTS, text)


def _calls(model: ModelSpec) -> Iterator[str]:
    """Yield the models that one request of an ensemble calls, with repetitions."""
    members = {member.name: member for member in model.composing}
    for step in model.config.get("ensemble_scheduling", {}).get("step", ()):
        name = step.get("model_name", "")
        if name in members:
            yield name
            yield from _calls(members[name])


def _ensemble_members(server: ModelStatistics) -> Iterator[ModelStatistics]:
    """Yield members that only an ensemble calls; other models decide by themselves how often to call theirs."""
    for member in server.members if server.is_ensemble else ():
        yield member
        yield from _ensemble_members(member)


def _versions(server: ModelStatistics) -> Iterator[Remark]:
    if server.also_called:
        others = ", ".join(server.also_called)
        yield Remark(
            Note.SEVERAL_VERSIONS,
            f"version {server.version} of '{server.name}' is shown, but version {others} was also called",
        )
    for member in server.members:
        yield from _versions(member)


# --- reasons for imprecise figures


def _is_unsure(raw: RawLevel) -> bool:
    rule, remark = raw.settings.rule, raw.decision.remark
    if isinstance(rule, Precision) and rule.precision == 0:
        return False  # no precision was requested
    return remark is not None and remark.note in _UNSURE and raw.whole.count > 0


def _maybe_doubt(raw: RawLevel, found: Measurement | None) -> Doubt | None:
    """Return the reason why figures are less precise than requested, or a change during the measurement."""
    if found is None or not found.request_count:
        return None
    counted = raw.figures[0 if raw.cold is None else raw.cold.number :]
    capped = is_capped(raw.settings, raw.point.plan)
    # With a client-limited level, the client itself may cause the change.
    is_seen = raw.settings.finds_warm_up and client_limit(found, is_capped=capped, host=raw.host) is None
    started = fast_start(counted, raw.settings.rate_unit) if is_seen else None
    if started is not None:
        return started
    if not _is_unsure(raw):
        return moving_figure(counted, is_queue=_is_queue(raw)) if is_seen else None
    rule, chosen = raw.settings.rule, raw.settings.percentile
    ends = raw.whole.ends.groups()
    evidence = DoubtEvidence(
        windows=counted,
        found=found,
        name=latency_name(chosen),
        latency=dict(found.latency_intervals)["mean" if chosen is None else f"p{chosen}"],
        ends=ends,
        slow=slow_requests(ends, raw.whole.latency_ns.percentile(50)),
        precision=rule.precision if isinstance(rule, Precision) else None,
        is_capped=capped,
        host=raw.host,
        is_queue=_is_queue(raw),
    )
    return explain(evidence)


def _is_queue(raw: RawLevel) -> bool:
    """Return whether latency moves with the length of a queue, while the server works at the same pace: near its
    capacity, that length wanders for longer than a level lasts."""
    capacity = maybe_capacity(raw.settings, raw.point, raw.whole)
    if capacity is None or is_beyond(capacity, asked_per_s(raw.point)):
        return False
    return not has_changed_pace(raw.whole.ends.groups(), asked_per_s(raw.point))
