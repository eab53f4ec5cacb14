"""Interference among models that share a server: each is measured alone and all together, in turns.

A round has a turn for each model alone and one for all together; every other round is reversed, so that a drift of
the machine affects all turns equally. The server is idle when a turn begins.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import variance
from typing import Literal, TypeGuard

import inferometer
from inferometer.base.errors import LocalError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.system import has_proc
from inferometer.base.units import NS_PER_MS, NS_PER_S, quantity, share
from inferometer.base.units import duration as time_words
from inferometer.compare.differences import CONFIDENCE, headline_metrics, of_turns
from inferometer.compare.interference import (
    BANDWIDTH,
    CLIENT,
    CORES,
    FRONT,
    GPU,
    HIDDEN,
    NOTHING,
    QUEUE,
    STRANGER,
    UNKNOWN,
    WORK,
    Interference,
    ServerTimes,
    SharedModel,
    SharedUse,
)
from inferometer.compare.live import ModelAtServer, options_of
from inferometer.compare.turns import (
    FEWEST_ROUNDS,
    Candidate,
    PilotRun,
    TurnSeries,
    even_rounds,
    longer_words,
    without_gaps,
)
from inferometer.load.plan import Closed, Joint
from inferometer.measure.groups import class_level_settings, group_instrument, start_groups
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level_windows
from inferometer.measure.points import LastOutcome, points
from inferometer.measure.prepare import Setup, prepare
from inferometer.observe.statistics import Counters, difference
from inferometer.options.effective import common_unit
from inferometer.options.mixing import INTERFERE_REFUSED
from inferometer.options.names import option_name, with_names
from inferometer.options.options import DURATION_S, Options
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import student_t
from inferometer.stats.machine_figures import FULL, HostUse
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.merge import Subject, measurement
from inferometer.stats.verdict import SHOWN, rule
from inferometer.stats.watcher import Watcher, completed
from inferometer.stats.windows import Window, join_windows

ROUNDS = 40
SHORTEST_TURN_NS = 300 * NS_PER_MS  # target
FEWEST_ANSWERS = 2  # of each model, in the pilot run
FAILING_NS = NS_PER_S  # give up after a pilot run of this length in which all requests of a model fail
LEAST_TURN_NS = 100 * NS_PER_MS
LONGEST_TURN_NS = 60 * NS_PER_S
WAITING = 0.1  # additional cores waited for from which on models contend for cores
MOST = 0.5  # share of the slowdown that identifies its cause
BUSY_GPU = 0.8
BUSY_GPU_MEMORY = 0.6


@frozen
class InterfereRequest:
    """Models and their common load."""

    models: tuple[ModelAtServer, ...]
    options: Options


def check_interfere(request: InterfereRequest) -> None:
    """Raise for options that are not supported."""
    options = request.options
    for name, remedy in INTERFERE_REFUSED.items():
        if name in options.given:
            raise UsageError(
                f"{option_name(name)} is not supported by `interfere`", remedy=with_names(remedy)
            )
    for name in ("concurrency", "request_rate"):
        span = getattr(options, name)
        if span is not None and (span.listed or span.end not in (None, span.start)):
            raise UsageError(
                f"{option_name(name)} gives several levels, but every model is loaded at one",
                remedy="give a single value",
            )


@dataclass(slots=True)
class _Turns:
    """The turns of one arrangement: a model alone, or all together."""

    loaded: tuple[int, ...]  # indices of the loaded models
    windows: list[tuple[Window, ...]] = field(default_factory=list)  # of each turn, all classes
    hosts: list[HostUse] = field(default_factory=list)


def interfere(request: InterfereRequest, watcher: Watcher) -> Interference:
    """Measure each model alone and all together, in turns."""
    check_interfere(request)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    setups = [prepare(options_of(request.options, model), command="compare") for model in request.models]
    for finding in dict.fromkeys(finding for setup in setups for finding in setup.findings):
        watcher.said(finding)
    names = [model.name for model in request.models]
    point = next(iter(points(setups[0].options, setups[0].last, LastOutcome())))
    duration_ns = round((request.options.duration_s or DURATION_S) * NS_PER_S)
    turn_ns = max(duration_ns // even_rounds(min(ROUNDS, duration_ns // SHORTEST_TURN_NS)), LEAST_TURN_NS)
    watcher.prepared(setups[0].result.effective)
    watcher.planned(1, None)
    watcher.level_started(point.mode, point.value)
    with start_groups(setups) as load:
        instrument = group_instrument(setups, names, load, completed(_Quiet(watcher)))
        session = _Session(instrument, setups, names, point, turn_ns)
        problems = session.measure(duration_ns, watcher)
    whole = session.together
    rounds = min(len(turns.windows) for turns in session.all_turns)
    models = session.models() if rounds else ()
    return Interference(
        tool=f"inferometer {inferometer.__version__}",
        started_at=started_at,
        mode=point.mode,
        value=float(point.value),
        seconds=rounds * session.turn_ns / NS_PER_S,
        rounds=rounds,
        confidence=CONFIDENCE,
        host=setups[0].result.host,
        models=models,
        use=_use(whole.hosts),
        notes=tuple(dict.fromkeys(warning for setup in setups for warning in setup.warnings)),
        problems=tuple(problems),
        rate_unit=common_unit(setup.result.effective.rate_unit for setup in setups),
    )


@dataclass(slots=True)
class _Quiet:
    """Watcher of turns, which are not levels: passes on only the request to stop."""

    watcher: Watcher

    def is_interrupted(self) -> bool:
        return self.watcher.is_interrupted()


@dataclass(slots=True)
class _Session:
    instrument: Instrument
    setups: Sequence[Setup]
    names: Sequence[str]
    point: LoadPoint
    turn_ns: int
    all_turns: list[_Turns] = field(init=False)

    def __post_init__(self) -> None:
        numbers = tuple(range(len(self.setups)))
        self.all_turns = [*(_Turns((number,)) for number in numbers), _Turns(numbers)]

    @property
    def together(self) -> _Turns:
        return self.all_turns[-1]

    @property
    def _settings(self) -> LevelSettings:
        return class_level_settings(self.setups, self.names, self.turn_ns)

    def measure(self, duration_ns: int, watcher: Watcher) -> list[str]:
        """Measure all rounds after a warm-up turn of all models; return the problems."""
        shortest_ns = self.turn_ns
        look = self._first_look(watcher)
        if problem := self._trouble(look, self.together):
            return [problem]
        self._size_turns(look, shortest_ns, duration_ns, watcher)
        rounds = even_rounds(min(ROUNDS, duration_ns // self.turn_ns))
        for number in range(rounds):
            order = self.all_turns if number % 2 == 0 else self.all_turns[::-1]
            for turns in order:
                problem = self._turn(turns)
                if watcher.is_interrupted() or problem:
                    self._drop_half_round(number)
                    return [problem or "it was stopped early; only the completed rounds are compared"]
            told = tuple(
                (name, _per_s(self.together.windows[-1], place)) for place, name in enumerate(self.names)
            )
            watcher.round_finished(number + 1, rounds, told)
        return []

    def _first_look(self, watcher: Watcher) -> Level:
        """Run a pilot, extending it until every model has given a few answers, or seems unable to answer."""
        while True:
            level, _ = self._measured(self.together, awaits_answers=False)
            found = [row.measurement for row in level.classes]
            is_enough = all(row is not None and row.request_count >= FEWEST_ANSWERS for row in found)
            is_failing = any(row is not None and row.failed_count and not row.request_count for row in found)
            is_hopeless = (is_failing and self.turn_ns >= FAILING_NS) or level.has_remark(Note.WORKER_LOST)
            if is_enough or is_hopeless or watcher.is_interrupted() or self.turn_ns >= LONGEST_TURN_NS:
                return level
            self.turn_ns *= 4

    def _size_turns(self, look: Level, shortest_ns: int, duration_ns: int, watcher: Watcher) -> None:
        """Size the turns for the slowest model; notify the watcher if that takes much longer than requested."""
        looks = [PilotRun.of(row.measurement) for row in look.classes if row.measurement is not None]
        slowest = max(range(len(looks)), key=lambda number: looks[number].least_turn_ns)
        self.turn_ns = max(shortest_ns, looks[slowest].least_turn_ns)
        seconds, asked_s = FEWEST_ROUNDS * self.turn_ns / NS_PER_S, duration_ns / NS_PER_S
        if words := longer_words(seconds, asked_s, self.names[slowest], looks[slowest].per_s):
            watcher.said(words)

    def _drop_half_round(self, number: int) -> None:
        for turns in self.all_turns:
            del turns.windows[number:], turns.hosts[number:]

    def _turn(self, turns: _Turns) -> str:
        """Measure one turn; return why it cannot be used, or an empty string."""
        level, windows = self._measured(turns, awaits_answers=True)
        if problem := self._trouble(level, turns):
            return problem
        turns.windows.append((join_windows(windows),))
        turns.hosts += [] if level.host is None else [level.host]
        return ""

    def _measured(self, turns: _Turns, *, awaits_answers: bool) -> tuple[Level, tuple[Window, ...]]:
        loaded = [number in turns.loaded for number in range(len(self.setups))]
        idle = replace(self.point, plan=Closed(0), asked_per_s=None)
        classes = tuple(self.point if is_loaded else idle for is_loaded in loaded)
        plans = tuple(row.plan for row in classes)
        joint = Joint(tuple(plan for plan in plans if not isinstance(plan, Joint)))  # type: ignore[misc]
        point = replace(self.point, plan=joint, asked_per_s=None, classes=classes)
        settings = replace(self._settings, awaits_answers=awaits_answers)
        level, windows = measure_level_windows(self.instrument, settings, point)
        try:  # the server is idle when the next turn begins
            self.instrument.load.apply(Closed(0))
        except LocalError as error:
            level = replace(level, remarks=(*level.remarks, Remark(Note.WORKER_LOST, str(error))))
        return level, windows

    def _trouble(self, level: Level, turns: _Turns) -> str:
        """Return why the turn cannot be used, or an empty string."""
        if level.has_remark(Note.WORKER_LOST):
            return next(remark.text for remark in level.remarks if remark.note is Note.WORKER_LOST)
        for number in turns.loaded:
            found = level.classes[number].measurement
            if found is None or not found.request_count:
                length_ns = sum(window.duration_ns for window in level.windows)
                failed = "" if found is None or not found.failures else f": {found.failures[0].example}"
                return f"'{self.names[number]}' answered no request successfully in {time_words(length_ns)}{failed}"
        return ""

    def _model(self, number: int) -> SharedModel:
        setup, alone = self.setups[number], self._series(number, self.all_turns[number])
        together = self._series(number, self.together)
        metrics = headline_metrics(setup.options.percentile)
        looks = len(metrics) * len(self.setups)
        rows = of_turns(alone, together, metrics, looks)
        times = [_server_times(setup, series) for series in (alone, together)]
        return SharedModel(
            name=self.names[number],
            model=setup.model.name,
            url=str(setup.result.server["url"]),
            alone=self._figures(setup, number, alone),
            together=self._figures(setup, number, together),
            differences=rows,
            use=_use(self.all_turns[number].hosts),
            server_alone=times[0],
            server_together=times[1],
            contends_for=UNKNOWN,
            reason="",
        )

    def models(self) -> tuple[SharedModel, ...]:
        """Return all models, each with the resource it contends for."""
        found = [self._model(number) for number in range(len(self.setups))]
        seen = evidence(found, _use(self.together.hosts), [turns.hosts for turns in self.all_turns])
        rows = []
        for row in found:
            is_shared = sum(other.url == row.url for other in found) > 1
            resource, reason = contention(row, replace(seen, shares_server=is_shared))
            rows.append(replace(row, contends_for=resource, reason=reason))
        return tuple(rows)

    def _series(self, number: int, turns: _Turns) -> TurnSeries:
        """Return the turns of one model."""
        settings = self._settings.classes[number].level
        series = TurnSeries(Candidate(self.names[number], self.instrument, settings))
        series.windows = [tuple(window.classes[number] for window in turn) for turn in turns.windows]
        series.places = list(range(len(series.windows)))
        return series

    def _figures(self, setup: Setup, number: int, series: TurnSeries) -> Measurement:
        windows = list(itertools.chain.from_iterable(series.windows))
        examples_of = self.instrument.examples_of
        subject = Subject(
            model=setup.model,
            batch=setup.level_settings.batch,
            percentile=setup.level_settings.percentile,
            level_start_ns=windows[0].start_ns,
            examples={} if examples_of is None else examples_of(number),
        )
        return measurement(join_windows(without_gaps(windows, is_alone=False)), subject)


def _per_s(turn: Sequence[Window], number: int) -> float:
    windows = [window.classes[number] for window in turn]
    return sum(window.count for window in windows) * NS_PER_S / sum(window.duration_ns for window in windows)


# --- causes


def _server_times(setup: Setup, series: TurnSeries) -> ServerTimes | None:
    """Return the server's times, summed turn by turn: between turns, the counters include other requests."""
    total, is_known = Counters(), False
    for window in itertools.chain.from_iterable(series.windows):
        if window.before is not None and window.after is not None:
            total += difference(setup.model, window.before.counters, window.after.counters).counters
            is_known = True
    if not is_known or not total.success_count:
        return None
    compute = total.compute_ns // total.success_count
    return ServerTimes(total.success_count, total.queue_ns // total.success_count, compute)


def _use(hosts: Sequence[HostUse]) -> SharedUse | None:
    """Average the use of the machine over turns of about the same length."""
    seconds = sum(use.seconds for use in hosts)
    if not seconds:
        return None

    def mean(values: Sequence[float | None]) -> float | None:
        known = [(value, use.seconds) for value, use in zip(values, hosts, strict=True) if value is not None]
        return (
            sum(value * weight for value, weight in known) / sum(weight for _, weight in known)
            if known
            else None
        )

    memory = [max((gpu.memory_share or 0.0 for gpu in use.gpus), default=None) for use in hosts]
    return SharedUse(
        cores=hosts[0].cores,
        busy=mean([use.busy for use in hosts]) or 0.0,
        server_cores=mean([use.server for use in hosts]),
        waiting=(mean([use.server_waiting for use in hosts]) or 0.0) if has_proc() else None,
        gpu_share=mean([use.gpu_share for use in hosts]),
        gpu_memory_share=mean(memory),
        others=mean([use.others for use in hosts]),
        client_waiting=(mean([use.senders.waiting for use in hosts]) or 0.0) if has_proc() else None,
        gpu_strangers=tuple(sorted({pid for use in hosts for pid in _gpu_strangers(use)})),
    )


def _gpu_strangers(use: HostUse) -> tuple[int, ...]:
    """Return the processes of other programs that used the busiest GPU."""
    busiest = max(use.gpus, key=lambda gpu: gpu.utilization or 0.0, default=None)
    return () if busiest is None else busiest.strangers


@frozen
class Evidence:
    """Observations while all models were loaded together, in addition to a model's own figures.

    The excesses are cores beyond those used by the same requests alone; None if unknown.
    """

    use: SharedUse | None
    more_work: Estimate | None = None  # cores used by the servers
    more_waiting: Estimate | None = None  # cores the servers waited for
    more_client_waiting: Estimate | None = None  # cores this tool waited for
    was_full: bool = False  # no core was free while a model was alone
    shares_server: bool = True  # another model has the same address
    extra: float = 0.0  # requests in flight beyond those needed for the same throughput alone
    gpu_strangers: tuple[int, ...] = ()  # processes of other programs that used the busy GPU, models alone


def evidence(
    models: Sequence[SharedModel], use: SharedUse | None, turns: Sequence[Sequence[HostUse]] = ()
) -> Evidence:
    """Gather the observations from the turns with all models loaded.

    `turns` are those of each model alone, then those of all together.
    """
    return Evidence(
        use,
        more_work=_excess(models, use, "server_cores", turns),
        more_waiting=_excess(models, use, "waiting", turns),
        more_client_waiting=_excess(models, use, "client_waiting", turns),
        was_full=any(_is_full(row.use) for row in models),
        extra=sum(max(0.0, _extra(row)) for row in models),
        gpu_strangers=tuple(
            sorted({pid for row in models if _has_busy_gpu(row.use) for pid in row.use.gpu_strangers})
        ),
    )


def _has_busy_gpu(use: SharedUse | None) -> TypeGuard[SharedUse]:
    return use is not None and use.gpu_share is not None and use.gpu_share >= BUSY_GPU


_OF_TURN: Mapping[str, Callable[[HostUse], float | None]] = {
    "server_cores": lambda use: use.server,
    "waiting": lambda use: use.server_waiting,
    "client_waiting": lambda use: use.senders.waiting,
}


def _excess(
    models: Sequence[SharedModel],
    use: SharedUse | None,
    name: Literal["server_cores", "waiting", "client_waiting"],
    turns: Sequence[Sequence[HostUse]],
) -> Estimate | None:
    """Return the additional cores in use or waited for, compared with the same requests of each model alone.

    The interval follows from the spread over the turns; without turns, it is the value itself.
    """
    seen: float | None = None if use is None else getattr(use, name)
    if seen is None:
        return None
    expected, weights = 0.0, []
    for row in models:
        alone: float | None = None if row.use is None else getattr(row.use, name)
        if alone is None or not row.alone.infer_per_s.value:
            return None
        weights.append(row.together.infer_per_s.value / row.alone.infer_per_s.value)
        expected += alone * weights[-1]
    values = [[_OF_TURN[name](turn) or 0.0 for turn in part] for part in turns]
    if any(len(part) < FEWEST_ROUNDS for part in values):
        return Estimate(seen - expected)
    variances = (
        weight**2 * variance(part) / len(part) for weight, part in zip((*weights, 1.0), values, strict=True)
    )
    fewest = min(map(len, values), default=2)
    margin = student_t(0.975, fewest - 1) * math.sqrt(sum(variances)) if values else 0.0
    return Estimate(seen - expected, seen - expected - margin, seen - expected + margin)


def _extra(found: SharedModel) -> float:
    """Return the average of additional requests in flight (Little's law), which is comparable with waits for cores."""
    slower_ns = found.together.service.mean_ns - found.alone.service.mean_ns
    return slower_ns * found.together.infer_per_s.value / found.together.batch / NS_PER_S


def contention(found: SharedModel, seen: Evidence) -> tuple[str, str]:
    """Return the resource that a model contends for, and the figures that show it.

    A resource is the cause only if the models themselves ran short of it: the interval of the run-queue waits, CPU time
    or queueing must show that they account for most of the slowdown per request. Something hidden is the cause only if
    the intervals rule out all of these. A machine that other programs keep busy proves nothing, since it was equally
    busy while the model was alone.
    """
    if not found.is_slowed:
        return NOTHING, "no loss is shown"
    slower_ns = found.together.service.mean_ns - found.alone.service.mean_ns
    if slower_ns <= 0:
        return UNKNOWN, "requests take no longer on average"
    words = f"{time_words(slower_ns)} more per request"
    alone, together = found.server_alone, found.server_together
    largest = ""
    if alone is not None and together is not None:
        queue_ns, compute_ns = together.queue_ns - alone.queue_ns, together.compute_ns - alone.compute_ns
        parts = {"queue": queue_ns, "compute": compute_ns, "rest": slower_ns - queue_ns - compute_ns}
        largest = max(parts, key=lambda name: parts[name])
        words = f"of {words} {_part_words(largest, parts[largest])}"
        if largest == "queue" and queue_ns >= MOST * slower_ns and compute_ns < queue_ns / 2:
            return (
                QUEUE,
                f"{words}: requests wait for a free instance, while each execution takes as long as before",
            )
    seen = replace(seen, extra=max(seen.extra, _extra(found)))
    resource, reason = _by_machine(seen)
    if resource != UNKNOWN:
        return resource, f"{words}; {reason}"
    if seen.use is None or seen.use.server_cores is None:
        if largest == "rest" and seen.shares_server:
            return (
                FRONT,
                f"{words}: neither queue nor compute, so it is the server's front end or the network",
            )
        return UNKNOWN, f"{words}; the server's machine could not be observed"
    if unsure := [name for name, more in _waits(seen) if not _is_ruled_out(more, seen.extra)]:
        return UNKNOWN, f"{words}; {' and '.join(unsure)} may or may not explain it: measure longer with -d"
    if largest == "rest" and seen.shares_server:
        return FRONT, f"{words}: neither queue nor compute, so it is the server's front end or the network"
    return HIDDEN, f"{words}, while the servers neither waited for cores nor worked more: a lock or a queue"


def _waits(seen: Evidence) -> Iterator[tuple[str, Estimate | None]]:
    yield "waits of this tool for cores", seen.more_client_waiting
    yield "waits of the models for cores", seen.more_waiting
    yield "CPU time per request", seen.more_work


def _is_ruled_out(more: Estimate | None, extra: float) -> bool:
    """Return whether an excess cannot account for most of the requests in flight that sharing adds."""
    return more is not None and rule(more, limit=MOST * extra, is_above=False).ruling == SHOWN


def _is_shown(more: Estimate | None, extra: float) -> bool:
    least = max(WAITING, MOST * extra)
    return more is not None and rule(more, limit=least).ruling == SHOWN


def _part_words(part: str, ns: int) -> str:
    names = {
        "queue": "is the server's queue",
        "compute": "is compute",
        "rest": "is outside queue and compute",
    }
    return f"{time_words(max(ns, 0))} {names[part]}"


def _by_machine(seen: Evidence) -> tuple[str, str]:
    """Return the resource of this machine that the models ran out of."""
    together, extra = seen.use, seen.extra
    if together is None:
        return UNKNOWN, ""
    if _has_busy_gpu(together) and seen.gpu_strangers:
        pids = ", ".join(map(str, seen.gpu_strangers))
        noun = "process" if len(seen.gpu_strangers) == 1 else "processes"
        return STRANGER, f"another program ({noun} {pids}) used the busy GPU while models were loaded alone"
    if _has_busy_gpu(together):
        if (together.gpu_memory_share or 0.0) >= BUSY_GPU_MEMORY:
            return (
                BANDWIDTH,
                f"the GPU's memory was busy for {share(together.gpu_memory_share or 0.0)} of the time",
            )
        return GPU, f"the GPU was busy for {share(together.gpu_share or 0.0)} of the time"
    if (more := seen.more_client_waiting) is not None and _is_shown(more, extra):
        return CLIENT, f"this tool waited for {quantity(more.value)} more cores than alone"
    if (more := seen.more_waiting) is not None and _is_shown(more, extra):
        return CORES, f"models waited for {quantity(more.value)} more cores than alone"
    is_filled = _is_full(together) and not seen.was_full
    if seen.more_waiting is None and is_filled and (together.server_cores or 0.0) >= MOST * together.busy:
        busy, cores = quantity(together.server_cores or 0.0), together.cores
        return CORES, f"the servers used {busy} of {cores} cores, and none was free"
    if (more := seen.more_work) is not None and _is_shown(more, extra):
        return (
            WORK,
            f"the same requests took {quantity(more.value)} more cores: caches or memory bandwidth are shared, or a "
            "lock spins",
        )
    return UNKNOWN, ""


def _is_full(use: SharedUse | None) -> bool:
    return use is not None and use.busy >= FULL * use.cores
