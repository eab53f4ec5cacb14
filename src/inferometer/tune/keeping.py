"""Verdicts on whether a configuration meets its SLO: shown, not shown or inconclusive.

The search ranks configurations by their figures alone. The verdict follows the rule of all commands (`stats.verdict`):
a figure whose interval contains the limit is inconclusive, and so is a figure of too few requests.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from inferometer.stats.binomial import SIDE, share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, THROUGHPUT, Source
from inferometer.stats.promises import LARGEST_SHARE, MEAN_SHARE
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling
from inferometer.tune.scoring import Constraint, Goals, RankedVariant
from inferometer.tune.trial import Trial

ERROR_RATE, LATENCY_AVG = "perf_error_rate", "perf_latency_avg"
_ORDER = (NOT_SHOWN, INCONCLUSIVE, SHOWN)


def keeps(goals: Goals, trial: Trial) -> Ruling:
    """Return whether a trial shows that its configuration meets all limits; not shown if it violates one."""
    return min((found for _, found in _rulings(goals, trial)), key=_ORDER.index, default=SHOWN)


def any_keeps(goals: Goals, ranked: Sequence[RankedVariant]) -> Ruling:
    """Return whether the trials show that any configuration meets all limits."""
    found = (keeps(goals, trial) for row in ranked for trial in row.trials)
    return max(found, key=_ORDER.index, default=INCONCLUSIVE)


def by_ruling(goals: Goals, trial: Trial) -> Mapping[Ruling, tuple[Constraint, ...]]:
    """Return the limits that a trial shows to be met, does not show, and leaves open."""
    rows = tuple(_rulings(goals, trial))
    return {ruling: tuple(limit for limit, found in rows if found == ruling) for ruling in _ORDER}


def _rulings(goals: Goals, trial: Trial) -> Iterator[tuple[Constraint, Ruling]]:
    for part, goal in enumerate(goals):
        for limit in goal.constraints:
            found = _ruling(limit, trial, part)
            # A client at its own limit adds to every time and sends too little.
            is_by_client = trial.is_client_limited and limit.tag != ERROR_RATE
            yield limit, INCONCLUSIVE if is_by_client and found == NOT_SHOWN else found


def _ruling(limit: Constraint, trial: Trial, part: int) -> Ruling:
    value = trial.value(limit.tag, part)
    if value is None:
        return INCONCLUSIVE
    if BY_TAG[limit.tag].source is not Source.RUN:
        return _by_value(limit, value)
    found = trial.parts[part].figures.estimate(limit.tag)
    if limit.tag == ERROR_RATE:
        if not value:
            return _by_value(limit, value)
        found = _error_rate(value, _requests(trial, part))
    if found is None or found.limits is None:
        return _by_few(limit, value, trial, part)
    within = {limit.violation(end) == 0 for end in found.limits}
    return INCONCLUSIVE if len(within) == 2 else _by_value(limit, value)


def _by_value(limit: Constraint, value: float) -> Ruling:
    return SHOWN if limit.violation(value) == 0 else NOT_SHOWN


def _requests(trial: Trial, part: int) -> float:
    """Return about how many requests a trial measured; 0 if unknown."""
    rate = trial.value(THROUGHPUT, part) or 0.0
    return rate * trial.measuring_s / trial.parts[part].load.batch


def _error_rate(percent: float, requests: float) -> Estimate | None:
    total = math.floor(requests)
    if not total:
        return None
    low, high = share_estimate(min(total, max(1, round(percent / 100 * total))), total).limits or (0.0, 1.0)
    return Estimate(percent, 100 * low, 100 * high)


def _by_few(limit: Constraint, value: float, trial: Trial, part: int) -> Ruling:
    """Decide by a figure without an interval, if the limit is so far away that its few requests are enough.

    The share of requests beyond a time falls at least as fast as the time grows (`stats.promises`). A percentile
    is above the mean, so a mean beyond the limit decides as well.
    """
    if limit.high is None or BY_TAG[limit.tag].unit != "ms":
        return INCONCLUSIVE
    if limit.violation(value):
        mean = trial.parts[part].figures.estimate(LATENCY_AVG)
        is_sure = limit.tag.startswith("perf_latency") and mean is not None and mean.low is not None
        return NOT_SHOWN if is_sure and mean is not None and (mean.low or 0.0) > limit.high else INCONCLUSIVE
    percentile = BY_TAG[limit.tag].percentile
    share = MEAN_SHARE if percentile is None else 1 - percentile / 100
    share = max(share, min(LARGEST_SHARE, share * limit.high / max(value, 1e-9)))
    return SHOWN if (1 - share) ** _requests(trial, part) < SIDE else INCONCLUSIVE
