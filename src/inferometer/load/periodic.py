"""Batches of a periodic plan: each begins when the requests of the previous one have received enough responses."""

from collections.abc import Callable

from inferometer.base.errors import UsageError
from inferometer.load.plan import Periodic


class Batches:
    """Slots whose responses the next batch awaits. `begin` sends one request on each slot of a batch."""

    def __init__(self, plan: Periodic, begin: Callable[[range], None]) -> None:
        self._plan = plan
        self._begin = begin
        self._launched = 0
        self._is_launching = False
        self._awaited: set[int] = set()  # slots of the latest batch still short of responses

    def launch(self) -> None:
        """Begin the next batch, and further ones as long as all requests of a batch fail within their send."""
        plan, self._is_launching = self._plan, True
        while not self._awaited and self._launched < plan.end:
            first = self._launched
            self._launched = min(first + plan.step, plan.end) if first else plan.start
            batch = range(first, self._launched)
            self._awaited = set(batch)
            self._begin(batch)
        self._is_launching = False

    def responded(self, slot: int, responses: int) -> None:
        """Count the responses to the slot's request so far."""
        if responses >= self._plan.period:
            self.release(slot)

    def release(self, slot: int) -> None:
        """Stop waiting for the slot before the next batch."""
        self._awaited.discard(slot)
        if not self._awaited and not self._is_launching:
            self.launch()

    def check_ended(self, slot: int) -> None:
        """Raise a UsageError if the slot's request ended too early: the next batch would never begin."""
        if slot in self._awaited:
            from inferometer.options.names import option_name

            raise UsageError(
                f"a request ended with fewer responses than the request period of {self._plan.period}",
                remedy=f"give a lower {option_name('--request-period')}, or data that makes the model send "
                "more responses",
            )
