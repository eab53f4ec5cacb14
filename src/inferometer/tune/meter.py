"""Apply the load of one trial to the loaded models, and return the figures."""

import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from inferometer.base.deadline import CALL_LAST_S
from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns, plain_number, quantity, share
from inferometer.base.writing import write_file
from inferometer.load.plan import Closed, Intervals, Open
from inferometer.measure.checks import STABILITY_OPTIONS, changed
from inferometer.measure.instrument import FAR_NS, Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.opening import make_instrument, start_workers
from inferometer.measure.points import RATE_THREADS, rate_schedule, read_intervals
from inferometer.measure.prepare import Setup, moved, prepare
from inferometer.measure.warming import Warming, is_warming, warm_server
from inferometer.observe.host import HostMeter
from inferometer.observe.poller import MetricsEndpoint
from inferometer.options.options import Options
from inferometer.server.in_process import Host
from inferometer.stats.measurement import Level
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher, completed
from inferometer.tune.deployment import Deployment
from inferometer.tune.fingerprint import fingerprint
from inferometer.tune.search.search import Proposal
from inferometer.tune.settings import PATIENCE_S, Effort, Prompts
from inferometer.tune.trial import ClientLoad, Figures
from inferometer.tune.trial_figures import await_leavers, figures_of, gpus_of, instances_of
from inferometer.tune.variant import ModelVariant

ROUNDS = 4  # fewest rounds of requests in a trial of a text model or of a launched server
WAVES = 3  # the same, if all of them are answered at once, however long that takes
SLICES = 20  # maximum number of windows per trial
_SAID_ELSEWHERE = (Note.HOST_BUSY, Note.SERVER_ENDED)  # the search itself reports how the server ended
PATIENCE_NS = round(CALL_LAST_S * NS_PER_S)  # for the running trial, after the user interrupts
MOST_WARM = 64  # maximum number of warm-up requests
HURRIED_NS = NS_PER_S // 2  # the same if the search has to end
QUIET_NS = 2 * NS_PER_S  # replies are awaited as long as some arrive within this time after the load ended
DRAIN_S = 0.3  # for the requests in flight on a server that may be stopped next
COLD_WARM_UP_S = 2.0  # the same once a server was still getting faster at the limit
MOST_FAILED = 0.5  # largest share of failed requests with which a trial has figures


@dataclass(slots=True)
class _Patience:
    """After an interruption, the running trial is finished so that it counts, unless it takes too long."""

    is_asked: Callable[[], bool]
    since_ns: int | None = None

    def is_over(self) -> bool:
        if not self.is_asked():
            self.since_ns = None
            return False
        if self.since_ns is None:
            self.since_ns = monotonic_ns()
        return monotonic_ns() - self.since_ns > PATIENCE_NS


class TrialError(Exception):
    """A trial without figures; the message is the reason."""


@frozen
class TrialFigures:
    """The figures of a trial, per part and per GPU of the server."""

    parts: tuple[Figures, ...]
    gpus: tuple[tuple[str, Figures], ...] = ()
    warming_s: float = 0.0  # to start the workers and to warm up
    startup_s: float = (
        0.0  # from the start of a server until it was warm for this load; 0 if it was running before
    )
    note: str = ""  # why the figures may be wrong
    is_client_limited: bool = False
    is_host_busy: bool = False
    is_cold: bool = False


