"""A level during its measurement: divide the records into windows until the level is over.

    collect -> split at the window's end -> add records that ended inside -> close the window -> decide

A window ends after a time or a count of requests. The server's counters are read as close to its end as possible:
nothing is collected just before, so that the call is on time. Records that ended later wait for the next window.
"""

from dataclasses import replace

import numpy as np

from inferometer.base.deadline import CALL_LAST_S
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import NEVER
from inferometer.measure.conclusion import RawLevel, ScheduleTiming
from inferometer.measure.instrument import FEWEST_ENDED, Instrument, LevelSettings, LoadPoint
from inferometer.measure.judging import ClosedWindows, LevelJudge
from inferometer.measure.level_report import LevelReport
from inferometer.measure.level_start import Started
from inferometer.measure.liveness import Liveness, Silence
from inferometer.observe.metrics import Sample
from inferometer.records.records import Records, join
from inferometer.stats.merge import counters_were_reset
from inferometer.stats.network import PhaseSample, network_figures
from inferometer.stats.stopping import Precision, StopDecision
from inferometer.stats.windows import Window, join_windows, split

# Collecting stops this long before a window's end: the counters come first.
NEAR_NS = 200 * NS_PER_MS
# Nothing is sent for longer than this before a phase; clocks of clients on other machines differ by less.
EARLIER_NS = 5 * NS_PER_MS


