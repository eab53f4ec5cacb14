"""Run studies: open the server, the journal and the meter, and run a search for each model.

    ask the search -> load the variants -> measure -> write the journal -> tell the search

However it stops, all measurements are in the journal, and the next session continues from there.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from inferometer.base.deadline import End, ending
from inferometer.base.errors import LocalError, PeerError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.units import INFERENCES, NS_PER_S, monotonic_ns
from inferometer.measure.checks import changed
from inferometer.measure.prepare import IN_PROCESS_KIND
from inferometer.observe.host import Nvml, describe_host, open_nvml
from inferometer.options.options import Options
from inferometer.server.guard import GRACE_S
from inferometer.server.guarded import empty_log
from inferometer.server.launcher import ServerCommand
from inferometer.stats.watcher import Watcher, until
from inferometer.tune import journal as journals
from inferometer.tune.attempt import attempted
from inferometer.tune.beginning import SearchPlace, begin
from inferometer.tune.deployment import Deployment, open_deployment
from inferometer.tune.journal import Journal
from inferometer.tune.knobs import knobs_of, worded
from inferometer.tune.launched import LaunchedDeployment
from inferometer.tune.meter import EngineMeter, Meter
from inferometer.tune.prepare import (
    are_whole,
    base_config,
    check_settings,
    groups,
)
from inferometer.tune.recall import renamed
from inferometer.tune.scoring import rank
from inferometer.tune.search.search import SPENT, Proposal, SearchMessage, SearchSteps, SkippedProposal, Wait
from inferometer.tune.settings import (
    COMMAND,
    IN_PROCESS,
    STARTED,
    LaunchSettings,
    ModelSettings,
    Prompts,
    TuneSettings,
)
from inferometer.tune.study import Study
from inferometer.tune.trial import Status, Trial
from inferometer.tune.trial_figures import watch_idle
from inferometer.tune.variant import VariantNames

SAME_FAILURES = 3  # give up if this many first trials fail for one reason


def profile(
    settings: TuneSettings, watcher: Watcher, *, make_meter: Callable[[TuneSettings], Meter] | None = None
) -> Iterator[Study]:
    """Yield a study per model, or one of all models together, each as soon as its search has ended."""
    check_settings(settings, sends=make_meter is None)
    nvml = open_nvml()
    has_gpus = nvml is not None
    idle: tuple[Trial, ...] | None = None
    since_ns = monotonic_ns()
    budget = budget_end(settings)
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(journals.opened(settings.journal))
        if settings.launch.mode in STARTED:
            empty_log(settings.launch.log)
        meter = (
            _engine(settings, until(watcher, budget.is_over)) if make_meter is None else make_meter(settings)
        )
        stack.callback(meter.close)
        names = VariantNames.of(journal.variants())
        deployment: Deployment | None = None
        has_measured = False
        watcher.planned(None, settings.search.budget_s)
        for group in groups(settings):
            _restart(budget, since_ns, settings)
            opening = _Opening(settings, meter, stack, watcher, budget)
            with ending(budget):
                before, deployment = deployment, _deployment_for(opening, group, deployment)
            if deployment is not before:
                watcher.said(_where(settings, deployment), is_detail=True)
            if before is None:
                with ending(budget):
                    _warn_of_others(settings, deployment, watcher)
            if idle is None:
                idle = _idle(settings, nvml)
            runner = TrialRunner(
                deployment,
                meter,
                journal,
                names,
                watcher,
                has_measured,
                since_ns,
                settings.search.budget_s,
                budget,
            )
            place = SearchPlace(
                partial(base_config, settings, deployment),
                lambda models: key_end(meter.fingerprint(models)),
                has_gpus,
                servers=1,
                host=describe_host(),
                gpus=known_gpus(settings, nvml),
                idle=idle,
            )
            with ending(budget):
                start = begin(settings, group, place, journal, names)
            runner.known = start.problem.known
            study = _with_commands(run(runner, start.steps, start.study), settings.launch.command)
            has_measured = has_measured or bool(study.measured)
            yield study
            since_ns = monotonic_ns()
            if watcher.is_interrupted():
                return


def _with_commands(study: Study, command: ServerCommand | None) -> Study:
    """Add the command line of every configuration of a launched server, without secrets."""
    if command is None:
        return study
    lines = {
        variant.name: redacted(command.line(knobs_of(variant.config) or {})) for variant in study.variants
    }
    calls = {
        variant.name: [redacted(line) for line in command.call_lines(knobs_of(variant.config) or {})]
        for variant in study.variants
    }
    server = {**study.server, "logs": str(command.logs), "lines": lines}
    return replace(study, server={**server, "calls": calls} if command.calls else server)


def budget_end(settings: TuneSettings) -> End:
    """Return the end of the budget, whose time is set when a search begins."""
    return End("" if settings.search.budget_s is None else "the budget ran out")


def _restart(budget: End, since_ns: int, settings: TuneSettings) -> None:
    if settings.search.budget_s is not None:
        budget.at_ns = since_ns + round(settings.search.budget_s * NS_PER_S)


def _where(settings: TuneSettings, deployment: Deployment) -> str:
    if settings.launch.mode == IN_PROCESS:
        return "No server started: the workers load the models"
    if settings.launch.command is not None:
        return f"The logs of the server are in {settings.launch.command.logs}"
    verb = "found" if settings.launch.mode == "remote" else "started"
    return f"Triton Server {verb}: HTTP at {deployment.addresses.http}, gRPC at {deployment.addresses.grpc}"


def _warn_of_others(settings: TuneSettings, deployment: Deployment, watcher: Watcher) -> None:
    others = [f"'{name}'" for name in deployment.others(settings.names)]
    if others:
        what = "Other models are" if len(others) > 1 else "Another model is"
        text = f"{what} loaded on the server and may use part of the machine: {', '.join(others)}"
        watcher.said(text, is_warning=True)


def known_gpus(settings: TuneSettings, nvml: Nvml | None) -> Mapping[str, Any]:
    """Return name and memory by UUID; the GPUs of a remote server are unknown."""
    if nvml is None or settings.watch_gpus is False or settings.launch.mode == "remote":
        return {}
    names = nvml.names()
    return {
        uuid: {"name": names[uuid], "total_memory": gpu.memory_total_bytes or 0}
        for uuid, gpu in nvml.read().items()
    }


def _idle(settings: TuneSettings, nvml: Nvml | None) -> tuple[Trial, ...]:
    if nvml is None or not known_gpus(settings, nvml) or not settings.idle_s:
        return ()
    if settings.launch.mode == IN_PROCESS:
        return ()  # there is no server without a model
    return (watch_idle(nvml.read, settings.idle_s, settings.launch.metrics_interval_ms / 1000),)


@frozen
class _Opening:
    """The dependencies of a deployment."""

    settings: TuneSettings
    meter: Meter
    stack: contextlib.ExitStack
    watcher: Watcher
    budget: End

    def close(self, deployment: Deployment) -> None:
        with ending(self.budget):
            deployment.close()


def _deployment_for(
    opening: _Opening, group: Sequence[ModelSettings], deployment: Deployment | None
) -> Deployment:
    """Return the deployment for these models; models with their own server flags get a separate one.

    The meter's connections are closed before a server stops, because it waits for open ones.
    """
    own, meter = group[0], opening.meter
    launch = launch_of(opening.settings)
    is_special = bool(own.server_flags or own.environment)
    if deployment is not None:
        if not is_special and not deployment.is_special:
            return deployment
        meter.forget()
        deployment.close()
    flags, environment = own.server_flags or launch.flags, own.environment or launch.environment
    launch = replace(launch, flags=flags, environment=environment)
    patience_s = opening.settings.search.patience_s
    fresh = _opened(launch, patience_s, partial(opening.watcher.said, is_warning=True))
    fresh.is_special = is_special
    fresh.__enter__()
    opening.stack.callback(opening.close, fresh)
    opening.stack.callback(meter.forget)
    return fresh


def _opened(launch: LaunchSettings, patience_s: float, say: Callable[[str], None]) -> Deployment:
    if launch.command is None:
        return open_deployment(launch, say)
    nvml = open_nvml()
    read = None if nvml is None else nvml.read
    return LaunchedDeployment(launch.command, read, grace_s=min(GRACE_S, patience_s / 2))


def launch_of(settings: TuneSettings) -> LaunchSettings:
    """Return the launch settings; with complete configurations, auto-completion is disabled, which would start each
    model twice."""
    launch = settings.launch
    if launch.mode != "local" or launch.executable is not None or not are_whole(settings):
        return launch
    return replace(launch, flags=(*launch.flags, ("disable-auto-complete-config", "")))


def _engine(settings: TuneSettings, watcher: Watcher) -> Meter:
    return EngineMeter(
        sent_options(settings),
        settings.effort,
        sent_prompts(settings.models),
        watcher,
        patience_s=settings.search.patience_s if settings.launch.mode == COMMAND else None,
    )


def sent_prompts(models: Sequence[ModelSettings]) -> Mapping[str, Prompts | None]:
    """Return the prompts of models that generate text."""
    return {model.name: model.prompts for model in models if model.makes_text}


def sent_options(settings: TuneSettings) -> Mapping[str, Options]:
    """Return the options of the requests to each model, with the kind of server."""
    found = {model.name: model.options or changed(Options(), model=model.name) for model in settings.models}
    if settings.launch.mode != IN_PROCESS:
        return found
    return {name: replace(options, service_kind=IN_PROCESS_KIND) for name, options in found.items()}


# --- one search


@dataclass(slots=True)
class TrialRunner:
    """The dependencies and the state of a search that measures proposals."""

    deployment: Deployment
    meter: Meter
    journal: Journal
    names: VariantNames
    watcher: Watcher
    has_measured: bool = False  # another model of this session was measured, so the setup works
    since_ns: int = field(default_factory=monotonic_ns)  # when the last trial ended, or the session began
    budget_s: float | None = None
    budget: End = field(default_factory=lambda: End("the budget ran out"))
    known: tuple[Trial, ...] = ()  # trials in the journal that belong to this search

    def lap_s(self) -> float:
        """Return the seconds since the last call, or since the session began: all time is part of the cost of a
        trial."""
        before_ns, self.since_ns = self.since_ns, monotonic_ns()
        return (self.since_ns - before_ns) / NS_PER_S


def run(runner: TrialRunner, steps: SearchSteps[str], study: Study) -> Study:
    """Run the search and return the study with its trials. However it stops, all measurements are in the journal."""
    retry = runner.journal.recall(f"ended {study.name}") is not None
    trials: list[Trial] = []
    attempts: list[Trial] = []
    successes = int(runner.has_measured)
    answer: Trial | None = None
    while True:
        try:
            event = steps.send(answer)  # None starts the search
        except StopIteration as stop:
            runner.journal.remember(f"ended {study.name}", stop.value)
            return _with(study, runner, trials, stop.value)
        answer = None
        if isinstance(event, SearchMessage):
            report_message(runner.watcher, _worded(event, runner.names))
        elif isinstance(event, SkippedProposal):
            runner.watcher.skipped(event)
            trials.append(event.proposal.trial(-1, Status.SKIPPED, event.reason))
        elif isinstance(event, Wait):
            raise LocalError("a search for several servers got only one")
        elif runner.watcher.is_interrupted():
            return _with(study, runner, trials, "interrupted")
        else:
            known = _known(runner, event, retry=retry)
            spent_s = sum(trial.spent_s for trial in trials)
            is_spent = runner.budget.is_over() or (runner.budget_s is not None and spent_s >= runner.budget_s)
            if known is None and is_spent:
                # For searches that do not check the budget themselves.
                return _with(study, runner, trials, SPENT)
            runner.watcher.proposed(event, is_known=known is not None)
            fresh = _attempts(runner, event, study.name) if known is None else [known]
            report_best(runner.watcher, study, with_known([*trials, *fresh], runner.known))
            for trial in fresh:
                runner.watcher.tried(trial)
            listed = {trial.number for trial in trials}  # a search may repeat a proposal
            trials += [trial for trial in fresh if trial.number not in listed]
            answer = fresh[-1]
            if known is None and not answer.lacks_memory:
                attempts.append(answer)
            successes += answer.is_measured
            if not successes and not is_ending(runner) and _gives_up(attempts, runner.deployment):
                raise PeerError(
                    f"the first {len(attempts)} attempts to measure failed; the last: {answer.reason}",
                    remedy="fix the model or its settings; see the server's log",
                )


def _gives_up(failed: Sequence[Trial], deployment: Deployment) -> bool:
    """Return whether the first attempts show that no other will succeed: several failed for the same reason, or many
    failed. Reasons count as the same if they differ only in numbers, such as a port."""
    same = {re.sub(r"\d+", "", trial.reason.partition("; see its log")[0]) for trial in failed}
    most = deployment.most_failures
    return len(failed) >= (min(SAME_FAILURES, most) if len(same) == 1 else most)


def is_ending(runner: TrialRunner) -> bool:
    """Return whether the user or the budget has ended the search, possibly during a trial."""
    return runner.watcher.is_interrupted() or runner.budget.is_over()


def _worded(message: SearchMessage, names: VariantNames) -> SearchMessage:
    return replace(message, text=_configured(message.text, names))


def report_message(watcher: Watcher, message: SearchMessage) -> None:
    if message.left_s is not None:
        watcher.planned(None, message.left_s)
    watcher.said(message.text, is_detail=message.is_detail, is_warning=message.is_warning)


def report_best(watcher: Watcher, study: Study, trials: Sequence[Trial]) -> None:
    ranked = rank(study.goals, trials)
    if ranked:
        watcher.led(ranked[0].best, does_pass=ranked[0].does_pass)


def _known(runner: TrialRunner, proposal: Proposal, *, retry: bool) -> Trial | None:
    key = stored_key(runner, proposal)
    found = runner.journal.find(key, with_failed=not retry)
    if found is None:
        return None
    return renamed(found, proposal)


def stored_key(runner: TrialRunner, proposal: Proposal) -> str:
    return key_of(proposal, runner.meter.fingerprint([variant.model for variant in proposal.variants]))


def key_of(proposal: Proposal, sent: str) -> str:
    """Return the key of a trial in the journal: equal for trials of the same content and load."""
    return f"{proposal.key}{key_end(sent)}"


def key_end(sent: str) -> str:
    """Return the key suffix of every trial with the same requests."""
    return f" {sent}" if sent else ""


def with_known(trials: Sequence[Trial], known: Sequence[Trial]) -> list[Trial]:
    """Add the trials in the journal that the search did not reach: the result is the best of all."""
    listed = {trial.number for trial in trials}
    return [*trials, *(trial for trial in known if trial.number not in listed)]


def _with(study: Study, runner: TrialRunner, trials: list[Trial], ended: str) -> Study:
    sent = runner.meter.fingerprint(study.models)
    study = replace(study, rate_unit=_rate_unit(runner, study.name))
    return with_trials(study, runner.names, with_known(trials, runner.known), ended=ended, sent=sent)


def _rate_unit(runner: TrialRunner, study: str) -> str:
    """Return the unit of throughput, which is known from measurements of this search or of an earlier run of it."""
    fact = f"rate unit {study}"
    unit = runner.meter.rate_unit
    if unit is None:
        return str(runner.journal.recall(fact) or INFERENCES)
    runner.journal.remember(fact, unit)
    return unit


def with_trials(
    study: Study, names: VariantNames, trials: Sequence[Trial], *, ended: str, sent: str
) -> Study:
    used = {part.variant for trial in trials for part in trial.parts}
    variants = tuple(variant for variant in names.known.values() if variant.name in used)
    return replace(study, trials=tuple(trials), variants=variants, ended=ended, sent=sent)


def _attempts(runner: TrialRunner, proposal: Proposal, study: str) -> list[Trial]:
    """Make one attempt, or two if the server died during the first, because the variant may not be the cause."""
    found: list[Trial] = []
    while not found or (len(found) == 1 and not found[0].is_measured and not runner.deployment.is_running()):
        found.append(attempt(runner, proposal))
        if not found[-1].is_measured and is_ending(runner):
            break  # that may be the cause: the next session retries it
        runner.journal.add(found[-1], proposal.variants, study=study)
    return found


def attempt(runner: TrialRunner, proposal: Proposal) -> Trial:
    """Measure one trial. A UsageError ends the search, unless other models were measured."""
    number = runner.journal.next_number()
    with ending(runner.budget):
        found = attempted(
            proposal, runner.deployment, runner.meter, partial(runner.watcher.said, is_detail=True)
        )
    if not runner.has_measured:
        found.check_mistake(proposal)
    trial = replace(found.trial(proposal, number), cost_s=runner.lap_s(), key=stored_key(runner, proposal))
    if trial.note:
        runner.watcher.said(f"{_configured(trial.name, runner.names)}: {trial.note}", is_warning=True)
    return trial


def _configured(text: str, names: VariantNames) -> str:
    """Replace the names of configurations of a launched server by their values."""
    return worded(text, {name: variant.config for name, variant in names.known.items()})
