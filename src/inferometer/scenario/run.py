"""Execution of a scenario: each class with its own workers, all on one clock, phase after phase."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.confined import check_command
from inferometer.base.deadline import UNDO_LAST_S, Deadline
from inferometer.base.errors import InferometerError, LocalError, PeerError, UnknownModelError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.secrets import redacted_document
from inferometer.base.threads import users_environment
from inferometer.load.plan import Gaps
from inferometer.measure.addresses import prepare_shared
from inferometer.measure.groups import class_level_settings, group_instrument, start_groups
from inferometer.measure.instrument import Instrument
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.mix import WeightedModel, mixed_result
from inferometer.measure.points import Agenda
from inferometer.measure.prepare import OWN_HABITS, Setup
from inferometer.options.options import Options
from inferometer.scenario.classes import PlannedClass, planned_classes
from inferometer.scenario.plans import ClassLoad, PlannedPhase, phase_points
from inferometer.scenario.spec import Scenario
from inferometer.scenario.spec_parts import raise_all
from inferometer.server.guarded import ends
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result, account
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:  # only runs on a cluster need it
    from inferometer.cluster.ray_process import RayProcess

COMMAND_END_S = 2.0  # grace period for the commands of phases


@frozen
class ScenarioRequest:
    """A scenario with the options of the command line."""

    scenario: Scenario
    options: Options
    models: tuple[WeightedModel, ...] = ()
    duration_s: float | None = None  # total of all phases; None: as in the scenario
    folder: Path | None = None  # of the scenario file


@frozen
class ScenarioSetup:
    """A scenario that is ready to run."""

    request: ScenarioRequest
    classes: tuple[PlannedClass, ...]
    setups: tuple[Setup, ...]
    phases: tuple[PlannedPhase, ...]
    result: Result  # without levels

    @property
    def options(self) -> Options:
        return self.request.options

    @property
    def journal(self) -> None:
        """Return None: scenarios do not export their requests."""
        return None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setup.model.name for setup in self.setups))

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(message for setup in self.setups for message in setup.messages))


def prepare_scenario(request: ScenarioRequest) -> ScenarioSetup:
    """Query the servers and build the requests of all classes, without sending any."""
    scenario = request.scenario
    for number, phase in enumerate(scenario.phases):
        if phase.command is not None:
            check_command(f"phases.{number} of the scenario")
    classes = planned_classes(scenario, request.options, request.models, folder=request.folder)
    setups = _setups(classes, request.folder)
    loads = [_class_load(row, setup) for row, setup in zip(classes, setups, strict=True)]
    pace = 1.0 if request.duration_s is None else scenario.seconds / request.duration_s
    phases = phase_points(scenario.phases, loads, pace=pace)
    result = mixed_result(setups, [row.name for row in classes])
    seconds = scenario.seconds / pace
    effective = replace(
        result.effective, mode="scenario", schedule=scenario.name, schedule_s=seconds, request_count=0
    )
    document = redacted_document(scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    result = replace(
        result,
        effective=effective,
        asked={**result.asked, "scenario": scenario.name},
        model={**result.model, "name": scenario.name or result.model["name"]},
        scenario=document,
    )
    return ScenarioSetup(request, classes, setups, phases, result)


def _setups(classes: Sequence[PlannedClass], folder: Path | None) -> tuple[Setup, ...]:
    """Return the setups of all classes; an error names all classes that cannot run, unless a server fails."""
    found: list[Setup] = []
    errors: list[InferometerError] = []
    for row in classes:
        try:
            found.append(_named_setup(row, folder))
        except (UsageError, PeerError) as error:
            errors.append(error)
            if not isinstance(error, UsageError | UnknownModelError):
                break
    raise_all(errors)
    return tuple(found)


def _named_setup(row: PlannedClass, folder: Path | None) -> Setup:
    """Return the setup of a class; errors name the class and its model."""
    try:
        return _prepared(row, folder)
    except (UsageError, PeerError) as error:
        model = row.options.model
        of_model = f" (model '{model}')" if model and f"'{model}'" not in error.message else ""
        if f"class '{row.name}'" not in error.message:
            error.at(f"class '{row.name}'{of_model}")
        raise


def _prepared(row: PlannedClass, folder: Path | None) -> Setup:
    if row.steps:
        from inferometer.scenario.visits import prepare_visits

        return prepare_visits(row, folder)
    if row.spec.task is not None:
        from inferometer.scenario.tasks import prepare_tasks

        return prepare_tasks(row, folder)
    setup = prepare_shared(row.options, command="measure", habits=OWN_HABITS)
    if setup.host is not None:
        raise UsageError(
            f"the class '{row.name}' uses an in-process Triton", remedy="give it a separate server"
        )
    setup = replace(setup, options=replace(setup.options, workers=row.spec.workers))
    if row.spec.sessions is not None and setup.sequences is not None:
        return replace(setup, sequences=setup.sequences._replace(is_repeated=True))
    return setup


def _class_load(row: PlannedClass, setup: Setup) -> ClassLoad:
    options = setup.options
    concurrency = options.session_concurrency
    if options.concurrency is not None:
        concurrency = int(options.concurrency.start)
    agenda: Agenda | None = setup.agenda
    rate = None if options.request_rate is None else float(options.request_rate.start)
    return ClassLoad(
        name=row.name,
        concurrency=concurrency,
        rate=rate,
        agenda=agenda,
        gaps=Gaps(row.spec.arrivals, row.spec.burstiness),
        seed=options.data.seed,
        cap=options.max_outstanding,
    )


# --- the load


def run_scenario(
    setup: ScenarioSetup, watcher: Watcher, *, ray: "RayProcess | None" = None
) -> Iterator[Result]:
    """Yield the result after each phase, and once more at the end."""
    result = setup.result
    watcher.prepared(result.effective)
    counted = [phase for phase in setup.phases if phase.spec.is_counted]
    watcher.planned(len(counted), result.effective.schedule_s)
    commands = PhaseCommands()
    names = [row.name for row in setup.classes]
    with start_groups(setup.setups, watcher, ray=ray) as load, contextlib.closing(commands):
        instrument = group_instrument(setup.setups, names, load, watcher)
        try:
            for phase in setup.phases:
                commands.start(phase)
                level = _measured(setup, instrument, phase)
                if level is not None:
                    result = replace(result, levels=(*result.levels, level))
                    yield result
                if watcher.is_interrupted() or (level is not None and level.has_remark(Note.WORKER_LOST)):
                    break
            cut = load.stop(is_urgent=watcher.is_interrupted())
        except LocalError as error:
            if not result.levels:
                raise
            remarks = (*result.remarks, Remark(Note.WORKER_LOST, str(error)))
            yield replace(result, remarks=remarks, account=account(result.levels, load.totals()))
            return
        losses = [loss for figures in instrument.clients for loss in figures.late_losses(result.levels)]
        remarks = (*result.remarks, *commands.remarks(), *losses)
        if cut:
            words = "1 request was" if cut == 1 else f"{cut:,} requests were"
            remarks = (*remarks, Remark(Note.CUT_OFF, f"{words} still running at the end and dropped"))
        yield replace(result, remarks=remarks, account=account(result.levels, load.totals()))


def _measured(setup: ScenarioSetup, instrument: Instrument, phase: PlannedPhase) -> Level | None:
    if not phase.spec.is_counted:
        instrument.watcher.level_started(phase.point.mode, phase.point.value)
        warm_up(instrument, phase.point.plan, phase.length_ns)
        return None
    names = [row.name for row in setup.classes]
    settings = class_level_settings(setup.setups, names, phase.length_ns)
    settings = replace(settings, ends_load=True)
    return measure_level(instrument, settings, phase.point)


# --- commands of phases


@dataclass(slots=True)
class PhaseCommands:
    """Shell commands started with their phases; those still running at the end are terminated."""

    _running: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)

    def start(self, phase: PlannedPhase) -> None:
        command = phase.spec.command
        if command is None:
            return
        child = subprocess.Popen(
            command,
            shell=True,
            env=users_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running.append((phase.spec.name, child))

    def remarks(self) -> tuple[Remark, ...]:
        """Return a remark for each failed command."""
        return tuple(
            Remark(Note.COMMAND_FAILED, f"the command of phase {name} ended with exit code {code}")
            for name, child in self._running
            if (code := child.poll()) not in (None, 0)
        )

    def close(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):  # escalate if the first is ignored
            left = [child for _, child in self._running if child.poll() is None]
            for child in left:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
            deadline = Deadline.after(COMMAND_END_S, last_s=UNDO_LAST_S)
            for child in left:
                ends(child, deadline)
