"""`inferometer compare`: variants side by side, live or from saved results."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.text import printable
from inferometer.base.units import NS_PER_S
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.cli.measure import measure_options
from inferometer.options.help import read_or_answer
from inferometer.options.option import appended, option, rows
from inferometer.options.options import OPTIONS, OURS
from inferometer.options.values import text, whole
from inferometer.options.words import WORDS, Command, taken, without
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.base.signals import Interrupts
    from inferometer.compare.comparison import Comparison
    from inferometer.compare.gates import Terms

USAGE = 64  # of sysexits.h; 2, which other commands have for it, means inconclusive here
PERIOD_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What only `compare` is asked."""

    models: tuple[str, ...] = option(
        (),
        "-m",
        "Model of a variant, or MODEL@URL; give it several times. The first is the baseline.",
        text("NAME"),
        group="Comparison",
        combine=appended,
        origin=OURS,
    )
    urls: tuple[str, ...] = option(
        (),
        "-u",
        "Address of a server; several compare the same model on each.",
        text("URL"),
        shown="localhost:8000",
        combine=appended,
        origin=OURS,
    )
    fail_if: tuple[str, ...] = option(
        (),
        "--fail-if",
        "Conditions of a regression, such as 'p99 > +5%, throughput < -3%, snr < 40'.",
        text("CONDITIONS"),
        combine=appended,
        origin=OURS,
    )
    outputs: int = option(
        20,
        "--compare-outputs",
        "How many requests' outputs to compare; 0 is none.",
        whole(least=0),
        origin=OURS,
    )
    force: bool = option(
        False, "--force", "Compare saved results although load, payload or host differ.", origin=OURS
    )
    markdown: str | None = option(
        None, "--markdown", "Write tables for a pull request here.", text("FILE"), origin=OURS
    )
    junit: str | None = option(
        None, "--junit", "Write test cases for CI here, as JUnit XML.", text("FILE"), origin=OURS
    )


_OWN = rows(CompareOptions, prefix="compare.")
COMMAND = Command(
    "inferometer compare",
    "-m MODEL -m MODEL ... [options]\nBASE.json NEW.json ... [options]",
    "Compare variants of a model, measured in turns, or results that were saved with --json.",
    (*_OWN, *without(OPTIONS, _OWN)),
    epilog="Exit status: 0 fine, 1 regression by --fail-if, 2 inconclusive, 3 invalid run, 64 wrong usage.",
    takes_words=True,
)
_OF_SAVED = frozenset(
    (
        WORDS,
        *(f"compare.{name}" for name in ("fail_if", "force", "markdown", "junit")),
        *("json", "html", "max_error_rate"),
    )
)


def main(argv: list[str]) -> int:
    try:
        given = read_or_answer(argv, COMMAND)
        if given is None:
            return 0
        _check(given)
        names = given.pop(WORDS, ())
        own = taken(given, CompareOptions, "compare.")
        files = {**_chosen(given, ("json", "html")), "markdown": own.markdown, "junit": own.junit}
        comparison = _compare(names, own, given, files)
        _report(comparison, names, files)
    except UsageError as error:
        print(f"inferometer compare: {error}", file=sys.stderr)
        return USAGE
    return comparison.exit_code


def _check(given: Mapping[str, Any]) -> None:
    strange = [field for field in given if field not in _OF_SAVED]
    if WORDS in given and strange:
        names = [row.names[0] for row in COMMAND.by_name.values() if row.field == strange[0]]
        raise UsageError(
            f"{names[0]} has no meaning for saved results ({', '.join(given[WORDS])})",
            remedy="give result files, or models to measure",
        )


def _chosen(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, str | None]:
    return {name: given.get(name) for name in names}


def _compare(
    names: Sequence[str], own: CompareOptions, given: Mapping[str, Any], files: Mapping[str, str | None]
) -> "Comparison":
    from inferometer.base.writing import writable
    from inferometer.compare.gates import Terms, parse_gates

    conditions = tuple(gate for text in own.fail_if for gate in parse_gates(text))
    for file in files.values():
        if file is not None:
            writable(Path(file))
    terms = Terms(conditions, given.get("max_error_rate", 0.0))
    return _saved(names, terms, own) if names else _live(given, terms, own)


def _saved(names: Sequence[str], terms: "Terms", own: CompareOptions) -> "Comparison":
    from inferometer.base.answer_file import read as read_answer
    from inferometer.compare.saved import compare_saved
    from inferometer.report.saved import consistent
    from inferometer.stats.result import Result

    results = [(name, read_answer(Path(name), Result)) for name in names]
    with consistent(*names):
        return compare_saved(results, terms, is_forced=own.force)


def _live(given: Mapping[str, Any], terms: "Terms", own: CompareOptions) -> "Comparison":
    from inferometer.base.signals import Interrupts
    from inferometer.compare.live import CompareRequest, compare_live, variants_of

    options = measure_options({**given, "model": next(iter(own.models), "")})
    if own.force:
        raise UsageError(
            "--force is for saved results", remedy="leave it out: live variants get the same load"
        )
    chosen = variants_of(own.models, own.urls)
    request = CompareRequest(chosen, replace(options, model=chosen[0].model), terms, own.outputs)
    with (
        messages_shown(options.verbose),
        Interrupts().caught() as interrupts,
    ):
        return compare_live(request, _Progress(interrupts))


def _report(comparison: "Comparison", names: Sequence[str], files: Mapping[str, str | None]) -> None:
    from inferometer.base.answer_file import write
    from inferometer.report.saved import consistent, document, to_junit, to_markdown, write_page
    from inferometer.report.terminal import show

    outputs = Outputs()
    writers: Mapping[str, Callable[[Path], None]] = {
        "json": lambda path: write(comparison, path),
        "html": lambda path: write_page(path, comparison),
        "markdown": lambda path: write_file(path, to_markdown(comparison)),
        "junit": lambda path: write_file(path, to_junit(comparison)),
    }
    with consistent(*names) if names else nullcontext():
        outputs.attempt(SCREEN, lambda: show(document(comparison)))
        for kind, file in files.items():
            if file is not None:
                outputs.attempt(file, partial(writers[kind], Path(file)))
    outputs.settle()


class _Progress(Watcher):
    """Says on stderr how far it is: every five seconds a line, on a terminal one line that is written over."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self._interrupts = interrupts
        self._label = ""
        self._last_ns = 0

    def level_started(self, mode: str, value: float) -> None:
        from inferometer.report.format import level_label

        self._label = level_label(mode, value)
        self._say(f"{self._label}: started")

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        from inferometer.report.format import quantity

        if not sys.stderr.isatty() and monotonic_ns() - self._last_ns < PERIOD_NS and number < rounds:
            return
        figures = ", ".join(f"{name} {quantity(rate)} infer/s" for name, rate in rates)
        self._say(f"{self._label}: round {number} of {rounds}: {figures}", is_last=number == rounds)

    def is_interrupted(self) -> bool:
        return self._interrupts.asked

    def _say(self, text: str, *, is_last: bool = False) -> None:
        self._last_ns = monotonic_ns()
        over = sys.stderr.isatty()
        end = "\n" if not over or is_last else ""
        words = printable(text)
        print(f"\r\x1b[K{words}" if over else words, end=end, file=sys.stderr, flush=True)
