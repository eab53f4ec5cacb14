"""From what was seen of a level to the level itself. Pure: windows and a decision in, figures and remarks out."""

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferometer.base.errors import PeerError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
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
    slow_ends,
)
from inferometer.stats.measurement import (
    NOT_AS_ASKED,
    ClassFigures,
    Doubt,
    Estimate,
    HostUse,
    Level,
    Measurement,
    PromiseOutcome,
    Rates,
    WindowFigures,
)
from inferometer.stats.merge import Subject, measurement, start_figures
from inferometer.stats.overload import busy_rate, is_beyond, is_within
from inferometer.stats.promises import judge
from inferometer.stats.readings import bounds
from inferometer.stats.series import Series
from inferometer.stats.stopping import Precision, StopDecision, fast_start, is_over
from inferometer.stats.verdict import is_precise
from inferometer.stats.windows import Window

SLACK = 0.02  # share by which rates may differ, and of a plan's time by which requests may be late at its end
LEAST_NS = 50 * NS_PER_MS
SLOWER = 3  # times a quick request's service that is no sign of a growing queue
LAST = 0.1  # of the requests show how it ended
FEWEST = 5
SLACK_COUNTED = 0.01  # share of the requests that others may add, or that may be missing, before it is said
STOLEN_CORES = 0.05
SPARE_FILES = 4  # left when a worker's files count as used up
_NO_FILE = os.strerror(errno.EMFILE)
_NO_PORT = os.strerror(errno.EADDRNOTAVAIL)


@dataclass(slots=True)
class _Span:
    """How many there were, and from when to when."""

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
        """Between the first and the last; 0 when there is no time between them."""
        return (self.count - 1) * NS_PER_S / self.length_ns if self.length_ns else 0.0


@dataclass(slots=True)
class ScheduleTiming:
    """When the requests of a plan that ends by itself were due and sent; fed with the records as they come."""

    due: _Span = field(default_factory=_Span)
    sent: _Span = field(default_factory=_Span)

    def add(self, records: Records) -> None:
        self.due.add(records.due_ns)
        self.sent.add(records.sent_ns[records.sent_ns > 0])

    def pressed(self, whole: Window) -> Note | None:
        """Whether the requests at the end were still sent when due, and answered as fast as others."""
        service = whole.service_ns
        if not service.count or whole.lag_ns is None:
            return None
        room_ns = max(SLACK * self.due.length_ns, LEAST_NS)
        if _at_the_end(service) > SLOWER * service.percentile(25) + room_ns:
            return Note.OVERLOADED
        return Note.NOT_OFFERED if _at_the_end(whole.lag_ns) > room_ns else None


def _at_the_end(durations: Series) -> float:
    """The median of the last ones; `durations` in the order of ends."""
    return durations.last(max(FEWEST, round(LAST * durations.count))).percentile(50)


_UNSURE = (Note.NOT_PRECISE, Note.NOT_STABLE)


@frozen
class RawLevel:
    """A level as it went."""

    settings: LevelSettings
    point: LoadPoint
    decision: StopDecision
    cold: Window | None  # left out at the start
    whole: Window  # what counts, joined
    were_counters_reset: bool  # of the server, in between
    figures: Sequence[WindowFigures]  # of all windows
    start_ns: int
    examples: Mapping[int, str]
    samples: tuple[Sample, ...] | None
    statistics_error: PeerError | None
    metrics_remarks: tuple[Remark, ...]
    timing: ScheduleTiming | None = None  # of a schedule that ends by itself
    host: HostUse | None = None
    server_end: str = ""  # in words, if it ended by itself
    clients: tuple[ClientFigures, ...] = ()  # where load came from several machines
    classes: tuple[ClassFigures, ...] = ()
    first_round: Window | None = None  # of users who started one after the other, before the level
    has_own_plan: bool = True  # a class that shares its workers with others has no rate of its own


def is_capped(settings: LevelSettings, plan: Plan) -> bool:
    """By rate: it was the user's choice that requests wait before they are sent."""
    return isinstance(plan, Open) and (plan.cap is not None or settings.is_serial)


def latency_name(chosen: int | None) -> str:
    return MEAN if chosen is None else f"p{chosen} latency"


def conclude(raw: RawLevel) -> Level:
    """The level with its figures and the remarks on them."""
    settings = raw.settings
    subject = Subject(
        model=settings.model,
        batch=settings.batch,
        percentile=settings.percentile,
        level_start_ns=raw.start_ns,
        examples=raw.examples,
        promise="" if settings.promise is None else settings.promise.text,
        samples=raw.samples,
    )
    ended = raw.whole.count or raw.whole.failures or raw.whole.cancelled_count
    pressed = raw.timing.pressed(raw.whole) if raw.timing is not None and ended else None
    found = measurement(raw.whole, subject, was_reset=raw.were_counters_reset) if ended else None
    if found is not None and settings.classes:
        found = replace(found, server=None)  # what the server counted is told of each class
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
    )
    return replace(level, promise=_maybe_outcome(raw, level))


