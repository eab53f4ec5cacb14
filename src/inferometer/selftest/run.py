"""A whole self-test, part after part."""

from collections.abc import Iterator
from types import ModuleType

from inferometer.base.errors import InferometerError
from inferometer.selftest import ceiling, faults, machine, schedule, stall
from inferometer.selftest.check import Check, Verdict
from inferometer.selftest.pace import Pace

PARTS: tuple[ModuleType, ...] = (machine, ceiling, schedule, stall, faults)


def run(pace: Pace) -> Iterator[Check]:
    """The checks as they are done. A part that breaks is a check that failed, and the others still run."""
    for part in PARTS:
        try:
            yield from part.checks(pace)
        except InferometerError as error:
            yield Check(part.PART, "broke off", Verdict.FAIL, str(error), {})
