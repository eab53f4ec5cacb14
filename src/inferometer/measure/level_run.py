"""A level during its measurement: apply the load, divide the records into windows, stop when the rule says so.

    collect -> split at the window's end -> add records that ended inside -> close the window -> decide

A window ends after a time or a count of requests. The server's counters are read as close to its end as possible:
nothing is collected just before, so that the call is on time. Records that ended later wait for the next window.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inferometer.base import status
from inferometer.base.deadline import CALL_LAST_S
from inferometer.base.errors import PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, plain_number
from inferometer.load.plan import NEVER, Arrivals, Closed, Plan, open_plans
from inferometer.load.workers import Cost
from inferometer.measure.class_windows import ClassCourses, rules_of
from inferometer.measure.conclusion import RawLevel, ScheduleTiming, latency_name
from inferometer.measure.instrument import (
    FEWEST_ENDED,
    GONE_NS,
    Instrument,
    LevelSettings,
    LoadPoint,
    Silence,
)
from inferometer.measure.ramp import Start
from inferometer.observe.metrics import Sample
from inferometer.records.records import Records, join
from inferometer.stats.doubts import TOKENS, moving_figure
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.measurement import Estimate, WindowFigures
from inferometer.stats.merge import counters_were_reset, latency_estimate, rate_estimate, token_estimate
from inferometer.stats.promises import judge
from inferometer.stats.readings import CounterReading, CounterReadings, waiting
from inferometer.stats.series import Series
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
from inferometer.stats.windows import (
    Expense,
    Lateness,
    Window,
    add_failures,
    condensed,
    figures,
    has_answers,
    join_windows,
    split,
)

# Collecting stops this long before a window's end: the counters come first. They are requested early by half the
# duration of the call, unless that is a stall.
NEAR_NS = 200 * NS_PER_MS
LONGEST_LEAD_NS = 5 * NS_PER_MS
READS = 3  # of the counters at a level's start, until one is quick
QUICK_NS = NS_PER_MS
SETTLE_STEP_NS = 100 * NS_PER_MS  # interval of checks for an interruption
BUSY_NS = 200 * NS_PER_MS  # a server that takes this long is not asked again


class LevelRun:
    """The windows of a level as they fill, and the decision when to stop. Creating it applies the load."""

    def __init__(self, instrument: Instrument, settings: LevelSettings, point: LoadPoint) -> None:
        self._instrument = instrument
        self._settings = settings
        self._point = point
        self._is_open = bool(open_plans(point.plan))
        self._timing = ScheduleTiming() if self._is_open and settings.is_whole else None
        self._classes = ClassCourses(instrument, settings, point)
        caps = [plan.cap for plan in open_plans(point.plan)]
        cap = None if not caps or None in caps else sum(each for each in caps if each is not None)
        self._rules = rules_of(settings, is_open=self._is_open, classes=self._classes.is_due, cap=cap)
        self.windows: list[Window] = []  # windows that may be merged
        self.figures: list[WindowFigures] = []
        self.boundaries_ns: list[int] = []  # of all windows
        self._first_round: Window | None = None  # requests that ended during a staggered start
        self._is_last = False  # the last closed window contains the rest of a whole plan
        self._has_enough = False
        self._is_gone = False
        self._is_mute = False
        self._was_silent = False  # some requests of the last closed window got no answer
        self._silent_since_ns = 0
        self._last_end_ns = 0
        self._arrivals = tuple(map(Arrivals, open_plans(point.plan)))
        self._loop_lags = Series()  # since the last closed window
        self._statistics_error: PeerError | None = None
        self._readings = CounterReadings()
        self._lead_ns = 0
        self._cut_ns = 0  # when a window of the classic rule is cut short
        self._after: CounterReading | None = None  # at the end of the current window
        self._is_read = False  # whether that reading was attempted
        self._waiting: float | None = None  # in the server, during the last closed window
        self._start()

    def _start(self) -> None:
        instrument, plan = self._instrument, self._point.plan
        if self._settings.is_whole or self._settings.is_timed:  # every request counts, from the first on
            self._watch_host()
        if self._settings.is_whole:
            self._before = self._read_counters()
            earlier = instrument.load.collect(instrument.clock())
            self.start_ns = instrument.clock()  # earlier ends do not belong to this level
            self._schedule_ns = instrument.load.apply(plan)  # the time it began
            self._collected = instrument.load.collect(self.start_ns)
            self._cost, self._cost_ns = earlier.cost, self.start_ns
        else:
            self._schedule_ns = self._apply(plan)
            if self._settings.is_timed:  # its time is that of the schedule
                instrument.load.wait(self._schedule_ns)
            else:
                self._watch_host()  # no request before the first window counts, so this delays none that does
            self._collected = instrument.load.collect(instrument.clock())
            self._before = self._read_closely()
            if self._settings.is_timed:
                self.start_ns = self._schedule_ns
            else:
                self.start_ns = instrument.clock() if self._before is None else self._before.middle_ns
            self._cost, self._cost_ns = self._collected.cost, self._collected.seen_ns
        self._due = self._due_by(self._cost_ns)  # requests due by the end of the last closed window
        self._rest = split(self._collected.records, self.start_ns)[1]  # ended after that window
        self._is_finished = self._collected.is_finished and self._settings.is_whole
        self._last_good_ns = self.start_ns
        self._silence = Silence(instrument.silence_ns, self.start_ns)
        self._sent_before = self._cost.sent
        self._reported_cpu_ns = sum(self._collected.cost.cpu_ns)
        self._classes.begin(self.start_ns, self._schedule_ns, self._cost_ns)
        self._add_to_readings(self._rest)
        self._open = self._rules.new_window(self.start_ns)
        self._ended = 0  # requests since the start
        self._report_progress(self._rest)

    def _apply(self, plan: Plan) -> int:
        """Apply the load; with a staggered start, wait until all users have started."""
        rule, ramp = self._settings.rule, self._settings.ramp
        if ramp is None or not isinstance(plan, Closed) or not isinstance(rule, Precision):
            begun_ns = self._instrument.load.apply(plan)
            self._settle(begun_ns + (self._settings.settle_ns if self._is_open else 0))
            return begun_ns
        start = Start(self._instrument, ramp, rule.duration_ns)
        begun_ns = start.apply(plan)
        if start.ended:
            self._first_round = self._window_of(join(start.ended), begun_ns)
        return begun_ns

    def _settle(self, until_ns: int) -> None:
        """Discard records until then."""
        instrument = self._instrument
        while instrument.clock() < until_ns and not instrument.watcher.is_interrupted():
            instrument.load.collect(min(until_ns, instrument.clock() + SETTLE_STEP_NS))

    def _window_of(self, records: Records, start_ns: int) -> Window:
        """Put requests that ended before the level in a window of their own."""
        rules = replace(self._rules, follows_work=False, lateness=Lateness())
        window = rules.new_window(start_ns)
        rules.add(window, records)
        window.end_ns = max(self._instrument.clock(), start_ns + 1)
        return window

    def _watch_host(self) -> None:
        if self._instrument.host is not None:
            self._instrument.host.begin()

    def _read_counters(self) -> CounterReading | None:
        if self._statistics_error is not None:
            return None  # one failure may have used up its time limit while the load continues
        asked_ns = self._instrument.clock()
        try:
            counters = self._instrument.read_counters()
        except PeerError as error:
            self._statistics_error = error
            return None  # the server is unreachable; the client's figures remain
        if counters is None:
            return None
        answered_ns = self._instrument.clock()
        self._lead_ns = min((answered_ns - asked_ns) // 2, LONGEST_LEAD_NS)
        reading = self._readings.begin(counters, asked_ns, answered_ns)
        self._classes.read(reading)
        return reading

    def _add_to_readings(self, records: Records) -> None:
        seen_ns, outstanding = self._collected.seen_ns, self._collected.outstanding
        self._readings.add(records.end_ns, records.status, seen_ns, outstanding)
        self._classes.add(records, seen_ns, outstanding)

    def _read_closely(self) -> CounterReading | None:
        """Read the counters at the start of the first window as precisely as possible."""
        best = None
        for _ in range(READS):
            reading = self._read_counters()
            if reading is None:
                return None
            best = reading if best is None or reading.span_ns < best.span_ns else best
            if best.span_ns <= QUICK_NS or reading.span_ns >= BUSY_NS:
                break
        return best

    # --- filling one window

    def measure_window(self) -> None:
        settings = self._settings
        if settings.window_ns is not None:
            end_ns = self._fill_until(self._open.start_ns + settings.window_ns)
        else:
            count = self._window_count
            self._is_last = count == NEVER
            end_ns = self._fill_to_count(count)
        if self._is_given_up and self._last_good_ns > self._open.start_ns:
            end_ns = self._last_good_ns  # nothing was sent after the last answer
        if settings.is_whole and not self.windows:
            self._open.begin_at_first_send()
        if not self._is_read:  # the end was seen only afterwards
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
        ended = sum(row.ended_count for row in self.figures)
        return count if count and planned is not None and planned - ended >= 2 * count else NEVER

    def _read_late(self, end_ns: int) -> None:
        """Read the counters after the window's end. If the call is longer than a window, reuse an earlier reading
        that was also made after this end: another would be no closer, and all windows are merged anyway."""
        is_merged = self._settings.is_whole or isinstance(self._settings.rule, Precision)
        if is_merged and self._before is not None and self._before.asked_ns >= end_ns:
            self._after = self._before
            return
        self._after = self._read_counters()
        if self._after is not None and not self._is_finished:
            self._collect(self._after.answered_ns)

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
                end_ns, self._is_read = end_ns + longer_ns, False
                continue
            if self._is_given_up or self._is_cut():
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
        if self._is_enough() or self._has_streams:
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
                return int(inside.end_ns[-1])
            if self._is_finished and self._last_end_ns:
                return self._last_end_ns
            if self._is_given_up or self._is_finished or self._instrument.watcher.is_interrupted():
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
        if not ended and self.figures:
            last = self.figures[-1]
            ended, span_ns = last.ended_count, last.duration_ns
        far_ns = self._collected.seen_ns + self._settings.patience_ns
        return min(far_ns, self._collected.seen_ns + missing * span_ns // ended) if ended else far_ns

    def _collect_until_end(self, end_ns: int) -> None:
        """Collect; if that reaches the window's end, first read the server's counters exactly then."""
        clock = self._instrument.clock
        self._is_read = end_ns - clock() <= NEAR_NS
        if not self._is_read:
            self._collect(end_ns - NEAR_NS)
            return
        self._instrument.load.wait(end_ns - self._lead_ns)
        self._after = self._read_counters()
        self._collect(max(end_ns, clock()), with_running=self._settings.follows_work)

    def _collect(self, until_ns: int, *, with_running: bool = False) -> None:
        load = self._instrument.load
        self._collected = (
            load.collect(until_ns, with_running=True) if with_running else load.collect(until_ns)
        )
        self._is_mute = self._silence.is_over(self._collected)
        self._add_to_readings(self._collected.records)
        fresh = split(self._collected.records, self.start_ns)[1]
        self._rest = join([self._rest, fresh]) if len(self._rest) else fresh
        self._is_finished = self._settings.is_whole and self._collected.is_finished
        self._loop_lags.append(np.array([self._collected.loop_lag_ns]))
        self._report_progress(fresh)

    def _report_progress(self, fresh: Records) -> None:
        """Report the progress and the requests that ended since the last report."""
        self._ended += len(fresh)
        elapsed_s = max(0, self._collected.seen_ns - self.start_ns) / NS_PER_S
        good = fresh.good
        left_s, is_most = self._left_s(elapsed_s)
        reported_cpu_ns, self._reported_cpu_ns = self._reported_cpu_ns, sum(self._collected.cost.cpu_ns)
        watcher = self._instrument.watcher
        watcher.ticked(elapsed_s, self._open.count, self._open.failed_count + self._open.empty)
        watcher.progressed(
            LevelProgress(
                seen_ns=self._collected.seen_ns,
                elapsed_s=elapsed_s,
                latency_ns=good.end_ns - (good.due_ns if self._is_open else good.sent_ns),
                failed=len(fresh.failed),
                outstanding=self._collected.outstanding,
                left_s=left_s,
                is_most=is_most,
                tokens=_tokens(good) if self._settings.has_tokens else None,
                cpu_ns=max(0, self._reported_cpu_ns - reported_cpu_ns),
                server_waiting=self._server_waiting,
                gpu=self._gpu_share,
            )
        )

    @property
    def _server_waiting(self) -> float | None:
        """Requests in the server's queue: from its metrics, or else the average of the last window."""
        metrics = self._instrument.metrics
        seen = None if metrics is None or metrics.latest is None else metrics.latest.waiting
        return self._waiting if seen is None else seen

    @property
    def _gpu_share(self) -> float | None:
        metrics, host = self._instrument.metrics, self._instrument.host
        seen = None if metrics is None or metrics.latest is None else metrics.latest.gpu_share
        return host.gpu_share if seen is None and host is not None else seen

    def _left_s(self, elapsed_s: float) -> tuple[float | None, bool]:
        """Return the time until the level ends, None if unknown, and whether it may end sooner."""
        settings, rule, count = self._settings, self._settings.rule, self._point.plan.count
        longest_s, is_most = None, False
        if settings.is_whole and count is not None:
            per_s = self._point.asked_per_s
            longest_s = count / per_s if per_s else elapsed_s * count / self._ended if self._ended else None
        elif settings.is_whole:
            pass  # a concurrency ramp or sessions: until all have ended
        elif isinstance(rule, Precision):
            longest_s, is_most = rule.duration_ns / NS_PER_S, rule.precision > 0 or rule.is_enough is not None
        elif settings.window_ns is not None:
            longest_s, is_most = rule.max_trials * settings.window_ns / NS_PER_S, True
        return (None if longest_s is None else max(0.0, longest_s - elapsed_s)), is_most

    def _take(self, records: Records) -> None:
        if not len(records):
            return
        self._rules.add(self._open, records)
        self._classes.take(records)
        self._last_end_ns = int(records.end_ns[-1])
        if self._timing is not None:
            self._timing.add(records)
        good = records.good
        if len(good):
            self._last_good_ns = int(good.end_ns[-1])
            self._silent_since_ns = 0
        self._note_silence(records)

    def _note_silence(self, records: Records) -> None:
        """Consider the server gone after a long time of unanswered requests without any answer between them.

        Time without requests does not count: a schedule may have pauses.
        """
        is_silent = (
            ~records.is_answered & (records.status != status.TIMEOUT) & (records.end_ns > self._last_good_ns)
        )
        ends = records.end_ns[is_silent]
        if len(ends):
            self._silent_since_ns = self._silent_since_ns or int(ends[0])
            self._is_gone = int(ends[-1]) - self._silent_since_ns > GONE_NS

    @property
    def _is_given_up(self) -> bool:
        return (self._is_gone or self._is_mute) and not self._settings.is_timed

    def _cut_silence(self) -> None:
        """Exclude the time after the last answer, which carries no load and would dilute the rate. Failures stay."""
        last = max((number for number, window in enumerate(self.windows) if window.count), default=None)
        if last is None:
            return
        failures = add_failures(self.windows[last:])
        end_ns = max(self._last_good_ns, self.windows[last].start_ns + 1)
        self.windows[last:] = [replace(self.windows[last], end_ns=end_ns, failures=failures)]

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
        after, self._after, self._is_read = self._after, None, False
        window = replace(
            self._open,
            end_ns=end_ns,
            expense=self._expense(),
            before=self._before,
            after=after,
            samples=() if self._instrument.metrics is None else self._instrument.metrics.take(),
        )
        window.classes = self._classes.close(window, window, self._schedule_ns, self._cost_ns, self.start_ns)
        self._waiting = waiting(self._before, after)
        self.boundaries_ns += [end_ns] if self.boundaries_ns else [window.start_ns, end_ns]
        unanswered = {code for code in window.failures if code in status.NO_ANSWER}
        self._was_silent = bool(unanswered - {status.TIMEOUT})
        is_lead = self._settings.is_whole and not self.windows and not self._open.ended_count
        if not is_lead or self._is_finished:  # a whole plan counts from its first request on
            self._before = after
            self.windows.append(window)
        if isinstance(self._settings.rule, Stability) and not self._settings.is_whole:
            del self.windows[:-MERGED]
        self.windows = condensed(self.windows)
        self.figures.append(
            figures(
                window,
                level_start_ns=self.start_ns,
                batch=self._settings.batch,
                chosen=self._settings.percentile,
            )
        )
        self._open = self._rules.new_window(end_ns)

    @property
    def spanned_ns(self) -> tuple[int, ...]:
        """The windows' boundaries; the last one includes every counted request.

        When the load was abandoned or interrupted, some requests ended after the counted time.
        """
        return (*self.boundaries_ns[:-1], max(self.boundaries_ns[-1], self._last_end_ns))

    def _expense(self) -> Expense:
        old, new = self._cost, self._collected.cost
        due, self._due = self._due, self._due_by(self._collected.seen_ns)
        elapsed_ns = self._collected.seen_ns - self._cost_ns
        parts = (_spent(was, now, elapsed_ns) for was, now in zip(old.parts, new.parts, strict=True))
        expense = replace(
            _spent(old, new, elapsed_ns),
            due=self._due - due,
            loop_lags_ns=self._loop_lags,
            parts=tuple(parts),
        )
        self._loop_lags = Series()
        self._cost, self._cost_ns = new, self._collected.seen_ns
        return expense

    def _due_by(self, time_ns: int) -> int:
        return sum(arrivals.by(time_ns - self._schedule_ns) for arrivals in self._arrivals)

    def abandon(self) -> None:
        """Close the current window with the records so far."""
        self._after = self._read_counters()
        self._close(max(self._collected.seen_ns, self._open.start_ns + 1))

    # --- deciding

    def judge(self) -> StopDecision:
        decision = self._judge_time() if self._settings.is_timed else self._judge()
        return GO_ON if decision.is_done and self._may_answer_yet else decision

    def _judge(self) -> StopDecision:
        recent = self.figures if self._settings.is_whole else self.figures[-MERGED:]
        was_answered = self._last_good_ns > self.start_ns
        is_silent = was_answered and self._is_silent
        is_failing = is_silent or (_is_failing(recent) and not self._is_enough())
        may_recover = is_failing and was_answered and self._has_time
        if self._is_given_up or (is_silent and not may_recover and not self._settings.is_whole):
            self._cut_silence()
            return StopDecision(is_done=True, is_stable=False, remark=self._given_up())
        if self._instrument.watcher.is_interrupted():
            return StopDecision(is_done=True, is_stable=False, remark=Remark(Note.INTERRUPTED, "interrupted"))
        if may_recover or (self._settings.is_whole and self._is_going_on):
            return GO_ON
        if _is_failing(recent):
            return StopDecision(
                is_done=True, is_stable=False, remark=Remark(Note.FAILURES, self._all_failed(recent))
            )
        if self._settings.is_whole:
            return StopDecision(is_done=True, is_stable=True)
        if isinstance(self._settings.rule, Stability):
            return judge_stability(self._settings.rule, self.figures)
        return self._judge_precision(self._settings.rule)

    @property
    def _may_answer_yet(self) -> bool:
        """Whether some class has no successful answer yet, which may be a stall."""
        rule = self._settings.rule
        if not self._settings.awaits_answers or self._settings.is_whole or not isinstance(rule, Precision):
            return False
        if self._is_given_up or self._instrument.watcher.is_interrupted():
            return False
        is_early = self.windows[-1].end_ns - self.start_ns < rule.duration_ns + GONE_NS
        return is_early and not (has_answers(self.figures) and self._classes.have_answered)

    def _judge_time(self) -> StopDecision:
        """Stop by time only, or when interrupted."""
        if self._instrument.watcher.is_interrupted():
            return StopDecision(is_done=True, is_stable=False, remark=Remark(Note.INTERRUPTED, "interrupted"))
        assert isinstance(self._settings.rule, Precision)
        is_over = self.windows[-1].end_ns - self.start_ns >= self._settings.rule.duration_ns
        return StopDecision(is_done=is_over or self._is_finished, is_stable=True)

    @property
    def _is_silent(self) -> bool:
        """Whether requests of the last window got no answer, or earlier ones did not and a retry is pausing."""
        last = self.figures[-1]
        is_pausing = not self._is_open and not last.failed_count and self._silent_since_ns > 0
        return (self._was_silent or is_pausing) and not has_answers([last])

    @property
    def _has_time(self) -> bool:
        """Whether there is time left for a server that has just stopped answering; windows are short with the
        precision rule."""
        rule, now_ns = self._settings.rule, self._collected.seen_ns
        if self._settings.is_whole or not isinstance(rule, Precision):
            return False
        return now_ns - self._last_good_ns < GONE_NS and now_ns - self.start_ns < rule.duration_ns

    def _is_enough(self) -> bool:
        """Return whether the purpose of the level is decided; failures may decide it too, and the decision is final."""
        rule = self._settings.rule
        if isinstance(rule, Precision) and rule.is_enough is not None and not self._has_enough:
            self._has_enough = rule.is_enough()
        return self._has_enough

    def _all_failed(self, recent: Sequence[WindowFigures]) -> str:
        if not has_answers(self.figures):
            return "every request failed"
        failed = sum(row.failed_count for row in recent)
        return f"every request of the last {len(recent)} windows failed: {failed:,} of {failed:,}"

    def _given_up(self) -> Remark:
        """Return why the level ends here, and how much was not sent."""
        answered_s = (self._last_good_ns - self.start_ns) / NS_PER_S
        text = f"the last successful answer came {answered_s:.1f} s into the level"
        if not answered_s:
            text = "the server gave no successful answer"
        note = Note.SERVER_GONE
        if self._is_mute:
            note, limit_s = Note.NO_ANSWER, self._instrument.silence_ns / NS_PER_S
            text += f", with no answer at all for {plain_number(limit_s)} s"
        asked = self._point.plan.count
        unsent = 0 if asked is None else asked - (self._collected.cost.sent - self._sent_before)
        if unsent > 0:
            text += f"; {unsent:,} of {asked:,} requests were not sent"
        return Remark(note, text)

    @property
    def _is_going_on(self) -> bool:
        """Whether more windows of a whole plan follow."""
        return not self._is_last and not (self._is_finished and not len(self._rest))

    def _judge_precision(self, rule: Precision) -> StopDecision:
        elapsed_ns = self.windows[-1].end_ns - self.start_ns
        if rule.is_enough is not None:
            is_done = self._is_enough() or elapsed_ns >= rule.duration_ns
            return StopDecision(is_done=is_done, is_stable=is_done)
        is_over = elapsed_ns >= rule.duration_ns
        cold = self._cold_count()
        warm = self.windows[cold:]
        is_early = elapsed_ns < rule.shortest_ns or len(warm) < 2 * MERGED
        if not is_over and (
            is_early or moving_figure(self.figures[-sum(w.number for w in warm) :]) is not None
        ):
            return GO_ON
        whole = join_windows(warm)
        estimates = self._estimates(whole)
        decision = judge_precision(rule, elapsed_ns, estimates)
        may_go_on = decision.is_done and elapsed_ns < rule.duration_ns
        return GO_ON if may_go_on and not self._is_promise_decided(whole) else decision

    def _estimates(self, whole: Window) -> list[tuple[str, Estimate]]:
        """Return the figures that must be precise: tokens for a text server, unless a percentile is chosen."""
        chosen = self._settings.percentile
        latency = (latency_name(chosen), latency_estimate(whole, chosen))
        tokens = token_estimate(whole)
        if tokens is None:
            return [("throughput", rate_estimate(whole, self._settings.batch)), latency]
        return [(TOKENS, tokens)] if chosen is None else [(TOKENS, tokens), latency]

    def _is_promise_decided(self, whole: Window) -> bool:
        """Return whether the SLO is decided: more requests may decide one that is not."""
        promise = self._settings.promise if self._settings.judges_promise else None
        if promise is None:
            return True
        throughput = rate_estimate(whole, self._settings.batch)
        return judge(promise, whole, {"throughput": throughput}).verdict != "undecided"

    def _cold_count(self) -> int:
        """Return the number of excluded windows at the start; 0 if a silence was cut out."""
        numbers = np.cumsum([window.number for window in self.windows])
        if not self._settings.finds_warm_up or not self.windows or numbers[-1] != len(self.figures):
            return 0
        cold = cold_windows(self.figures)
        return int(np.searchsorted(numbers, cold)) + 1 if cold else 0

    # --- the result

    def raw(self, decision: StopDecision) -> RawLevel:
        """Return the observations from which `conclude` builds the level."""
        poller = self._instrument.metrics
        cold = self._cold_count()
        counted = self.windows[cold:] or [self._open]
        whole = join_windows(counted)
        raw = RawLevel(
            settings=self._settings,
            point=self._point,
            decision=decision,
            cold=join_windows(self.windows[:cold]) if cold else None,
            whole=whole,
            were_counters_reset=counters_were_reset(counted),
            figures=self.figures,
            start_ns=self.start_ns,
            examples=self._instrument.load.examples(),
            samples=self._samples(whole),
            statistics_error=None if self._is_given_up else self._statistics_error,
            metrics_remarks=() if poller is None else tuple(poller.remarks()),
            timing=self._timing,
            first_round=self._first_round,
        )
        return replace(raw, classes=self._classes.conclude(raw, counted))

    def _samples(self, whole: Window) -> tuple[Sample, ...] | None:
        """Return the samples of the merged windows, or else the latest one before their end."""
        poller = self._instrument.metrics
        if poller is None:
            return None
        if whole.samples or poller.latest is None:
            return whole.samples
        return (poller.latest,)


def _spent(old: Cost, new: Cost, elapsed_ns: int) -> Expense:
    return Expense(
        cpu_ns=tuple(now - then for now, then in zip(new.cpu_ns, old.cpu_ns, strict=True)),
        elapsed_ns=elapsed_ns,
        sent=new.sent - old.sent,
        reconnects=new.reconnects - old.reconnects,
        connects=new.connects - old.connects,
        connect_ns=new.connect_ns - old.connect_ns,
        files=new.files,
        file_limit=new.file_limit,
        stolen_ns=new.stolen_ns - old.stolen_ns,
        visits=new.visits - old.visits,
    )


def _is_failing(rows: Sequence[WindowFigures]) -> bool:
    """Return whether requests failed in these windows and none succeeded."""
    return any(row.failed_count for row in rows) and not has_answers(rows)


def _tokens(good: Records) -> int:
    """Count tokens as reported by the server, or else as responses of streams."""
    return int(np.where(good.tokens > 0, good.tokens, good.responses).sum())
