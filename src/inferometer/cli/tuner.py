"""What `model-analyzer` and `inferometer profile | analyze | report` do, and how they speak."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import InferometerError, UsageError

if TYPE_CHECKING:
    from inferometer.profile.options import Options
    from inferometer.tune.dialect.asked import Asked, Dialect
    from inferometer.tune.dialect.job import ProfileJob, ReportJob
    from inferometer.tune.meter import Meter
    from inferometer.tune.search.search import Proposal, Say, Skip
    from inferometer.tune.study import Study
    from inferometer.tune.trial import Trial
    from inferometer.tune.variant import Variant

OK, FAILURE = 0, 1
INTERRUPTS = 3

Profile = Callable[..., Iterator["Study"]]


class Console:
    """Lines on stdout, each with the program's mark."""

    def __init__(self, mark: str, *, is_quiet: bool = False, is_verbose: bool = False) -> None:
        self._mark = mark
        self._is_quiet = is_quiet
        self.is_verbose = is_verbose

    def info(self, text: str) -> None:
        if not self._is_quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        if not self._is_quiet:
            self._print(f"WARNING: {text}")

    def error(self, text: str) -> None:
        self._print(f"ERROR: {text}")

    def debug(self, text: str) -> None:
        if self.is_verbose:
            self._print(f"DEBUG: {text}")

    def plain(self, text: str) -> None:
        if not self._is_quiet:
            print(text, flush=True)

    def _print(self, text: str) -> None:
        clock = time.strftime("%H:%M:%S ") if self.is_verbose else ""
        print(f"{clock}[{self._mark}] {text}", flush=True)


class Stops:
    """Ctrl-C: the first two let the running measurement end, the third ends at once; so does SIGTERM."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.count = 0

    @property
    def asked(self) -> bool:
        return self.count > 0

    def _interrupted(self, number: int, frame: object) -> None:
        self.count += 1
        self._say(f"Received SIGINT {self.count}/{INTERRUPTS}. Will attempt to exit after current measurement.")
        if self.count >= INTERRUPTS:
            raise KeyboardInterrupt

    def _terminated(self, number: int, frame: object) -> None:
        self.count = INTERRUPTS
        raise KeyboardInterrupt

    @contextmanager
    def caught(self) -> Iterator["Stops"]:
        handlers = {signal.SIGINT: self._interrupted, signal.SIGTERM: self._terminated}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class SearchConsole:
    """Tells how a search goes on, and writes what belongs to each step: folders, checkpoint, failures."""

    def __init__(self, job: "ProfileJob", console: Console, stops: Stops) -> None:
        from inferometer.tune.dialect.folders import VariantFolders

        self._job = job
        self._console = console
        self._stops = stops
        self._folders = VariantFolders(job.output, job.settings.launch.repositories)
        self._is_made = False
        self._seen: set[str] = set()
        self._is_known = False
        self._variants: dict[str, Variant] = {}
        self._trials: list[Trial] = []
        self._checkpoint: Path | None = None
        self._known_names: frozenset[str] = frozenset()
        self.failures = 0

    def begin(self, variants: "Sequence[Variant]", trials: "Sequence[Trial]") -> None:
        """What is known from before."""
        self._variants = {variant.name: variant for variant in variants}
        self._known_names = frozenset(self._variants)
        self._trials = list(trials)

    # --- as the search's watcher

    def said(self, say: "Say") -> None:
        speak = self._console.warn if say.is_warning else self._console.debug if say.is_detail else self._console.info
        speak(say.text)

    def proposed(self, proposal: "Proposal", *, is_known: bool) -> None:
        self._is_known = is_known
        self._make_output()
        for variant in proposal.variants:
            self._introduce(variant)
            self._folders.write(variant)
        if is_known:
            self._console.info("Existing measurement found for run config. Skipping profile")
            return
        for variant, load in proposal.parts:
            self._console.info(f"Profiling {variant.title}: {load}")

    def tried(self, trial: "Trial") -> None:
        if self._is_known:
            return
        if trial.is_measured:
            self._trials.append(trial)
            self.save()
            return
        self.failures += 1
        self._console.error(f"{trial.name}, {trial.load}: no measurement: {trial.reason}")
        if self._job.external is None:
            self._note(trial)

    def skipped(self, skip: "Skip") -> None:
        self._console.debug(f"{skip.proposal.trial(-1, _skipped()).name}: {skip.reason}")

    def is_interrupted(self) -> bool:
        return self._stops.asked

    # --- what is written on the way

    def _make_output(self) -> None:
        """Only now: the server is up, so nothing is made for a search that could not start."""
        from inferometer.tune.dialect.folders import make_output

        if self._is_made:
            return
        self._is_made = True
        if self._job.output.exists():
            self._console.warn(f"Overriding the output model repo path \"{self._job.output}\"")
        make_output(self._job.output)

    def _introduce(self, variant: "Variant") -> None:
        from inferometer.tune.variant import changes

        for part in (*variant.composing, variant):
            self._variants[part.name] = part
            if part.name in self._seen:
                continue
            self._seen.add(part.name)
            if part.is_default:
                continue
            verb = "Found existing" if part.name in self._known_names else "Creating"
            self._console.info(f"{verb} model config: {part.name}")
            for text in changes(part.overrides):
                self._console.info(f"  {text}")

    def save(self) -> None:
        """The classic checkpoint, beside the journal."""
        from inferometer.tune.dialect import checkpoint

        if self._checkpoint is None:
            self._checkpoint = checkpoint.next_path(self._job.checkpoints)
        checkpoint.write(
            self._checkpoint, tuple(self._variants.values()), self._trials, seed=self._job.settings.seed
        )

    def tell_saved(self) -> None:
        if self._checkpoint is None:
            self._console.info("No changes made to analyzer data, no checkpoint saved.")
        else:
            self._console.info(f"Saved checkpoint to {self._checkpoint}")

    def _note(self, trial: "Trial") -> None:
        path = error_log(self._job)
        if self.failures == 1:
            path.unlink(missing_ok=True)
        with path.open("a") as log:
            log.write(f"Command: the built-in load generator on {trial.name}, {trial.load}\nError: {trial.reason}\n\n")


def _skipped() -> Any:
    from inferometer.tune.trial import Status

    return Status.SKIPPED


def error_log(job: "ProfileJob") -> Path:
    return job.export / "perf_analyzer_error.log"


# --- commands


def parse_options(words: Sequence[str]) -> "Options":
    """The load generator's options, out of words."""
    from inferometer.cli.parser import Ask, parse_classic

    found = parse_classic(words)
    if isinstance(found, Ask):
        raise UsageError("help and version are not flags of a load", remedy="leave them out")
    return found


