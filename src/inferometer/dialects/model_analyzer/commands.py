"""Implementation of `model-analyzer` and `inferometer profile | analyze | report`."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.base.signals import handled_by
from inferometer.base.text import to_stderr
from inferometer.base.writing import writing
from inferometer.dialects.model_analyzer import FAILURE, OK, checkpoint, load_generator, outputs
from inferometer.dialects.model_analyzer.build import ProfileJob, analyzed, profile_job
from inferometer.dialects.model_analyzer.checkpoint import Checkpoint, Sent, Stored
from inferometer.dialects.model_analyzer.command_line import Program
from inferometer.dialects.model_analyzer.config import Config, option
from inferometer.dialects.model_analyzer.console import Console, SearchConsole, SearchInterrupts
from inferometer.dialects.model_analyzer.flags import data_flags
from inferometer.dialects.model_analyzer.load_generator import ProgramMeter
from inferometer.dialects.model_analyzer.rules import check_folder, check_profile, check_report
from inferometer.observe.host import open_nvml
from inferometer.options.options import Options
from inferometer.report.documents import study_facts as facts
from inferometer.report.format import plural
from inferometer.tune import journal as journals
from inferometer.tune import session
from inferometer.tune.fingerprint import fingerprint
from inferometer.tune.study import Study

Profile = Callable[..., Iterator[Study]]


def run(config: Config, program: Program, *, profile: Profile | None = None) -> int:
    """Run the command."""
    console = Console(program.mark, is_quiet=config.is_quiet, is_verbose=config.is_verbose)
    for line in config.lines():
        console.debug(line)
    if config.command == "report":
        return run_report(config, console)
    if config.command == "analyze":
        return run_analyze(config, program, console)
    return run_profile(config, program, console, profile=profile)


def _report_command(config: Config, program: Program) -> str:
    words = [program.name, "report"]
    for name in ("export_path", "checkpoint_directory", "config_file"):
        if config.has(name):
            words += [option(name), str(getattr(config, name))]
    return shlex.join(words)


def run_profile(config: Config, program: Program, console: Console, *, profile: Profile | None) -> int:
    job = profile_job(config, program)
    for text in (*job.warnings, *check_profile(config, job.settings)):
        console.warn(text)
    earlier = checkpoint.newest(config.checkpoint_directory)
    gpus = _checked_gpus(job, console)
    for folder in (config.export_path, config.checkpoint_directory):
        with writing(folder):
            folder.mkdir(exist_ok=True)
    interrupts = SearchInterrupts(console.info)
    with handled_by(interrupts.receive):
        watcher = SearchConsole(job, console, interrupts, _recalled(job, console, earlier, gpus))
        generator, log = job.generator, watcher.error_log
        make_meter = None if generator is None else lambda *_: ProgramMeter(generator, log, console.plain)
        try:
            studies = list((profile or session.profile)(job.settings, watcher, make_meter=make_meter))
        finally:
            watcher.report_saved()
        if interrupts.count:
            console.info("Interrupted. All measurements are saved; run the same command again to continue.")
            return FAILURE
    with journals.opened(config.journal) as journal:
        checkpoint.remember(journal, studies)
        known = checkpoint.read_journal(journal)
    whole = [known.whole(study) for study in studies]
    count = sum(len(study.ranked) for study in whole)
    names = [name for study in whole for name in study.models]
    console.info(f"Profile complete. Profiled {count} configurations for models: {names}")
    _write_reports(config, program, whole, console)
    if watcher.failures:
        console.warn(f"{watcher.failures} run(s) failed: see {watcher.error_log.path}")
    return OK


def _checked_gpus(job: ProfileJob, console: Console) -> list[str]:
    """Print one line per GPU; raise if they differ from the checkpoint's, as figures would not be comparable."""
    present = session.known_gpus(job.settings, open_nvml())
    for number, (uuid, row) in enumerate(present.items()):
        console.info(f"Using GPU {number} {row['name']} with UUID {uuid}")
    if job.config.journal.exists():
        with journals.read(job.config.journal) as journal:
            before = journal.recall("gpus") if journal.has_measured else None
        check_gpus(before, sorted(present), job.config.checkpoint_directory)
    return sorted(present)


def check_gpus(before: Sequence[str] | None, now: Sequence[str], folder: object) -> None:
    if before is not None and list(before) != list(now):
        raise UsageError(
            f"the checkpoint in '{folder}' was made on other GPUs ({', '.join(before) or 'none'}) than those of "
            f"this machine ({', '.join(now) or 'none'})",
            remedy="remove the checkpoint, or give another --checkpoint-directory",
        )


