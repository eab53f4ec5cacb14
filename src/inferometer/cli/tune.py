"""`inferometer tune`: the best configuration of a model inside a promise."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.text import printable
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.cli.measure import measure_options, progress_shown
from inferometer.options.command_line import Command, own_options
from inferometer.options.commands import TuneOptions
from inferometer.options.options import OPTIONS

if TYPE_CHECKING:
    from inferometer.tune.study import Study

NOT_FOUND = 1

COMMAND = Command(
    "inferometer tune",
    "-m NAME [--slo PROMISE] [--budget TIME] [options]",
    "Find the configuration of a model (instances, batch size, batching) and the load that give the most throughput "
    "inside a promise, in few measurements.",
    TuneOptions,
    shared=OPTIONS,
    epilog="All other options are those of `inferometer measure`: input data, shapes, protocol, headers.",
)


def run(given: dict[str, Any]) -> int:
    from inferometer.base.answer_file import write
    from inferometer.report.saved import document
    from inferometer.report.terminal import show
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of
    from inferometer.tune.study import recommend

    own = own_options(given, TuneOptions)
    options = measure_options({**given, "model": own.model})
    if own.fresh:
        own.journal.unlink(missing_ok=True)
    with progress_shown(options.verbose) as progress:
        (study,) = profile(settings_of(own, options), progress)
    outputs = Outputs()
    outputs.attempt(SCREEN, lambda: show(document(study)))
    outputs.file(own.study, partial(write, study))
    found = recommend(study)
    if found is not None:
        outputs.file(own.output, partial(_write_config, study, found.best.name))
    outputs.settle()
    return 0 if found is not None and found.does_pass else NOT_FOUND


def _write_config(study: "Study", name: str, path: Path) -> None:
    from inferometer.tune import model_config

    write_file(path, model_config.to_text(study.variant(name).config))
    print(printable(f"written: {path}"))
