"""A whole run as one value and one file: every report can be made again from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from inferometer.base.answer_file import Answer
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Remark
from inferometer.options.effective import Effective
from inferometer.records.records import Totals
from inferometer.stats.frames import frame
from inferometer.stats.measurement import ClassFigures, Level
from inferometer.stats.prompt_figures import PromptFigures


@frozen
class JudgedLoad:
    """A load of a search, and what all its measurements together say."""

    load: float
    verdict: str  # kept, broken or undecided
    # Terms of the promise that are beyond their limit, of an undecided one as measured.
    broken: tuple[str, ...] = ()


@frozen
class Finding:
    """The highest load that meets an SLO.

    With `confidence`, the load at which the promise begins to be broken lies between `low` and `high` with that
    probability. Results of 0.1 have none: their ends are loads that passed or failed one short try.
    """

    promise: str
    mode: str  # request_rate or concurrency
    value: float  # the estimate, at most 10 % above `low`; 0 where no load is known to meet the SLO
    low: float  # 0 where no load is known to keep the promise
    high: float | None  # None where no load is known to break it
    limited_by: str  # what broke first
    knee: float  # the most load up to `value` at which latency was still less than twice that of the lightest
    confidence: float | None = None
    judged: tuple[JudgedLoad, ...] = ()  # by load
    needed_s: float = 0.0  # how long a search would have to last to say more; 0 when this one was long enough

    def nearest(self, loads: Iterable[float]) -> float | None:
        """Of loads that were measured, the highest up to the estimate, or else the lowest."""
        known = sorted(loads)
        return max((load for load in known if load <= self.value), default=known[0] if known else None)

    @property
    def is_broken_at_once(self) -> bool:
        """The SLO is broken at the lightest load that was tried."""
        lightest = min(self.judged, key=lambda row: row.load, default=None)
        return lightest is None or lightest.verdict == "broken"


@frozen
class Account:
    """Where every request of a run is: in a level's figures, left out of them, or cut off at the end.

    sent == good + failed + empty + left_out_good + left_out_failed + withdrawn + cut_off.

    A server cannot have seen more requests than sent - unsent + resent.
    """

    sent: int  # requests that were begun, as the workers count them
    good: int  # in the levels' figures, as are the next two
    failed: int
    empty: int  # streams that ended well without a response
    left_out_good: int  # ended in a warm-up, between levels, in windows that do not count, or after the last
    left_out_failed: int
    cut_off: int  # still running at the end: cancelled
    unsent: int  # of all that failed or were cut off: no byte went out, since no connection was made
    resent: int  # times a request was sent again: the server had closed the connection or refused it
    withdrawn: int = 0  # cancelled by the client because it was asked to, in the levels' figures or left out

    @property
    def is_complete(self) -> bool:
        """Every request is in a count; after the death of a worker those that it carried are not."""
        ended = self.good + self.failed + self.empty + self.left_out_good + self.left_out_failed
        return self.sent == ended + self.withdrawn + self.cut_off


def account(levels: Sequence[Level], totals: Totals) -> Account:
    """Of a run with these levels, by workers with these totals."""
    found = [level.measurement for level in levels if level.measurement is not None]
    good = sum(row.request_count for row in found)
    failed = sum(row.failed_count for row in found)
    empty = sum(row.empty_count for row in found)
    return Account(
        sent=totals.sent,
        good=good,
        failed=failed,
        empty=empty,
        left_out_good=totals.good - good - empty,
        left_out_failed=totals.failed - failed,
        cut_off=totals.cut_off,
        unsent=totals.unsent,
        resent=totals.resent,
        withdrawn=totals.withdrawn,
    )


def _is_rows(value: object, *names: str) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(row, Mapping) and all(name in row for name in names) for row in value
    )


def _is_configuration(value: object) -> bool:
    """As far as the steps of an ensemble are read from it."""
    if not isinstance(value, Mapping):
        return value is None
    schedule = value.get("ensemble_scheduling")
    return schedule is None or (isinstance(schedule, Mapping) and _is_rows(schedule.get("step") or ()))


def _is_inputs(value: object) -> bool:
    return _is_rows(value, "name", "shape") and all(
        isinstance(row["shape"], list | tuple) for row in cast(Sequence[Mapping[str, Any]], value)
    )


_COMPUTED: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "host": {
        "ports": lambda value: value is None or isinstance(value, int),
        "memory_bytes": lambda value: isinstance(value, int | float),
    },
    "model": {
        "inputs": _is_inputs,
        "config": _is_configuration,
        "composing": lambda value: value is None or _is_rows(value),
    },
}


@frozen
class Result(Answer):
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
    prompts: PromptFigures | None = None  # of servers that read text
    scenario: Mapping[str, Any] | None = None  # as it was read, where classes of traffic went through phases

    def __post_init__(self) -> None:
        """What reports compute with is what it was written as; all the rest of the mappings is only shown."""
        for name, fields in _COMPUTED.items():
            found = getattr(self, name)
            for key, fits in fields.items():
                if key in found and not fits(found[key]):
                    raise ValueError(f"{name}.{key} is of the wrong kind")

    @property
    def failed_share(self) -> float:
        """Of all requests measured, at any level."""
        found = [level.measurement for level in self.levels if level.measurement is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0

    def fails_too_often(self, most: float) -> bool:
        """Whether a larger share failed than is acceptable; where that is none, a promise about errors decides."""
        is_promised = any(level.promise is not None and level.promise.limits_errors for level in self.levels)
        if most == 0 and any(_limits_errors(row) for level in self.levels for row in level.classes):
            return any(_has_failures(level) for level in self.levels)
        return max(self.failed_share, self.failed_visits_share) > most and not (is_promised and most == 0)

    @property
    def failed_visits_share(self) -> float:
        """Of all visits: one may fail of itself, while all its requests are good."""
        classes = [row.measurement for level in self.levels for row in level.classes if row.steps]
        found = [row for row in classes if row is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0

    @property
    def breaks_promise(self) -> bool:
        """At any level, to all traffic or to a class of it."""
        return "broken" in self._promise_verdicts

    @property
    def leaves_promise_open(self) -> bool:
        """No SLO is broken, and whether one is met could not be decided."""
        return not self.breaks_promise and "undecided" in self._promise_verdicts

    @property
    def _promise_verdicts(self) -> set[str]:
        promises = [level.promise for level in self.levels]
        promises += [row.promise for level in self.levels for row in level.classes]
        return {promise.verdict for promise in promises if promise is not None}

    def to_pandas(self, *, requests: bool = False) -> Any:
        """The levels as a table of pandas, if it is installed: a row each, with units in the names of the columns.

        With `requests`, those that were exported (`profile_export`), from their file.
        """
        return frame("pandas", self.levels, self._exported() if requests else None)

    def to_polars(self, *, requests: bool = False) -> Any:
        """The same as a table of polars."""
        return frame("polars", self.levels, self._exported() if requests else None)

    def _exported(self) -> str:
        path = str(self.asked.get("profile_export") or "")
        if not Path(path).is_file():
            raise UsageError(
                f"the requests of this run are in no file: '{path}'"
                if path
                else "the requests were not kept",
                remedy="measure with profile_export='requests.json'",
            )
        return path


def _limits_errors(row: ClassFigures) -> bool:
    return row.promise is not None and row.promise.limits_errors


def _has_failures(level: Level) -> bool:
    """Whether requests failed of classes whose own SLO does not limit errors; those that do are judged by it."""
    if not level.classes:
        return level.measurement is not None and level.measurement.failed_count > 0
    judged = [row.measurement for row in level.classes if not _limits_errors(row)]
    return any(row is not None and row.failed_count > 0 for row in judged)
