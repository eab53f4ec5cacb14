"""What `model-analyzer` and `inferometer profile | analyze | report` do."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.text import printable
from inferometer.base.writing import writing
from inferometer.dialects.model_analyzer.console import Console, SearchConsole, Stops, error_log

if TYPE_CHECKING:
    from pathlib import Path

    from inferometer.dialects.model_analyzer.asked import Asked, Dialect
    from inferometer.dialects.model_analyzer.checkpoint import Found
    from inferometer.dialects.model_analyzer.job import AnalyzeJob, ProfileJob, ReportJob, Reports
    from inferometer.dialects.model_analyzer.stored import Sending
    from inferometer.options.options import Options
    from inferometer.tune.meter import Meter
    from inferometer.tune.study import Study

OK, FAILURE = 0, 1

Profile = Callable[..., Iterator["Study"]]


# --- commands


def parse_options(words: Sequence[str]) -> "Options":
    """The load generator's options, out of words."""
    from inferometer.dialects.perf_analyzer.options import parse_classic
    from inferometer.options.option import Ask

    found = parse_classic(words)
    if isinstance(found, Ask):
        raise UsageError("help and version are not flags of a load", remedy="leave them out")
    return found


def run(asked: "Asked", dialect: "Dialect", console: Console, *, profile: Profile | None = None) -> int:
    """The command that was asked for."""
    from inferometer.dialects.model_analyzer.build import profile_job, report_job

    for line in asked.lines():
        console.debug(line)
    if asked.command == "report":
        return run_report(report_job(asked), console)
    if asked.command == "analyze":
        return run_analyze(asked, console, report_command=_report_command(asked, dialect))
    job = profile_job(asked, dialect, parse_options)
    is_brute_explicit = asked.has("run_config_search_mode") and job.settings.search.method == "brute"
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
    from inferometer.dialects.model_analyzer.checks import check_profile
    from inferometer.tune.session import profile as real

    for text in (*job.warnings, *check_profile(job, is_brute_explicit=is_brute_explicit)):
        console.warn(text)
    earlier = _earlier(job)
    gpus = _checked_gpus(job, console)
    for folder in (job.reports.export, job.checkpoints):
        with writing(folder):
            folder.mkdir(exist_ok=True)
    with Stops(console.info).caught() as stops:
        watcher = SearchConsole(job, console, stops)
        _recall(job, console, watcher, earlier)
        _remember_gpus(job, gpus)
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
    _write_reports(job.reports, whole, console, report_command)
    if watcher.failures:
        console.warn(f"{watcher.failures} run(s) gave no measurement: see {error_log(job)}")
    return OK


def _program_meter(job: "ProfileJob", console: Console) -> "Callable[..., Meter]":
    from inferometer.dialects.model_analyzer.perf_analyzer import ProgramMeter

    assert job.external is not None
    external = job.external

    def make(*_: object) -> "Meter":
        return ProgramMeter(external, error_log(job), console.plain)

    return make


def _checked_gpus(job: "ProfileJob", console: Console) -> list[str]:
    """One line per GPU; figures of other GPUs than those of the checkpoint would not compare."""
    from inferometer.observe.gpu import open_nvml
    from inferometer.tune import journal as journals
    from inferometer.tune.session import known_gpus

    present = known_gpus(job.settings, open_nvml())
    for number, (uuid, row) in enumerate(present.items()):
        console.info(f"Using GPU {number} {row['name']} with UUID {uuid}")
    if job.journal.exists():
        with journals.read(job.journal) as journal:
            before = journal.recall("gpus") if journal.has_measured else None
        check_gpus(before, sorted(present), job.checkpoints)
    return sorted(present)


def _remember_gpus(job: "ProfileJob", present: Sequence[str]) -> None:
    from inferometer.tune import journal as journals

    with journals.opened(job.journal) as journal:
        journal.remember("gpus", present)


def check_gpus(before: Sequence[str] | None, now: Sequence[str], folder: object) -> None:
    if before is not None and list(before) != list(now):
        raise UsageError(
            f"the checkpoint in '{folder}' was made with other GPUs ({', '.join(before) or 'none'}) than those here "
            f"({', '.join(now) or 'none'})",
            remedy="remove the checkpoint, or give another --checkpoint-directory",
        )


def _earlier(job: "ProfileJob") -> "tuple[Path, Found] | None":
    """The newest classic checkpoint, if there is one."""
    from inferometer.dialects.model_analyzer import checkpoint

    newest = checkpoint.newest(job.checkpoints)
    return None if newest is None else (newest, checkpoint.read(newest))


def _recall(
    job: "ProfileJob", console: Console, watcher: SearchConsole, earlier: "tuple[Path, Found] | None"
) -> None:
    """What earlier runs left: the journal, and measurements of a classic checkpoint beside it."""
    from inferometer.dialects.model_analyzer import stored
    from inferometer.tune import journal as journals

    with journals.opened(job.journal) as journal:
        had_measured = journal.has_measured
        if earlier is not None:
            newest, found = earlier
            console.info(f"Loaded checkpoint from file {newest}")
            if not (found.is_ours and had_measured):
                count = stored.take_in(journal, found, _sending(job))
                console.info(f"Took over {count} measurements from {newest}")
        elif not had_measured:
            console.info("No checkpoint file found, starting a fresh run.")
        known = stored.of_journal(journal)
    watcher.begin(known.variants, known.trials)


