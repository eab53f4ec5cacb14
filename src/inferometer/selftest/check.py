"""Results of a self-test: one check per line of the table, all in one file."""

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling

SCHEMA = 1

Figure = float | int | str | None


class CheckResult(Enum):
    """Result of a check; FAIL makes the whole test fail, and NOISY leaves it open."""

    PASS = "pass"
    NOISY = "noisy"  # late, but so was a bare timer: this machine was too busy to judge
    WARN = "warn"  # it works, but a limit of this machine is near
    SHOWN = "shown"  # informational: a figure for comparison
    FAIL = "FAIL"


@frozen
class Check:
    """One line of the table: `figures` have their unit in their name."""

    part: str
    name: str
    verdict: CheckResult
    text: str
    figures: Mapping[str, Figure]


@frozen
class SelfTest:
    """Results of a self-test."""

    schema: int
    tool: str
    started_at: str
    took_s: float
    is_quick: bool
    host: Mapping[str, Any]
    checks: tuple[Check, ...]

    @property
    def ruling(self) -> Ruling:
        """Whether a check failed; inconclusive if none failed, but the machine was too busy to judge one."""
        if self.count(CheckResult.FAIL):
            return SHOWN
        return INCONCLUSIVE if self.count(CheckResult.NOISY) else NOT_SHOWN

    def count(self, verdict: CheckResult) -> int:
        return sum(check.verdict is verdict for check in self.checks)


def to_json(found: SelfTest) -> str:
    verdict = {SHOWN: "failed", NOT_SHOWN: "passed", INCONCLUSIVE: "inconclusive"}[found.ruling]
    own = {"command": "selftest", "passed": verdict == "passed", "verdict": verdict}
    document = dataclasses.asdict(found) | own
    return json.dumps(document, indent=1, sort_keys=True, default=lambda value: value.value.lower()) + "\n"


@frozen
class Thoroughness:
    """Durations of the parts of a self-test."""

    ceiling_s: float  # per protocol and payload
    schedule_s: float  # per rate
    periods: int  # measured periods of a stalling server
    fault_requests: int


FULL = Thoroughness(ceiling_s=1.5, schedule_s=3.0, periods=4, fault_requests=4000)
QUICK = Thoroughness(ceiling_s=0.3, schedule_s=0.5, periods=2, fault_requests=1000)