def _maybe_outcome(raw: RawLevel, level: Level) -> PromiseOutcome | None:
    """A load that was not applied, or not answered as it was sent, does not show that it would keep a promise."""
    settings, found = raw.settings, level.measurement
    if settings.promise is None or not settings.judges_promise:
        return None
    known = {} if found is None else {"throughput": found.infer_per_s, **dict(found.latency_intervals)}
    outcome = judge(settings.promise, raw.whole, known)
    if outcome.verdict != "kept" or level.is_as_asked:
        return outcome
    reason = next(remark.text for remark in level.remarks if remark.note in NOT_AS_ASKED)
    return replace(outcome, verdict="undecided", reason=reason)


def _maybe_rates(raw: RawLevel, found: Measurement) -> Rates | None:
    """By rate, what was asked, sent and answered."""
    point = raw.point
    if not is_all_open(point.plan) or not raw.has_own_plan:
        return None
    asked = point.value if point.asked_per_s is None else point.asked_per_s
    answered_per_s = raw.whole.answered_count * NS_PER_S / found.duration_ns
    if raw.timing is not None:
        return Rates(asked, raw.timing.sent.per_s, answered_per_s)
    due_per_s = raw.whole.expense.due * NS_PER_S / max(raw.whole.expense.elapsed_ns, 1)
    return Rates(asked, found.send_per_s, answered_per_s, due_per_s)


def _as_scheduled(raw: RawLevel, found: Measurement, rates: Rates) -> Measurement:
    found = replace(found, send_per_s=rates.sent_per_s)
    if raw.settings.window_ns is None:
        return found
    return replace(found, infer_per_s=Estimate(found.infer_per_s.value))  # it changes as asked: no interval


def _latency_ns(found: Measurement | None, chosen: int | None) -> int:
    if found is None or not found.request_count:
        return 0
    return found.latency.mean_ns if chosen is None else found.latency.percentile_ns(chosen)


# --- remarks on a level beside its figures: what limited it, and what does not fit


def _text_remarks(found: Measurement) -> Iterator[Remark]:
    """Answers of text that have no first token, or nothing but reasoning."""
    if found.blank_count:
        yield Remark(
            Note.EMPTY_ANSWERS, f"{found.blank_count:,} of {found.request_count:,} answers were empty"
        )
    unanswered = 0 if found.streaming is None else found.streaming.unanswered
    if unanswered:
        yield Remark(
            Note.ENDED_REASONING,
            f"{unanswered:,} of {found.request_count:,} answers ended within their reasoning",
        )


def _client_remarks(raw: RawLevel) -> Iterator[Remark]:
    """Clients are compared with those that send the same traffic."""
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
    if raw.decision.remark is None:
        yield from _precision_remarks(raw, found)
    yield from machine_remarks(found)
    yield from host_remarks(raw.host, found)
    # What a lost worker had sent, and the answers it got, are in nobody's count: nothing to compare the server's with.
    is_counted = raw.decision.remark is None or raw.decision.remark.note is not Note.WORKER_LOST
    yield from _metrics_remarks(raw, found, is_counted=is_counted)
    if not found.request_count:
        return
    limits = tuple(client_remarks(found, is_capped=is_capped(raw.settings, raw.point.plan), host=raw.host))
    pressure = _pressure_remarks(raw, found, rates, pressed)
    # A client that is the limit does not show what the server can do.
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
    """Where the user said how many requests or how long, and that was too little for figures that can be relied on."""
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
    """That an LLM server began anew, or works for others as well."""
    llm = None if found.metrics is None else found.metrics.llm
    if llm is None:
        return
    if llm.was_restarted:
        text = (
            "the server's metrics began again from zero: it was restarted, and what it counted is not known"
        )
        yield Remark(Note.METRICS_MISSING, text)
    present, plan = llm.present_max, raw.point.plan
    # The two gauges are not read at one moment: a request can be in both.
    is_more = isinstance(plan, Closed) and present is not None and present > plan.concurrency * 1.1 + 1
    if is_counted and is_more:
        assert isinstance(plan, Closed)
        text = f"the server had {present:,.0f} requests, and at most {plan.concurrency} were from here"
        yield Remark(Note.OTHER_CLIENTS, text)


