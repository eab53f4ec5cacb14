"""The figures that are compared, and which way is better."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferometer.compare.comparison import FASTER, NO_DIFFERENCE, SLOWER, THROUGHPUT
from inferometer.stats.measurement import Estimate

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Metric:
    """Throughput, or a percentile of the latency."""

    name: str
    percentile: int | None = None  # None for throughput

    @property
    def need(self) -> int:
        """Requests without which the figure does not exist: a percentile needs one beyond it."""
        p = self.percentile
        return 1 if p is None else math.ceil(100 / min(p, 100 - p))

    def verdict(self, percent: Estimate) -> str:
        """What the interval shows."""
        if percent.low is None or percent.high is None or percent.low <= 0 <= percent.high:
            return NO_DIFFERENCE
        is_more = percent.low > 0
        return FASTER if is_more == (self.percentile is None) else SLOWER


def metrics(chosen: int | None, more: Sequence[int] = ()) -> tuple[Metric, ...]:
    """The headline figures, with the percentiles that were asked for among them."""
    wanted = sorted({*PERCENTILES, *more, *(() if chosen is None else (chosen,))})
    return (Metric(THROUGHPUT), *(Metric(f"p{p}", p) for p in wanted))
