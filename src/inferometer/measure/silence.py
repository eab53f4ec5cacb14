"""A server that takes requests and says nothing."""

from dataclasses import dataclass

from inferometer.base.units import NS_PER_S
from inferometer.load.workers import Collected

LIMIT_NS = 60 * NS_PER_S
GONE_NS = 5 * NS_PER_S  # after so long with failures and without any answer the server is taken for gone
NOTICE = 0.1  # share of a request time-out after which its failures are surely seen


def silence_limit_ns(timeout_ns: int, window_ns: int) -> int:
    """A longer time-out or window says that answers may take longer."""
    return max(LIMIT_NS, round(timeout_ns * (1 + NOTICE)), window_ns)


@dataclass(slots=True)
class Silence:
    """How long requests have been outstanding without a word from the server.

    Time without requests says nothing: a schedule may have pauses. The pause after a failed request is silence too.
    """

    limit_ns: int
    since_ns: int
    _heard: int = 0
    _is_failing: bool = False  # the last request that ended had no answer

    def is_over(self, collected: Collected) -> bool:
        """Whether the limit is passed, given what was collected now."""
        answered = collected.records.is_answered
        if len(answered):
            self._is_failing = not answered.any()
        is_idle = not collected.outstanding and not self._is_failing
        if answered.any() or collected.heard != self._heard or is_idle:
            self.since_ns, self._heard = collected.seen_ns, collected.heard
        return collected.seen_ns - self.since_ns >= self.limit_ns
