"""Whether the server still answers, and when a level gives up on it."""

from dataclasses import dataclass, field

from inferometer.base import status
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S, plain_number
from inferometer.load.workers import Collected
from inferometer.records.records import Records
from inferometer.stats.windows import Window

GONE_NS = 5 * NS_PER_S  # time of failures without any answer after which the server counts as gone


@dataclass(slots=True)
class Silence:
    """Time for which requests have been outstanding without any sign of the server.

    Time without requests does not count: a schedule may have pauses. The pause after a failed request does.
    """

    limit_ns: int
    since_ns: int
    _heard: int = 0
    _is_failing: bool = False  # the last finished request had no answer

    def is_over(self, collected: Collected) -> bool:
        """Return whether the limit has passed, given the latest records."""
        answered = collected.records.is_answered
        if len(answered):
            self._is_failing = not answered.any()
        is_idle = not collected.outstanding and not self._is_failing
        if answered.any() or collected.heard != self._heard or is_idle:
            self.since_ns, self._heard = collected.seen_ns, collected.heard
        return collected.seen_ns - self.since_ns >= self.limit_ns


@dataclass(slots=True)
class Liveness:
    """Answers and silence of the server during a level."""

    start_ns: int
    silence: Silence
    gives_up: bool  # otherwise the level lasts its full time, whatever the server does
    last_good_ns: int = field(init=False)  # end of the last successful answer; the start if there was none
    silent_since_ns: int = 0  # first unanswered request since then; 0 if there was none
    was_silent: bool = False  # some requests of the last closed window got no answer
    _is_gone: bool = False
    _is_mute: bool = False

    def __post_init__(self) -> None:
        self.last_good_ns = self.start_ns

    @property
    def is_given_up(self) -> bool:
        return (self._is_gone or self._is_mute) and self.gives_up

    @property
    def was_answered(self) -> bool:
        return self.last_good_ns > self.start_ns

    def hear(self, collected: Collected) -> None:
        self._is_mute = self.silence.is_over(collected)

    def add(self, records: Records) -> None:
        """Add requests of the current window. The server counts as gone after a long time of unanswered requests
        without any answer between them. Time without requests does not count: a schedule may have pauses."""
        good = records.good
        if len(good):
            self.last_good_ns = max(self.last_good_ns, int(good.end_ns[-1]))  # some are read late
            self.silent_since_ns = 0
        is_silent = (
            ~records.is_answered & (records.status != status.TIMEOUT) & (records.end_ns > self.last_good_ns)
        )
        ends = records.end_ns[is_silent]
        if len(ends):
            self.silent_since_ns = self.silent_since_ns or int(ends[0])
            self._is_gone = int(ends[-1]) - self.silent_since_ns > GONE_NS

    def close(self, window: Window) -> None:
        unanswered = {code for code in window.failures if code in status.NO_ANSWER}
        self.was_silent = bool(unanswered - {status.TIMEOUT})

    def may_recover(self, now_ns: int) -> bool:
        """Return whether the last answer is so recent that the server may only have stalled."""
        return now_ns - self.last_good_ns < GONE_NS

    def remark(self, asked: int | None, sent: int) -> Remark:
        """Return why the level ends here, and how much of the plan was not sent."""
        answered_s = (self.last_good_ns - self.start_ns) / NS_PER_S
        text = f"the last successful answer came {answered_s:.1f} s into the level"
        if not answered_s:
            text = "the server gave no successful answer"
        note = Note.SERVER_GONE
        if self._is_mute:
            note, limit_s = Note.NO_ANSWER, self.silence.limit_ns / NS_PER_S
            text += f", with no answer at all for {plain_number(limit_s)} s"
        if asked is not None and asked > sent:
            text += f"; {asked - sent:,} of {asked:,} requests were not sent"
        return Remark(note, text)
