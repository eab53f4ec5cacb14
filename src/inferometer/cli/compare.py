"""`inferometer compare`: variants side by side, live or from saved results."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.text import printable
from inferometer.base.units import NS_PER_S
from inferometer.base.writing import SCREEN, Outputs, write_file
from inferometer.cli.parser import GROUPS, Ask, measure_options, print_help, read_words, vocabulary
from inferometer.compare.options import OPTIONS
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.cli.signals import Interrupts
    from inferometer.compare.comparison import Comparison
    from inferometer.compare.verdict import Terms

USAGE = 64  # of sysexits.h; 2, which other commands have for it, means inconclusive here
PERIOD_NS = 5 * NS_PER_S

_OWN = frozenset(name for option in OPTIONS for name in option.names)
COMPARE_GROUPS = (
    ("Comparison", OPTIONS),
    *(
        (title, tuple(option for option in options if _OWN.isdisjoint(option.names)))
        for title, options in GROUPS
    ),
)
_KNOWN = vocabulary(COMPARE_GROUPS, takes_words=True)
_OF_SAVED = ("words", "fail_if", "force", "markdown", "junit", "json", "html", "max_error_rate")


def main(argv: list[str]) -> int:
    try:
        asked = read_words(argv, _KNOWN, _check)
        if isinstance(asked, Ask):
            _help(asked)
            return 0
        comparison = _compare(asked)
        _report(comparison, asked)
    except UsageError as error:
        print(f"inferometer compare: {error}", file=sys.stderr)
        return USAGE
    return comparison.exit_code


def _check(asked: dict[str, Any]) -> None:
    from inferometer.measure.checks import check_asked

    if "words" not in asked:
        check_asked({**asked, "model": next(iter(asked.get("models", ())), "")})
        return
    strange = [field for field in asked if field not in _OF_SAVED]
    if strange:
        names = [option.names[0] for option in _KNOWN.by_name.values() if option.field == strange[0]]
        raise UsageError(
            f"{names[0]} has no meaning for saved results ({', '.join(asked['words'])})",
            remedy="give result files, or models to measure",
        )


def _help(ask: Ask) -> None:
    if ask is Ask.VERSION:
        from inferometer import __version__

        print(f"inferometer {__version__}")
        return
    print_help(
        "inferometer compare",
        usage="%(prog)s -m MODEL -m MODEL ... [options]\n       %(prog)s BASE.json NEW.json ... [options]",
        description="Compare variants of a model, measured in turns, or results that were saved with --json.",
        groups=COMPARE_GROUPS,
        epilog="Exit status: 0 fine, 1 regression by --fail-if, 2 inconclusive, 3 invalid run, 64 wrong usage.",
    )


def _compare(asked: Mapping[str, Any]) -> "Comparison":
    from inferometer.compare.gates import parse_gates
    from inferometer.compare.verdict import Terms
    from inferometer.report.files import writable

    conditions = tuple(gate for text in asked.get("fail_if", ()) for gate in parse_gates(text))
    for field in ("json", "html", "markdown", "junit"):
        if field in asked:
            writable(Path(asked[field]))
    terms = Terms(conditions, asked.get("max_error_rate", 0.0))
    return _saved(asked, terms) if "words" in asked else _live(asked, terms)


def _saved(asked: Mapping[str, Any], terms: "Terms") -> "Comparison":
    from inferometer.base.answer_file import read
    from inferometer.compare.saved import compare_saved
    from inferometer.report.saved import consistent
    from inferometer.stats.result import Result

    names: Sequence[str] = asked["words"]
    results = [(name, read(Path(name), Result)) for name in names]
    with consistent(*names):
        return compare_saved(results, terms, is_forced="force" in asked)


def _live(asked: Mapping[str, Any], terms: "Terms") -> "Comparison":
    from inferometer.cli.signals import Interrupts
    from inferometer.compare.live import OUTPUTS, Order, compare_live, contestants

    if "force" in asked:
        raise UsageError(
            "--force is for saved results", remedy="leave it out: live variants get the same load"
        )
    chosen = contestants(asked.get("models", ()), asked.get("urls", ()))
    own = {option.field for option in OPTIONS}
    options = measure_options({**{k: v for k, v in asked.items() if k not in own}, "model": chosen[0].model})
    order = Order(chosen, options, terms, asked.get("outputs", OUTPUTS))
    with (
        messages_shown(options.verbose),
        Interrupts().caught() as interrupts,
    ):
        return compare_live(order, _Progress(interrupts))


def _report(comparison: "Comparison", asked: Mapping[str, Any]) -> None:
    from inferometer.base.answer_file import write
    from inferometer.report.junit import to_junit
    from inferometer.report.saved import consistent, document, to_markdown, write_page
    from inferometer.report.terminal import show

    outputs = Outputs()
    writers: tuple[tuple[str, Callable[[Path], None]], ...] = (
        ("json", lambda path: write(comparison, path)),
        ("html", lambda path: write_page(path, comparison)),
        ("markdown", lambda path: write_file(path, to_markdown(comparison))),
        ("junit", lambda path: write_file(path, to_junit(comparison))),
    )
    with consistent(*asked["words"]) if "words" in asked else nullcontext():
        outputs.attempt(SCREEN, lambda: show(document(comparison)))
        for field, writer in writers:
            if field in asked:
                outputs.attempt(asked[field], partial(writer, Path(asked[field])))
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
