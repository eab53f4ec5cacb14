"""`inferometer tune`: the best configuration of a model inside a promise."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits, printable
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.cli.parser import Ask, parse_measure
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.cli.signals import Interrupts
    from inferometer.measure.options import Options
    from inferometer.tune.settings import TuneRequest
    from inferometer.tune.study import Study
    from inferometer.tune.trial import Trial

NOT_FOUND = 1
JOURNAL = "inferometer-tune.sqlite"


def main(argv: list[str]) -> int:
    own, rest = _parser().parse_known_args(argv)
    options = parse_measure(["-m", own.model, *rest])
    if isinstance(options, Ask):
        _parser().print_help()
        return 0
    return _tune(own, _request(own, options))


def _parser() -> argparse.ArgumentParser:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer tune",
        description="Find the configuration of a model (instances, batch size, batching) and the load that give the "
        "most throughput inside a promise, in few measurements.",
        epilog="All other options are those of `inferometer measure`: input data, shapes, protocol, headers.",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-m", "--model", metavar="NAME", required=True, help="the model to tune")
    add("--slo", metavar="PROMISE", help="what every answer must keep, such as 'p99<10ms'")
    add("--budget", metavar="TIME", help="end in this time with the best so far, such as 3m")
    add(
        "--model-repository",
        metavar="DIR",
        action="append",
        type=Path,
        help="folder of models, for a server of our own (default: the example models)",
    )
    add("--url", "-u", metavar="HOST:PORT", help="tune on this server instead; it is left as it was found")
    add(
        "--triton-launch-mode",
        choices=("local", "c_api"),
        default="local",
        help="local: a server of our own; c_api: no server, the library in a worker (default: local)",
    )
    add(
        "--triton-install-path",
        metavar="DIR",
        help="folder of the library for c_api (default: the embedded one)",
    )
    add("--search", choices=("smart", "brute", "quick", "optuna"), default="smart", help="how to search")
    for name, default in (("instances", "1:5"), ("batch", "1:128"), ("load", "1:1024")):
        text = f"where to look for {name}: lowest:highest (default: {default})"
        add(f"--{name}", metavar="LOW:HIGH", default=default, help=text)
    add(
        "--delays",
        metavar="MICROSECONDS",
        default="",
        help="delays of the dynamic batcher to try, such as 100,500",
    )
    add("--journal", metavar="FILE", type=Path, default=Path(JOURNAL), help="every trial, to resume from")
    add("--fresh", action="store_true", help="forget what the journal holds")
    add("--seed", type=int, help="repeat a search as it was")
    add("--study", metavar="FILE", type=Path, help="write everything that was found out, as JSON")
    add("--output", metavar="FILE", type=Path, help="write the recommended config.pbtxt")
    return parser


def _request(own: argparse.Namespace, options: "Options") -> "TuneRequest":
    from inferometer.tune.settings import TuneRequest
    from inferometer.tune.space import SearchBounds

    return TuneRequest(
        options=options,
        slo=own.slo,
        budget_s=None if own.budget is None else parse_duration_ns(own.budget, "--budget") / NS_PER_S,
        repositories=tuple(own.model_repository or ()),
        url=own.url,
        launch_mode=own.triton_launch_mode,
        install_path=own.triton_install_path,
        search=own.search,
        bounds=SearchBounds(
            instances=_span(own.instances, "--instances"),
            batch=_span(own.batch, "--batch"),
            concurrency=_span(own.load, "--load"),
            delays_us=_numbers(own.delays, "--delays"),
        ),
        journal=own.journal,
        seed=own.seed,
    )


def _span(text: str, name: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    if not is_digits(low) or (colon and not is_digits(high)):
        raise UsageError(f"{name} is '{text}'", remedy="write lowest:highest, such as 1:8")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1]:
        raise UsageError(f"{name} is '{text}'", remedy="the lowest is 1 or more, and not above the highest")
    return found


def _numbers(text: str, name: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(map(is_digits, words)):
        raise UsageError(f"{name} is '{text}'", remedy="write whole numbers, such as 100,500")
    return tuple(int(word) for word in words)


def _tune(own: argparse.Namespace, request: "TuneRequest") -> int:
    from inferometer.base.answer_file import write
    from inferometer.cli.signals import Interrupts
    from inferometer.tune.report.text import summary
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of
    from inferometer.tune.study import recommend

    if own.fresh:
        own.journal.unlink(missing_ok=True)
    with Interrupts().caught() as interrupts:
        (study,) = profile(settings_of(request), _Progress(interrupts))
    outputs = Outputs()
    outputs.attempt(SCREEN, lambda: print(printable(summary(study)), flush=True))
    if own.study is not None:
        outputs.attempt(own.study, lambda: write(study, own.study))
    found = recommend(study)
    if own.output is not None and found is not None:
        name = found.best.name
        outputs.attempt(own.output, lambda: _write_config(study, name, own.output))
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
        from inferometer.tune.report.text import trial_line

        self.said(trial_line(trial))

    def is_interrupted(self) -> bool:
        return self._interrupts.asked
