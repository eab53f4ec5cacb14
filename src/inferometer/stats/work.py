"""Throughput computed from the work done, for few and long requests.

Counting ended requests says little if a level has time for only a few rounds: work on requests still in flight is not
counted, and work from before the level is. Here work counts when it is done.

**Tokens** count when they arrive, including those of unfinished answers. The rate is tokens over time, between the ends
of two answers that are a whole number of rounds apart, where a round has as many ends as requests are in flight: users
who keep their order have then each been through the same part of their answers, however their prompts and answers are
spread over a round. A burst of tokens, one for every answer that a step of the server continues, is not cut.

Its precision is that of the residual: tokens minus rate times time, at the end of each answer. If answers differ in
length, one cause of the residual is known: a request also costs the server time that makes no tokens, such as its
prefill, so time with many short answers has fewer tokens. The share of this cost is the slope of the residual over the
surplus, which is the tokens minus the ended answers times their mean length; it is fitted to overlapping batches of
half a round. The surplus of the whole time is that of as many independent answers, and all ended answers show the
variance of their lengths. Where the cuts fall within the answers in progress changes it too: by half of the variance
between cuts that are a round apart, since long answers in progress make up for short ones that ended. What the surplus
does not explain has a short memory, and an interval by sections (`stats.intervals`). So a level of two rounds is as
precise as its number of answers allows.

If answers have equal lengths, or are too few for sections, the precision is estimated from overlapping batches of one
round, of two, and so on. The variance of their residuals has two parts: differences between answers add up in
proportion to the length of the batch, and the effect of cutting a batch at its ends does not. A line through the
variances by length separates them; with few rounds it is drawn half way towards the assumption that all of it adds up.
Student's t has as many degrees of freedom as overlapping batches have: 3/2 (k - 1) for k rounds (Meketon and Schmeiser
1984).

The interval covers at least half the time between two bursts, and `LEAST` of the rate. An event can have several
tokens, as with speculative decoding: the ratio is that of finished answers, whose error is added.

With fewer than two rounds, there is nothing to compare: the interval is based on sections of the time.

If answers arrive **whole**, no token of an unfinished answer is known. In this case tokens follow Little's law as well:
the number in flight times the tokens of ended answers over their latency. Longer answers take longer, so the ratio
varies less than either of them.

**Requests** follow Little's law: the number in flight, which is known exactly at any time, over their mean latency. The
two figures of a row thus agree, and the interval is that of the mean latency, or that of tokens over the mean length of
an answer, whichever is narrower: with equal lengths, requests are as precise as tokens. A level with `MANY` rounds
counts ends.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import (
    bunch_ends,
    mean_of_sections,
    paired_margin,
    ratio_sections,
    student_t,
)
from inferometer.stats.series import Series

MANY = 100  # rounds from which on ends are counted; also degrees of freedom that count as unlimited
FEWEST_ROUNDS = 2.0
MOST_BATCHES = 32  # non-overlapping ones
LENGTHS = 8  # batch lengths that are compared
EDGE = 0.5  # share of the time between bursts
LEAST = 0.001
US_PER_S = 1_000_000

Times = NDArray[np.int64]
Numbers = NDArray[np.float64]


class Flow(NamedTuple):
    """Arrivals of responses, and ends of requests; microseconds after the start."""

    began_us: Times  # first arrival of each burst, in order
    came_us: Times  # and its last one
    total: Times  # responses up to and including each burst
    ends_us: Times  # of requests, in order
    lengths: Times  # responses of each of these requests; empty if unknown
    in_flight: float  # mean number of requests

    @property
    def rounds(self) -> float:
        return (len(self.ends_us) - 1) / self.users

    @property
    def users(self) -> int:
        return max(1, round(self.in_flight))


def flow(arrivals: Groups, ends: Groups, lengths: Series, in_flight: float) -> Flow:
    """Combine the arrivals with the ends of requests, whose numbers of responses are in the same order."""
    order = np.argsort(arrivals.last_us, kind="stable")
    times, counts = arrivals.last_us[order], arrivals.counts[order]
    is_last = _last_of_bursts(times)
    first = times[np.append(True, is_last[:-1])] if len(times) else times
    by_end = np.argsort(ends.last_us, kind="stable")
    is_known = ends.is_exact and lengths.is_exact and lengths.count == len(ends)
    known = lengths.values()[by_end] if is_known else np.empty(0, dtype=np.int64)
    return Flow(first, times[is_last], np.cumsum(counts)[is_last], ends.last_us[by_end], known, in_flight)


def _last_of_bursts(times: Times) -> NDArray[np.bool_]:
    """Return which arrivals are the last of their burst; without bursts, of their microsecond."""
    found = bunch_ends(times)
    if found is not None:
        return found
    return np.append(times[1:] > times[:-1], True) if len(times) else np.zeros(0, dtype=np.bool_)


def response_rate(found: Flow) -> Estimate:
    """Return the responses per second, by arrival."""
    if len(found.came_us) < 2:
        return Estimate(0.0)
    at_ends = None if found.rounds < FEWEST_ROUNDS else _at(found, found.ends_us)
    if at_ends is None:
        return _by_sections(found)
    times, totals = at_ends
    users = found.users
    first = len(times) - 1 - (len(times) - 1) // users * users
    span_us = float(times[-1] - times[first])
    per_us = float(totals[-1] - totals[first]) / span_us
    reach = _reach_by_lengths(totals, times, per_us, found)
    if reach is None:
        spread = _variance(totals - per_us * times, users)
        margin = _student(1.5 * (found.rounds - 1)) * math.sqrt(spread) / (times[-1] - times[0])
    else:
        margin = reach / span_us
    return _with_margin(found, per_us, margin)


def _at(found: Flow, moments: Times) -> tuple[Numbers, Numbers] | None:
    """Return the last burst that began by each moment, and the responses up to it; None if there is only one."""
    places = np.maximum(np.searchsorted(found.began_us, moments, side="right") - 1, 0)
    times = found.came_us[places].astype(np.float64)
    return None if times[-1] <= times[0] else (times, found.total[places].astype(np.float64))


def _reach_by_lengths(totals: Numbers, times: Numbers, per_us: float, found: Flow) -> float | None:
    """Return the margin of the residual over all whole rounds; None if lengths do not explain it."""
    lengths, users, count = found.lengths, found.users, len(times) - 1
    if not len(lengths) or lengths.min() == lengths.max():
        return None
    residual = totals - per_us * times
    surplus = totals - totals[0] - np.arange(count + 1) * ((totals[-1] - totals[0]) / count)
    slope = _slope(residual, surplus, max(2, users // 2))
    rest = mean_of_sections(residual - slope * surplus)
    if rest is None:
        return None
    in_progress = totals - np.cumsum(lengths)
    cuts = float(np.var(in_progress[users:] - in_progress[:-users])) / 2
    answers = count // users * users
    explained = slope * math.sqrt(answers * float(np.var(lengths, ddof=1)) + cuts)
    return math.hypot(student_t(0.975, min(count, MANY)) * explained, max(rest) * answers)


def _slope(residual: Numbers, surplus: Numbers, batch: int) -> float:
    """Return the part of the surplus that the residual has, from overlapping batches."""
    parts = (course[batch:] - course[:-batch] for course in (residual, surplus))
    one, other = (part - part.mean() for part in parts)
    squares = float(other @ other)
    return min(max(float(one @ other) / squares, 0.0), 1.0) if squares > 0 else 0.0


def _variance(course: Numbers, users: int) -> float:
    """Return the variance of the residual over the whole course, given its values at ends."""
    ends = len(course) - 1
    batch = users * max(1, int(ends / users / MOST_BATCHES))
    whole = ends / batch
    single = _batch_variance(course, batch)
    lengths = np.arange(1, min(LENGTHS, int(whole / 2)) + 1)
    if len(lengths) < 2:
        return whole * single
    found = np.array([_batch_variance(course, int(length) * batch) for length in lengths])
    weights = 1 / lengths
    centred = lengths - np.average(lengths, weights=weights)
    slope = float((weights * centred * found).sum() / (weights * centred * centred).sum())
    adding = (min(max(slope, 0.0), single) + single) / 2
    return adding * whole + (single - adding)


def _batch_variance(course: Numbers, batch: int) -> float:
    residuals = course[batch:] - course[:-batch]
    batches = (len(course) - 1) / batch
    return float((residuals * residuals).mean()) * batches / (batches - 1)


def _by_sections(found: Flow) -> Estimate:
    """Estimate the rate from less than about a round: from the first burst to the last, with sections of that time."""
    span_us = float(found.came_us[-1] - found.came_us[0])
    per_us = float(found.total[-1] - found.total[0]) / span_us
    width = ratio_sections(found.total, found.came_us)
    if width is None:
        return Estimate(per_us * US_PER_S)
    return _with_margin(found, per_us, max(width))


def _with_margin(found: Flow, per_us: float, margin: float) -> Estimate:
    least = max(EDGE / len(found.came_us), LEAST) * per_us
    reach = math.hypot(margin, least)
    low, high = max(0.0, per_us - reach), per_us + reach
    return Estimate(per_us * US_PER_S, low * US_PER_S, high * US_PER_S)


def widened(estimate: Estimate, error: float, answers: int) -> Estimate:
    """Return the estimate multiplied by a factor of 1 that has this relative standard error."""
    if estimate.limits is None or answers < 2 or not error:
        return estimate
    reach = (
        student_t(0.975, min(answers - 1, MANY)) * math.sqrt(answers / (answers - 1)) * error * estimate.value
    )
    down, up = (math.hypot(part, reach) for part in _reach(estimate))
    return Estimate(estimate.value, max(0.0, estimate.value - down), estimate.value + up)


def _student(freedom: float) -> float:
    """Return the 97.5 % quantile for fractional degrees of freedom."""
    whole = max(1, math.floor(freedom))
    part = max(freedom, 1.0) - whole
    return (1 - part) * student_t(0.975, whole) + part * student_t(0.975, whole + 1)


def request_rate(in_flight: float, latency: Estimate) -> Estimate:
    """Return the requests per second by Little's law; `latency` is their mean in nanoseconds, with its interval."""
    per_s = in_flight * NS_PER_S / latency.value
    if latency.limits is None:
        return Estimate(per_s)
    low, high = latency.limits
    slowest, fastest = in_flight * NS_PER_S / high, in_flight * NS_PER_S / low if low else None
    # As for tokens: latency varies by less than the time that it is measured with.
    down = math.hypot(per_s - slowest, LEAST * per_s)
    up = None if fastest is None else math.hypot(fastest - per_s, LEAST * per_s)
    return Estimate(per_s, max(0.0, per_s - down), None if up is None else per_s + up)


