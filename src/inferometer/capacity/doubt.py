"""Why a saved result is too imprecise to bound the number of replicas."""

from inferometer.base.slo import Slo, Term
from inferometer.base.units import plain_number
from inferometer.capacity.replica import LEAST_PART, load_words, measured_levels
from inferometer.stats.binomial import SIDE
from inferometer.stats.estimate import Distribution
from inferometer.stats.promises import LARGEST_SHARE
from inferometer.stats.result import Result


def maybe_doubt(result: Result, promise: Slo) -> str:
    """Return why a result sets no bound for the number of replicas; empty if it does.

    Every throughput must have an interval, and the lightest load enough requests for each percentile.
    """
    rows = measured_levels(result)
    for level, found in rows:
        if found.infer_per_s.limits is None:
            return f"the throughput at {load_words(level)} has no interval"
        if found.infer_per_s.limits[0] < LEAST_PART * found.infer_per_s.value:
            return f"the throughput at {load_words(level)} is too uncertain"
    level, found = rows[0]
    for term in promise.terms:
        if term.figure == "latency" and not _is_bounded(term, found.latency):
            return f"{plain_number(found.latency.count)} requests at {load_words(level)} are too few for {term.name}"
    return ""


def _is_bounded(term: Term, latency: Distribution) -> bool:
    """Return whether the slowest request bounds the percentile.

    A limit far above it needs fewer requests, as in the judgement of an SLO (`stats.promises`).
    """
    if term.share is None:
        return True
    share = term.share
    if latency.max_ns:
        share = max(share, min(LARGEST_SHARE, share * term.limit / latency.max_ns))
    return (1 - share) ** latency.count < SIDE
