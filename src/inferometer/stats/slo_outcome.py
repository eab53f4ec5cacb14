"""Verdict on an SLO at a level, goodput, and checked answers."""

from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Estimate


@frozen
class Goodput:
    """Requests that each met the limits of an SLO."""

    promise: str
    count: int
    per_s: float  # inferences: a request has as many as its batch
    share: float  # of all that ended, including failures


@frozen
class CheckFigures:
    """Answers that --check judged."""

    checked: int
    wrong: int
    share: Estimate  # of wrong answers
    example: str = ""  # what is wrong with the first one of the run


Keeping = Literal["kept", "broken", "undecided"]
"""Verdict on an SLO."""


@frozen
class TermOutcome:
    """One limit of an SLO and its figure: nanoseconds, a share, or inferences per second."""

    name: str  # of the figure: mean, p99, ttft p99, errors, throughput, goodput
    text: str  # the limit as written, such as p99<50ms
    limit: float
    found: Estimate | None  # None if no request has this figure
    verdict: Keeping
    reason: str = ""  # why it is undecided, or what decided it if the figure has no interval


@frozen
class PromiseOutcome:
    """Verdict on an SLO at a level."""

    promise: str
    verdict: Keeping
    terms: tuple[TermOutcome, ...]
    reason: str = ""  # why an SLO whose terms are all kept is undecided

    def of(self, verdict: Keeping) -> tuple[TermOutcome, ...]:
        return tuple(term for term in self.terms if term.verdict == verdict)

    @property
    def limits_errors(self) -> bool:
        """Whether the SLO limits errors explicitly; otherwise the default limit applies."""
        return "errors" in self.promise.lower()
