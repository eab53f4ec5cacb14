"""`inferometer selftest`: verify the tool on this machine, in under a minute, without a server."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from inferometer.base.text import to_stderr
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import Command, Request
from inferometer.options.machines import SelftestOptions

if TYPE_CHECKING:
    from inferometer.report.document import Document, Tone
    from inferometer.selftest.check import Check, SelfTest, Thoroughness

    Part = Callable[[Thoroughness], Iterable[Check]]

FAILED = 1

COMMAND = Command(
    "inferometer selftest",
    "[options]",
    "Verify the tool on this machine, in under a minute, against its own servers on loopback: "
    "the maximum rate of one worker, the accuracy of schedules, a server that stalls, one that fails, and "
    "the machine's limits. The exit code is 0 if no check failed, and 5 if the machine was too busy to judge one.",
    SelftestOptions,
    shared=CONFIG,
)


def run(request: Request[SelftestOptions]) -> int:
    from inferometer.base.writing import writable, write_file
    from inferometer.cli.reporting import allowed, ruling_code
    from inferometer.report.terminal import show
    from inferometer.selftest.check import to_json
    from inferometer.stats.verdict import SHOWN

    own = request.own
    writable(own.json)
    found = _run(is_quick=own.quick)
    show(_document(found))
    if own.json is not None:
        write_file(own.json, to_json(found))
    code = FAILED if found.ruling == SHOWN else ruling_code(found.ruling)
    return allowed(code, is_allowed=own.allow_inconclusive)


def _run(*, is_quick: bool) -> "SelfTest":
    from datetime import UTC, datetime

    from inferometer import __version__
    from inferometer.base.units import NS_PER_S, monotonic_ns
    from inferometer.observe.host import describe_host
    from inferometer.selftest.accuracy import fault_checks, schedule_checks, stall_checks
    from inferometer.selftest.check import FULL, QUICK, SCHEMA, SelfTest
    from inferometer.selftest.limits import ceiling_checks, machine_checks

    parts: Mapping[str, Part] = {
        "machine": machine_checks,
        "ceiling": ceiling_checks,
        "schedule": schedule_checks,
        "stall": stall_checks,
        "faults": fault_checks,
    }
    started_at, started_ns = datetime.now(UTC).isoformat(timespec="seconds"), monotonic_ns()
    checks = []
    for check in run_parts(parts, QUICK if is_quick else FULL):
        to_stderr(f"{check.part}: {check.name}: {check.verdict.value}")
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


def run_parts(parts: "Mapping[str, Part]", thoroughness: "Thoroughness") -> "Iterator[Check]":
    """Yield the checks as they complete. A part that raises an error counts as a failed check; the other parts still
    run."""
    from inferometer.base.errors import InferometerError
    from inferometer.selftest.check import Check, CheckResult

    for name, checks in parts.items():
        try:
            yield from checks(thoroughness)
        except InferometerError as error:
            yield Check(name, "aborted", CheckResult.FAIL, str(error), {})


def _document(found: "SelfTest") -> "Document":
    """Return a document with a section per part and a row per check."""
    from inferometer.report.document import Column, Document, Section, Table, Tone
    from inferometer.selftest.check import CheckResult

    tones = {
        CheckResult.PASS: Tone.GOOD,
        CheckResult.FAIL: Tone.BAD,
        CheckResult.NOISY: Tone.WARNING,
        CheckResult.WARN: Tone.WARNING,
        CheckResult.SHOWN: Tone.PLAIN,
    }
    columns = tuple(Column(name, is_number=False) for name in ("Check", "Found", "Verdict"))
    sections = []
    for part in dict.fromkeys(check.part for check in found.checks):
        checks = [check for check in found.checks if check.part == part]
        rows = tuple((check.name, check.text, check.verdict.value) for check in checks)
        table = Table(part, columns, rows, tones=tuple(tones[check.verdict] for check in checks))
        sections.append(Section(part, part, "", (table,)))
    return Document(
        kind="Self-test",
        title="Self-test",
        facts=(found.tool, "quick" if found.is_quick else "full"),
        verdict=_sentence(found),
        sections=tuple(sections),
        tone=_tone(found),
        tool=found.tool,
    )


def _tone(found: "SelfTest") -> "Tone":
    from inferometer.report.document import Tone
    from inferometer.selftest.check import CheckResult
    from inferometer.stats.verdict import NOT_SHOWN, SHOWN

    if found.ruling == SHOWN:
        return Tone.BAD
    is_clear = found.ruling == NOT_SHOWN and not found.count(CheckResult.WARN)
    return Tone.GOOD if is_clear else Tone.WARNING


def _sentence(found: "SelfTest") -> str:
    from inferometer.report.format import plural
    from inferometer.selftest.check import CheckResult

    failed, noisy, warned = map(found.count, (CheckResult.FAIL, CheckResult.NOISY, CheckResult.WARN))
    words = f"{plural(failed, 'check')} failed" if failed else "No check failed"
    if noisy:
        could_not = f"{plural(noisy, 'check')} could not be judged, because this machine was busy"
        words = f"{words}; {could_not}" if failed else f"Inconclusive: {could_not}, and no other check failed"
        words += ": run it again when idle"
    if warned:
        words += f"; {plural(warned, 'limit')} of this machine may matter"
    return f"{words} ({found.took_s:.0f} s)."
