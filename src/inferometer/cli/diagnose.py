"""`inferometer diagnose`: what limits a model, what would help, and with --apply whether it does."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs
from inferometer.cli.measure import exit_code, make_progress, measure_options
from inferometer.options.help import read_or_answer
from inferometer.options.option import option, rows
from inferometer.options.options import OPTIONS
from inferometer.options.values import above_zero, duration, path
from inferometer.options.words import Command, taken

if TYPE_CHECKING:
    from inferometer.diagnose.reconfigure import Config
    from inferometer.diagnose.run import DiagnoseRequest, Outcome
    from inferometer.options.options import Options

LEVEL_S = 3.0
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """What only `diagnose` is asked."""

    apply: bool = option(
        False,
        "--apply",
        "load the suggested configurations one after the other, measure, and keep what is better; needs a server "
        "with --model-control-mode explicit. The original configuration comes back at the end",
        group="Diagnosis",
    )
    budget_s: float = option(
        180.0, "--budget", "time for --apply, such as 90s or 3m", duration(zero=False), shown="3m"
    )
    keep: bool = option(False, "--keep", "leave the server with what --apply found")
    write_config: Path | None = option(
        None, "--write-config", "write the config.pbtxt files that --apply found", path("DIR")
    )
    cores: float | None = option(
        None,
        "--cores",
        "cores of the server's machine (default: seen, if it is this one)",
        above_zero("N", "number", "give the number of cores of the server's machine"),
    )


COMMAND = Command(
    "inferometer diagnose",
    "[URL] [-m NAME] [options]",
    "Measure a model at a few loads, say which step limits it and why, and predict what would help: "
    "more instances, batches, another transport. With --apply try it out on the server.",
    rows(DiagnoseOptions, prefix="diagnose."),
    shared=OPTIONS,
    epilog="All other options are those of `inferometer measure`; --duration is the time for one load "
    "(3 s by default), --concurrency-range the loads (1:8 and on while it grows by default).",
    takes_words=True,
)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    own = taken(given, DiagnoseOptions, "diagnose.")
    options = measure_options(given, duration_s=LEVEL_S)
    if (own.keep or own.write_config) and not own.apply:
        name = "--keep" if own.keep else "--write-config"
        raise UsageError(f"{name} is about what --apply finds", remedy="give --apply as well")
    return _diagnose(options, own)


def _diagnose(options: "Options", own: DiagnoseOptions) -> int:
    from inferometer.base.answer_file import write
    from inferometer.base.writing import writable
    from inferometer.diagnose.run import DiagnoseRequest
    from inferometer.report.saved import document, write_page
    from inferometer.report.terminal import show

    for name in (options.json, options.html):
        if name is not None:
            writable(Path(name))
    budget_s = own.budget_s if own.apply else None
    outcome, was_interrupted = watch(DiagnoseRequest(options, own.cores, budget_s, own.keep))
    diagnosis, outputs = outcome.diagnosis, Outputs()
    outputs.attempt(SCREEN, lambda: show(document(diagnosis)))
    if options.json is not None:
        saved = Path(options.json)
        outputs.attempt(saved, lambda: write(diagnosis, saved))
    if options.html is not None:
        page = Path(options.html)
        outputs.attempt(page, lambda: write_page(page, diagnosis))
    if own.write_config is not None:
        folder = own.write_config
        outputs.attempt(folder, lambda: _write_configs(outcome.configs, folder))
    outputs.settle()
    if outcome.error is not None:
        raise outcome.error
    if was_interrupted:
        return INTERRUPTED
    return exit_code(outcome.diagnosis.results[0], options.max_error_rate)


def _write_configs(configs: "Mapping[str, Config]", folder: Path) -> None:
    from inferometer.diagnose.reconfigure import write_configs

    for written in write_configs(configs, folder):
        print(printable(f"Written: {written}"))


def watch(asked: "DiagnoseRequest") -> "tuple[Outcome, bool]":
    """Run it with progress on stderr; also whether the user ended it early."""
    from inferometer.base.signals import Interrupts
    from inferometer.diagnose.run import diagnose_model

    with Interrupts().caught() as interrupts:
        with closing(make_progress(interrupts)) as progress:
            outcome = diagnose_model(asked, progress)
        return outcome, interrupts.asked
