"""A whole run as one value and one file, from which every report can be reproduced."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from inferometer.base.answer_file import Answer
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.slo import Term, parse_slo
from inferometer.options.effective import Effective
from inferometer.records.records import Totals
from inferometer.stats.frames import frame
from inferometer.stats.measurement import ClassFigures, Level, Measurement
from inferometer.stats.mlperf import MlperfVerdict
from inferometer.stats.prompt_figures import PromptFigures
from inferometer.stats.slo_outcome import Keeping

CLIENT = "the client's own limit"
"""Part of what limits a search if the client was at its limit at the loads beyond the estimate."""


@frozen
class JudgedLoad:
    """A load of a search, judged by all its measurements together."""

    load: float
    verdict: str  # kept, broken or undecided
    # Terms of the SLO beyond their limit; for an undecided load, as measured.
    broken: tuple[str, ...] = ()


@frozen
class Finding:
    """The highest load that meets an SLO.

    With `confidence`, the load at which the SLO begins to be violated lies between `low` and `high` with that
    probability. Results of 0.1 have none: their ends are loads that passed or failed one short try.
    """

    promise: str
    mode: str  # request_rate or concurrency
    value: float  # the estimate, at most 10 % above `low`; 0 if no load is known to meet the SLO
    low: float  # 0 if no load is known to meet the SLO
    high: float | None  # None if no load is known to violate it
    limited_by: str  # the first violated term
    knee: float  # highest load up to `value` with less than twice the latency of the lightest
    confidence: float | None = None
    judged: tuple[JudgedLoad, ...] = ()  # by load
    needed_s: float = 0.0  # duration that a search would need to decide more; 0 if this one was long enough

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the SLO; empty if this version cannot parse it."""
        try:
            return parse_slo(self.promise).terms
        except UsageError:
            return ()

    def nearest(self, loads: Iterable[float]) -> float | None:
        """Return the highest measured load up to the estimate, otherwise the lowest."""
        known = sorted(loads)
        return max((load for load in known if load <= self.value), default=known[0] if known else None)

    @property
    def is_client_limited(self) -> bool:
        """Whether the server is unknown above the estimate, because the client was at its limit there."""
        return self.high is None and CLIENT in self.limited_by

    @property
    def is_broken_at_once(self) -> bool:
        """Whether the lightest load tried violates the SLO; False if no load yielded any figures."""
        lightest = min(self.judged, key=lambda row: row.load, default=None)
        return lightest is not None and lightest.verdict == "broken"


@frozen
class Account:
    """Account of every request of a run: in a level's figures, left out of them, or dropped at the end.

    sent == good + failed + empty + left_out_good + left_out_failed + withdrawn + cut_off.

    A server cannot have seen more requests than sent - unsent + resent.
    """

    sent: int  # requests started, as counted by the workers
    good: int  # in the levels' figures, like the next two
    failed: int
    empty: int  # successful streams without a response
    left_out_good: int  # ended in a warm-up, between levels, in excluded windows, or after the last level
    left_out_failed: int
    cut_off: int  # still in flight at the end: cancelled
    unsent: int  # of all failed or dropped: nothing was sent, because no connection was made
    resent: int  # repeated sends because the server had closed the connection or refused the request
    withdrawn: int = 0  # cancelled by the client on request, in the levels' figures or left out

    @property
    def is_complete(self) -> bool:
        """Whether every request is accounted for; requests of a worker that died are not."""
        ended = self.good + self.failed + self.empty + self.left_out_good + self.left_out_failed
        return self.sent == ended + self.withdrawn + self.cut_off

    def after(self, earlier: "Account") -> "Account":
        """Include the requests of an earlier attempt, none of which are in the levels' figures."""
        return replace(
            self,
            sent=self.sent + earlier.sent,
            left_out_good=self.left_out_good + earlier.good + earlier.empty + earlier.left_out_good,
            left_out_failed=self.left_out_failed + earlier.failed + earlier.left_out_failed,
            cut_off=self.cut_off + earlier.cut_off,
            unsent=self.unsent + earlier.unsent,
            resent=self.resent + earlier.resent,
            withdrawn=self.withdrawn + earlier.withdrawn,
        )


def account(levels: Sequence[Level], totals: Totals) -> Account:
    """Return the account of a run with these levels and worker totals."""
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
    """Return whether the parts that describe ensemble steps are valid."""
    if not isinstance(value, Mapping):
        return value is None
    schedule = value.get("ensemble_scheduling")
    return schedule is None or (isinstance(schedule, Mapping) and _is_rows(schedule.get("step") or ()))


def _is_inputs(value: object) -> bool:
    return _is_rows(value, "name", "shape") and all(
        isinstance(row["shape"], list | tuple) for row in cast(Sequence[Mapping[str, Any]], value)
    )


