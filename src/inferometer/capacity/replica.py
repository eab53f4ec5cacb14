"""A model of one replica, derived from its measurements.

A replica has places. A request takes a free place or queues for one. The speed depends on the number of requests in the
replica: at concurrency n it completed X(n) requests per second, so with n requests inside, those with a place share
X(n). This holds for instances, batches and shared cores alike, without knowing which of them applies. Between two
measured concurrencies X is interpolated linearly; the true curve is concave, so the line is never above it. Beyond the
highest concurrency X is constant.

The number of places is the concurrency that reaches the highest measured throughput. The work of a request varies as
its latency did at the lightest load.

If the model's configuration lists instances, and the throughput matches that number of instances, each instance is a
place. The difference between the latency of a single request and the busy time of an instance does not queue: it is
the time of the network.

If rates were measured, the number of requests inside is unknown: the lightest rate gives the time of a request, the
heaviest the throughput. The number of places is then that of the configured instances, or one if none are configured,
which is the slowest way to reach that throughput; the rest of the time does not queue.

If a throughput has a confidence interval, its less favourable end is used. A replica derived from the best or the
worst ends of all intervals, including those of the error rates and of the latency distribution, shows how many more
or fewer replicas the data allow.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S, plain_number
from inferometer.stats.binomial import share_estimate
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result
from inferometer.stats.series import BINS_PER_OCTAVE

NEARLY_ALL = 0.98  # share of the maximum throughput that the places must reach
GROWING = 0.05  # relative gain over the level before above which throughput has not saturated
LEAST_PART = 0.5  # smallest share of a throughput that is used, however wide its interval
NEAR = 0.03  # relative distance up to which a load counts as measured
MOST_INSIDE = 4096
REMEDY = "save one with: inferometer measure URL MODEL -c 1,2,4,8 --json machine.json"

Draws = NDArray[np.float64]
End = Literal["planned", "best", "worst"]
"""The ends of the intervals that count: those of the plan, or the most or least favourable end of every figure."""
NORMAL_95 = 1.959964


@frozen
class MeasuredLoad:
    """A measured level that the model is derived from."""

    load: float  # concurrency, or requests per second
    per_s: float  # answered requests
    low_per_s: float  # lower end of the confidence interval, if any
    sent_per_s: float  # including failed requests
    failed_share: float
    mean_s: float  # latency


@frozen
class Replica:
    """With n requests inside, `per_s[n - 1]` end per second; the last value also applies to any larger n."""

    mode: str  # concurrency or request_rate: how it was measured
    places: int
    per_s: tuple[float, ...]
    edges: tuple[float, ...]  # quantiles of the work of a request, whose mean is 1,
    shares: tuple[float, ...]  # and the share of requests below each
    delay_s: float  # without a queue
    loads: tuple[MeasuredLoad, ...]
    is_growing: bool  # throughput had not saturated

    @property
    def most_per_s(self) -> float:
        return max(self.per_s)

    @property
    def alone_s(self) -> float:
        """Mean time of a single request without queueing; not less than measured."""
        return 1 / self.per_s[0] + self.delay_s

    @property
    def most_inside(self) -> int:
        """Highest measured number of concurrent requests."""
        return int(self.loads[-1].load) if self.mode == "concurrency" else self.places

    def work(self, count: int, random: np.random.Generator) -> Draws:
        """Draw the work of `count` requests; the mean is 1."""
        found: Draws = np.interp(random.random(count), self.shares, self.edges)
        return found

    def failed_share(self, rate: float) -> float:
        """Return the largest error rate measured up to this rate and at the next load above it."""
        above = next(
            (number for number, row in enumerate(self.loads) if row.sent_per_s > rate), len(self.loads)
        )
        return max((row.failed_share for row in self.loads[: above + 1]), default=0.0)

    def failed_inside(self, inside: NDArray[np.int64]) -> float:
        """Return the expected error rate of requests that share the replica with others, `inside` in all.

        A request counts with the error rate of the next higher measured concurrency, but with no less than that of any
        lower concurrency.
        """
        if self.mode != "concurrency":
            return 0.0
        loads = np.array([row.load for row in self.loads])
        shares = np.maximum.accumulate([row.failed_share for row in self.loads])
        return float(shares[np.minimum(np.searchsorted(loads, inside), len(loads) - 1)].mean())


def measured_loads(levels: Sequence[Level], end: End = "planned") -> tuple[tuple[MeasuredLoad, ...], bool]:
    """Return the loads with an answered request in ascending order, and whether throughput was still growing."""
    found = _answered(levels)
    loads = tuple(_load(*row, end) for row in found)
    if found[0][0].mode == "request_rate":
        return loads, _is_growing_by_rate(found, loads)
    before = loads[-2].per_s if len(loads) > 1 else 0.0
    return loads, loads[-1].per_s > before * (1 + GROWING)


def _answered(levels: Sequence[Level]) -> "list[tuple[Level, Measurement]]":
    found = [
        (level, level.measurement)
        for level in levels
        if level.measurement is not None and level.measurement.request_count
    ]
    return sorted(found, key=lambda row: row[0].value)


def check_fixed_loads(result: Result, name: str) -> None:
    """Raise unless the result has levels at fixed loads with answered requests."""
    levels = _answered(result.levels)
    if not levels:
        raise UsageError(f"'{name}' has no level with an answered request", remedy=REMEDY)
    mode = levels[0][0].mode
    if mode not in ("concurrency", "request_rate") or result.effective.mode in (
        "fixed_schedule",
        "replay",
        "shape_load",
        "periodic_concurrency",
    ):
        raise UsageError(
            f"'{name}' was measured with a changing load, but a plan needs figures at fixed loads",
            remedy=REMEDY,
        )


def replica_of(result: Result, name: str, end: End = "planned") -> Replica:
    """Derive the replica model from the levels of a result."""
    check_fixed_loads(result, name)
    levels = _answered(result.levels)
    if levels[0][0].mode == "concurrency":
        return _by_concurrency(levels, _instances(result.model), end)
    return _by_rate(levels, _instances(result.model), end)


def measured_levels(result: Result) -> list[tuple[Level, Measurement]]:
    """Return the levels that a replica is derived from, with their figures; the lightest load first."""
    return _answered(result.levels)


def load_words(level: Level) -> str:
    """`concurrency 4`, or `rate 20`."""
    return f"{'concurrency' if level.mode == 'concurrency' else 'rate'} {plain_number(level.value)}"


_Levels = Sequence[tuple[Level, Measurement]]
Work = tuple[tuple[float, ...], tuple[float, ...]]
"""Quantiles of the work of a request, and the share of requests below each."""


def _load(level: Level, found: Measurement, end: End) -> MeasuredLoad:
    """Return the figures of a level. Failed requests count as sent but not as done: quick failures add no capacity."""
    value, limits = found.infer_per_s.value, found.infer_per_s.limits
    low_per_s = value
    if limits is not None:
        low_per_s = limits[1] if end == "best" else max(limits[0], value * LEAST_PART)
    return MeasuredLoad(
        load=level.value,
        per_s=value / found.batch,
        low_per_s=low_per_s / found.batch,
        sent_per_s=value / found.batch / max(1 - found.failed_share, 1e-9),
        failed_share=_failed_share(found, end),
        mean_s=found.latency.mean_ns / NS_PER_S,
    )


def _failed_share(found: Measurement, end: End) -> float:
    if end == "planned" or not found.failed_count:
        return found.failed_share
    limits = share_estimate(found.failed_count, found.ended_count).limits
    assert limits is not None
    return limits[0] if end == "best" else limits[1]


def _by_concurrency(levels: _Levels, instances: int | None, end: End) -> Replica:
    loads, is_growing = measured_loads([level for level, _ in levels], end)
    work = _work(levels[0][1].latency, end)
    most = max(row.low_per_s for row in loads)
    if instances is not None and _are_instances(loads, instances, most):
        places = _Places(instances, most, alone_s=1 / loads[0].low_per_s)
        return _with_instances(places, work, loads, is_growing=is_growing)
    inside = np.arange(1, min(int(loads[-1].load), MOST_INSIDE) + 1)
    points = {0.0: 0.0, **{row.load: row.low_per_s for row in loads}}
    per_s = np.interp(inside, list(points), list(points.values()))
    edges, shares = work
    return Replica(
        mode="concurrency",
        places=int(np.argmax(per_s >= NEARLY_ALL * per_s.max())) + 1,
        per_s=tuple(per_s.tolist()),
        edges=edges,
        shares=shares,
        delay_s=0.0,
        loads=loads,
        is_growing=is_growing,
    )


def _are_instances(loads: Sequence[MeasuredLoad], instances: int, most: float) -> bool:
    """Return whether the throughput at every concurrency matches this many one-request-at-a-time instances."""
    alone = loads[0]
    if alone.load != 1 or loads[-1].load < instances or most < NEARLY_ALL * instances * alone.low_per_s:
        return False
    return all(row.low_per_s >= NEARLY_ALL * min(row.load * alone.low_per_s, most) for row in loads)


def _by_rate(levels: _Levels, instances: int | None, end: End) -> Replica:
    loads, is_growing = measured_loads([level for level, _ in levels], end)
    lightest = levels[0][1].latency
    places = _Places(
        1 if instances is None else instances,
        most=max(row.low_per_s for row in loads),
        alone_s=max(lightest.mean_ns, 1) / NS_PER_S,
    )
    work = _work(lightest, end)
    return _with_instances(places, work, loads, is_growing=is_growing, mode="request_rate")


def _is_growing_by_rate(levels: _Levels, loads: Sequence[MeasuredLoad]) -> bool:
    is_behind = any(level.has_remark(Note.OVERLOADED, Note.NO_REPLY) for level, _ in levels)
    return not is_behind and loads[-1].per_s > NEARLY_ALL * loads[-1].load


@frozen
class _Places:
    count: int
    most: float  # requests per second of all places together
    alone_s: float

    @property
    def service_s(self) -> float:
        return min(self.count / self.most, self.alone_s)


def _with_instances(
    places: _Places,
    work: Work,
    loads: tuple[MeasuredLoad, ...],
    *,
    is_growing: bool,
    mode: str = "concurrency",
) -> Replica:
    edges, shares = work
    # All variation of the latency is attributed to the time in a place, where it is relatively larger.
    wider = places.alone_s / places.service_s
    return Replica(
        mode=mode,
        places=places.count,
        per_s=tuple(min(number / places.service_s, places.most) for number in range(1, places.count + 1)),
        edges=tuple(max(1 + (edge - 1) * wider, 0.0) for edge in edges),
        shares=shares,
        delay_s=places.alone_s - places.service_s,
        loads=loads,
        is_growing=is_growing,
    )


def _work(latency: Distribution, end: End) -> Work:
    """Return quantiles of the work of requests and the share of requests below each; the mean is 1.

    At the ends of the intervals, each share is that of its Wilson interval, so that few requests leave a wide tail.
    """
    step = 2.0 ** (-1 / BINS_PER_OCTAVE)
    edges: list[float] = []
    below: list[int] = []
    seen = 0
    for bound, count in latency.histogram:
        low = max(bound * step, edges[-1] if edges else latency.min_ns or 0)
        high = max(bound if latency.max_ns is None else min(bound, latency.max_ns), low)
        edges += [low, high]
        below += [seen, seen + count]
        seen += count
    if not seen:
        return (1.0, 1.0), (0.0, 1.0)
    times, shares = np.array(edges), np.array(below) / seen
    if end != "planned":
        spread = NORMAL_95**2 / seen
        half = np.sqrt(spread * shares * (1 - shares) + spread**2 / 4)
        shares = (shares + spread / 2 + (half if end == "best" else -half)) / (1 + spread)
    between = float((np.diff(shares) * (times[1:] + times[:-1]) / 2).sum())
    mean = max(between + times[0] * shares[0] + times[-1] * (1 - shares[-1]), 1.0)
    return tuple((times / mean).tolist()), tuple(shares.tolist())


def _instances(model: Mapping[str, Any]) -> int | None:
    """Return the configured number of instances; None if not configured, or if requests are batched."""
    config = model.get("config")
    if not isinstance(config, Mapping) or "dynamic_batching" in config or "ensemble_scheduling" in config:
        return None
    groups = config.get("instance_group")
    if not isinstance(groups, list | tuple):
        return None
    counts = [group.get("count", 1) for group in groups if isinstance(group, Mapping)]
    return max(1, sum(count for count in counts if isinstance(count, int)))


def is_near(rate: float, measured: float) -> bool:
    return math.isclose(rate, measured, rel_tol=NEAR)