class Meter(Protocol):
    """The load generator."""

    rate_unit: str | None  # of throughput; None until a model was measured

    def fingerprint(self, models: Sequence[str]) -> str:
        """Return a digest of the requests to these models: trials are only comparable if it is equal."""

    def measure(self, proposal: Proposal, deployment: Deployment, *, is_fresh: bool) -> TrialFigures:
        """Return figures or raise TrialError; `is_fresh` if the models were just loaded."""

    def forget(self) -> None:
        """Forget all connections after a server restart."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Client:
    """Worker processes with their requests for one model and one client batch size."""

    setup: Setup
    instrument: Instrument
    stack: contextlib.ExitStack


class EngineMeter:
    """Our own load generator. Workers and requests are kept while variants replace each other under the same name.

    Workers that load the model themselves end with it; only the requests are kept.
    """

    def __init__(
        self,
        options: Mapping[str, Options],
        effort: Effort,
        prompts: Mapping[str, Prompts | None],
        watcher: Watcher | None = None,
        *,
        patience_s: float | None = None,
    ) -> None:
        self.rate_unit: str | None = None
        self._options = options  # by model: what to send and how to judge it
        self._prompts = prompts  # of models that generate text; None if the options have their data
        self._inputs: dict[str, frozenset[str]] = {}  # input names of those models
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # for prompt files
        self._round_s: dict[str, float] = {}  # duration of one round of requests to a model
        self._wave_s: dict[str, float] = {}  # longest time between two answers of a launched server
        self._effort = effort
        # With several models under load, progress figures could not be told apart.
        hooks = SimpleNamespace()
        if watcher is not None:
            hooks.is_interrupted = _Patience(watcher.is_interrupted).is_over
            hooks.prepared = watcher.prepared
        if watcher is not None and len(options) == 1:
            hooks.progressed = watcher.progressed
        self._watcher = completed(hooks)
        self._clients: dict[tuple[str, int], _Client] = {}
        self._setups: dict[tuple[str, int], Setup] = {}  # of workers that load their model
        self._gpus = 0  # number seen in the previous trial
        self._warm_for: set[tuple[str, ClientLoad]] = set()  # loads for which the running server is warm
        self._longest_s = math.inf if patience_s is None else patience_s / 2  # of a trial with slow answers
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._warm_up_s = self._patience_s  # of a server, for all its loads
        self._warmed_s = 0.0  # of that, used by the running server

    def fingerprint(self, models: Sequence[str]) -> str:
        return fingerprint(
            {model: self._options[model] for model in models},
            {model: row for model, row in self._prompts.items() if model in models},
        )

    def measure(self, proposal: Proposal, deployment: Deployment, *, is_fresh: bool) -> TrialFigures:
        begun_ns = monotonic_ns()
        if is_fresh:
            self._end([key for key, client in self._clients.items() if client.setup.host is not None])
            self._warm_for.clear()
            self._warmed_s = 0.0
        warming: Warming | None = None
        for variant, load in proposal.parts:
            self._inputs[variant.model] = frozenset(row["name"] for row in variant.config.get("input", ()))
            if deployment.warms_by_load:
                warming = self._warm(variant.model, load, deployment)
            else:
                self._make_ready(variant.model, load, deployment, is_fresh=is_fresh)
        hosts = [client.setup.host for client in self._clients.values()]
        pids = [host.pid for host in hosts if host is not None] + [deployment.pid]
        here = [pid for pid in pids if pid is not None]
        if is_fresh and self._gpus:
            await_leavers(here, instances_of(proposal, self._gpus))
        warming_s = (monotonic_ns() - begun_ns) / NS_PER_S
        levels = self._levels(proposal, deployment)
        if warming is not None:
            levels, more_s = self._warm_levels(levels, proposal, deployment, warming)
            warming_s += more_s
            warming = replace(warming, seconds=warming.seconds + more_s)
        gpus = gpus_of(levels[0]) if self._options[proposal.parts[0][0].model].collect_metrics else ()
        self._gpus = len(gpus)
        instances = instances_of(proposal, self._gpus)
        limit = next(filter(None, map(_client_limit, levels)), "")
        found = TrialFigures(
            tuple(figures_of(level, here, instances) for level in levels),
            gpus,
            warming_s,
            note=limit,
            is_client_limited=bool(limit),
            is_host_busy=any(row.note is Note.HOST_BUSY for level in levels for row in level.remarks),
        )
        if warming is None:
            return found
        is_started = is_fresh and deployment.ready_s > 0
        startup_s = deployment.ready_s + warming.seconds if is_started else 0.0
        cold = self._cold_note(warming, levels[0])
        note = "; ".join(filter(None, (cold, found.note)))
        return replace(found, startup_s=startup_s, note=note, is_cold=bool(cold))

    def _warm_levels(
        self, levels: list[Level], proposal: Proposal, deployment: Deployment, warming: Warming
    ) -> tuple[list[Level], float]:
        """Measure again while the last measurement shows that the server was not warm; return the last measurement, and
        the seconds of those before, which were part of the warm-up."""
        begun_ns = now_ns = monotonic_ns()
        while is_warming(levels[0].windows):
            now_ns = monotonic_ns()
            if self._warmed_s + (now_ns - begun_ns) / NS_PER_S >= self._warm_up_s:
                break
            levels = self._levels(proposal, deployment)
        more_s = (now_ns - begun_ns) / NS_PER_S
        self._warmed_s += more_s
        return levels, more_s

    def _cold_note(self, warming: Warming, level: Level) -> str:
        if self._warmed_s < self._warm_up_s or (warming.is_warm and not is_warming(level.windows)):
            return ""
        if warming.seconds >= self._warm_up_s:
            self._warm_up_s = COLD_WARM_UP_S  # or it would be spent on every server
        return (
            f"the server was still getting faster after a warm-up of {quantity(self._warmed_s)} s, so these figures "
            "may be too low"
        )

    def _levels(self, proposal: Proposal, deployment: Deployment) -> list[Level]:
        """Measure each model. If several models are under load, none stops early, so that all share the server until
        the end."""

        def measure(effort: Effort | None, part: tuple[ModelVariant, ClientLoad]) -> Level:
            variant, load = part
            return self._level(variant.model, load, deployment, effort)

        if len(proposal.parts) == 1:
            return [measure(proposal.effort, proposal.parts[0])]
        whole = replace(proposal.effort or self._effort, precision=0.0)
        with ThreadPoolExecutor(len(proposal.parts)) as pool:
            return list(pool.map(partial(measure, whole), proposal.parts))

    def _make_ready(self, model: str, load: ClientLoad, deployment: Deployment, *, is_fresh: bool) -> None:
        """Start the workers for this model, and warm it up if it was just loaded."""
        is_new = (model, load.batch) not in self._clients
        client = self._client(model, load.batch, deployment)
        if is_fresh or (is_new and client.setup.host is not None):
            begun_ns = monotonic_ns()
            with self._failing(model, load):
                is_answered = warm_up(client.instrument, Closed(_warm(load), count=_warm(load)))
            self._check_answered(client, is_answered=is_answered)
            self._round_s[model] = (monotonic_ns() - begun_ns) / NS_PER_S

    def _check_answered(self, client: _Client, *, is_answered: bool) -> None:
        if not is_answered and not self._watcher.is_interrupted():
            limit_s = client.setup.options.request_timeout_s or client.instrument.silence_ns / NS_PER_S
            raise TrialError(f"timed out: no request was answered within {plain_number(limit_s)} s")

    def _warm(self, model: str, load: ClientLoad, deployment: Deployment) -> Warming | None:
        """Start the workers for this model, and apply a load that is new to the server until it is warm."""
        client = self._client(model, load.batch, deployment)
        if (model, load) in self._warm_for:
            return None
        plan = plan_of(load, client.setup.options).plan
        with self._failing(model, load):
            limit_s = max(self._warm_up_s - self._warmed_s, COLD_WARM_UP_S)
            first_ns = round(self._patience_s * NS_PER_S)
            found = warm_server(client.instrument, plan, round(limit_s * NS_PER_S), first_ns)
        self._warmed_s += found.seconds
        if not found.is_answered and not self._watcher.is_interrupted():
            raise TrialError(f"timed out: no request was answered within {quantity(found.seconds)} s")
        self._warm_for.add((model, load))
        self._round_s[model] = found.seconds * (load.concurrency or 1) / max(found.requests, 1)
        self._wave_s[model] = found.wave_s
        return found

    def _level(self, model: str, load: ClientLoad, deployment: Deployment, effort: Effort | None) -> Level:
        """Measure one model under one load."""
        client = self._client(model, load.batch, deployment)
        plan = plan_of(load, client.setup.options)
        with self._failing(model, load):
            level = measure_level(client.instrument, self._level_settings(model, client.setup, effort), plan)
            for remark in level.remarks:
                if remark.note is Note.WORKER_LOST:
                    raise LocalError(remark.text)
            # No load may disturb loading the next variant; a launched server is stopped before.
            slow_s = DRAIN_S if deployment.warms_by_load else math.inf
            silent = drained(client.instrument, level, slow_s)
            if silent:
                lost = "1 request was" if silent == 1 else f"{silent:,} requests were"
                text = f"{lost} never answered at {load}"
                raise LocalError(text, remedy="lower the load: the server loses requests at this level")
        _check(level)
        return level

    @contextlib.contextmanager
    def _failing(self, model: str, load: ClientLoad) -> Iterator[None]:
        """Convert errors to TrialError. Lost workers are restarted for the next trial."""
        key = model, load.batch
        try:
            yield
        except PeerError as error:
            raise TrialError(str(error)) from error
        except LocalError as error:
            host = self._clients[key].setup.host
            if host is not None:  # the deployment detects that it died
                raise TrialError(f"{error.message}: {host.end()}") from error
            self._end([key])
            raise TrialError(str(error)) from error

    def _level_settings(self, model: str, setup: Setup, effort: Effort | None) -> LevelSettings:
        asked = effort or self._effort
        if effort is None and _has_own_rule(setup.options):
            return setup.level_settings
        duration_s = asked.duration_s
        if model in self._wave_s or model in self._prompts or setup.level_settings.has_tokens:
            # One answer may take longer than a whole trial of another model.
            rounds_s = min(ROUNDS * self._round_s.get(model, 0.0), self._longest_s)
            waves_s = min(WAVES * self._wave_s.get(model, 0.0), 2 * self._longest_s)
            duration_s = max(duration_s, rounds_s, waves_s)
        duration_ns = round(duration_s * NS_PER_S)
        return replace(
            setup.level_settings,
            rule=Precision(asked.precision, duration_ns),
            window_ns=max(duration_ns // SLICES, 10 * NS_PER_MS),
            window_count=None,
            is_whole=False,
        )

    def _client(self, model: str, batch: int, deployment: Deployment) -> _Client:
        if (model, batch) not in self._clients:
            try:
                self._clients[model, batch] = self._started(self._setup(model, batch, deployment))
            except PeerError as error:
                raise TrialError(str(error)) from error
        return self._clients[model, batch]

    def _started(self, setup: Setup) -> _Client:
        stack = contextlib.ExitStack()
        try:
            workers = stack.enter_context(start_workers(setup))
        except UsageError as error:
            if setup.host is None:
                raise
            reason = " ".join(error.message.split())  # may contain the traceback of a Python model
            raise TrialError(reason) from error
        return _Client(setup, make_instrument(setup, workers, self._watcher), stack)

    def _setup(self, model: str, batch: int, deployment: Deployment) -> Setup:
        options = self._options[model]
        options = self._asking(options if batch == (options.batch or 1) else changed(options, batch=batch))
        host = deployment.host(model)
        if host is None:
            addresses = deployment.addresses
            metrics_url = options.metrics_url or addresses.metrics_url or None
            options = replace(
                options,
                url=options.url or (addresses.grpc if options.protocol == "grpc" else addresses.http),
                metrics_url=metrics_url if options.collect_metrics else None,
            )
            setup = _prepared(options)
            self.rate_unit = setup.result.effective.rate_unit
            self._watcher.prepared(setup.result.effective)
            if model in self._prompts and options.streaming:
                setup = replace(setup, level_settings=replace(setup.level_settings, has_tokens=True))
            return setup
        self._end([key for key in self._clients if key[0] == model])  # only one worker can hold a model
        if (model, batch) not in self._setups:
            self._setups[model, batch] = prepare_held(options, host)
        return moved(self._setups[model, batch], host)

    def _asking(self, options: Options) -> Options:
        """Write the prompts of a model that generates text to a file."""
        prompts = self._prompts.get(options.model)
        if prompts is None:
            return options
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="inferometer-prompts-")
        path = Path(self._folder.name) / f"{options.model}.json"
        if options.service_kind == "openai":
            write_file(path, "".join(json.dumps(row) + "\n" for row in _rows(prompts)))
            return replace(options, data=replace(options.data, prompts=str(path)), is_lenient=True)
        steps = prompts.steps(options.model, self._inputs[options.model])
        write_file(path, json.dumps({"data": steps}))
        return replace(options, data=replace(options.data, sources=(str(path),)))

    def _end(self, keys: Sequence[tuple[str, int]]) -> None:
        for key in keys:
            self._clients.pop(key).stack.close()

    def forget(self) -> None:
        self._end(list(self._clients))

    def close(self) -> None:
        self.forget()
        if self._folder is not None:
            self._folder.cleanup()


def _prepared(options: Options) -> Setup:
    """Ignore unreadable metrics unless the user asked for them: GPU limits may be checked without them."""
    try:
        return prepare(options, command="tune")
    except PeerError:
        if not options.collect_metrics or "collect_metrics" in options.given:
            raise
        return prepare(replace(options, collect_metrics=False, metrics_url=None), command="tune")


def prepare_held(options: Options, host: Host) -> Setup:
    """Prepare a worker that loads the model: without a server's metrics, those of this host are collected."""
    asked = changed(
        options,
        service_kind=options.service_kind,
        model_repository=".",  # the host has its own
        collect_metrics=None,
        metrics_interval_ms=None,
    )
    setup = prepare(replace(asked, is_lenient=True), command="tune", host=host)
    if not options.collect_metrics:
        return setup
    return replace(
        setup,
        options=replace(setup.options, metrics_interval_ms=options.metrics_interval_ms),
        metrics=MetricsEndpoint(None, clock=monotonic_ns, host=HostMeter()),
    )


