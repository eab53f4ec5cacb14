"""Measure a short sweep, observe the machine at the same time, and conclude; optionally try the suggestions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferometer.base.deadline import CALL_LAST_S, Deadline, End, ending
from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.system import usable_cores
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number, rough
from inferometer.diagnose.bottleneck import Conclusion, outside_s
from inferometer.diagnose.diagnosis import COMMAND, SWITCHED_OFF, ChangeTrial, Diagnosis, Machine, Suggestion
from inferometer.diagnose.fit import GPU_DEVICE, cores_of
from inferometer.diagnose.investigation import Investigation, probe_batches
from inferometer.diagnose.llm_run import diagnose_llm, refuse_changes
from inferometer.diagnose.loads import announce, nothing_measured, planned
from inferometer.diagnose.observation import Observation, observation
from inferometer.diagnose.reconfigure import Config, FixedModelsError, Reconfiguration, changed_config
from inferometer.diagnose.suggest import Circumstances
from inferometer.load.plan import Closed
from inferometer.measure.checks import changed
from inferometer.measure.instrument import Instrument, LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.opening import make_instrument, start_workers
from inferometer.measure.prepare import Setup, prepare
from inferometer.observe.host import is_this_host
from inferometer.observe.statistics import Snapshot, executions
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.values import Range
from inferometer.services.discovery import ModelControl
from inferometer.services.kind import KINDS
from inferometer.services.originals import Originals
from inferometer.stats.machine_figures import CROWDED
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher, until

MOST = 64  # highest load of a default sweep
_PROBE_S = 1.0
# A trial in progress when the budget runs out may finish, unless it takes longer than this.
LATE_NS = NS_PER_S
LATEST_S = LATE_NS / NS_PER_S + CALL_LAST_S


@frozen
class DiagnoseRequest:
    """The inputs of a diagnosis."""

    options: Options
    cores: float | None = None  # of the server's machine, if given by the user
    budget_s: float | None = None  # for trying the suggestions; None tries none
    keep: bool = False  # the best configuration, instead of restoring the original


@frozen
class Outcome:
    """The diagnosis with its trials, the best configurations, and the error that ended the trials early, if any."""

    diagnosis: Diagnosis
    configs: Mapping[str, Config] = field(default_factory=dict)
    error: PeerError | None = None


def diagnose_model(asked: DiagnoseRequest, watcher: Watcher) -> Outcome:
    """Diagnose the model, and with a budget try the suggestions.

    Afterwards the server always has its original configurations, unless the best configurations are to be kept.
    """
    trials = _examine(asked, watcher)
    if isinstance(trials, Diagnosis):
        return Outcome(trials)
    if asked.budget_s is None or watcher.is_interrupted():
        return Outcome(trials.diagnosis)
    end_ns = monotonic_ns() + round(asked.budget_s * NS_PER_S)
    budget = End(f"the budget of {plain_number(asked.budget_s)} s ran out", end_ns + LATE_NS)
    trials.watcher = until(watcher, Deadline.after(asked.budget_s + LATEST_S).has_passed)
    service = trials.setup.service
    if not isinstance(service, ModelControl):
        raise UsageError(
            f"servers of kind {trials.setup.options.service_kind} cannot load a model with another configuration",
            remedy=f"leave out {option_name('--apply')}, and change the configuration yourself",
        )
    watcher.planned(None, asked.budget_s)
    server = Reconfiguration(service, _originals(trials.setup, service, watcher))
    won: Mapping[str, Config] = {}
    error = None
    try:
        with ending(budget), server:
            longest_ns = 0
            while not watcher.is_interrupted():
                suggestion = trials.investigation.next()
                begun_ns = monotonic_ns()
                if suggestion is None or not another_fits(begun_ns, longest_ns, end_ns):
                    break
                trials.attempt(suggestion, server)
                longest_ns = max(longest_ns, monotonic_ns() - begun_ns)
            won = server.changed
            server.keep = asked.keep
    except PeerError as found_error:
        error = found_error
    if error is not None and trials.watcher.is_interrupted() and not isinstance(error, FixedModelsError):
        watcher.said(f"The trials ended early: {error}", is_warning=True)
        error = None
    return Outcome(replace(trials.diagnosis, is_restored=server.is_restored), won, error)


def another_fits(now_ns: int, longest_ns: int, end_ns: int) -> bool:
    """Return whether a trial as long as the longest so far fits into the budget, which is always so for the first
    trial."""
    return not longest_ns or now_ns + longest_ns < end_ns


def _examine(asked: DiagnoseRequest, watcher: Watcher) -> "_Trials | Diagnosis":
    """Measure the sweep, and probe batches if they are possible but not observed; try no change yet.

    For a server that generates text, whose configuration cannot be changed, return the diagnosis itself.
    """
    options = asked.options
    if options.request_rate is not None or options.request_intervals is not None:
        raise UsageError(
            "diagnose needs concurrency levels, not request rates",
            remedy=f"give {option_name('--concurrency')}, or leave the load out",
        )
    wanted = _levels(options.concurrency)
    most = MOST if wanted is None else max(wanted)  # workers are created once, for the highest load
    asking = changed(options, concurrency=Range(1, most))
    setup = prepare(asking, command=COMMAND)
    if KINDS[setup.options.service_kind].has_tokens:
        refuse_changes(is_applied=asked.budget_s is not None, cores=asked.cores)
        return diagnose_llm(setup, wanted, watcher)
    if asked.budget_s is not None and isinstance(setup.service, ModelControl):
        with _originals(setup, setup.service, watcher) as left:
            setup = prepare(asking, command=COMMAND) if left.has_put_back else setup
    announce(setup, wanted, watcher)
    rows, result = _sweep(setup, watcher, wanted)
    if not rows:
        raise nothing_measured(options.model)
    extra, notes = _probe(asked, setup, rows, watcher)
    circumstances = _circumstances(setup, asked, result)
    investigation = Investigation(rows, circumstances, extra)
    notes = (*notes, *_blind_spots(asked, rows[-1]))
    diagnosis = _diagnosis(rows[-1], circumstances, investigation.found, result)
    return _Trials(asked, watcher, setup, investigation, replace(diagnosis, notes=notes))


def _originals(setup: Setup, control: ModelControl, watcher: Watcher) -> Originals:
    return Originals(control, setup.result.server["url"], watcher.said)


def _diagnosis(
    top: Observation, circumstances: Circumstances, found: Conclusion, result: Result
) -> Diagnosis:
    """Build the diagnosis from the conclusion."""
    client_s, overhead_s = outside_s(top)
    host, cores = top.host, circumstances.cores
    return Diagnosis(
        tool=result.tool,
        command=COMMAND,
        started_at=result.started_at,
        model=circumstances.model,
        verdict=found.verdict,
        concurrency=top.concurrency,
        throughput=top.throughput,
        latency_ns=top.latency_s * NS_PER_S,
        steps=found.table,
        client_ns=client_s * NS_PER_S,
        overhead_ns=overhead_s * NS_PER_S,
        machine=Machine(
            cores=None if cores is None else round(cores),
            effective_cores=found.effective_cores,
            cpu_share=None if host is None else host.busy / host.cores,
            gpu_share=top.gpu_share,
            gpus=top.gpus,
        ),
        suggestions=found.suggestions,
        curve=found.curve,
        results=(result,),
    )


def _levels(span: Range | None) -> tuple[int, ...] | None:
    """Return the requested range in doubling steps, or in its own steps; None lets the sweep find its end."""
    if span is None:
        return None
    start, end = int(span.start), int(span.end or span.start)
    if span.listed:
        return tuple(map(int, span.listed))
    if span.step != 1:
        return tuple(range(start, end + 1, int(span.step)))
    found = [start]
    while found[-1] < end:
        found.append(min(2 * found[-1], end))
    return tuple(found)


# --- measuring


def _sweep(setup: Setup, watcher: Watcher, wanted: Sequence[int] | None) -> tuple[list[Observation], Result]:
    rows: list[Observation] = []
    options, result = setup.options, setup.result
    with start_workers(setup) as load:
        instrument = make_instrument(setup, load, watcher)
        for concurrency in planned(wanted, MOST, lambda: [row.throughput for row in rows]):
            load.apply(Closed(0))  # exclude the first requests after a change
            warm_up(instrument, Closed(concurrency, count=options.warmup_request_count or 2 * concurrency))
            point = LoadPoint("concurrency", concurrency, Closed(concurrency))
            before = _counters(instrument)
            level = measure_level(instrument, setup.level_settings, point)
            result = replace(result, levels=(*result.levels, level))
            sizes = executions(before, _counters(instrument))
            row = observation(level, setup.model, sizes, result.effective.rate_unit)
            if row is not None:
                rows.append(row)
            if level.is_cut_short or watcher.is_interrupted():
                break
    return rows, result


def _counters(instrument: Instrument) -> Snapshot:
    """Return the server's counters, which are empty if it does not report them."""
    try:
        return instrument.read_counters() or {}
    except PeerError:
        return {}


