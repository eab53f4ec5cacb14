"""`inferometer tune`: the best configuration of a model inside a promise."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits, printable
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.cli.measure import measure_options
from inferometer.options.help import read_or_answer
from inferometer.options.option import appended, option, rows
from inferometer.options.options import OPTIONS
from inferometer.options.values import Values, choice, duration, path, text, whole
from inferometer.options.words import Command, taken
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.base.signals import Interrupts
    from inferometer.options.options import Options
    from inferometer.tune.settings import TuneRequest
    from inferometer.tune.study import Study
    from inferometer.tune.trial import Trial

SHOWN = 3  # configurations, beside the model's own
NOT_FOUND = 1
JOURNAL = "inferometer-tune.sqlite"


def _bounds() -> Values:
    """`lowest:highest`, from 1 on."""

    def read_bounds(name: str, word: str) -> tuple[int, int]:
        low, colon, high = word.partition(":")
        if not is_digits(low) or (colon and not is_digits(high)):
            raise UsageError(f"{name} is '{word}'", remedy="write lowest:highest, such as 1:8")
        found = int(low), int(high or low)
        if not 1 <= found[0] <= found[1]:
            raise UsageError(
                f"{name} is '{word}'", remedy="the lowest is 1 or more, and not above the highest"
            )
        return found

    return Values(read_bounds, "LOW:HIGH")


def _numbers(name: str, word: str) -> tuple[int, ...]:
    words = [part.strip() for part in word.split(",") if part.strip()]
    if not all(map(is_digits, words)):
        raise UsageError(f"{name} is '{word}'", remedy="write whole numbers, such as 100,500")
    return tuple(map(int, words))


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What only `tune` is asked."""

    model: str = option("", "-m --model", "the model to tune", text("NAME"), group="Search", is_required=True)
    slo: str | None = option(
        None, "--slo", "what every answer must keep, such as 'p99<10ms'", text("PROMISE")
    )
    budget_s: float | None = option(
        None, "--budget", "end in this time with the best so far, such as 3m", duration(zero=True)
    )
    model_repository: tuple[Path, ...] = option(
        (),
        "--model-repository",
        "folder of models, for a server of our own (default: the example models)",
        path("DIR"),
        combine=appended,
    )
    url: str | None = option(
        None, "--url -u", "tune on this server instead; it is left as it was found", text("HOST:PORT")
    )
    launch_mode: str = option(
        "local",
        "--triton-launch-mode",
        "local: a server of our own; c_api: no server, the library in a worker",
        choice("MODE", "local", "c_api"),
    )
    install_path: str | None = option(
        None,
        "--triton-install-path",
        "folder of the library for c_api (default: the embedded one)",
        text("DIR"),
    )
    search: str = option(
        "smart",
        "--search",
        "how to search: smart, brute, quick or optuna",
        choice("NAME", "smart", "brute", "quick", "optuna"),
    )
    instances: tuple[int, int] = option(
        (1, 5), "--instances", "where to look for instances: lowest:highest", _bounds(), shown="1:5"
    )
    batch: tuple[int, int] = option(
        (1, 128), "--batch", "where to look for batch: lowest:highest", _bounds(), shown="1:128"
    )
    load: tuple[int, int] = option(
        (1, 1024), "--load", "where to look for load: lowest:highest", _bounds(), shown="1:1024"
    )
    delays: tuple[int, ...] = option(
        (),
        "--delays",
        "delays of the dynamic batcher to try, such as 100,500",
        Values(_numbers, "MICROSECONDS"),
    )
    journal: Path = option(Path(JOURNAL), "--journal", "every trial, to resume from", path(), shown="")
    fresh: bool = option(False, "--fresh", "forget what the journal holds")
    seed: int | None = option(None, "--seed", "repeat a search as it was", whole("SEED"))
    study: Path | None = option(None, "--study", "write everything that was found out, as JSON", path())
    output: Path | None = option(None, "--output", "write the recommended config.pbtxt", path())


COMMAND = Command(
    "inferometer tune",
    "-m NAME [--slo PROMISE] [--budget TIME] [options]",
    "Find the configuration of a model (instances, batch size, batching) and the load that give the most throughput "
    "inside a promise, in few measurements.",
    rows(TuneOptions, prefix="tune."),
    shared=OPTIONS,
    epilog="All other options are those of `inferometer measure`: input data, shapes, protocol, headers.",
)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    own = taken(given, TuneOptions, "tune.")
    return _tune(own, _request(own, measure_options({**given, "model": own.model})))


def _request(own: TuneOptions, options: "Options") -> "TuneRequest":
    from inferometer.tune.settings import TuneRequest
    from inferometer.tune.space import SearchBounds

    return TuneRequest(
        options=options,
        slo=own.slo,
        budget_s=own.budget_s,
        repositories=own.model_repository,
        url=own.url,
        launch_mode=own.launch_mode,
        install_path=own.install_path,
        search=own.search,
        bounds=SearchBounds(
            instances=own.instances, batch=own.batch, concurrency=own.load, delays_us=own.delays
        ),
        journal=own.journal,
        seed=own.seed,
    )


def _tune(own: TuneOptions, request: "TuneRequest") -> int:
    from inferometer.base.answer_file import write
    from inferometer.base.signals import Interrupts
    from inferometer.report.terminal import show
    from inferometer.tune.report.study import study_document
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of
    from inferometer.tune.study import recommend

    if own.fresh:
        own.journal.unlink(missing_ok=True)
    with Interrupts().caught() as interrupts:
        (study,) = profile(settings_of(request), _Progress(interrupts))
    outputs = Outputs()
    outputs.attempt(SCREEN, lambda: show(study_document(study, SHOWN)))
    if own.study is not None:
        file = own.study
        outputs.attempt(file, lambda: write(study, file))
    found = recommend(study)
    if own.output is not None and found is not None:
        name, output = found.best.name, own.output
        outputs.attempt(output, lambda: _write_config(study, name, output))
    outputs.settle()
    return 0 if found is not None and found.does_pass else NOT_FOUND


def _write_config(study: "Study", name: str, path: Path) -> None:
    from inferometer.tune import model_config

    write_file(path, model_config.to_text(study.variant(name).config))
    print(printable(f"written: {path}"))


class _Progress(Watcher):
    """A line per trial on stderr."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self._interrupts = interrupts

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        if not is_detail:
            print(printable(text), file=sys.stderr, flush=True)

    def tried(self, trial: "Trial") -> None:
        from inferometer.tune.report.facts import trial_line

        self.said(trial_line(trial))

    def is_interrupted(self) -> bool:
        return self._interrupts.asked