def _rows(prompts: Prompts) -> Iterator[Mapping[str, Any]]:
    """Yield one row per prompt; a constant answer length is an option instead."""
    texts = prompts.texts()
    for text, length in zip(texts, prompts.output_lengths(len(texts)), strict=True):
        yield {"prompt": text, "max_tokens": length} if prompts.output_deviation else {"prompt": text}


def _has_own_rule(options: Options) -> bool:
    """Return whether the user set the duration or a stopping rule."""
    return options.duration_s is not None or not STABILITY_OPTIONS.isdisjoint(options.given)


def _warm(load: ClientLoad) -> int:
    """Return the number of warm-up requests: one round of the load, because the first request to an instance may be
    slow."""
    return min(load.concurrency or 8, MOST_WARM)


def drained(instrument: Instrument, level: Level, slow_s: float = math.inf) -> int:
    """End the load and wait for replies as long as some arrive, but no longer than `slow_s`; return the number of
    unanswered requests. Requests that are still in flight after `slow_s` are assumed to be answered later."""
    longest = 0 if level.measurement is None else level.measurement.latency.max_ns or 0
    patience_ns = max(QUIET_NS, 3 * longest)
    most_ns = slow_s * NS_PER_S if longest > slow_s * NS_PER_S else math.inf
    instrument.load.apply(Closed(0, 0))  # a count of 0 means that nothing is waited for
    heard_ns = begun_ns = instrument.clock()
    while True:
        collected = instrument.load.collect(instrument.clock() + FAR_NS)
        if instrument.watcher.is_interrupted() and collected.seen_ns - begun_ns > HURRIED_NS:
            return 0  # no other variant follows that they could disturb
        if collected.seen_ns - begun_ns > most_ns:
            return 0
        if collected.is_finished or collected.seen_ns - heard_ns > patience_ns:
            return collected.outstanding
        if len(collected.records):
            heard_ns = collected.seen_ns