def _probe(
    asked: DiagnoseRequest, setup: Setup, rows: Sequence[Observation], watcher: Watcher
) -> tuple[list[Observation], tuple[str, ...]]:
    """Send larger requests one at a time, to learn the cost of a batch before the server forms any."""
    model = setup.model
    seen: list[Observation] = []
    for size in () if model.any_sequence else probe_batches(rows, model.max_batch_size):
        if watcher.is_interrupted():
            break
        options = changed(asked.options, batch=size, concurrency=Range(1), duration_s=_PROBE_S)
        try:
            found, _ = _sweep(prepare(options, command=COMMAND), watcher, (1,))
        except InferometerError as error:
            return seen, (f"The cost of a batch of {size} could not be measured: {error.message}",)
        seen += [row for row in found if row.steps]
    return seen, ()


# --- circumstances


def _circumstances(setup: Setup, asked: DiagnoseRequest, result: Result) -> Circumstances:
    endpoint = setup.traffic.wiring.endpoint
    is_local = is_this_host(endpoint.host)
    cores = asked.cores
    if cores is None and is_local:
        host = result.levels[-1].host
        cores = float(len(usable_cores())) if host is None else cores_of(host)
    found = result.levels[-1].measurement
    options = setup.options
    return Circumstances(
        model=setup.model.name,
        max_batch=setup.model.max_batch_size,
        cores=cores,
        is_shared_memory=options.shared_memory != "none",
        is_json="json" in (options.input_format, options.output_format),
        is_http=options.protocol == "http",
        is_local=is_local,
        transfer_s=0.0 if found is None else (found.send_ns + found.receive_ns) / NS_PER_S,
    )


