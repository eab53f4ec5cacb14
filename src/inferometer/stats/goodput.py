"""Which requests keep a promise, each looked at by itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer.records.records import Records
from inferometer.stats.slo import Slo
from inferometer.stats.tokens import between_ns


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take, in nanoseconds; None is no limit."""

    latency_ns: float | None = None
    first_ns: float | None = None
    between_ns: float | None = None


def limits(promise: Slo) -> Limits:
    """The promise as it holds for a single request: the strictest limit of each figure, whatever its percentile."""

    def strictest(figure: str) -> float | None:
        return min((term.limit for term in promise.terms if term.figure == figure), default=None)

    return Limits(strictest("latency"), strictest("ttft"), strictest("tpot"))


def kept(records: Records, limits: Limits, *, is_open: bool) -> int:
    """How many of these good requests are within the limits."""
    good: NDArray[np.bool_] = np.ones(len(records), dtype=np.bool_)
    if limits.latency_ns is not None:
        good &= records.end_ns - (records.due_ns if is_open else records.sent_ns) < limits.latency_ns
    if limits.first_ns is not None:
        good &= records.first_ns - records.sent_ns < limits.first_ns
    if limits.between_ns is not None:
        good &= between_ns(records) < limits.between_ns
    return int(good.sum())
