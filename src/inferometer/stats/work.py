"""Throughput from work done, for few and long requests.

Counting ended requests says little if a level has time for only a few rounds: work on requests still in flight is not
counted, and work from before the level is. Here work counts when it is done.

**Tokens** count when they arrive, including those of unfinished answers. The rate is tokens over time, between the ends
of two answers that are a whole number of rounds apart, where a round has as many ends as requests are in flight: users
who keep their order have then each been through the same part of their answers, however their prompts and answers are
spread over a round. Its precision is estimated from overlapping batches of one round, of two, and so on. In a batch
that begins and ends with the end of an answer, the residual is its tokens minus rate times its time. The variance of
residuals has two parts: differences between answers add up in proportion to the length of the batch, and the effect of
cutting a batch at its ends does not. A line through the variances by length separates them; with few rounds it is drawn
half way towards the assumption that all of it adds up. Student's t has as many degrees of freedom as overlapping
batches have: 3/2 (k - 1) for k rounds (Meketon and Schmeiser 1984). Tokens come in bursts, one for every step of the
server, so the interval covers at least half the time between two of them, and `LEAST` of the rate. An event can have
several tokens, as with speculative decoding: the ratio is that of finished answers, with an error of its own.

With fewer than two rounds, there is nothing to compare: the interval is based on sections of the time.

If answers arrive **whole**, no token of an unfinished answer is known. Then tokens, too, follow Little's law: the
number in flight times the tokens of ended answers over their latency. Longer answers take longer, so the ratio varies
less than either of them.

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
from inferometer.stats.intervals import paired_margin, ratio_sections, student_t
from inferometer.stats.measurement import Estimate
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

    came_us: Times  # of bursts, in order
    total: Times  # responses up to and including each burst
    ends_us: Times  # of requests
    in_flight: float  # mean number of requests

    @property
    def rounds(self) -> float:
        return (len(self.ends_us) - 1) / self.users

    @property
    def users(self) -> int:
        return max(1, round(self.in_flight))


def flow(arrivals: Groups, ends: Groups, in_flight: float) -> Flow:
    order = np.argsort(arrivals.last_us, kind="stable")
    times, counts = arrivals.last_us[order], arrivals.counts[order]
    is_last = np.append(times[1:] > times[:-1], True) if len(times) else np.zeros(0, dtype=np.bool_)
    return Flow(times[is_last], np.cumsum(counts)[is_last], np.sort(ends.last_us), in_flight)


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
    per_us = (totals[-1] - totals[first]) / (times[-1] - times[first])
    spread = _variance(totals - per_us * times, users)
    margin = _student(1.5 * (found.rounds - 1)) * math.sqrt(spread) / (times[-1] - times[0])
    return _with_margin(found, per_us, margin)


def _at(found: Flow, moments: Times) -> tuple[Numbers, Numbers] | None:
    """Return the last burst up to each moment, and the responses so far; None if there is only one."""
    places = np.maximum(np.searchsorted(found.came_us, moments, side="right") - 1, 0)
    times = found.came_us[places].astype(np.float64)
    return None if times[-1] <= times[0] else (times, found.total[places].astype(np.float64))


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
    """Estimate the rate with hardly a round: from the first burst to the last, with sections of that time."""
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
    """Return the tokens per second of answers that arrive whole, given both for each, in nanoseconds the latency."""
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
