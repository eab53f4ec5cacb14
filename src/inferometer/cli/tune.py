"""`inferometer tune`: find the best configuration of a model that meets an SLO."""

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.processes import maybe_process
from inferometer.base.signals import interrupted_code
from inferometer.base.text import printable
from inferometer.base.writing import Outputs, refuse_link, writable, write_file
from inferometer.cli.reporting import allowed, progress_shown, ruling_code
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import Command, Request, Target
from inferometer.options.options import AUTO, MODERN, Options
from inferometer.options.tuning import TUNE_REFUSED, TuneOptions
from inferometer.report.delivery import check_outputs, deliver

if TYPE_CHECKING:
    from inferometer.store.keeper import Keeper
    from inferometer.tune.settings import TuneSettings
    from inferometer.tune.study import Study
    from inferometer.tune.variant import ModelVariant

NOT_FOUND = 1

COMMAND = Command(
    "inferometer tune",
    "[URL] MODEL [--slo SLO] [--budget TIME] [options]\n--serve COMMAND --vary NAME=VALUES [options]",
    "Find the configuration of a model (instances, batch size, batching), or the options of any server that it starts, "
    "and the load with the highest throughput that meets an SLO, with few measurements.",
    TuneOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    refused=TUNE_REFUSED,
    examples=(
        ("simple --budget 3m", "an example model, on a server that `tune` starts"),
        ("simple --model-repository models --slo 'p99<10ms' --budget 5m", "your model, with an SLO"),
        ("localhost:8000 simple --budget 3m", "on a running server, whose configuration is restored"),
        ("--serve './app --port {port} {slots}' --vary slots=1:16:x2", "any server, by its command line"),
    ),
    takes_words=True,
    needs_address=False,
)


def run(request: Request[TuneOptions], keeper: "Keeper") -> int:
    from inferometer.measure.checks import load_options
    from inferometer.stats.verdict import NOT_SHOWN
    from inferometer.tune.goals import maybe_slo
    from inferometer.tune.journal import remove
    from inferometer.tune.parallel_session import studies
    from inferometer.tune.request import settings_of
    from inferometer.tune.study import accounted, recommend

    own = _with_target(request)
    is_launched = own.is_launched
    if "journal" not in request.given:
        refuse_link(own.journal, "--journal")
    models = (own.model,) if own.model else ()
    given = {"service_kind": AUTO, **request.load} if is_launched else request.load
    options = load_options(given, Target(models=models))
    check_outputs(options)
    if own.url is not None and not is_launched:
        options = _on_triton(options, own.url)
    settings = settings_of(own, options, started_s=_age_s())
    _check_output(own.output, settings)
    if own.fresh:
        remove(own.journal)
    keeper.about(url=own.url or "", model=own.model, slo=None if own.slo is None else maybe_slo(own.slo))
    with progress_shown(options.verbose, is_quiet=options.quiet) as progress:
        (study,) = studies(settings, keeper.watching(progress))
    study = accounted(study, _age_s())
    keeper.save(study)
    outputs = Outputs()
    deliver(study, options, outputs)
    found = recommend(study)
    if found is not None and is_launched:
        outputs.file(own.output, partial(_write_commands, study, found.best.name))
    elif found is not None:
        outputs.file(own.output, partial(_write_configs, study.loaded(found.best.name)))
    outputs.settle()
    if progress.is_interrupted():
        return interrupted_code()
    if found is None or found.slo == NOT_SHOWN:
        return NOT_FOUND
    return allowed(ruling_code(found.ruling), is_allowed=own.allow_inconclusive)


def _age_s() -> float:
    """Return how long this command has been running; 0 if unknown."""
    found = maybe_process(os.getpid())
    return 0.0 if found is None else time.time() - found.started_s


def _on_triton(options: Options, url: str) -> Options:
    """Set the protocol of the server at this address; any server other than Triton is refused."""
    from inferometer.measure.recognize import recognized

    found, _ = recognized(replace(options, url=url, service_kind=AUTO), "tune")
    if found.service_kind != "triton":
        raise UsageError(
            f"the server at {url} is of kind {found.service_kind}, but only Triton models can be tuned",
            remedy=f"measure it as it is: inferometer measure {url} {options.model}",
        )
    return replace(options, protocol=found.protocol)


def _with_target(request: Request[TuneOptions]) -> TuneOptions:
    """Return the options with the address and the model, which positional words and the address may contain."""
    from inferometer.services.address import model_in

    target, own = request.target(), request.own
    if own.is_launched:  # its address is not known yet, and it may have no models
        return replace(own, url=target.url, model=target.model)
    model = target.model or model_in(target.url, "triton")
    if not model:
        raise UsageError(
            "No model is given",
            remedy="write its name: inferometer tune NAME; or start any server with --serve",
        )
    return replace(own, url=target.url, model=model)


def _check_output(path: Path | None, settings: "TuneSettings") -> None:
    """Check --output before the search, if the models' own files show which files will be written."""
    from inferometer.tune import model_config

    if path is None or path.is_dir():
        return
    if settings.launch.command is not None:
        writable(path)
        return
    own = model_config.read_model(settings.launch.repositories, settings.models[0].name)
    members = () if own is None else model_config.members(own)
    if members:
        reason = _unfit(path, (*members, settings.models[0].name))
        if reason:
            raise UsageError(reason[0], remedy=reason[1])
    else:
        writable(path)


def _unfit(path: Path, models: tuple[str, ...]) -> tuple[str, str] | None:
    """Return why several configurations cannot be written to this path, and the remedy; None if they can."""
    if not path.is_file() and path.suffix != ".pbtxt":
        return None
    several = f"--output {path} is a file, but there are {len(models)} configurations: {', '.join(models)}"
    return several, "give a folder; each is written there as MODEL/config.pbtxt"


def _write_commands(study: "Study", name: str, path: Path) -> None:
    write_file(path, "".join(f"{line}\n" for line in (study.command_line(name), *study.call_lines(name))))
    print(printable(f"written: {path}"))


def _write_configs(parts: "tuple[ModelVariant, ...]", path: Path) -> None:
    """Write one configuration to the file, or several to MODEL/config.pbtxt in the folder."""
    from inferometer.diagnose.reconfigure import write_configs

    if len(parts) == 1 and not path.is_dir():
        write_file(path, parts[0].text)
        print(printable(f"written: {path}"))
        return
    reason = _unfit(path, tuple(part.model for part in parts))
    if reason:
        raise LocalError(reason[0], remedy=f"{reason[1]}; the same command needs no new measurements")
    for written in write_configs({part.model: {**part.config, "name": part.model} for part in parts}, path):
        print(printable(f"written: {written}"))
