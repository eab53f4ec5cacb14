"""`inferometer diagnose`: find the bottleneck of a model and suggest improvements; --apply tries them."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.signals import interrupted_code
from inferometer.base.text import printable
from inferometer.base.writing import Outputs
from inferometer.cli.reporting import allowed, exit_code, progress_shown, ruling_code
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import Command, Request, Target
from inferometer.options.diagnosing import DIAGNOSE_REFUSED, DIAGNOSED_S, NO_ADDRESS, DiagnoseOptions
from inferometer.options.options import MODERN, Options
from inferometer.report.delivery import check_outputs, deliver

if TYPE_CHECKING:
    from inferometer.diagnose.reconfigure import Config
    from inferometer.store.keeper import Keeper

COMMAND = Command(
    "inferometer diagnose",
    "URL [MODEL] [options]",
    "Measure a model at a few loads, report which step limits it and why, and predict what would help: "
    "more instances, batching, another transport. --apply tries it on the server. For an LLM server, the limit is "
    "prefill, decode, the KV cache or the queue.",
    DiagnoseOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    refused=DIAGNOSE_REFUSED,
    examples=(
        ("localhost:8000 simple", "what limits it, and what would help"),
        ("localhost:8000 simple --apply", "try it; the configuration is restored"),
        (
            "localhost:8000/v1/chat/completions --output-tokens 64",
            "an LLM server, with its metrics if available",
        ),
        ("--serve 'llama-server -m m.gguf --port {port}' --apply", "start a server, and try other options"),
    ),
    epilog="--duration sets the time per load (default 3 s), --concurrency the loads (default 1:8, then higher while "
    "throughput grows).",
    takes_words=True,
)


def loads(request: Request[DiagnoseOptions]) -> Iterator[tuple[str, Options]]:
    from inferometer.measure.checks import load_options

    target = request.target()
    if request.own.is_launched:
        if target.urls:
            raise UsageError(
                f"--serve starts the server, but an address is given too: {target.urls[0]}",
                remedy="leave one of them out",
            )
        if request.asides.dry_run or request.asides.show_reply:
            raise UsageError(
                "--dry-run and --show-reply require a running server",
                remedy="start it yourself, and give its address instead of --serve",
            )
        target = Target((NO_ADDRESS,), target.models)
    yield "", load_options(request.load, target, duration_s=DIAGNOSED_S)


def run(request: Request[DiagnoseOptions], keeper: "Keeper") -> int:
    from inferometer.diagnose.launched import diagnose_launched, launch_of
    from inferometer.diagnose.run import DiagnoseRequest, diagnose_model

    fields = {"keep": "--keep", "write_config": "--write-config", "budget_s": "--budget"}
    about = [name for field, name in fields.items() if field in request.given]
    own = request.own
    ((_, options),) = loads(request)
    if about and not own.apply:
        name = about[0]
        raise UsageError(f"{name} requires --apply", remedy="give --apply as well")
    check_outputs(options)
    asked = DiagnoseRequest(options, own.cores, own.budget_s if own.apply else None, own.keep)
    launch = launch_of(own) if own.is_launched else None
    keeper.about(url="" if launch is not None else options.url or "", model=options.model)
    with progress_shown(options.verbose, is_quiet=options.quiet) as progress:
        watching = keeper.watching(progress)
        outcome = (
            diagnose_model(asked, watching) if launch is None else diagnose_launched(asked, launch, watching)
        )
    diagnosis, outputs = outcome.diagnosis, Outputs()
    keeper.save(diagnosis)
    deliver(diagnosis, options, outputs)
    outputs.file(own.write_config, partial(_write_configs, outcome.configs))
    outputs.settle()
    if outcome.error is not None:
        raise outcome.error
    if progress.is_interrupted():
        return interrupted_code()
    code = exit_code(diagnosis.results[0], options.max_error_rate)
    return code or allowed(ruling_code(diagnosis.ruling), is_allowed=own.allow_inconclusive)


def _write_configs(configs: "Mapping[str, Config]", folder: Path) -> None:
    from inferometer.diagnose.reconfigure import write_configs

    for written in write_configs(configs, folder):
        print(printable(f"Written: {written}"))