def _blind_spots(asked: DiagnoseRequest, top: Observation) -> Iterator[str]:
    if not top.steps:
        yield (
            "The server provides no statistics for its models, so its time cannot be split into queue, compute and "
            "steps; only throughput, latency and the client's own cost are known."
        )
        return
    if top.gpu_share is None and any(step.setup.device == GPU_DEVICE for step, _, _ in top.walk()):
        yield (
            "GPU utilisation, memory and power are unknown: steps on the GPU are assumed to keep it busy. "
            "Give the address of the server's metrics with --collect-metrics and --metrics-url, or run on the server's "
            "machine with pip install 'inferometer[gpu]'."
        )
    if top.host is None and asked.cores is None:
        yield (
            "The server runs on another machine with an unknown number of cores: predictions assume there are enough. "
            "Set the number with --cores."
        )
    others = top.other_cores
    if top.host is not None and others is not None:
        if others > CROWDED * top.host.cores:
            yield (
                f"Other programs kept {rough(others)} of this machine's {top.host.cores} cores busy during the run: "
                "figures and predictions are less reliable."
            )
    elif top.host is not None:
        yield (
            "The server's process was not found on this machine, so steps on the CPU are assumed to keep a core busy "
            "while they run."
        )


# --- trying the suggestions


@dataclass(slots=True)
class _Trials:
    """The diagnosis and its trials so far."""

    asked: DiagnoseRequest
    watcher: Watcher
    setup: Setup
    investigation: Investigation
    diagnosis: Diagnosis

    def attempt(self, suggestion: Suggestion, server: Reconfiguration) -> None:
        name = suggestion.change.model
        before = server.config(name)
        self.watcher.said(f"Trying: {suggestion.text}")
        try:
            server.change(name, changed_config(before, suggestion.change))
        except FixedModelsError:
            raise
        except PeerError as error:
            self._note(self.investigation.refused(suggestion, error.message))
            return
        options = changed(self.asked.options, concurrency=Range(suggestion.concurrency))
        setup = prepare(options, command=COMMAND)
        rows, result = _sweep(setup, self.watcher, (suggestion.concurrency,))
        place = len(self.diagnosis.results)
        self.diagnosis = replace(self.diagnosis, results=(*self.diagnosis.results, result))
        if not rows:
            trial = self.investigation.refused(suggestion, "no request succeeded", place)
        else:
            is_whole = not self.watcher.is_interrupted()
            trial = self.investigation.learn(suggestion, rows[0], is_whole=is_whole, result=place)
        if not trial.is_kept:
            server.change(name, before)
        self._note(trial)

    def _note(self, trial: ChangeTrial) -> None:
        self.diagnosis = replace(self.diagnosis, trials=self.investigation.trials)
        if self.diagnosis.best is None:  # the lessons apply to the unchanged server
            found = self.investigation.found
            self.diagnosis = replace(self.diagnosis, verdict=found.verdict, suggestions=found.suggestions)
        if self.diagnosis.best is not None:
            self.diagnosis = replace(self.diagnosis, after=self.investigation.found.verdict)
        if trial.is_kept and trial.suggestion.change.after == SWITCHED_OFF:
            slow = self.investigation.slow_batches
            self.diagnosis = replace(self.diagnosis, verdict=slow or self.diagnosis.verdict)
        self.watcher.tried(trial)