def plan_of(load: ClientLoad, options: Options) -> LoadPoint:
    """Return the load of a trial. By rate, synchronous callers wait for their answers."""
    if load.concurrency is not None:
        return LoadPoint("concurrency", float(load.concurrency), Closed(load.concurrency))
    cap = (options.max_threads or RATE_THREADS) if options.synchronous else None
    if load.intervals is not None:
        times_ns = read_intervals(load.intervals)
        rate = len(times_ns) * NS_PER_S / times_ns[-1]
        return LoadPoint("request_rate", rate, Open(Intervals(times_ns), cap=cap))
    assert load.request_rate is not None
    schedule = rate_schedule(options, load.request_rate)
    return LoadPoint("request_rate", load.request_rate, Open(schedule, cap=cap))


def _client_limit(level: Level) -> str:
    """Return why the level shows this client rather than the server, or an empty string."""
    return next((row.text for row in level.remarks if row.note in CLIENT_LIMITS), "")


def _check(level: Level) -> None:
    found = level.measurement
    if level.is_cut_short:
        said = (row.text for row in level.remarks if row.note not in _SAID_ELSEWHERE)
        raise TrialError("; ".join(said) or "the server became unreachable")
    if found is None or not found.request_count:
        example = "" if found is None or not found.failures else f": {found.failures[0].example}"
        raise TrialError(f"no request was answered{example}")
    if found.failed_share > MOST_FAILED:
        raise TrialError(f"{share(found.failed_share)} of the requests failed: {found.failures[0].example}")
