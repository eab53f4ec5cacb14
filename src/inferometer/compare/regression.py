"""Whether a new run is worse than the last good ones: what `inferometer gate` finds, as one value and one file."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import inferometer
from inferometer.base.answer_file import notebook_html
from inferometer.base.units import plain_number
from inferometer.compare.comparison import (
    EXIT_CODES,
    FAILED,
    FINE,
    INCONCLUSIVE,
    INVALID,
    PASSED,
    REGRESSION,
    UNDECIDED,
)
from inferometer.compare.gates import Gate
from inferometer.stats.expectation import (
    FALSE_FAILURES,
    FEWEST_GOOD,
    Expectation,
    expectation,
    good_parts,
)
from inferometer.stats.history import FigureHistory
from inferometer.stats.measurement import Estimate
from inferometer.stats.trend import LEAST, TrendPoint

ANY = "worse at all"  # the rule where no condition is given
AGAIN = "measure once more to be sure"
GOOD = 20  # of the last good runs, that are compared with
FAILED_TAG, SUSPECTED_TAG, ACCEPTED_TAG = "gate:failed", "gate:suspected", "gate:accepted"


@dataclass(frozen=True, slots=True)
class FigureJudgement:
    """One figure at one load."""

    figure: str
    mode: str
    value: float
    outcome: str  # PASSED, FAILED or INCONCLUSIVE
    found: str  # why, in words
    rule: str  # that was applied: "worse at all", or a condition such as "p99 > +5%"
    percent: Estimate | None  # the change; positive is more, whether that is good or bad
    visible_percent: float | None  # the least change for the worse with which one run fails
    good: tuple[TrendPoint, ...]
    left_out: tuple[str, ...]  # runs of the history that were worse, and were not accepted
    new: tuple[TrendPoint, ...]


@dataclass(frozen=True, slots=True)
class RegressionCheck:
    """`problems` make it invalid; `notes` are only to be known."""

    kind: ClassVar[str] = "gate"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "run the gate again"

    tool: str
    started_at: str  # of the last new run
    command: str
    model: str
    host_class: str
    new_ids: tuple[str, ...]
    good_ids: tuple[str, ...]  # that any of the figures was compared with
    false_failures: float  # how often it fails although nothing changed, over all figures
    judgements: tuple[FigureJudgement, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """FINE, REGRESSION, UNDECIDED or INVALID."""
        found = {row.outcome for row in self.judgements}
        if self.problems:
            return INVALID
        if FAILED in found:
            return REGRESSION
        return UNDECIDED if INCONCLUSIVE in found or not found else FINE

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    @property
    def is_suspicious(self) -> bool:
        """Worse than usual, and one more run would settle it."""
        return self.outcome == UNDECIDED and any(row.found.endswith(AGAIN) for row in self.judgements)

    def _repr_html_(self) -> str:
        return notebook_html(self)


@dataclass(frozen=True, slots=True)
class RunsToJudge:
    """New runs and those before them, as histories of the same figures and loads."""

    command: str
    model: str
    host_class: str
    new: tuple[FigureHistory, ...]
    past: tuple[FigureHistory, ...]
    accepted_id: str = ""  # of the run from which on figures are the new normal


def judged(
    runs: RunsToJudge,
    gates: Sequence[Gate] = (),
    *,
    most: int = GOOD,
    notes: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> RegressionCheck:
    """Every figure of the new runs; with conditions, the figures that they name."""
    past = {_key(row): row for row in runs.past}
    pairs = [
        (row, gate)
        for row in runs.new
        for gate in ([gate for gate in gates if gate.name == row.figure] if gates else [None])
    ]
    rows = tuple(
        _judgement(row, _last(past.get(_key(row)), most), gate, runs.accepted_id, len(pairs))
        for row, gate in pairs
    )
    return RegressionCheck(
        tool=f"inferometer {inferometer.__version__}",
        started_at=max((point.started_at for row in runs.new for point in row.points), default=""),
        command=runs.command,
        model=runs.model,
        host_class=runs.host_class,
        new_ids=tuple(dict.fromkeys(point.run_id for row in runs.new for point in row.points)),
        good_ids=tuple(dict.fromkeys(point.run_id for row in rows for point in row.good)),
        false_failures=FALSE_FAILURES,
        judgements=rows,
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _key(history: FigureHistory) -> tuple[str, str, float, str]:
    return history.variant, history.mode, history.value, history.figure


def _last(history: FigureHistory | None, most: int) -> tuple[TrendPoint, ...]:
    return () if history is None else history.points[-most:]


def _judgement(
    new: FigureHistory, past: tuple[TrendPoint, ...], gate: Gate | None, accepted_id: str, looks: int
) -> FigureJudgement:
    accepted = next((place for place, point in enumerate(past) if point.run_id == accepted_id), 0)
    parts = good_parts(past, is_higher_better=new.is_higher_better, accepted=accepted)
    expected = expectation(parts, looks=looks)
    good = tuple(point for part in parts for point in part)
    left_out = tuple(point.run_id for point in past if point not in good)
    rule = ANY if gate is None else gate.text
    row = FigureJudgement(
        *(new.figure, new.mode, new.value, INCONCLUSIVE, "", rule),
        percent=None,
        visible_percent=None,
        good=good,
        left_out=left_out,
        new=new.points,
    )
    if expected is None:
        return replace(
            row, found=f"{FEWEST_GOOD} good runs are needed to judge one, and there are {len(good)}"
        )
    is_above = not new.is_higher_better if gate is None else gate.is_above
    change = _Change(expected, new.points, 1 if is_above else -1, 0.0 if gate is None else gate.limit)
    outcome, remark = change.outcome(is_any=gate is None)
    visible = math.expm1((1 if is_above else -1) * expected.decisive) * 100
    if outcome == FAILED:
        remark = f"all of it beyond {rule}" if gate is not None else _beyond(len(new.points), visible)
    found = f"{_percent_words(change.percent)} at {_load(new)}{f': {remark}' if remark else ''}"
    return replace(row, outcome=outcome, found=found, percent=change.percent, visible_percent=visible)


@dataclass(frozen=True, slots=True)
class _Change:
    """Of new runs against what was expected of them."""

    expected: Expectation
    new: tuple[TrendPoint, ...]
    sign: int  # 1 where more than the limit fails, -1 where less does
    limit: float  # percent

    @property
    def percent(self) -> Estimate:
        size = sum(self._sizes()) / len(self.new)
        margin = self.expected.margin(len(self.new))
        return Estimate(*(math.expm1(size + part) * 100 for part in (0.0, -margin, margin)))

    def _sizes(self) -> Iterator[float]:
        return (math.log(point.value) - self.expected.middle for point in self.new)

    def outcome(self, *, is_any: bool) -> tuple[str, str]:
        """And what is to be said about it. `is_any`: there is no limit, any real change for the worse fails."""
        limit = math.log1p(max(self.limit, -99.9) / 100)
        beyond = [self.sign * (size - limit) for size in self._sizes()]
        is_single = len(beyond) == 1
        is_worth = not is_any or sum(beyond) / len(beyond) > LEAST
        if is_worth and min(beyond) > (self.expected.decisive if is_single else self.expected.unusual):
            return FAILED, ""
        if is_worth and is_single and beyond[0] > self.expected.unusual:
            return INCONCLUSIVE, f"suspicious, but a single run can be so by chance; {AGAIN}"
        if is_any or sum(beyond) / len(beyond) < -self.expected.margin(len(beyond)):
            return PASSED, ""
        return INCONCLUSIVE, "the limit lies inside the interval"


def _beyond(runs: int, visible_percent: float) -> str:
    """The rule that was broken."""
    return (
        f"a run fails from {visible_percent:+,.1f} % on"
        if runs == 1
        else "each of the runs is worse than usual"
    )


def _percent_words(percent: Estimate) -> str:
    low, high = percent.limits or (percent.value, percent.value)
    return f"{percent.value:+,.1f} % ({low:+,.1f} to {high:+,.1f})"


def _load(row: FigureHistory) -> str:
    return f"{row.mode.replace('_', ' ')} {plain_number(row.value)}"
