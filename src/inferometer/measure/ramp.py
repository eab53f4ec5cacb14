"""Start of a closed load: with long answers, users start one after the other.

Users who all start at once stay in lockstep: their prompts are read together and their answers end together, round
after round, and the figures reflect this pattern. With long answers, starts are therefore spread over about one answer,
and measuring begins after the first round, when every user active by then has been answered.

The response time is known from the previous level, or from a single request sent alone. If that is answered within
`SHORT_NS`, all users start at once. Answers get slower while users start: the received part of the oldest answer
predicts its total time. All users start before it ends, because a user that started together with the second request of
the first user would stay in step with it if answers have equal lengths.
"""

from dataclasses import dataclass, field

import numpy as np

from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Closed
from inferometer.load.workers import Collected
from inferometer.measure.instrument import Instrument, Ramp
from inferometer.measure.level_report import report_warm_up
from inferometer.records.records import Records, join

SHORT_NS = 250 * NS_PER_MS
LOOK_NS = 20 * NS_PER_MS  # between polls for the answer to a single request
ROUND_NS = 100 * NS_PER_MS
LONGEST_LOOK = 0.25  # share of the level's time for which a single request may run alone
LONGEST_RAMP = 0.5
BETWEEN_PROMPTS = 1.2  # multiple of a single request's time to first token
MOST_SLOWER = 2.0  # multiple of a response time over which many users may start
LEAST_PART = 0.1  # received part of an answer that suffices to predict its total time


@dataclass(slots=True)
class Start:
    """Starts a closed load, and collects requests that end before its first round is over."""

    instrument: Instrument
    ramp: Ramp
    duration_ns: int  # of the level that follows
    begun_ns: int = 0
    ended: list[Records] = field(default_factory=list)  # requests of this load
    _responses: int = 0  # of streams, including those in flight

    def apply(self, plan: Closed) -> int:
        """Start the load and return its start time once the level may begin, or the load is interrupted."""
        self.begun_ns = self.instrument.clock()
        answer_ns = self._answer_ns(plan)
        if answer_ns is None:
            self.ended.clear()  # the single request is not a round of all users
            return self.instrument.load.apply(plan)
        self._start_users(plan, answer_ns)
        self._finish_first_round()
        return self.begun_ns

    def _answer_ns(self, plan: Closed) -> int | None:
        """Return the time over which users start; None if all start at once."""
        if self.ramp.length_ns is not None:
            return self.ramp.length_ns or None
        if plan.concurrency < 2:
            return None
        answer_ns = self._first_answer_ns() if self.ramp.answer_ns is None else self.ramp.answer_ns
        return None if answer_ns < SHORT_NS else answer_ns

    def _first_answer_ns(self) -> int:
        """Return the response time of a single request, or the time so far if it takes too long."""
        self.instrument.load.apply(Closed(1))
        sent_ns = self.instrument.clock()
        until_ns = sent_ns + max(SHORT_NS, round(LONGEST_LOOK * self.duration_ns))
        while self.instrument.clock() < until_ns and not self._is_interrupted:
            self._collect(min(until_ns, self.instrument.clock() + LOOK_NS))
            ours = join(self.ended)
            if len(ours):
                return int(ours.end_ns[0] - ours.sent_ns[0]) if ours.sent_ns[0] else 0
        return self.instrument.clock() - sent_ns

    def _start_users(self, plan: Closed, answer_ns: int) -> None:
        """Start users over the requested ramp, otherwise over one response time under full load."""
        load, clock = self.instrument.load, self.instrument.clock
        is_given, users = self.ramp.length_ns is not None, plan.concurrency
        until_ns = clock() + (answer_ns if is_given else round(LONGEST_RAMP * self.duration_ns))
        last = self._collect(clock())
        load.apply(plan._replace(ramp_ns=_part(answer_ns, users - last.outstanding, users)))
        while clock() < until_ns and not self._is_interrupted:
            found = self._collect(min(clock() + ROUND_NS, until_ns))
            waiting = users - found.outstanding
            if waiting <= 0:
                return
            if not is_given:
                left_ns = max(until_ns - clock(), 1)
                part_ns = _part(self._expected_ns(answer_ns, users, found), waiting, users)
                load.apply(plan._replace(ramp_ns=min(part_ns, left_ns)))

    def _expected_ns(self, alone_ns: int, users: int, found: Collected) -> int:
        """Predict the total time of the oldest request in flight from the received part of its answer.

        It is longer if the server would otherwise have to read several prompts at once.
        """
        good, running = join(self.ended).good, found.running
        if not len(good):
            return alone_ns
        each = float(good.stamps.mean())
        if running is None or not len(running.stamps) or each < 2:  # not streamed
            return int((good.end_ns - good.sent_ns)[-1])
        oldest = int(np.argmin(running.sent_ns))
        part = float(running.stamps[oldest]) / each
        whole_ns = alone_ns if part < LEAST_PART else float(found.seen_ns - running.sent_ns[oldest]) / part
        first_ns = float((good.first_ns - good.sent_ns).min())
        prompts_ns = min(BETWEEN_PROMPTS * first_ns * users, MOST_SLOWER * whole_ns)
        return round(max(alone_ns, whole_ns, prompts_ns))

    def _finish_first_round(self) -> None:
        """Wait for the requests now in flight, but no longer than the level lasts."""
        if not self._responses and not any(map(len, self.ended)):
            return  # it is unknown whether anything will be answered
        started_ns = self.instrument.clock()
        until_ns = started_ns + self.duration_ns
        while self.instrument.clock() < until_ns and not self._is_interrupted:
            running = self._collect(self.instrument.clock() + ROUND_NS).running
            if running is None or not (running.sent_ns < started_ns).any():
                return

    @property
    def _is_interrupted(self) -> bool:
        return self.instrument.watcher.is_interrupted()

    def _collect(self, until_ns: int) -> Collected:
        collected = self.instrument.load.collect(until_ns, with_running=True)
        ours = collected.records.where(collected.records.sent_ns >= self.begun_ns)
        self.ended.append(ours)
        in_flight = 0 if collected.running is None else int(collected.running.stamps.sum())
        self._responses = in_flight + sum(int(part.stamps.sum()) for part in self.ended)
        report_warm_up(self.instrument.watcher, self.begun_ns, collected, ours)
        return collected


def _part(answer_ns: int, waiting: int, users: int) -> int:
    """Return the time over which the waiting users start, so that all users are spread over one answer."""
    return max(1, round(answer_ns * waiting / users))