class LevelRun:
    """A level whose load has started: fills and closes its windows."""

    def __init__(
        self, instrument: Instrument, settings: LevelSettings, point: LoadPoint, started: Started
    ) -> None:
        self._instrument = instrument
        self._settings = settings
        self._point = point
        self.start_ns = start_ns = started.start_ns
        self._collected = collected = started.collected
        self._rules, self._expense, self._first_round = started.rules, started.expense, started.first_round
        self._counters, self._classes = started.counters, started.counters.classes
        self._timing = ScheduleTiming() if self._rules.is_open and settings.is_whole else None
        self._open = self._rules.new_window(start_ns)
        self._rest = self._ours(collected.records)  # ended after the last closed window
        self._phases = PhaseSample()
        self._is_last = False  # the last closed window contains the rest of a whole plan
        self._last_end_ns = 0
        self._cut_ns = 0  # when a window of the classic rule is cut short
        self.closed = ClosedWindows(settings, start_ns)
        silence = Silence(instrument.silence_ns, start_ns)
        self._liveness = Liveness(start_ns, silence, gives_up=not settings.is_timed)
        sent = self._expense.cost.sent
        self._judge = LevelJudge(point, self.closed, self._liveness, self._classes, instrument.watcher, sent)
        self._report = LevelReport(instrument, settings, point, start_ns, sum(collected.cost.cpu_ns))
        self._classes.begin(start_ns, self._expense.schedule_ns, self._expense.seen_ns)
        self._counters.add(self._rest, collected)

    @property
    def _is_finished(self) -> bool:
        return self._settings.is_whole and self._collected.is_finished

    def _ours(self, records: Records) -> Records:
        """Return the records of this level. A phase begins without those of requests that an earlier one sent."""
        records = split(records, self.start_ns)[1]
        if not self._settings.ends_load or not len(records):
            return records
        began_ns = np.maximum(records.sent_ns, records.due_ns)  # some fail before they are sent
        return records.where(began_ns >= self.start_ns - EARLIER_NS)

    def report_start(self) -> None:
        """Report the requests that ended before the first window is filled."""
        self._report.report(self._collected, self._rest, self._open, self._counters.waiting)

    # --- filling one window

    def measure_window(self) -> None:
        settings = self._settings
        if settings.window_ns is not None:
            end_ns = self._fill_until(self._open.start_ns + settings.window_ns)
        else:
            count = self._window_count
            self._is_last = count == NEVER
            end_ns = self._fill_to_count(count)
        if self._liveness.is_given_up and self._liveness.last_good_ns > self._open.start_ns:
            end_ns = self._liveness.last_good_ns  # nothing was sent after the last answer
        if settings.is_whole and not self.closed.windows:
            self._open.begin_at_first_send()
        if not self._counters.is_read:  # the end was seen only afterwards
            self._read_late(end_ns)
        # A count can be reached by streams whose last responses arrived before the window began.
        self._close(max(end_ns, self._open.start_ns + 1))

    @property
    def _window_count(self) -> int:
        """Requests that fill the next window. The last window of a whole plan takes all that are left, which may
        include extra requests that close sequences."""
        count, planned = self._settings.window_count, self._point.plan.count
        assert count is not None
        if not self._settings.is_whole:
            return count
        ended = sum(row.ended_count for row in self.closed.figures)
        return count if count and planned is not None and planned - ended >= 2 * count else NEVER

    def _read_late(self, end_ns: int) -> None:
        """Read the counters after the window's end. If a reading takes longer than a window, reuse an earlier one
        that was also made after this end: another would be no closer, and all windows are merged anyway."""
        is_merged = self._settings.is_whole or isinstance(self._settings.rule, Precision)
        counters = self._counters
        if is_merged and counters.before is not None and counters.before.asked_ns >= end_ns:
            counters.after = counters.before
            return
        counters.after = counters.read()
        if counters.after is not None and not self._is_finished:
            self._collect(counters.after.answered_ns)

    def _fill_until(self, end_ns: int) -> int:
        while True:
            inside, self._rest = split(self._rest, end_ns)
            self._take(inside)
            if self._is_finished and not len(self._rest):
                return max(self._last_end_ns, self._open.start_ns + 1)
            if self._collected.seen_ns >= end_ns:
                longer_ns = self._longer_ns(end_ns)
                if not longer_ns:
                    return end_ns
                end_ns, self._counters.is_read = end_ns + longer_ns, False
                continue
            if self._liveness.is_given_up or self._is_cut():
                return max(self._collected.seen_ns, self._open.start_ns + 1)
            self._collect_until_end(end_ns)

    def _is_cut(self) -> bool:
        """Return whether to end now. The classic rule compares windows, so a window may finish if that is quick."""
        if not self._instrument.watcher.is_interrupted():
            return False
        if isinstance(self._settings.rule, Precision):
            return True
        now_ns = self._instrument.clock()
        self._cut_ns = self._cut_ns or now_ns + round(CALL_LAST_S * NS_PER_S)
        return now_ns >= self._cut_ns and self._instrument.may_cut()

    def _longer_ns(self, end_ns: int) -> int:
        """Return how much longer a window must be to hold enough requests; 0 if it is long enough.

        The classic rule and whole plans have windows of the requested length.
        """
        rule, window_ns = self._settings.rule, self._settings.window_ns
        if not isinstance(rule, Precision) or self._settings.is_whole or window_ns is None:
            return 0
        if self._judge.is_enough() or self._has_streams:
            return 0
        left_ns = max(0, self.start_ns + rule.duration_ns - end_ns)
        if self._open.ended_count < FEWEST_ENDED:
            return min(window_ns, left_ns)
        length_ns = end_ns - self._open.start_ns
        # The rest would be too short for another window of this length.
        return left_ns if length_ns > window_ns and left_ns < length_ns / 2 else 0

    @property
    def _has_streams(self) -> bool:
        """Whether answers are streaming: their tokens suffice for a window, however few answers end in it."""
        running = self._collected.running
        return self._settings.has_tokens and running is not None and bool(running.stamps.any())

    def _fill_to_count(self, count: int) -> int:
        while True:
            inside, self._rest = self._cut(count - self._open.ended_count)
            self._take(inside)
            if self._open.ended_count >= count:
                return max(self._last_end_ns, int(inside.end_ns[-1]))
            if self._is_finished and self._last_end_ns:
                return self._last_end_ns
            is_over = self._liveness.is_given_up or self._is_finished
            if is_over or self._instrument.watcher.is_interrupted():
                return max(self._collected.seen_ns, self._open.start_ns + 1)
            if count == NEVER:
                self._collect(self._instrument.clock() + self._settings.patience_ns)
            else:
                self._collect_until_end(self._expected_end_ns(count - self._open.ended_count))

    def _cut(self, count: int) -> tuple[Records, Records]:
        """Split off the next `count` requests and those that ended at the same time as the last of them.

        After `seen_ns`, one worker may have reported more than another.
        """
        ends = self._rest.end_ns
        if not self._is_finished:
            count = min(count, int(np.searchsorted(ends, self._collected.seen_ns, side="right")))
        return split(self._rest, int(ends[count - 1])) if 0 < count < len(ends) else self._rest.cut(count)

    def _expected_end_ns(self, missing: int) -> int:
        """Predict the time when this many more requests will have ended, at the rate of this or the previous window."""
        ended, span_ns = self._open.ended_count, self._collected.seen_ns - self._open.start_ns
        if not ended and self.closed.figures:
            last = self.closed.figures[-1]
            ended, span_ns = last.ended_count, last.duration_ns
        far_ns = self._collected.seen_ns + self._settings.patience_ns
        return min(far_ns, self._collected.seen_ns + missing * span_ns // ended) if ended else far_ns

    def _collect_until_end(self, end_ns: int) -> None:
        """Collect; if that reaches the window's end, first read the server's counters exactly then."""
        clock, counters = self._instrument.clock, self._counters
        counters.is_read = end_ns - clock() <= NEAR_NS
        if not counters.is_read:
            self._collect(end_ns - NEAR_NS)
            return
        self._instrument.load.wait(end_ns - counters.lead_ns)
        counters.after = counters.read()
        self._collect(max(end_ns, clock()), with_running=self._settings.follows_work)

    def _collect(self, until_ns: int, *, with_running: bool = False) -> None:
        load = self._instrument.load
        self._collected = (
            load.collect(until_ns, with_running=True) if with_running else load.collect(until_ns)
        )
        self._liveness.hear(self._collected)
        self._counters.add(self._collected.records.requests, self._collected)
        fresh = self._ours(self._collected.records)
        self._rest = join([self._rest, fresh]) if len(self._rest) else fresh
        self._expense.add(self._collected)
        self._report.report(self._collected, fresh, self._open, self._counters.waiting)

    def _take(self, records: Records) -> None:
        if not len(records):
            return
        self._rules.add(self._open, records)
        records = records.requests
        if not len(records):
            return
        self._classes.take(records)
        # The end of a stream may be read long after its last data: a later block can have an earlier end.
        self._last_end_ns = max(self._last_end_ns, int(records.end_ns[-1]))
        if self._timing is not None:
            self._timing.add(records)
        self._liveness.add(records)
        if self._collected.path is not None:
            self._phases.add(records, self._collected.path)

    def _follow(self, end_ns: int) -> None:
        """Add the work done on requests in flight at the end of the current window."""
        if not self._settings.follows_work:
            return
        if self._collected.running is None:  # the window's end was seen only afterwards
            self._collect(self._collected.seen_ns, with_running=True)
        running = self._collected.running
        if running is not None:
            later = split(self._rest, end_ns)[1]
            self._rules.add_running(self._open, join([later, running]), end_ns)

    def _close(self, end_ns: int) -> None:
        self._follow(end_ns)
        after = self._counters.close()
        window = replace(
            self._open,
            end_ns=end_ns,
            expense=self._expense.close(self._collected),
            before=self._counters.before,
            after=after,
            samples=() if self._instrument.metrics is None else self._instrument.metrics.take(),
        )
        schedule_ns, seen_ns = self._expense.schedule_ns, self._expense.seen_ns
        window.classes = self._classes.close(window, window, schedule_ns, seen_ns, self.start_ns)
        self._liveness.close(window)
        is_lead = self._settings.is_whole and not self.closed.windows and not self._open.ended_count
        may_merge = not is_lead or self._is_finished  # a whole plan counts from its first request on
        if may_merge:
            self._counters.before = after
        self.closed.add(window, may_merge=may_merge)
        self._open = self._rules.new_window(end_ns)

    @property
    def spanned_ns(self) -> tuple[int, ...]:
        """The windows' boundaries; the last one includes every counted request.

        When the load was abandoned or interrupted, some requests ended after the counted time.
        """
        *earlier, last_ns = self.closed.boundaries_ns
        return (*earlier, max(last_ns, self._last_end_ns))

    def abandon(self) -> None:
        """Close the current window with the records so far."""
        self._counters.after = self._counters.read()
        self._close(max(self._collected.seen_ns, self._open.start_ns + 1))

    def decide(self) -> StopDecision:
        """Decide after a window whether the level is over."""
        is_over = self._is_last or (self._is_finished and not len(self._rest))
        return self._judge.decide(self._collected, has_more=not is_over)

    # --- the result

    def raw(self, decision: StopDecision) -> RawLevel:
        """Return the observations from which `conclude` builds the level."""
        poller = self._instrument.metrics
        cold = self.closed.cold_count()
        windows = self.closed.windows
        counted = windows[cold:] or [self._open]
        whole = join_windows(counted)
        raw = RawLevel(
            settings=self._settings,
            point=self._point,
            decision=decision,
            cold=join_windows(windows[:cold]) if cold else None,
            whole=whole,
            were_counters_reset=counters_were_reset(counted),
            figures=self.closed.figures,
            start_ns=self.start_ns,
            examples=self._instrument.load.examples(),
            samples=self._samples(whole),
            statistics_error=None if self._liveness.is_given_up else self._counters.error,
            metrics_remarks=() if poller is None else tuple(poller.remarks()),
            timing=self._timing,
            first_round=self._first_round,
            network=network_figures(self._collected.path, self._phases, is_local=self._instrument.is_local),
        )
        return replace(raw, classes=self._classes.conclude(raw, counted))

    def _samples(self, whole: Window) -> tuple[Sample, ...] | None:
        """Return the samples of the merged windows, otherwise the latest one before their end."""
        poller = self._instrument.metrics
        if poller is None:
            return None
        if whole.samples or poller.latest is None:
            return whole.samples
        return (poller.latest,)
