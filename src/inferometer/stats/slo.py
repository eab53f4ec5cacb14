"""Figures and individual requests under an SLO (`base.slo`)."""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.slo import TIMES, Slo, Term
from inferometer.records.records import Records
from inferometer.stats.figures import Metric, named
from inferometer.stats.series import Durations
from inferometer.stats.streams import answers_ns, between_ns, longest_gaps_ns, tools_ns

NEVER_NS = 10**14  # represents a first token that never came; sums of many fit into 64 bits


def metric_of(term: Term) -> Metric:
    """Return the metric that a term limits."""
    found = named(term.label)
    assert found is not None
    return found


def is_each_within(term: Term, durations: Durations) -> NDArray[np.bool_]:
    """Return for each duration whether it meets the limit of a term."""
    return durations <= term.limit if term.sign.endswith("=") else durations < term.limit


def durations_ns(records: Records, figure: str, *, is_open: bool) -> Durations:
    """Return a duration of each request by the name of a figure; -1 if it has none."""
    if figure == "ttft":
        took = np.where(records.first_ns > 0, records.first_ns - records.sent_ns, -1)
        return np.where(records.responses > 0, took, NEVER_NS)
    if figure == "ttfo":
        took = answers_ns(records)
        return np.where(took < 0, NEVER_NS, took)
    if figure == "ttfc":
        return tools_ns(records)
    if figure == "tpot":
        return between_ns(records)
    if figure == "gap":
        return longest_gaps_ns(records)
    return records.end_ns - began_ns(records, is_open=is_open)


def began_ns(records: Records, *, is_open: bool) -> Durations:
    """Return the start of each latency. A request that was never sent has waited since it was due."""
    return records.due_ns if is_open else np.where(records.sent_ns > 0, records.sent_ns, records.due_ns)


def kept(records: Records, promise: Slo, *, is_open: bool) -> int:
    """Count successful requests that each meet all time limits of the SLO, regardless of their percentiles."""
    good: NDArray[np.bool_] = np.ones(len(records), dtype=np.bool_)
    for term in promise.terms:
        if term.figure in TIMES:
            good &= is_each_within(term, durations_ns(records, term.figure, is_open=is_open))
    return int(good.sum())
