"""What must be so before anything is made or started: folders, models, the server's program and ports."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.folders import check_output
from inferometer.dialects.model_analyzer.job import AnalyzeJob, ProfileJob, ReportJob
from inferometer.server.ports import choose_ports
from inferometer.tune import model_config
from inferometer.tune.checks import check_settings
from inferometer.tune.deployment import open_deployment
from inferometer.tune.settings import ModelSettings, TuneSettings


def check_profile(job: ProfileJob, *, is_brute_explicit: bool) -> tuple[str, ...]:
    """Warnings; what cannot work is refused."""
    for folder in job.settings.launch.repositories:
        if not folder.is_dir():
            raise UsageError(
                f"the model repository '{folder}' is not an existing folder",
                remedy="check --model-repository",
            )
    check_settings(job.settings, sends=job.external is None)
    _check_parent(job.reports.export, "--export-path")
    _check_parent(job.checkpoints, "--checkpoint-directory")
    check_output(job.output, overrides=job.overrides_output)
    warnings = tuple(
        text
        for model in job.settings.models
        for text in _check_members(job.settings, model, is_brute_explicit=is_brute_explicit)
    )
    launch = job.settings.launch
    open_deployment(launch)  # not started: only its program is looked for
    if launch.mode in ("local", "docker"):
        _check_ports(job)
    return warnings


def _check_ports(job: ProfileJob) -> None:
    try:
        choose_ports(job.settings.launch.ports)
    except UsageError as error:
        raise UsageError(
            f"{error.message}: another application uses the port",
            remedy="stop it, or give other ports with --triton-http-endpoint, --triton-grpc-endpoint and "
            "--triton-metrics-url",
        ) from error


def _check_parent(path: Path, option: str) -> None:
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} '{path}' is a file", remedy="give a folder")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} '{path}': the folder '{parent}' does not exist", remedy="make it first")


def _check_members(settings: TuneSettings, model: ModelSettings, *, is_brute_explicit: bool) -> list[str]:
    folder = model_config.find_model(settings.launch.repositories, model.name)
    if folder is None or not (folder / "config.pbtxt").is_file():
        return []
    members = model_config.members(model_config.read_file(folder / "config.pbtxt"))
    if members and is_brute_explicit:
        raise UsageError(
            f"'{model.name}' is an ensemble, which --run-config-search-mode brute cannot search",
            remedy="take quick, optuna or smart",
        )
    if settings.cpu_only_members and not members and not model.is_bls:
        raise UsageError(
            f"--cpu-only-composing-models is given, but '{model.name}' is neither an ensemble nor a BLS model",
            remedy="leave it out, or name its members with --bls-composing-models",
        )
    if model.is_bls:
        return []
    return [
        f"'{row.name}' of --ensemble-composing-models is not called by '{model.name}', so it is ignored"
        for row in model.members
        if row.name not in members
    ]


def check_analyze(job: AnalyzeJob) -> None:
    _check_parent(job.reports.export, "--export-path")


def check_report(job: ReportJob) -> None:
    if not job.export.is_dir():
        raise UsageError(
            f"--export-path '{job.export}' is not an existing folder", remedy="make it, or give another path"
        )
    _check_parent(job.checkpoints, "--checkpoint-directory")