def run(asked: "Asked", dialect: "Dialect", console: Console, *, profile: Profile | None = None) -> int:
    """The command that was asked for."""
    from inferometer.tune.dialect.build import profile_job, report_job

    if asked.command == "report":
        return run_report(report_job(asked), console)
    job = profile_job(asked, dialect, parse_options)
    is_brute_explicit = asked.has("run_config_search_mode") and job.settings.search == "brute"
    return run_profile(
        job,
        console,
        profile=profile,
        is_brute_explicit=is_brute_explicit,
        report_command=_report_command(asked, dialect),
    )


def _report_command(asked: "Asked", dialect: "Dialect") -> str:
    import shlex

    words = [dialect.program, "report"]
    for name in ("export_path", "checkpoint_directory", "config_file"):
        if asked.has(name):
            words += ["--" + name.replace("_", "-"), str(asked[name])]
    return shlex.join(words)


def run_profile(
    job: "ProfileJob",
    console: Console,
    *,
    profile: Profile | None = None,
    is_brute_explicit: bool = False,
    report_command: str = "model-analyzer report",
) -> int:
    from inferometer.tune.dialect.checks import check_profile
    from inferometer.tune.session import profile as real

    for text in (*job.warnings, *check_profile(job, is_brute_explicit=is_brute_explicit)):
        console.warn(text)
    for folder in (job.export, job.checkpoints):
        folder.mkdir(exist_ok=True)
    with Stops(console.info).caught() as stops:
        watcher = SearchConsole(job, console, stops)
        _recall(job, console, watcher)
        studies = []
        make_meter = None if job.external is None else _program_meter(job, console)
        try:
            for study in (profile or real)(job.settings, watcher, make_meter=make_meter):
                studies.append(study)
        finally:
            watcher.tell_saved()
        if stops.asked:
            console.info("Interrupted: what was measured is saved; run the same command again to go on.")
            return FAILURE
    whole = _remembered(job, studies)
    count = sum(len(study.ranked) for study in whole)
    names = [name for study in whole for name in study.models]
    console.info(f"Profile complete. Profiled {count} configurations for models: {names}")
    if job.has_reports:
        _write_reports(job, whole, console, report_command)
    if watcher.failures:
        console.warn(f"{watcher.failures} run(s) gave no measurement: see {error_log(job)}")
    return OK