def whole_token_rate(in_flight: float, tokens: Series, latency: Series) -> Estimate:
    """Return the tokens per second of answers that arrive whole, from the tokens and the latency in nanoseconds of
    each."""
    per_s = in_flight * NS_PER_S * tokens.total / latency.total
    width = paired_margin(tokens, latency)
    if width is None:
        return Estimate(per_s)
    down, up = (math.hypot(in_flight * NS_PER_S * part, LEAST * per_s) for part in width)
    return Estimate(per_s, max(0.0, per_s - down), per_s + up)


def narrowed(requests: Estimate, tokens: Estimate, length: Estimate) -> Estimate:
    """Return requests per second with the interval of tokens over the mean length of an answer, if that is narrower.

    The value is kept, and is always within the interval.
    """
    if tokens.limits is None or length.limits is None or not length.value:
        return requests
    value = tokens.value / length.value
    down, up = (
        math.hypot(tokens_part / tokens.value, length_part / length.value) * value
        for tokens_part, length_part in zip(_reach(tokens), _reach(length)[::-1], strict=True)
    )
    low, high = max(0.0, min(value - down, requests.value)), max(value + up, requests.value)
    own = requests.limits
    is_wider = own is not None and own[1] - own[0] <= high - low
    return requests if is_wider else Estimate(requests.value, low, high)


def _reach(estimate: Estimate) -> tuple[float, float]:
    """Return the distances of both limits from the value."""
    low, high = estimate.limits or (estimate.value, estimate.value)
    return estimate.value - low, high - estimate.value
