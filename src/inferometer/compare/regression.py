"""The result of `inferometer gate`, a regression check against the latest good runs, as one value and one file."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import inferometer
from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number, share
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
from inferometer.stats.estimate import Estimate
from inferometer.stats.expectation import (
    FALSE_FAILURES,
    FEWEST_GOOD,
    Expectation,
    expectation,
    good_parts,
)
from inferometer.stats.figures import named
from inferometer.stats.history import FigureHistory
from inferometer.stats.level_shift import level_shift
from inferometer.stats.promises import INSIDE
from inferometer.stats.trend import LEAST, TrendPoint
from inferometer.stats.verdict import SHOWN, percent_words
from inferometer.stats.verdict import rule as decide

ANY = "worse at all"  # the rule if no condition is given
AGAIN = "measure once more to be sure"
STEADIER = "more good runs, longer runs or a quieter machine would help"
MATTERS_PERCENT = 20.0  # default for the smallest change that a gate must be able to detect
MATTERS_TAIL_PERCENT = 50.0  # the same for high percentiles, which vary more between runs
TAIL = 90
LEVEL_FAILURES = FALSE_FAILURES / 2  # false-positive rate of the check by level of the history
SUSPECTED = 0.03  # the same for inconclusive gates
GOOD = 20  # latest good runs to compare with
FAILED_TAG, SUSPECTED_TAG, ACCEPTED_TAG = "gate:failed", "gate:suspected", "gate:accepted"


@frozen
class FigureJudgement:
    """Judgement of one figure at one load."""

    figure: str
    mode: str
    value: float
    outcome: str  # PASSED, FAILED or INCONCLUSIVE
    found: str  # the reason in words
    rule: str  # the applied rule: "worse at all", or a condition such as "p99 > +5%"
    percent: Estimate | None  # the change; positive means more, whether that is better or worse
    visible_percent: float | None  # the smallest deterioration with which a single run fails
    good: tuple[TrendPoint, ...]
    left_out: tuple[str, ...]  # excluded runs of the history: worse and not accepted
    new: tuple[TrendPoint, ...]

    @property
    def excluded_percent(self) -> float | None:
        """Size of the smallest deterioration that is excluded: beyond the interval, and large enough to fail."""
        if self.visible_percent is None or self.percent is None or self.percent.limits is None:
            return None
        low, high = self.percent.limits
        return max(abs(self.visible_percent), high if self.visible_percent > 0 else -low)


@frozen
class RegressionCheck(Answer):
    """A regression check. `problems` make it invalid; `notes` are informational."""

    kind: ClassVar[str] = "gate"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "run the gate again"

    tool: str
    started_at: str  # of the latest new run
    command: str
    model: str
    host_class: str
    new_ids: tuple[str, ...]
    good_ids: tuple[str, ...]  # runs that any figure was compared with
    false_failures: float  # false-positive rate over all figures
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
        """Whether the new run is worse than usual and one more run would be conclusive."""
        return self.outcome == UNDECIDED and any(row.found.endswith(AGAIN) for row in self.judgements)


@frozen
class RunsToJudge:
    """New and earlier runs, as histories of the same figures and loads."""

    command: str
    model: str
    host_class: str
    new: tuple[FigureHistory, ...]
    past: tuple[FigureHistory, ...]
    accepted_id: str = ""  # id of the run that set the current baseline


def judged(
    runs: RunsToJudge,
    gates: Sequence[Gate] = (),
    *,
    most: int = GOOD,
    matters_percent: float | None = None,
    notes: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> RegressionCheck:
    """Judge every figure of the new runs, or only those that conditions name."""
    past = {_key(row): row for row in runs.past}
    pairs = [
        (row, gate)
        for row in runs.new
        for gate in ([gate for gate in gates if gate.name == row.figure] if gates else [None])
    ]
    terms = _Terms(runs.accepted_id, len(pairs), matters_percent)
    rows = tuple(_judgement(row, _last(past.get(_key(row)), most), gate, terms) for row, gate in pairs)
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


@frozen
class _Terms:
    """Common terms for judging all figures of a check."""

    accepted_id: str
    looks: int  # figures and loads that share the false-positive rate
    matters_percent: float | None

    def matters(self, figure: str) -> float:
        """Return the smallest change of a figure that the gate must be able to detect."""
        if self.matters_percent is not None:
            return self.matters_percent
        metric = named(figure)
        is_tail = metric is not None and (metric.percentile or 0) >= TAIL
        return MATTERS_TAIL_PERCENT if is_tail else MATTERS_PERCENT


def _key(history: FigureHistory) -> tuple[str, str, float, str]:
    return history.variant, history.mode, history.value, history.figure


def _last(history: FigureHistory | None, most: int) -> tuple[TrendPoint, ...]:
    return () if history is None else history.points[-most:]


def _judgement(
    new: FigureHistory, past: tuple[TrendPoint, ...], gate: Gate | None, terms: _Terms
) -> FigureJudgement:
    accepted = next((place for place, point in enumerate(past) if point.run_id == terms.accepted_id), 0)
    parts = good_parts(past, is_higher_better=new.is_higher_better, accepted=accepted)
    expected = expectation(parts, looks=terms.looks)
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
            row, found=f"{FEWEST_GOOD} good runs are needed to judge one, but there are only {len(good)}"
        )
    is_above = not new.is_higher_better if gate is None else gate.is_above
    sign = 1 if is_above else -1
    limit, matters = (0.0, terms.matters(new.figure)) if gate is None else (gate.limit, 0.0)
    change = _Change(expected, new.points, sign, limit, matters)
    outcome, remark = change.outcome(is_any=gate is None)
    visible = change.visible_percent
    if outcome == FAILED:
        remark = f"all of it beyond {rule}" if gate is not None else _beyond(len(new.points), visible)
    found = f"{percent_words(change.percent)} at {_load(new)}{f': {remark}' if remark else ''}"
    row = replace(row, outcome=outcome, found=found, percent=change.percent, visible_percent=visible)
    if outcome == FAILED or not good:
        return row
    first = past.index(parts[-1][0])
    return _by_level(row, past[first:], sign, limit, terms)


def _by_level(
    row: FigureJudgement, past: Sequence[TrendPoint], sign: int, limit: float, terms: _Terms
) -> FigureJudgement:
    """Detect a change that is too small for one run to show, or shared by earlier runs, as a shift of the level."""
    rate = LEVEL_FAILURES / terms.looks
    points = (*past, *row.new)
    shift = level_shift([math.log(point.value) for point in points], len(row.new), sign=sign, rate=rate)
    if shift is None or shift.chance > SUSPECTED / terms.looks:
        return row
    is_beyond = decide(shift.percent, limit=limit, is_above=sign > 0).ruling == SHOWN
    if (row.rule == ANY and abs(math.log1p(shift.percent.value / 100)) <= LEAST) or not is_beyond:
        return row
    recent = len(points) - shift.start
    where = f"{percent_words(shift.percent)} at {_load(row)} since run {points[shift.start].run_id}"
    found = f"{where}: {recent} runs against the {shift.start} before"
    if shift.chance > rate or not shift.is_clear:
        return replace(
            row, outcome=INCONCLUSIVE, percent=shift.percent, found=f"{found}, suspicious; {AGAIN}"
        )
    return replace(row, outcome=FAILED, percent=shift.percent, found=found)


@frozen
class _Change:
    """Change of new runs relative to the expectation."""

    expected: Expectation
    new: tuple[TrendPoint, ...]
    sign: int  # 1 if exceeding the limit fails, -1 if falling below it does
    limit: float  # percent
    matters: float  # percent beyond the limit

    @property
    def visible_percent(self) -> float:
        return math.expm1(self.sign * self.expected.decisive) * 100

    @property
    def percent(self) -> Estimate:
        size = sum(self._sizes()) / len(self.new)
        margin = self.expected.margin(len(self.new))
        return Estimate(*(math.expm1(size + part) * 100 for part in (0.0, -margin, margin)))

    def _sizes(self) -> Iterator[float]:
        return (math.log(point.value) - self.expected.middle for point in self.new)

    def outcome(self, *, is_any: bool) -> tuple[str, str]:
        """Return the outcome and the reason. `is_any`: without a limit, any real deterioration fails."""
        limit = math.log1p(max(self.limit, -99.9) / 100)
        beyond = [self.sign * (size - limit) for size in self._sizes()]
        is_single = len(beyond) == 1
        is_worth = not is_any or sum(beyond) / len(beyond) > LEAST
        if is_worth and min(beyond) > (self.expected.decisive if is_single else self.expected.unusual):
            return FAILED, ""
        if is_worth and is_single and beyond[0] > self.expected.unusual:
            return INCONCLUSIVE, f"suspicious, but a single run can look like this by chance; {AGAIN}"
        if not is_any:
            is_inside = sum(beyond) / len(beyond) < -self.expected.margin(len(beyond))
            return (PASSED, "") if is_inside else (INCONCLUSIVE, INSIDE)
        return self._power(is_worth=is_worth)

    def _power(self, *, is_worth: bool) -> tuple[str, str]:
        """Return PASSED only if a relevant change would have been detected."""
        visible = self.visible_percent
        found = decide(self.percent, matters=self.matters, is_above=self.sign > 0, detectable=visible)
        # One normal run among several clears the others: individual runs can be bad by chance.
        is_each_worse = min(self.sign * size for size in self._sizes()) > self.expected.unusual / 2
        if found.ruling == SHOWN and is_worth and is_each_worse:
            return INCONCLUSIVE, f"suspicious; {AGAIN}"
        if found.ruling != INCONCLUSIVE and abs(visible) <= self.matters:
            return PASSED, ""
        seen = f"only a change of {share(abs(visible) / 100)} or more" if abs(visible) < 1000 else "no change"
        return INCONCLUSIVE, f"{seen} would fail, so a pass would mean nothing; {STEADIER}"


def _beyond(runs: int, visible_percent: float) -> str:
    """Describe the rule that was violated."""
    return (
        f"a run fails from {visible_percent:+,.1f} % on"
        if runs == 1
        else "each of the runs is worse than usual"
    )


def _load(row: FigureHistory | FigureJudgement) -> str:
    return f"{row.mode.replace('_', ' ')} {plain_number(row.value)}"