def _program_meter(job: "ProfileJob", console: Console) -> "Callable[..., Meter]":
    from inferometer.tune.dialect.perf_analyzer import ProgramMeter

    assert job.external is not None
    external = job.external

    def make(*_: object) -> "Meter":
        return ProgramMeter(external, error_log(job), console.plain)

    return make


def _recall(job: "ProfileJob", console: Console, watcher: SearchConsole) -> None:
    """What earlier runs left: the journal, and measurements of a classic checkpoint beside it."""
    from inferometer.tune import journal as journals
    from inferometer.tune.dialect import checkpoint, stored

    newest = checkpoint.newest(job.checkpoints)
    had_journal = job.journal.exists()
    if newest is None and not had_journal:
        console.info("No checkpoint file found, starting a fresh run.")
        return
    with journals.opened(job.journal) as journal:
        if newest is not None:
            found = checkpoint.read(newest)
            console.info(f"Loaded checkpoint from file {newest}")
            if not (found.is_ours and had_journal):
                count = stored.take_in(journal, found)
                console.info(f"Took over {count} measurements from {newest}")
        known = stored.of_journal(journal)
    watcher.begin(known.variants, known.trials)


def _remembered(job: "ProfileJob", studies: "Sequence[Study]") -> "list[Study]":
    """Studies with all measurements of their models, also of earlier runs."""
    from inferometer.tune import journal as journals
    from inferometer.tune.dialect import stored

    with journals.opened(job.journal) as journal:
        stored.remember(journal, studies)
        known = stored.of_journal(journal)
    return [
        stored.with_trials(
            study, known.variants, [trial for trial in known.trials if trial.models == study.name]
        )
        for study in studies
    ]


def _write_reports(job: "ProfileJob", studies: "Sequence[Study]", console: Console, report_command: str) -> None:
    from inferometer.tune.dialect import outputs
    from inferometer.tune.report import facts
    from inferometer.tune.report.press import Press

    press = Press()
    outputs.write_tables(job, studies, press, console.warn)
    if console.is_verbose:
        for sheet in outputs.sheets(job, studies):
            console.plain(sheet.text())
    outputs.write_summaries(job, studies, press, console.warn)
    names = [(study, name) for study in studies for name in outputs.best_names(study, job.top)]
    if job.has_details:
        for study, name in names:
            outputs.write_detailed(study, name, job.export, press, plots=job.plots, with_gpus=job.with_gpus)
    _print_all(press, console)
    if not job.has_details:
        for study in studies:
            chosen = ",".join(name for owner, name in names if owner is study)
            if chosen:
                console.info("To generate detailed reports for the best configurations, run")
                console.info(f"  {report_command} --report-model-configs {chosen}")
    for study in studies:
        console.info(facts.sentence(study, has_own_objectives=job.has_own_objectives))
        console.info(facts.why(study))


def _print_all(press: Any, console: Console) -> None:
    problem = press.print_all()
    for path in press.written:
        console.info(f"Wrote {path}")
    if problem is not None:
        print(f"WARNING: {problem}", file=sys.stderr, flush=True)


def run_report(job: "ReportJob", console: Console) -> int:
    from inferometer.tune.dialect import outputs, stored
    from inferometer.tune.dialect.checks import check_report
    from inferometer.tune.report.press import Press

    check_report(job)
    known = stored.read(job.checkpoints)
    by_name = {variant.name: variant for variant in known.variants}
    names = [name for name, _ in job.variants]
    measured = {part.variant for trial in known.trials if trial.is_measured for part in trial.parts}
    for name in names:
        if name not in by_name or name not in measured:
            raise UsageError(
                f"there is no measurement of '{name}' in '{job.checkpoints}'",
                remedy=f"measured are {', '.join(sorted(measured)) or 'none'}",
            )
    models = list(dict.fromkeys(by_name[name].model for name in names))
    if len(models) > 1:
        raise UsageError(
            f"--report-model-configs names variants of {len(models)} models: {', '.join(models)}",
            remedy="report on one model at a time",
        )
    study = replace(known.study(models[0]), mode=job.mode)
    press = Press()
    outputs.report(job, study, press)
    _print_all(press, console)
    return OK


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def traced(error: InferometerError) -> str:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()