def _without_statistics(raw: RawLevel) -> Iterator[Remark]:
    if raw.statistics_error is not None:
        yield Remark(Note.STATISTICS_MISSING, str(raw.statistics_error))
    elif raw.were_counters_reset:
        text = "the server's counters were reset: it was restarted, or the model was loaded again"
        yield Remark(Note.STATISTICS_MISSING, text)


def _pressure_remarks(
    raw: RawLevel, found: Measurement, rates: Rates | None, pressed: Note | None
) -> Iterator[Remark]:
    """By rate, whether the load was sent and answered as it was due."""
    if rates is None:
        return
    if raw.timing is None:
        yield from _rate_remarks(rates, found, raw)
    elif pressed is not None:
        yield _rate_remark(pressed, rates)


def _rate_remarks(rates: Rates, found: Measurement, raw: RawLevel) -> Iterator[Remark]:
    """By rate: whether requests were sent when they were due, and ended as sent, well or badly.

    What is due is what the schedule had in the measured time: random arrivals and gaps from a file are more or fewer
    than the rate times the time.
    """
    sent, ended = rates.sent_per_s, found.ended_count * NS_PER_S / found.duration_ns
    slack = SLACK * sent + 2 * NS_PER_S / found.duration_ns  # one request at either end may be cut
    # Requests in flight are not a queue that grows: a load that has just begun fills up with rate x service time
    # (Little's law). In a queue that grows for the whole time, they are half of what is missing.
    is_from_start = raw.whole.start_ns == raw.start_ns
    takes_ns = found.service.percentile_ns(50) + raw.whole.thought_ns // max(raw.whole.count, 1)
    in_flight = sent * takes_ns / found.duration_ns if is_from_start else 0.0
    noun = "visits" if raw.settings.has_visits else "requests"
    is_offered = sent >= (rates.asked_per_s if rates.due_per_s is None else rates.due_per_s) - slack
    capacity = _maybe_capacity(raw, rates) if is_offered else None
    if capacity is not None and is_beyond(capacity, rates.asked_per_s):
        yield Remark(Note.OVERLOADED, _beyond_capacity(rates, capacity))
    elif ended < sent - slack - in_flight and _gets_slower(raw.figures):
        if capacity is None or not is_within(capacity, rates.asked_per_s):
            yield _rate_remark(Note.OVERLOADED, rates, noun)
    elif not is_offered:
        yield _rate_remark(Note.NOT_OFFERED, rates, noun)


def _maybe_capacity(raw: RawLevel, rates: Rates) -> Estimate | None:
    """What the server answers while requests wait; None where they wait because of a cap, or hardly ever."""
    if is_capped(raw.settings, raw.point.plan) or raw.settings.has_visits:
        return None
    return busy_rate(raw.whole.ends.groups(), rates.asked_per_s)


def _gets_slower(rows: Sequence[WindowFigures]) -> bool:
    """A queue that grows makes requests take longer and longer; one that only happens to be long at the end does not.

    Few windows cannot tell."""
    change = drift([float(row.latency_ns) for row in rows])
    return len(rows) < FEWEST_WINDOWS or (change is not None and change > 0)


def _beyond_capacity(rates: Rates, capacity: Estimate) -> str:
    asked, most = quantity(rates.asked_per_s), quantity(capacity.value)
    return f"overloaded: {asked} requests/s were asked for, and while requests wait the server answers {most}"


def _rate_remark(note: Note, rates: Rates, noun: str = "requests") -> Remark:
    """Overloaded, or not sent as asked: the figures that show it."""
    sent, answered = quantity(rates.sent_per_s), quantity(rates.answered_per_s)
    if note is Note.OVERLOADED:
        return Remark(note, f"overloaded: {sent} {noun}/s were sent and {answered} answered")
    if rates.due_per_s is None:
        return Remark(note, f"asked for {quantity(rates.asked_per_s)} {noun}/s, sent {sent}")
    return Remark(
        note, f"{quantity(rates.due_per_s)} {noun}/s were due by the schedule, and {sent} were sent"
    )


def client_remarks(found: Measurement, *, is_capped: bool, host: HostUse | None = None) -> Iterator[Remark]:
    """Whether this tool or this machine is the limit."""
    limit = client_limit(found, is_capped=is_capped, host=host)
    if limit is not None:
        yield Remark(Note.CLIENT_STARVED if limit.is_starved else Note.CLIENT_LIMITED, limit.text)