_LOSSES = (Note.WORKER_LOST, Note.CLIENT_LOST, Note.FEWER_CLIENTS)

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
    """Result of a run. `asked` are the user's options, `effective` those that ran; neither contains header values or
    keys."""

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
    account: Account | None = None  # set when the load is over
    prompts: PromptFigures | None = None  # for servers that read text
    scenario: Mapping[str, Any] | None = None  # as read, if traffic classes went through phases
    source: str = (
        ""  # the other tool whose file this was read from; settings and client cost are then unknown
    )
    mlperf: MlperfVerdict | None = None  # for a run by the rules of MLPerf's loadgen

    def __post_init__(self) -> None:
        """Validate the values that reports compute with; the rest of the mappings is only displayed."""
        for name, fields in _COMPUTED.items():
            found = getattr(self, name)
            for key, fits in fields.items():
                if key in found and not fits(found[key]):
                    raise ValueError(f"{name}.{key} has the wrong type")

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time limit ended the run."""
        return any(remark.note is Note.TIME_LIMIT for remark in self.remarks)

    @property
    def has_lost_senders(self) -> bool:
        """Whether a worker or a client was lost, before, during or after a level."""
        remarks = (*self.remarks, *(remark for level in self.levels for remark in level.remarks))
        return any(remark.note in _LOSSES for remark in remarks)

    @property
    def failed_share(self) -> float:
        """Share of failures among all measured requests, at any level."""
        found = [level.measurement for level in self.levels if level.measurement is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0

    def fails_too_often(self, most: float) -> bool:
        """Return whether more requests failed than acceptable; if that is none, an SLO on errors decides."""
        is_promised = any(level.promise is not None and level.promise.limits_errors for level in self.levels)
        if most == 0 and any(_limits_errors(row) for level in self.levels for row in level.classes):
            return any(_has_failures(level) for level in self.levels)
        return max(self.failed_share, self.failed_visits_share) > most and not (is_promised and most == 0)

    @property
    def failed_visits_share(self) -> float:
        """Share of failures among all visits: one may fail by itself although all its requests succeeded."""
        classes = [row.measurement for level in self.levels for row in level.classes if row.counts_visits]
        found = [row for row in classes if row is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0

    @property
    def breaks_promise(self) -> bool:
        """Whether any level violates an SLO, for all traffic or for a class."""
        return "broken" in self._promise_verdicts

    @property
    def leaves_promise_open(self) -> bool:
        """Whether no SLO is violated, but at least one is undecided."""
        return not self.breaks_promise and "undecided" in self._promise_verdicts

    @property
    def _promise_verdicts(self) -> set[str]:
        promises = [level.promise for level in self.levels]
        promises += [row.promise for level in self.levels for row in level.classes]
        found: set[str] = {promise.verdict for promise in promises if promise is not None}
        return found if self.mlperf is None else {*found, _mlperf_keeping(self.mlperf)}

    def to_pandas(self, *, requests: bool = False) -> Any:
        """Return the levels as a pandas DataFrame: one row each, with units in the column names.

        With `requests`, return the exported requests (`profile_export`) instead.
        """
        return frame("pandas", self.levels, self._exported() if requests else None)

    def to_polars(self, *, requests: bool = False) -> Any:
        """Return the levels or requests as a polars DataFrame."""
        return frame("polars", self.levels, self._exported() if requests else None)

    def _exported(self) -> str:
        path = str(self.asked.get("profile_export") or "")
        if not Path(path).is_file():
            raise UsageError(
                f"the export file of this run does not exist: '{path}'"
                if path
                else "the requests of this run were not exported",
                remedy="measure with profile_export='requests.json'",
            )
        return path


def _mlperf_keeping(verdict: MlperfVerdict) -> Keeping:
    """Return a verdict like that of an SLO: undecided if a run is INVALID because it was too short."""
    if verdict.is_valid:
        return "kept"
    return "broken" if verdict.is_too_slow else "undecided"


def _limits_errors(row: ClassFigures) -> bool:
    return row.promise is not None and row.promise.limits_errors


def _has_failures(level: Level) -> bool:
    """Return whether requests failed in classes whose own SLO does not limit errors; others are judged by their SLO."""
    if not level.classes:
        return level.measurement is not None and level.measurement.failed_count > 0
    judged = [row.measurement for row in level.classes if not _limits_errors(row)]
    return any(row is not None and row.failed_count > 0 for row in judged)


# --- the levels that a report is about

SAME = 0.02  # relative difference up to which two throughputs count as equal


def measured(result: Result) -> tuple[tuple[Level, Measurement], ...]:
    """Levels with successful answers, by load."""
    rows = [
        (level, level.measurement)
        for level in result.levels
        if level.measurement is not None and level.measurement.request_count
    ]
    return tuple(sorted(rows, key=lambda row: row[0].value))


def best(result: Result) -> tuple[Level, Measurement] | None:
    """The level that represents the result: the load that a search found, else the lightest load whose throughput
    equals that of the best level that meets the SLO."""
    rows = measured(result)
    if result.finding is not None and result.finding.value:
        nearest = result.finding.nearest(row[0].value for row in rows)
        rows = tuple(row for row in rows if row[0].value == nearest)
        return rows[-1] if rows else None
    kept = tuple(row for row in rows if row[0].promise is not None and row[0].promise.verdict == "kept")
    sound = kept or tuple(row for row in rows if row[0].is_as_asked) or rows
    most = max((row[1].infer_per_s.value for row in sound), default=0.0)
    return next((row for row in sound if row[1].infer_per_s.value >= most * (1 - SAME)), None)