def _sending(job: "ProfileJob") -> "Sending":
    from inferometer.dialects.model_analyzer import perf_analyzer
    from inferometer.dialects.model_analyzer.flags import data_flags
    from inferometer.dialects.model_analyzer.stored import Sending
    from inferometer.options.options import Options
    from inferometer.tune.meter import fingerprint
    from inferometer.tune.session import sent_options, sent_prompts

    protocol = job.settings.launch.control.protocol
    asked = sent_options(job.settings)

    def mark(models: Sequence[str]) -> str:
        if job.external is not None:
            return perf_analyzer.fingerprint(job.external, models)
        plain = {model: Options(model=model, protocol=protocol) for model in models}
        known = sent_prompts([row for row in job.settings.models if row.name in models])
        return fingerprint({model: asked.get(model, plain[model]) for model in models}, known)

    flags = {model: data_flags(rows) for model, rows in job.flags}
    return Sending(protocol, flags, mark)


def _remembered(job: "ProfileJob", studies: "Sequence[Study]") -> "list[Study]":
    """Studies with all measurements of their models, also of earlier runs."""
    from inferometer.dialects.model_analyzer import stored
    from inferometer.tune import journal as journals

    with journals.opened(job.journal) as journal:
        stored.remember(journal, studies)
        known = stored.of_journal(journal)
    return [
        stored.with_trials(
            study, known.variants, [trial for trial in known.trials if trial.models == study.name]
        )
        for study in studies
    ]


def _write_reports(
    reports: "Reports", studies: "Sequence[Study]", console: Console, report_command: str
) -> None:
    from inferometer.dialects.model_analyzer import outputs
    from inferometer.tune.report import facts
    from inferometer.tune.report.files import ReportFiles

    if not reports.is_on:
        return
    files = ReportFiles()
    outputs.write_tables(reports, studies, files, console.warn)
    if console.is_verbose:
        for sheet in outputs.sheets(reports, studies):
            console.plain(sheet.text())
    outputs.write_summaries(reports, studies, files, console.warn)
    names = [(study, name) for study in studies for name in outputs.best_names(study, reports.top)]
    if reports.has_details:
        for study, name in names:
            outputs.write_detailed(
                study, name, reports.export, files, plots=reports.plots, with_gpus=reports.with_gpus
            )
    _print_all(files, console)
    if not reports.has_details:
        for study in studies:
            chosen = ",".join(name for owner, name in names if owner is study)
            if chosen:
                console.info("To generate detailed reports for the best configurations, run")
                console.info(f"  {report_command} --report-model-configs {chosen}")
    for study in studies:
        console.info(facts.sentence(study, has_own_objectives=reports.has_own_objectives))
        if reason := facts.why(study):
            console.info(reason)


def _print_all(files: Any, console: Console) -> None:
    problem = files.print_all()
    for path in files.written:
        console.info(f"Wrote {path}")
    if problem is not None:
        print(printable(f"WARNING: {problem}"), file=sys.stderr, flush=True)
    files.outputs.settle()


def run_analyze(asked: "Asked", console: Console, *, report_command: str) -> int:
    """The reports of `profile` from what the journal or a checkpoint holds: no server, no measurement."""
    from inferometer.dialects.model_analyzer import stored
    from inferometer.dialects.model_analyzer.build import analyze_job
    from inferometer.dialects.model_analyzer.checks import check_analyze

    folder = asked["checkpoint_directory"]
    known = stored.read(folder)
    measured = list(dict.fromkeys(trial.models for trial in known.trials if trial.is_measured))
    job = analyze_job(asked, measured)
    check_analyze(job)
    for name in job.models:
        if name not in measured:
            raise UsageError(
                f"there is no measurement of '{name}' in '{folder}'",
                remedy=f"run profile first; measured are {', '.join(measured) or 'none'}",
            )
    studies = [_judged(known.study(name), job) for name in job.models]
    count = sum(len(study.measured) for study in studies)
    console.info(f"Read {count} measurements of {', '.join(job.models)} from {folder}; nothing is measured.")
    with writing(job.reports.export):
        job.reports.export.mkdir(exist_ok=True)
    _write_reports(job.reports, studies, console, report_command)
    return OK


def _judged(study: "Study", job: "AnalyzeJob") -> "Study":
    goals = tuple(job.goals.get(goal.model, goal) for goal in study.goals)
    return replace(study, goals=goals, mode=job.mode)


def run_report(job: "ReportJob", console: Console) -> int:
    from inferometer.dialects.model_analyzer import outputs, stored
    from inferometer.dialects.model_analyzer.checks import check_report
    from inferometer.tune.report.files import ReportFiles

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
    files = ReportFiles()
    outputs.report(job, study, files)
    _print_all(files, console)
    return OK


def complain(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def traced(error: InferometerError) -> str:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()
