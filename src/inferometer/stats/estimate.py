"""A value with its interval, and a distribution of durations."""

from inferometer.base.frozen import frozen


@frozen
class Estimate:
    """A value with its 95 % interval; low and high are None without one (too few samples)."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The interval; None if unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def relative_half_width(self) -> float | None:
        if self.limits is None or self.value == 0:
            return None
        return (self.limits[1] - self.limits[0]) / 2 / abs(self.value)


@frozen
class Distribution:
    """Durations in nanoseconds. `percentiles` are (p, ns) in order of p; `histogram` is (upper bound ns, count).

    A distribution read from another tool's summary has only the figures that the summary states.
    """

    count: int
    mean_ns: int
    std_ns: int | None  # sample standard deviation; 0 with fewer than two values, None if not stated
    min_ns: int | None
    max_ns: int | None
    percentiles: tuple[tuple[float, int], ...]
    histogram: tuple[tuple[int, int], ...] = ()
    intervals: tuple[tuple[str, Estimate], ...] = ()  # of mean, p50, p90 ... if computed

    def percentile_ns(self, p: float) -> int:
        return dict(self.percentiles)[p] if self.count else 0

    def maybe_percentile_ns(self, p: float) -> int | None:
        """Return a percentile; None if there are no durations, or a summary does not state it."""
        return dict(self.percentiles).get(p) if self.count else None

    def interval(self, name: str) -> Estimate | None:
        """Return the interval of mean, p50, p90 ...; None if not computed."""
        return dict(self.intervals).get(name)
