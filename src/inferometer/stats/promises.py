"""Judgement of a level against an SLO: met, violated or undecided (in files and values, `kept` and `broken`).

A figure with an interval is decided by it: entirely within the limit, or entirely beyond. If a duration has too few
requests for an interval, those beyond the limit are counted: a p99 below 50 ms means that less than 1 % of the requests
take longer, and few requests can already be far too many (binomial test, 2.5 % on either side). A mean is compared with
the share of an exponential distribution beyond its mean. Waits are correlated: if sections of a run differ more than
independent requests would, their requests count as fewer. An answer without a token counts as one whose first token
never came. Throughput is judged by sections of the time, half of which may be below it. Failures and wrong answers are
judged by the interval of their share, even if there were none: 0 of 100 do not show that fewer than 1 % fail. The
errors term of an SLO that does not name it is met without failures, however few requests there were.

A limit far above the slowest request needs fewer requests: the share of requests beyond a duration is assumed to fall
at least as fast as the duration grows (a Pareto tail of index 1, heavier than any with a mean).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.slo import MOST_FAILED, SHARES, TASK, Slo, Term
from inferometer.base.units import NS_PER_US
from inferometer.stats.binomial import SIDE, at_least, at_most, share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import mean_estimate, mean_margin, percentile_estimates
from inferometer.stats.series import Series
from inferometer.stats.slo import is_each_within
from inferometer.stats.slo_outcome import Keeping, PromiseOutcome, TermOutcome
from inferometer.stats.windows import Window

OWN_TIMES = ("latency", TASK)  # of what the level counts: requests, visits or tasks
MEAN_SHARE = 1 / math.e
LARGEST_SHARE = 0.5  # upper bound for distant limits: at least six requests are needed to decide
SECTIONS = 16
TOO_FEW = "too few requests"
INSIDE = "the limit lies inside the interval"
NOTHING = "no request has this figure"
CLIENT = "the client was the limit"
OF_ANSWERS = ("errors", "wrong")  # figures that do not depend on how fast the client is
NO_CHECKS = "no answer was checked"
NO_ENERGY = "the energy was not measured, or its figures are invalid"


_MISSING = {"energy": NO_ENERGY, "wrong": NO_CHECKS}


def judge(promise: Slo, whole: Window, known: Mapping[str, Estimate]) -> PromiseOutcome:
    """Judge the SLO by the requests of a window, usually several joined ones.

    `known` maps names to figures with intervals: throughput, and latency figures that are already computed.
    """
    return _outcome(promise.text, [_judge_term(term, whole, known) for term in promise.terms])


def _outcome(text: str, terms: Sequence[TermOutcome]) -> PromiseOutcome:
    verdicts = {term.verdict for term in terms}
    verdict: Keeping = (
        "broken" if "broken" in verdicts else "undecided" if "undecided" in verdicts else "kept"
    )
    return PromiseOutcome(text, verdict, tuple(terms))


def without_client(found: PromiseOutcome) -> PromiseOutcome:
    """Make the verdict open for terms that a client at its own limit seems to violate: it adds to every time and
    sends too few requests."""
    terms = (
        replace(term, verdict="undecided", reason=CLIENT)
        if term.verdict == "broken" and term.name not in OF_ANSWERS
        else term
        for term in found.terms
    )
    return _outcome(found.promise, tuple(terms))


def _judge_term(term: Term, whole: Window, known: Mapping[str, Estimate]) -> TermOutcome:
    durations, missing = _durations(term, whole), _missing(term, whole)
    found = _share(term, whole) if durations is None else _duration(term, durations, known, missing)
    if term.figure in ("throughput", "energy"):
        found = known.get(term.name)
    verdict, reason = _verdict(term, found, whole)
    if missing and durations is not None:
        verdict, reason = _with_missing(term, durations.count, missing) or (verdict, reason)
    return TermOutcome(term.label, term.text, term.limit, found, verdict, reason)


def _missing(term: Term, whole: Window) -> int:
    """Return the number of answers that ended without the token that the term limits."""
    if term.figure == "ttft":
        return whole.blank
    return whole.blank + whole.streams.unanswered if term.figure == "ttfo" else 0


def _with_missing(term: Term, had: int, missing: int) -> tuple[Keeping, str] | None:
    """Decide a term only by the answers without its token; None if they are so few that the other answers decide.

    If a mean is limited, the share of answers without the token may not exceed the share of requests that may fail.
    """
    total = had + missing
    allowed = MOST_FAILED if term.share is None else term.share
    if missing <= allowed * total:
        return None
    what = "were empty" if term.figure == "ttft" else "were empty or ended while still reasoning"
    reason = f"{missing:,} of {total:,} answers {what}"
    is_proven = not had or at_least(missing, total, allowed) < SIDE
    return ("broken" if is_proven else "undecided"), reason


def _durations(term: Term, whole: Window) -> Series | None:
    if term.figure in OWN_TIMES:
        return whole.latency_ns
    if term.figure == "ttft":
        return whole.streams.first_ns
    if term.figure == "ttfo":
        return whole.streams.answer_ns
    if term.figure == "ttfc":
        return whole.streams.tool_ns
    if term.figure == "tpot":
        return Series() if whole.tokens is None else whole.tokens.between_ns
    if term.figure == "gap":
        return whole.streams.gap_ns
    return None


def _share(term: Term, whole: Window) -> Estimate | None:
    """Return the share of failed requests, wrong answers or good requests. It has no interval if there are none and
    none is allowed, or if all were good and all must be."""
    failed = whole.failed_count
    if term.figure in OF_ANSWERS:
        count, total = (whole.wrong, whole.checked) if term.figure == "wrong" else (failed, whole.ended_count)
        if total and not count and (term.limit == 0 or term.is_implied):
            return Estimate(0.0)
        return share_estimate(count, total) if total else None
    ended = whole.count + failed
    if term.figure != "goodput" or not ended:
        return None
    return Estimate(1.0) if whole.kept == ended and term.limit == 1 else share_estimate(whole.kept, ended)


def _duration(term: Term, durations: Series, known: Mapping[str, Estimate], missing: int) -> Estimate | None:
    """Return the figure; percentiles count answers without it as slower than all others."""
    if not durations.count:
        return None
    if term.figure in OWN_TIMES and term.name in known:
        return known[term.name]
    if term.percentile is None:
        return mean_estimate(float(durations.mean), mean_margin(durations))
    percentile = min(100.0, term.percentile * (1 + missing / durations.count))
    return percentile_estimates(durations, [percentile])[percentile]


def _verdict(term: Term, found: Estimate | None, whole: Window) -> tuple[Keeping, str]:
    if found is None:
        return "undecided", _MISSING.get(term.figure, NOTHING)
    if term.figure == "errors" and found.value == 1:
        return "broken", ""  # every request failed, however few there were
    if found.limits is not None:
        within = [term.is_within(end) for end in found.limits]
        inside = INSIDE
        if term.figure == "wrong":
            inside += f": {whole.checked:,} answers were checked"
        elif term.figure == "errors" and not whole.failed_count:
            inside += f": none of {whole.ended_count:,} requests failed, too few to show it"
        return ("kept", "") if all(within) else ("undecided", inside) if any(within) else ("broken", "")
    if term.figure in SHARES:
        return "kept", ""
    if term.figure == "energy":
        return "undecided", f"{TOO_FEW}: the energy has no interval"
    is_within, durations = term.is_within(found.value), _durations(term, whole)
    if durations is None:
        parts, noun, share = _rates(term, whole, found.value), "sections of the time", 0.5
    else:
        parts = _sections(term, durations, _missing(term, whole))
        noun = "gaps" if term.figure == "gap" else "requests"
        share = MEAN_SHARE if term.share is None else term.share
    counted = f"{int(parts.beyond.sum()):,} of {int(parts.sizes.sum()):,} {noun} beyond the limit"
    if is_within and durations is not None and not parts.beyond.any():
        slowest = max(1, durations.sorted().at(durations.count - 1))
        share = max(share, min(LARGEST_SHARE, share * term.limit / slowest))
    if not _is_proven(parts, share, is_within=is_within):
        return "undecided", f"{TOO_FEW}: {counted}"
    return ("kept" if is_within else "broken"), counted


# --- figures without an interval


class _Sections(NamedTuple):
    """Consecutive requests by section: their number, total duration, and the number beyond the limit."""

    sizes: NDArray[np.float64]
    totals: NDArray[np.float64]
    beyond: NDArray[np.float64]
    variance: float  # of individual durations


def _is_proven(parts: _Sections, share: float, *, is_within: bool) -> bool:
    """Return whether chance is an unlikely reason for this number of requests beyond the limit."""
    beyond, total = float(parts.beyond.sum()), float(parts.sizes.sum())
    part = beyond / total
    alike = _dispersion(parts.beyond - parts.sizes * part, parts.sizes, part * (1 - part))
    if not is_within:
        return at_least(beyond / alike, total / alike, share) < SIDE
    # Slow requests come in shorter groups than latency is correlated; their own groups are unknown until some are slow.
    mean = float(parts.totals.sum()) / total
    waiting = _dispersion(parts.totals - parts.sizes * mean, parts.sizes, parts.variance)
    alike = max(alike, math.sqrt(waiting))
    return at_most(beyond / alike, total / alike, share) < SIDE


def _sections(term: Term, durations: Series, missing: int) -> _Sections:
    rows: list[tuple[float, float, float]]
    if durations.is_exact:
        pieces = np.array_split(durations.values(), max(1, min(SECTIONS, durations.count // 2)))
        rows = [(len(piece), piece.sum(), (~is_each_within(term, piece)).sum()) for piece in pieces]
    else:  # a sketch has only bins: the whole bin that contains the limit counts as within
        sketches = durations.pieces()
        rows = [(part.count, part.total, part.count - part.up_to(round(term.limit))) for part in sketches]
    sizes, totals, beyond = np.array(rows, dtype=np.float64).T
    sizes, beyond = sizes + missing / len(rows), beyond + missing / len(rows)
    return _Sections(sizes, totals, beyond, float(durations.deviation) ** 2)


def _rates(term: Term, whole: Window, value: float) -> _Sections:
    """Return which sections of the time have a rate beyond the limit."""
    ends = whole.ends.groups()
    number = max(1, min(SECTIONS, whole.count // 2))
    edges = np.linspace(0, whole.duration_ns / NS_PER_US, number + 1)
    counts = np.histogram(np.clip(ends.last_us, edges[0], edges[-1]), edges, weights=ends.counts)[0]
    rates = value * counts / max(float(counts.mean()), 1.0)
    beyond = np.array([not term.is_within(rate) for rate in rates], dtype=np.float64)
    return _Sections(np.ones(number), rates, beyond, float(rates.var()))


def _dispersion(rests: NDArray[np.float64], sizes: NDArray[np.float64], variance: float) -> float:
    """Return how many times more sections vary than independent requests with this variance would."""
    if len(rests) < 2 or variance == 0:
        return 1.0
    return max(1.0, float(rests @ rests) / (len(rests) - 1) / (float(sizes.mean()) * variance))