def _recalled(job: ProfileJob, console: Console, earlier: Checkpoint | None, gpus: Sequence[str]) -> Stored:
    """Return the results of earlier runs: the journal, and measurements of a classic checkpoint next to it."""
    with journals.opened(job.config.journal) as journal:
        had_measured = journal.has_measured
        if earlier is not None:
            console.info(f"Loaded checkpoint from file {earlier.path}")
            if not (earlier.is_ours and had_measured):
                count = checkpoint.take_over(journal, earlier, _mark_of_sent(job))
                console.info(f"Imported {plural(count, 'measurement')} from {earlier.path}")
        elif not had_measured:
            console.info("No checkpoint file found, starting a fresh run.")
        journal.remember("gpus", gpus)
        return checkpoint.read_journal(journal)


def _mark_of_sent(job: ProfileJob) -> Callable[[Sent], str]:
    """Return a function that marks measurements by their data; equal data gets this run's own fingerprint."""
    protocol = job.settings.launch.control.protocol
    asked = session.sent_options(job.settings)
    flags = {model: data_flags(rows) for model, rows in job.config.flags_by_model.items()}

    def mark(sent: Sent) -> str:
        for model, (sent_over, sent_flags) in sent.items():
            if sent_over not in ("", protocol) or sent_flags != flags.get(model, {}):
                return "other data"
        if job.generator is not None:
            return load_generator.fingerprint(job.generator, list(sent))
        known = session.sent_prompts([row for row in job.settings.models if row.name in sent])
        plain = {model: Options(model=model, protocol=protocol) for model in sent}
        return fingerprint({model: asked.get(model, plain[model]) for model in sent}, known)

    return mark


def _write_reports(config: Config, program: Program, studies: Sequence[Study], console: Console) -> None:
    if config.skip_summary_reports:
        return
    files = outputs.ReportFiles()
    for sheet in outputs.write_tables(config, studies, files, console.warn):
        if console.is_verbose:
            console.plain(sheet.text())
    outputs.write_summaries(config, studies, files, console.warn)
    best = [(study, outputs.best_names(study, config.num_configs_per_model)) for study in studies]
    for study, names in best:
        for name in () if config.skip_detailed_reports else names:
            outputs.write_detailed(config, study, name, files)
    _print_all(files, console)
    for _, names in best:
        if names and config.skip_detailed_reports:
            console.info("To generate detailed reports for the best configurations, run")
            console.info(f"  {_report_command(config, program)} --report-model-configs {','.join(names)}")
    for study in studies:
        console.info(facts.sentence(study, has_own_objectives=config.has("objectives")))
        if reason := facts.why(study):
            console.info(reason)


def _print_all(files: outputs.ReportFiles, console: Console) -> None:
    problem = files.print_all()
    for path in files.written:
        console.info(f"Wrote {path}")
    if problem is not None:
        to_stderr(f"WARNING: {problem}")
    files.outputs.settle()


def run_analyze(config: Config, program: Program, console: Console) -> int:
    """Rebuild the reports of `profile` from the journal or a checkpoint, without a server."""
    folder = config.checkpoint_directory
    known = checkpoint.read_folder(folder)
    measured = list(dict.fromkeys(trial.models for trial in known.trials if trial.is_measured))
    models, goals = analyzed(config, measured)
    check_folder(config.export_path, "--export-path")
    for name in models:
        if name not in measured:
            raise UsageError(
                f"'{name}' has not been measured in '{folder}'",
                remedy=f"run profile first; measured models: {', '.join(measured) or 'none'}",
            )
    studies = [
        replace(study, goals=tuple(goals.get(goal.model, goal) for goal in study.goals), mode=config.mode)
        for study in map(known.study, models)
    ]
    count = sum(len(study.measured) for study in studies)
    console.info(f"Read {plural(count, 'measurement')} of {', '.join(models)} from {folder}.")
    with writing(config.export_path):
        config.export_path.mkdir(exist_ok=True)
    _write_reports(config, program, studies, console)
    return OK


def run_report(config: Config, console: Console) -> int:
    wanted = check_report(config)
    known = checkpoint.read_folder(config.checkpoint_directory)
    by_name = {variant.name: variant for variant in known.variants}
    measured = {part.variant for trial in known.trials if trial.is_measured for part in trial.parts}
    for name in wanted:
        if name not in by_name or name not in measured:
            raise UsageError(
                f"'{name}' has not been measured in '{config.checkpoint_directory}'",
                remedy=f"measured variants: {', '.join(sorted(measured)) or 'none'}",
            )
    models = list(dict.fromkeys(by_name[name].model for name in wanted))
    if len(models) > 1:
        raise UsageError(
            f"--report-model-configs names variants of {len(models)} models: {', '.join(models)}",
            remedy="report on one model at a time",
        )
    study = replace(known.study(models[0]), mode=config.mode)
    files = outputs.ReportFiles()
    for name, plots in wanted.items():
        outputs.write_detailed(config, study, name, files, plots=plots, formats=config.output_formats)
    _print_all(files, console)
    return OK
