"""Run studies with several servers on a Ray cluster.

ask the search -> start the trial on one of the servers -> write the journal as it ends -> tell the search
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

from inferometer.base.deadline import End
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.observe.host import describe_host
from inferometer.server.repository import example_repository
from inferometer.stats.watcher import Watcher, until
from inferometer.tune import journal as journals
from inferometer.tune.beginning import SearchPlace, begin
from inferometer.tune.fingerprint import fingerprint
from inferometer.tune.journal import Journal
from inferometer.tune.machine import ServerMachine
from inferometer.tune.model_config import Fields
from inferometer.tune.parallel import ParallelTrials, TrialServers
from inferometer.tune.prepare import (
    check_settings,
    groups,
    own_config,
)
from inferometer.tune.search.search import SPENT, Proposal, SearchMessage, SearchSteps, SkippedProposal
from inferometer.tune.server_agent import ServerJob
from inferometer.tune.session import (
    key_end,
    launch_of,
    profile,
    report_best,
    report_message,
    sent_options,
    sent_prompts,
    with_known,
    with_trials,
)
from inferometer.tune.settings import TuneSettings
from inferometer.tune.study import Study
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import VariantNames


class ClusterServers(TrialServers, Protocol):
    """Servers as used by a whole session, as a context manager."""

    left_out: Sequence[ServerMachine]  # machines of other kinds

    def config(self, model: str) -> Fields: ...

    def __enter__(self) -> "ClusterServers": ...

    def __exit__(self, *_: object) -> None: ...


def studies(settings: TuneSettings, watcher: Watcher) -> Iterator[Study]:
    """Run the studies on one server or on several, according to the settings."""
    return (profile if settings.cluster is None else profile_in_parallel)(settings, watcher)


def profile_in_parallel(
    settings: TuneSettings,
    watcher: Watcher,
    *,
    make_servers: Callable[[TuneSettings, Watcher], ClusterServers] | None = None,
) -> Iterator[Study]:
    """Yield a study per model, or one of all models together, each as soon as its search has ended."""
    check_settings(settings, sends=True)
    since_ns = monotonic_ns()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(journals.opened(settings.journal))
        watcher.planned(None, settings.search.budget_s)
        servers = stack.enter_context((make_servers or _ray_servers)(settings, watcher))
        _report_servers(servers, watcher)
        names = VariantNames.of(journal.variants())
        has_measured = False
        for group in groups(settings):
            place = SearchPlace(
                partial(_config, settings, servers),
                partial(_key_end, settings, servers),
                has_gpus=any(machine.gpus for machine in servers.machines),
                servers=len(servers.machines),
                host=_host(servers),
                gpus={uuid: gpu for machine in servers.machines for uuid, gpu in machine.gpus.items()},
            )
            start = begin(settings, group, place, journal, names)
            budget_s = settings.search.budget_s
            end_ns = None if budget_s is None else since_ns + round(budget_s * NS_PER_S)
            lab = _Lab(
                settings,
                servers,
                journal,
                names,
                watcher,
                has_measured,
                since_ns,
                End(SPENT, end_ns),
                start.problem.known,
            )
            study = run_in_parallel(lab, start.steps, start.study)
            has_measured = has_measured or bool(study.measured)
            yield study
            since_ns = monotonic_ns()
            if watcher.is_interrupted():
                return


def _ray_servers(settings: TuneSettings, watcher: Watcher) -> ClusterServers:
    from inferometer.tune.ray_servers import RayServers

    assert settings.cluster is not None
    job = ServerJob(
        launch_of(settings),
        sent_options(settings),
        settings.effort,
        sent_prompts(settings.models),
        has_examples=settings.launch.repositories == (example_repository(),),
    )
    return RayServers(settings.cluster.address, settings.cluster.servers, job, watcher)


def _report_servers(servers: ClusterServers, watcher: Watcher) -> None:
    for number, machine in enumerate(servers.machines, 1):
        watcher.said(f"Server {number} at {machine.place}: {machine.kind}", is_detail=True)
    for machine in servers.left_out:
        watcher.said(
            f"The server at {machine.place} is left out because its machine differs from the others: "
            f"{machine.kind}, not {servers.machines[0].kind}",
            is_warning=True,
        )


def _config(settings: TuneSettings, servers: ClusterServers, model: str) -> Fields:
    """Return the model's own file, otherwise the configuration reported by a server."""
    found = own_config(settings, model)
    return servers.config(model) if found is None else found


