"""A whole run as one value and one file: every report can be made again from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from inferometer.base.notes import Remark
from inferometer.options.effective import Effective
from inferometer.stats.account import Account
from inferometer.stats.measurement import Level


@dataclass(frozen=True, slots=True)
class JudgedLoad:
    """A load of a search, and what all its measurements together say."""

    load: float
    verdict: str  # kept, broken or undecided
    broken: tuple[
        str, ...
    ] = ()  # terms of the promise that are beyond their limit, of an undecided one as measured


@dataclass(frozen=True, slots=True)
class Finding:
    """The most load that keeps a promise.

    With `confidence`, the load at which the promise begins to be broken lies between `low` and `high` with that
    probability. Results of 0.1 have none: their ends are loads that passed or failed one short try.
    """

    promise: str
    mode: str  # request_rate or concurrency
    value: float  # the most that was measured within the limits, and nothing below it beyond; 0 when there is none
    low: float  # 0 where no load is known to keep the promise
    high: float | None  # None where no load is known to break it
    limited_by: str  # what broke first
    knee: float  # the most load up to `value` at which latency was still less than twice that of the lightest
    confidence: float | None = None
    judged: tuple[JudgedLoad, ...] = ()  # by load
    needed_s: float = 0.0  # how long a search would have to last to say more; 0 when this one was long enough


@dataclass(frozen=True, slots=True)
class Result:
    """`asked` is what the user typed, `effective` what ran; neither ever holds a header's value or a key."""

    kind: ClassVar[str] = "result"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "measure again"

    tool: str
    command: str  # measure or perf_analyzer
    started_at: str  # wall time, the run's one anchor
    asked: Mapping[str, Any]
    effective: Effective
    host: Mapping[str, Any]
    server: Mapping[str, Any]
    model: Mapping[str, Any]
    levels: tuple[Level, ...] = ()
    remarks: tuple[Remark, ...] = ()
    finding: Finding | None = None
    account: Account | None = None  # known when the load is over

    @property
    def failed_share(self) -> float:
        """Of all requests measured, at any level."""
        found = [level.measurement for level in self.levels if level.measurement is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0
