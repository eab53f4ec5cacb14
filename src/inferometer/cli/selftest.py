"""`inferometer selftest`: proves the instrument on this machine, in under a minute, without any server."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.options.help import answer
from inferometer.options.option import Ask, option, rows
from inferometer.options.values import path
from inferometer.options.words import Command, read, taken

if TYPE_CHECKING:
    from rich.table import Table

    from inferometer.selftest.check import Check, SelfTest, Thoroughness

    Part = Callable[[Thoroughness], Iterable[Check]]

FAILED = 1


@dataclass(frozen=True, slots=True)
class SelftestOptions:
    """What `selftest` is asked."""

    json: Path | None = option(None, "--json", "write all figures to this file", path(), group="Selftest")
    quick: bool = option(False, "--quick", "a shorter, rougher test of about 20 seconds")


COMMAND = Command(
    "inferometer selftest",
    "[options]",
    "Prove the instrument on this machine, in under a minute, against servers of its own on loopback: "
    "the most one worker can send, how exactly schedules are kept, a server that stalls, one that fails, and "
    "the machine's limits. The exit code is 0 when nothing failed.",
    rows(SelftestOptions),
)


def main(argv: list[str]) -> int:
    given = read(argv, COMMAND)
    if isinstance(given, Ask):
        answer(given, COMMAND)
        return 0
    own = taken(given, SelftestOptions)
    return _selftest(own.json, is_quick=own.quick)


def _selftest(json: Path | None, *, is_quick: bool) -> int:
    from rich.console import Console

    from inferometer.base.writing import write_file
    from inferometer.report.console import WIDTH
    from inferometer.report.files import writable
    from inferometer.selftest.check import to_json

    if json is not None:
        writable(json)
    found = _run(is_quick=is_quick)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    console.print(_table(found))
    console.print(_sentence(found))
    if json is not None:
        write_file(json, to_json(found))
    return 0 if found.is_passed else FAILED


def _run(*, is_quick: bool) -> "SelfTest":
    from datetime import UTC, datetime

    from inferometer import __version__
    from inferometer.base.clock import monotonic_ns
    from inferometer.base.units import NS_PER_S
    from inferometer.observe.host import describe_host
    from inferometer.selftest.check import FULL, QUICK, SCHEMA, SelfTest

    started_at, started_ns = datetime.now(UTC).isoformat(timespec="seconds"), monotonic_ns()
    checks = []
    for check in run_parts(_parts(), QUICK if is_quick else FULL):
        print(f"{check.part}: {check.name}: {check.verdict.value}", file=sys.stderr)
        checks.append(check)
    return SelfTest(
        schema=SCHEMA,
        tool=f"inferometer {__version__}",
        started_at=started_at,
        took_s=(monotonic_ns() - started_ns) / NS_PER_S,
        is_quick=is_quick,
        host=describe_host(),
        checks=tuple(checks),
    )


def _parts() -> "Mapping[str, Part]":
    from inferometer.selftest.faults import fault_checks, stall_checks
    from inferometer.selftest.limits import ceiling_checks, machine_checks
    from inferometer.selftest.schedule import schedule_checks

    return {
        "machine": machine_checks,
        "ceiling": ceiling_checks,
        "schedule": schedule_checks,
        "stall": stall_checks,
        "faults": fault_checks,
    }


def run_parts(parts: "Mapping[str, Part]", thoroughness: "Thoroughness") -> "Iterator[Check]":
    """The checks as they are done. A part that breaks is a check that failed, and the others still run."""
    from inferometer.base.errors import InferometerError
    from inferometer.selftest.check import Check, CheckResult

    for name, checks in parts.items():
        try:
            yield from checks(thoroughness)
        except InferometerError as error:
            yield Check(name, "broke off", CheckResult.FAIL, str(error), {})


def _table(found: "SelfTest") -> "Table":
    from itertools import pairwise

    from rich import box
    from rich.table import Table
    from rich.text import Text

    from inferometer.selftest.check import CheckResult

    styles = {
        CheckResult.PASS: "green",
        CheckResult.FAIL: "bold red",
        CheckResult.NOISY: "yellow",
        CheckResult.WARN: "yellow",
        CheckResult.SHOWN: "",
    }
    table = Table(box=box.SIMPLE_HEAD, expand=True)
    table.add_column("Part")
    table.add_column("Check", ratio=2)
    table.add_column("Found", ratio=5)
    table.add_column("CheckResult")
    part = ""
    for check, following in pairwise([*found.checks, None]):
        assert check is not None
        table.add_row(
            Text(check.part if check.part != part else ""),
            Text(check.name),
            Text(check.text),
            Text(check.verdict.value, style=styles[check.verdict]),
            end_section=following is not None and following.part != check.part,
        )
        part = check.part
    return table


def _sentence(found: "SelfTest") -> str:
    from inferometer.report.format import plural
    from inferometer.selftest.check import CheckResult

    failed, noisy = found.count(CheckResult.FAIL), found.count(CheckResult.NOISY)
    words = f"{plural(failed, 'check')} failed" if failed else "Nothing failed"
    if noisy:
        words += (
            f"; {plural(noisy, 'check')} noisy, because this machine was busy: run it again when it is idle"
        )
    return f"{words} ({found.took_s:.0f} s)."