def _host(servers: ClusterServers) -> dict[str, Any]:
    """Describe the host, with the machine of the servers, which are all of one kind."""
    machine = servers.machines[0]
    return {
        **describe_host(),
        "processor": machine.processor,
        "cores": len(machine.cores),
        "memory_bytes": machine.memory_bytes,
    }


@frozen
class _Lab:
    """The dependencies of one search."""

    settings: TuneSettings
    servers: ClusterServers
    journal: Journal
    names: VariantNames
    watcher: Watcher
    has_measured: bool
    since_ns: int
    budget: End = field(default_factory=lambda: End(SPENT))
    known: tuple[Trial, ...] = ()  # trials in the journal that belong to this search

    def key_of(self, proposal: Proposal) -> str:
        models = [variant.model for variant in proposal.variants]
        return f"{proposal.key}{_key_end(self.settings, self.servers, models)}"


def _sent(settings: TuneSettings, models: Sequence[str]) -> str:
    options = {name: row for name, row in sent_options(settings).items() if name in models}
    prompts = {name: row for name, row in sent_prompts(settings.models).items() if name in models}
    return fingerprint(options, prompts)


def _key_end(settings: TuneSettings, servers: ClusterServers, models: Sequence[str]) -> str:
    """Return the key suffix with the kind of machine, so that trials on other kinds never match."""
    return f"{key_end(_sent(settings, models))} on {servers.machines[0].digest}"


def run_in_parallel(lab: _Lab, steps: SearchSteps[str], study: Study) -> Study:
    """Run the search and return the study with its trials. However it stops, all measurements are in the journal."""
    retry = lab.journal.recall(f"ended {study.name}") is not None
    doing = ParallelTrials(
        lab.servers,
        lab.journal,
        until(lab.watcher, lab.budget.is_over),
        lab.key_of,
        study.name,
        retry,
        lab.has_measured,
        lab.since_ns,
    )
    skipped: list[Trial] = []
    count = 0  # trials already reported to the watcher

    def ended(reason: str) -> Study:
        found = with_trials(
            study,
            lab.names,
            with_known([*doing.trials, *skipped], lab.known),
            ended=reason,
            sent=_sent(lab.settings, study.models),
        )
        return replace(found, server={**study.server, "servers": _rows(lab.servers, doing)})

    answer: Trial | None = None
    while True:
        try:
            event = steps.send(answer)
        except StopIteration as stop:
            lab.journal.remember(f"ended {study.name}", stop.value)
            return ended(stop.value)
        answer = None
        if isinstance(event, SearchMessage):
            report_message(lab.watcher, event)
        elif isinstance(event, SkippedProposal):
            lab.watcher.skipped(event)
            skipped.append(event.proposal.trial(-1, Status.SKIPPED, event.reason))
        elif isinstance(event, Proposal):
            is_known = doing.start(event)
            lab.watcher.proposed(event, is_known=is_known)
        else:
            answer = doing.next_trial()
            if answer is None:
                doing.end()
            report_best(lab.watcher, study, doing.trials)
            for trial in doing.trials[count:]:
                lab.watcher.tried(trial)
            count = len(doing.trials)
            if answer is None:
                return ended("interrupted" if lab.watcher.is_interrupted() else SPENT)


def _rows(servers: ClusterServers, doing: ParallelTrials) -> list[dict[str, Any]]:
    """Return the servers as shown in the report."""
    rows: list[dict[str, Any]] = [
        {
            "place": machine.place,
            "machine": machine.kind,
            "cores": list(machine.cores),
            "gpus": sorted(machine.gpus),
            "trials": sum(trial.server == number for trial in doing.trials),
            "lost": doing.lost.get(number - 1, ""),
        }
        for number, machine in enumerate(servers.machines, 1)
    ]
    rows += [
        {"place": machine.place, "machine": machine.kind, "trials": 0, "left_out": True}
        for machine in servers.left_out
    ]
    return rows
