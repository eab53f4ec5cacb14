"""A promise about latency and errors, such as `p99<50ms, errors<0.1%`, or of text `ttft<200ms, tpot<20ms`."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.units import parse_duration_ns, parse_share
from inferometer.records.records import Records
from inferometer.stats.figures import Metric, named
from inferometer.stats.series import PERCENTILES, Durations
from inferometer.stats.streams import between_ns

_TERM = re.compile(
    r"\s*(?:(?P<figure>ttft|tpot)(?:[ _](?P<of>p\d{1,2}(?:\.\d+)?))?|(?P<name>[a-z]+|p\d{1,2}(?:\.\d+)?))"
    r"\s*<=?\s*(?P<limit>[^\s]+)\s*"
)


@dataclass(frozen=True, slots=True)
class Term:
    """One figure and its limit: nanoseconds, or a share for errors."""

    name: str  # mean, errors, or a percentile such as p99
    limit: float
    figure: str = "latency"  # ttft is the time to the first token, tpot that from one token to the next

    @property
    def label(self) -> str:
        if self.figure in ("latency", "errors"):
            return self.name
        return self.figure if self.name == "mean" else f"{self.figure} {self.name}"

    @property
    def share(self) -> float | None:
        """Of requests that may be beyond the limit, or fail; None for a mean."""
        if self.name == "errors":
            return self.limit
        return None if self.name == "mean" else 1 - float(self.name[1:]) / 100

    @property
    def metric(self) -> Metric:
        found = named(self.label)
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Slo:
    """All terms must hold."""

    terms: tuple[Term, ...]
    text: str


def parse_slo(text: str) -> Slo:
    """Terms separated by commas; without one about errors, one in a thousand may fail."""
    terms = tuple(_term(part, text) for part in text.split(","))
    if not any(term.name == "errors" for term in terms):
        terms = (*terms, Term("errors", 0.001, "errors"))
    return Slo(terms, text.strip())


def _term(part: str, whole: str) -> Term:
    match = _TERM.fullmatch(part)
    if match is None:
        raise _refusal(part, whole)
    figure, limit = match["figure"] or "latency", match["limit"]
    name = match["name"] if match["figure"] is None else match["of"] or "mean"
    if name == "errors":
        return Term(name, parse_share(limit, "--slo errors"), "errors")
    limit_ns = float(parse_duration_ns(limit, f"--slo {part.partition('<')[0].strip()}"))
    if name in ("mean", "avg", "latency"):
        return Term("mean", limit_ns, figure)
    if name.startswith("p") and name[1:] and float(name[1:]) in PERCENTILES:
        return Term(name, limit_ns, figure)
    raise _refusal(part, whole)


def _refusal(part: str, whole: str) -> UsageError:
    return UsageError(
        f"'{part.strip()}' in the promise '{whole}' is not understood",
        remedy="write figures and limits like 'p99<50ms, mean<10ms, ttft<200ms, ttft p99<1s, tpot<20ms, errors<0.1%'; "
        f"percentiles are {', '.join(f'{p:g}' for p in PERCENTILES)}",
    )


# --- a promise and single requests


def durations_ns(records: Records, figure: str, *, is_open: bool) -> Durations:
    """What each request took, by a figure that terms are about; -1 where it has none."""
    if figure == "ttft":
        return np.where(records.first_ns > 0, records.first_ns - records.sent_ns, -1)
    if figure == "tpot":
        return between_ns(records)
    return records.end_ns - began_ns(records, is_open=is_open)


def began_ns(records: Records, *, is_open: bool) -> Durations:
    """From when latency counts. A request that was never sent has waited since it was due."""
    return records.due_ns if is_open else np.where(records.sent_ns > 0, records.sent_ns, records.due_ns)


def kept(records: Records, promise: Slo, *, is_open: bool) -> int:
    """How many of these good requests are each within all limits of the promise, whatever their percentile."""
    good: NDArray[np.bool_] = np.ones(len(records), dtype=np.bool_)
    for term in promise.terms:
        if term.figure != "errors":
            good &= durations_ns(records, term.figure, is_open=is_open) < term.limit
    return int(good.sum())
