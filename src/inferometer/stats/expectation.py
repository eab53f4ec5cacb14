"""Expected result of the next run if nothing has changed, based on the last good runs.

The limits apply to one new run: the spread of the history plus its own, by Student's t on logarithms, divided among all
figures that are judged together (Bonferroni).

* Beyond `unusual` a run is suspicious. With normal noise this happens in one of a hundred judgements, with heavy-tailed
  noise more often.
* Beyond `decisive` it changed, even if the noise has heavy tails, modelled by few degrees of freedom. They are chosen
  such that noise like Student's t with 3 degrees, heavier than that of most machines, keeps the rate.

So a single run fails beyond `decisive`, and several runs in a row fail if each is beyond `unusual`, which rarely
happens twice by chance, whatever the noise. Measured rates are in docs/gate.md, from benchmarks/trend.py.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.stats.intervals import student_t
from inferometer.stats.trend import LEAST, Logs, TrendPoint, changes, pulled_in, spread

FALSE_FAILURES = 0.01  # share of judgements that fail although nothing changed
FEWEST_GOOD = 8  # runs required for an expectation
FAR = 5.0  # as in stats/trend.py; larger, since a history of good runs has no steps
_SAME = 2.0  # standard errors within which two parts are equal
_MANY = 20
_HEAVY, _HEAVY_OF_MANY = 3, 4  # degrees of freedom

Parts = tuple[tuple[TrendPoint, ...], ...]


@frozen
class Expectation:
    """Expected value and limits on a logarithmic scale."""

    middle: float
    unusual: float  # distances from the middle
    decisive: float
    share: float  # of the squared error of a new run that is due to the error of the middle

    def margin(self, runs: int) -> float:
        """Return half the interval of the change shown by this many new runs together."""
        return self.unusual * math.sqrt((1 - self.share) / runs + self.share)


def good_parts(points: Sequence[TrendPoint], *, is_higher_better: bool, accepted: int = 0) -> Parts:
    """Split a history into parts between changes; the last one is the current normal. Parts worse than an earlier
    good one are dropped unless accepted: `accepted` is the first run of a new normal, whatever came before."""
    return (
        *_good(points[:accepted], is_higher_better),
        *_good(points[accepted:], is_higher_better),
    )


def _good(points: Sequence[TrendPoint], is_higher_better: bool) -> Iterator[tuple[TrendPoint, ...]]:
    edges = (0, *(change.index for change in changes(points)), len(points))
    parts = [tuple(points[start:end]) for start, end in pairwise(edges) if end > start]
    noise = spread([_logs(part) for part in parts]) if parts else 0.0
    last: Logs | None = None
    for part in parts:
        logs = pulled_in(_logs(part))
        if last is not None:
            loss = float(last.mean() - logs.mean()) * (1 if is_higher_better else -1)
            if loss > max(LEAST, _SAME * noise * math.sqrt(1 / len(last) + 1 / len(logs))):
                continue
        last = logs
        yield part


def expectation(parts: Parts, *, looks: int) -> Expectation | None:
    """Compute the expectation from a good history; None if it has too few runs. `looks` is the number of judged
    figures."""
    runs = sum(map(len, parts))
    if runs < FEWEST_GOOD:
        return None
    logs = [_logs(part) for part in parts]
    of_middle = 1 / len(logs[-1])
    error = spread(logs, FAR) * math.sqrt(1 + of_middle)
    heavy = _HEAVY if runs < _MANY else _HEAVY_OF_MANY
    unusual, decisive = (
        student_t(1 - FALSE_FAILURES / looks, freedom) * error for freedom in (runs - len(parts), heavy)
    )
    middle = float(pulled_in(logs[-1], FAR).mean())
    return Expectation(middle, unusual, max(unusual, decisive), of_middle / (1 + of_middle))


def _logs(points: Sequence[TrendPoint]) -> Logs:
    return np.log([point.value for point in points])