def machine_remarks(found: Measurement) -> Iterator[Remark]:
    """What this machine ran short of: files, local ports, or, if it is a virtual one, time of its host's processors."""
    client = found.client
    if client.file_limit and client.files >= client.file_limit - SPARE_FILES:
        text = f"a worker had {client.files} files open, and the system allows {client.file_limit}"
        yield Remark(Note.FEW_FILES, text)
    elif any(_NO_FILE in group.example for group in found.failures):  # at a moment when nobody counted them
        yield Remark(
            Note.FEW_FILES, f"a worker could open no more files: the system allows {client.file_limit}"
        )
    if client.stolen_cores >= STOLEN_CORES:
        text = f"this machine wanted to work and had no processor for {share(client.stolen_cores)} of a core's time"
        yield Remark(Note.STOLEN, f"{text}: figures are worse than the server is")
    if any(_NO_PORT in group.example for group in found.failures):
        opened = f"after {client.connects} connections were opened" if client.connects else ""
        yield Remark(Note.FEW_PORTS, f"no local port was free {opened}".rstrip())


def member_remarks(server: ModelStatistics) -> Iterator[Remark]:
    """Models that the model's code was said to call, and did not. Members of an ensemble may rest behind its cache.

    And models whose figures are those of one version, while others were called too."""
    yield from _versions(server)
    if server.is_ensemble:
        return
    for member in server.members:
        if not member.was_called:
            yield Remark(Note.MEMBER_NOT_CALLED, f"'{server.name}' did not call '{member.name}'")


def _count_remarks(model: ModelSpec, server: ModelStatistics, fewest: int, most: int) -> Iterator[Remark]:
    """Whether the server has counted our requests, of which there are at least so many and at most, and no others."""
    counted = server.counters.success_count
    if counted > most + SLACK_COUNTED * most:
        text = (
            f"the server counted {counted:,} requests of '{server.name}', and at most {most:,} were from here"
        )
        yield Remark(Note.OTHER_CLIENTS, text)
    elif counted < fewest - SLACK_COUNTED * fewest:
        text = f"the server counted {counted:,} requests of '{server.name}', and {fewest:,} or more were answered"
        yield Remark(Note.NOT_COUNTED, text)
    calls = Counter(_calls(model))
    for member in {row.name: row for row in _ensemble_members(server)}.values():
        counted, called_most = member.counters.success_count, calls[member.name] * most
        if called_most and counted > called_most + SLACK_COUNTED * called_most:
            called = f"at most {called_most:,} came from '{server.name}'"
            text = f"the server counted {counted:,} requests of '{member.name}', and {called}"
            yield Remark(Note.OTHER_CLIENTS, text)


def _calls(model: ModelSpec) -> Iterator[str]:
    """The models that one request of an ensemble calls, each as often as it is called."""
    members = {member.name: member for member in model.composing}
    for step in model.config.get("ensemble_scheduling", {}).get("step", ()):
        name = step.get("model_name", "")
        if name in members:
            yield name
            yield from _calls(members[name])


def _ensemble_members(server: ModelStatistics) -> Iterator[ModelStatistics]:
    """Those that only the ensemble decides how often to call; other models call theirs as they like."""
    for member in server.members if server.is_ensemble else ():
        yield member
        yield from _ensemble_members(member)


def _versions(server: ModelStatistics) -> Iterator[Remark]:
    if server.also_called:
        others = ", ".join(server.also_called)
        yield Remark(
            Note.SEVERAL_VERSIONS,
            f"version {server.version} of '{server.name}' is shown, and version {others} was called too",
        )
    for member in server.members:
        yield from _versions(member)


# --- why figures are not sure


def _is_unsure(raw: RawLevel) -> bool:
    rule, remark = raw.settings.rule, raw.decision.remark
    if isinstance(rule, Precision) and rule.precision == 0:
        return False  # nobody asked for any
    return remark is not None and remark.note in _UNSURE and raw.whole.count > 0


def _maybe_doubt(raw: RawLevel, found: Measurement | None) -> Doubt | None:
    """Why the figures are not as sure as asked, or else that they changed while they were measured."""
    if found is None or not found.request_count:
        return None
    counted = raw.figures[0 if raw.cold is None else raw.cold.number :]
    capped = is_capped(raw.settings, raw.point.plan)
    # What a client that is the limit sees change may be its own doing.
    is_seen = raw.settings.finds_warm_up and client_limit(found, is_capped=capped, host=raw.host) is None
    started = fast_start(counted) if is_seen else None
    if started is not None:
        return started
    if not _is_unsure(raw):
        return moving_figure(counted) if is_seen else None
    rule, chosen = raw.settings.rule, raw.settings.percentile
    evidence = DoubtEvidence(
        windows=counted,
        found=found,
        name=latency_name(chosen),
        latency=dict(found.latency_intervals)["mean" if chosen is None else f"p{chosen}"],
        slow_ends_us=slow_ends(raw.whole.ends.groups(), raw.whole.latency_ns.percentile(50)),
        precision=rule.precision if isinstance(rule, Precision) else None,
        is_capped=capped,
        host=raw.host,
    )
    return explain(evidence)
