"""Closed windows of a level, and the decision after each of them whether the level is over."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferometer.base.notes import Note, Remark
from inferometer.load.plan import open_plans
from inferometer.load.workers import Collected
from inferometer.measure.class_windows import ClassCourses
from inferometer.measure.conclusion import asked_per_s, latency_name, maybe_capacity
from inferometer.measure.instrument import LevelSettings, LoadPoint
from inferometer.measure.liveness import GONE_NS, Liveness
from inferometer.stats.doubts import TOKENS, moving_figure
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import WindowFigures
from inferometer.stats.merge import latency_estimate, rate_estimate, token_estimate
from inferometer.stats.overload import is_beyond, is_within
from inferometer.stats.promises import judge
from inferometer.stats.stopping import (
    GO_ON,
    MERGED,
    Precision,
    Stability,
    StopDecision,
    cold_windows,
    judge_precision,
    judge_stability,
)
from inferometer.stats.watcher import Watcher
from inferometer.stats.windows import Window, add_failures, condensed, figures, has_answers, join_windows


@dataclass(slots=True)
class ClosedWindows:
    """Closed windows of a level: those that may be merged, and the figures and boundaries of all."""

    settings: LevelSettings
    start_ns: int  # of the level
    windows: list[Window] = field(default_factory=list)
    figures: list[WindowFigures] = field(default_factory=list)
    boundaries_ns: list[int] = field(default_factory=list)

    def add(self, window: Window, *, may_merge: bool) -> None:
        self.boundaries_ns += [window.end_ns] if self.boundaries_ns else [window.start_ns, window.end_ns]
        settings = self.settings
        if may_merge:
            self.windows.append(window)
        if isinstance(settings.rule, Stability) and not settings.is_whole:
            del self.windows[:-MERGED]
        self.windows = condensed(self.windows)
        self.figures.append(
            figures(window, level_start_ns=self.start_ns, batch=settings.batch, chosen=settings.percentile)
        )

    def cut_silence(self, last_good_ns: int) -> None:
        """Exclude the time after the last answer, which carries no load and would dilute the rate. Failures stay."""
        last = max((number for number, window in enumerate(self.windows) if window.count), default=None)
        if last is None:
            return
        failures = add_failures(self.windows[last:])
        end_ns = max(last_good_ns, self.windows[last].start_ns + 1)
        self.windows[last:] = [replace(self.windows[last], end_ns=end_ns, failures=failures)]

    @property
    def elapsed_ns(self) -> int:
        return self.windows[-1].end_ns - self.start_ns

    def cold_count(self) -> int:
        """Return the number of excluded windows at the start; 0 if a silence was cut out."""
        numbers = np.cumsum([window.number for window in self.windows])
        if not self.settings.finds_warm_up or not self.windows or numbers[-1] != len(self.figures):
            return 0
        cold = cold_windows(self.figures)
        return int(np.searchsorted(numbers, cold)) + 1 if cold else 0


@dataclass(slots=True)
class LevelJudge:
    """Decides after each window whether a level is over."""

    point: LoadPoint
    closed: ClosedWindows
    liveness: Liveness
    classes: ClassCourses
    watcher: Watcher
    sent_before: int  # requests sent before the level
    _has_enough: bool = False

    def decide(self, collected: Collected, *, has_more: bool) -> StopDecision:
        """Decide after the latest window; `has_more` says whether more windows of a whole plan follow."""
        is_timed = self.closed.settings.is_timed
        decision = self._by_time(collected) if is_timed else self._by_rule(collected, has_more=has_more)
        return GO_ON if decision.is_done and self._may_answer_yet else decision

    def _by_rule(self, collected: Collected, *, has_more: bool) -> StopDecision:
        settings, rows = self.closed.settings, self.closed.figures
        recent = rows if settings.is_whole else rows[-MERGED:]
        was_answered = self.liveness.was_answered
        is_silent = was_answered and self._is_silent
        is_failing = is_silent or (_is_failing(recent) and not self.is_enough())
        may_recover = is_failing and was_answered and self._has_time(collected.seen_ns)
        if self.liveness.is_given_up or (is_silent and not may_recover and not settings.is_whole):
            self.closed.cut_silence(self.liveness.last_good_ns)
            sent = collected.cost.sent - self.sent_before
            remark = self.liveness.remark(self.point.plan.count, sent)
            return StopDecision(is_done=True, is_stable=False, remark=remark)
        if self.watcher.is_interrupted():
            return _INTERRUPTED
        if may_recover or (settings.is_whole and has_more):
            return GO_ON
        if _is_failing(recent):
            remark = Remark(Note.FAILURES, self._all_failed(recent))
            return StopDecision(is_done=True, is_stable=False, remark=remark)
        if settings.is_whole:
            return StopDecision(is_done=True, is_stable=True)
        if isinstance(settings.rule, Stability):
            return judge_stability(settings.rule, rows)
        return self._by_precision(settings.rule)

    @property
    def _may_answer_yet(self) -> bool:
        """Whether some class has no successful answer yet, which may be a stall."""
        settings, rule = self.closed.settings, self.closed.settings.rule
        if not settings.awaits_answers or settings.is_whole or not isinstance(rule, Precision):
            return False
        if self.liveness.is_given_up or self.watcher.is_interrupted():
            return False
        is_early = self.closed.elapsed_ns < rule.duration_ns + GONE_NS
        return is_early and not (has_answers(self.closed.figures) and self.classes.have_answered)

    def _by_time(self, collected: Collected) -> StopDecision:
        """Stop by time only, or when interrupted."""
        if self.watcher.is_interrupted():
            return _INTERRUPTED
        settings = self.closed.settings
        assert isinstance(settings.rule, Precision)
        is_over = self.closed.elapsed_ns >= settings.rule.duration_ns
        return StopDecision(is_done=is_over or (settings.is_whole and collected.is_finished), is_stable=True)

    @property
    def _is_silent(self) -> bool:
        """Whether requests of the last window got no answer, or earlier ones did not and a retry is pending."""
        last, is_closed = self.closed.figures[-1], not open_plans(self.point.plan)
        is_pausing = is_closed and not last.failed_count and self.liveness.silent_since_ns > 0
        return (self.liveness.was_silent or is_pausing) and not has_answers([last])

    def _has_time(self, now_ns: int) -> bool:
        """Return whether there is time left for a server that has just stopped answering; windows are short with the
        precision rule."""
        rule = self.closed.settings.rule
        if self.closed.settings.is_whole or not isinstance(rule, Precision):
            return False
        return self.liveness.may_recover(now_ns) and now_ns - self.closed.start_ns < rule.duration_ns

    def is_enough(self) -> bool:
        """Return whether the purpose of the level is decided; failures may decide it too, and the decision is final."""
        rule = self.closed.settings.rule
        if isinstance(rule, Precision) and rule.is_enough is not None and not self._has_enough:
            self._has_enough = rule.is_enough()
        return self._has_enough

    def _all_failed(self, recent: Sequence[WindowFigures]) -> str:
        if not has_answers(self.closed.figures):
            return "every request failed"
        failed = sum(row.failed_count for row in recent)
        return f"every request of the last {len(recent)} windows failed: {failed:,} of {failed:,}"

    def _by_precision(self, rule: Precision) -> StopDecision:
        elapsed_ns = self.closed.elapsed_ns
        is_over = elapsed_ns >= rule.duration_ns
        if rule.is_enough is not None:
            is_done = self.is_enough() or is_over
            return StopDecision(is_done=is_done, is_stable=is_done)
        warm = self.closed.windows[self.closed.cold_count() :]
        is_early = elapsed_ns < rule.shortest_ns or len(warm) < 2 * MERGED
        recent = self.closed.figures[-sum(window.number for window in warm) :]
        if not is_over and (is_early or moving_figure(recent) is not None):
            return GO_ON
        whole = join_windows(warm)
        decision = judge_precision(rule, elapsed_ns, self._estimates(whole))
        may_go_on = decision.is_done and not is_over
        is_decided = not may_go_on or (self._is_slo_decided(whole) and self._is_overload_decided(whole))
        return decision if is_decided else GO_ON

    def _estimates(self, whole: Window) -> list[tuple[str, Estimate]]:
        """Return the figures that must be precise: tokens for a text server, unless a percentile is chosen."""
        settings, chosen = self.closed.settings, self.closed.settings.percentile
        latency = (latency_name(chosen), latency_estimate(whole, chosen))
        tokens = token_estimate(whole)
        if tokens is None:
            return [("throughput", rate_estimate(whole, settings.batch)), latency]
        return [(TOKENS, tokens)] if chosen is None else [(TOKENS, tokens), latency]

    def _is_slo_decided(self, whole: Window) -> bool:
        """Return whether the SLO is decided: more requests may decide one that is not."""
        settings = self.closed.settings
        if settings.promise is None or not settings.judges_promise:
            return True
        throughput = rate_estimate(whole, settings.batch)
        return judge(settings.promise, whole, {"throughput": throughput}).verdict != "undecided"

    def _is_overload_decided(self, whole: Window) -> bool:
        """Return whether the requested rate is clearly above or below the throughput while requests wait."""
        capacity = maybe_capacity(self.closed.settings, self.point, whole)
        asked = asked_per_s(self.point)
        return capacity is None or is_beyond(capacity, asked) or is_within(capacity, asked)


_INTERRUPTED = StopDecision(is_done=True, is_stable=False, remark=Remark(Note.INTERRUPTED, "interrupted"))


def _is_failing(rows: Sequence[WindowFigures]) -> bool:
    """Return whether requests failed in these windows and none succeeded."""
    return any(row.failed_count for row in rows) and not has_answers(rows)
