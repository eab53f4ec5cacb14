"""`python -m benchmarks`: measure bars, print their table, and update `last.json` and the pages that show it."""

import argparse
import sys
from pathlib import Path

from benchmarks.bar import SMOKE, Setting
from benchmarks.machine import busy_cores, this_machine
from benchmarks.report import console, entries_of, show, write
from benchmarks.rounds import measure_bar
from benchmarks.table import BARS

ROOT = Path(__file__).resolve().parent.parent
SAVED = ROOT / "benchmarks" / "last.json"
PAGE, README = ROOT / "docs" / "performance.md", ROOT / "README.md"


def main() -> None:
    options = _options()
    setting = Setting(rounds=options.rounds, seconds=options.seconds, is_full=options.full)
    if options.smoke:
        setting = SMOKE
    chosen = [
        bar for bar in BARS if not options.only or any(_is_called(bar.name, name) for name in options.only)
    ]
    busy = [busy_cores()]
    outcomes = []
    for bar in chosen:
        outcomes.append(measure_bar(bar, setting, _say))
        busy.append(busy_cores())
    machine = this_machine(busy)
    show(outcomes, machine, console())
    if options.smoke:
        print("A smoke run shows that every bar can be measured; its figures mean nothing.")
        sys.exit(any(not outcome.ours for outcome in outcomes))
    write(entries_of(outcomes, machine, setting), [bar.name for bar in BARS], SAVED, PAGE, README)
    print(f"Updated: {SAVED}, {PAGE}, {README}")


def _is_called(bar: str, name: str) -> bool:
    """Whether a bar has this name, or a name that starts with this prefix of a family."""
    return bar == name or bar.startswith(f"{name}-")


def _named(text: str) -> str:
    if not any(_is_called(bar.name, text) for bar in BARS):
        raise argparse.ArgumentTypeError(f"no bar is called '{text}'")
    return text


def _options() -> argparse.Namespace:
    names = [bar.name for bar in BARS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks against other tools, with their targets."
    )
    parser.add_argument("--rounds", type=_positive, default=3, metavar="N", help="rounds per bar (default 3)")
    parser.add_argument(
        "--seconds", type=_seconds, default=2.0, metavar="S", help="length of one measurement (default 2)"
    )
    parser.add_argument(
        "--only",
        action="append",
        type=_named,
        metavar="NAME",
        help=f"one of {', '.join(names)}, or a common prefix, such as streams-20; repeatable",
    )
    parser.add_argument("--full", action="store_true", help="include bars that take many minutes")
    parser.add_argument(
        "--smoke", action="store_true", help="run each bar once, without other tools and as short as possible"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 up")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 600:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0.5 to 600")
    return value


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
