"""A promise about latency and errors, such as `p99<50ms, errors<0.1%`."""

import re
from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.base.units import parse_duration_ns, parse_share
from inferometer.measure.measurement import Measurement

_TERM = re.compile(r"\s*(?P<name>[a-z]+|p\d{1,2}(?:\.\d+)?)\s*<=?\s*(?P<limit>[^\s]+)\s*")


@dataclass(frozen=True, slots=True)
class Term:
    """One figure and its limit: nanoseconds, or a share for errors."""

    name: str  # mean, errors, or a percentile such as p99
    limit: float

    def value(self, found: Measurement) -> float:
        if self.name == "errors":
            return found.failed_share
        if self.name == "mean":
            return float(found.latency.mean_ns)
        return float(found.latency.percentile_ns(float(self.name[1:])))

    def holds(self, found: Measurement) -> bool:
        """Nothing answered keeps no promise about latency."""
        if self.name != "errors" and not found.request_count:
            return False
        return self.value(found) < self.limit


@dataclass(frozen=True, slots=True)
class Slo:
    """All terms must hold."""

    terms: tuple[Term, ...]
    text: str

    @property
    def percentiles(self) -> tuple[float, ...]:
        return tuple(float(term.name[1:]) for term in self.terms if term.name.startswith("p"))

    def broken(self, found: Measurement) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if not term.holds(found))


def parse_slo(text: str) -> Slo:
    """Terms separated by commas; without one about errors, one in a thousand may fail."""
    terms = tuple(_term(part, text) for part in text.split(","))
    if not any(term.name == "errors" for term in terms):
        terms = (*terms, Term("errors", 0.001))
    return Slo(terms, text.strip())


def _term(part: str, whole: str) -> Term:
    match = _TERM.fullmatch(part)
    if match is None:
        raise _refusal(part, whole)
    name, limit = match["name"], match["limit"]
    if name == "errors":
        return Term(name, parse_share(limit, "--slo errors"))
    if name in ("mean", "avg", "latency"):
        return Term("mean", float(parse_duration_ns(limit, f"--slo {name}")))
    if name.startswith("p") and 0 < float(name[1:] or 0) < 100:
        return Term(name, float(parse_duration_ns(limit, f"--slo {name}")))
    raise _refusal(part, whole)


def _refusal(part: str, whole: str) -> UsageError:
    return UsageError(
        f"'{part.strip()}' in the promise '{whole}' is not understood",
        remedy="write figures and limits like 'p99<50ms, mean<10ms, errors<0.1%'",
    )
