"""A capacity plan with simple figures, for reports."""

import math
from dataclasses import replace

from inferometer.base.units import NS_PER_MS
from inferometer.capacity.autoscaling import Autoscaling, ScalingStep
from inferometer.capacity.plan import (
    BasedFigure,
    CapacityPlan,
    FleetFigures,
    NeededRange,
    PlannedOption,
    PlannedTerm,
    ReplicaFigures,
)
from inferometer.capacity.traffic import Stretch
from tests.support.reports import TOOL

HALF_HOUR_S = 1800.0
PROMISE = "p99<50ms, errors<0.1%"


def sample_capacity(name: str | None = None) -> CapacityPlan:
    """A plan for a day with a peak in the afternoon, on two machines that meet the SLO and one that does not.

    `name` is the name of the first machine and of the traffic.
    """
    stretches = tuple(
        Stretch(
            HALF_HOUR_S * place, HALF_HOUR_S, round(220 + 180 * math.sin((place - 16) / 48 * 2 * math.pi), 1)
        )
        for place in range(48)
    )
    options = (
        _option(name or "small", stretches, per_s=48.5, price=0.40),
        _option("large", stretches, per_s=180.0, price=1.90),
        PlannedOption(
            name="old",
            model="pipeline",
            server="http://127.0.0.1:8002",
            replica=_replica(11.0, 90.0),
            price_per_h=0.10,
            reason="a single request without queueing already violates 'p99<50ms'",
            needed=NeededRange(None, None),
        ),
    )
    return CapacityPlan(
        tool=TOOL,
        promise=PROMISE,
        traffic=name or "day.csv",
        form="daily curve",
        stretches=stretches,
        arrivals="independently of each other (Poisson)",
        balancer="round-robin",
        spare=1,
        seed=1,
        options=options,
        best=0,
    )


def constant_capacity() -> CapacityPlan:
    """The same plan for a constant rate, that of the busiest stretch."""
    plan = sample_capacity()
    options = tuple(
        replace(option, over_time=(option.replicas,) if option.replicas else (), autoscaling=None)
        for option in plan.options
    )
    return replace(plan, form="rate", stretches=(plan.stretches[plan.peak],), options=options)


def _option(name: str, stretches: tuple[Stretch, ...], *, per_s: float, price: float) -> PlannedOption:
    needed = [math.ceil(row.rate / (0.8 * per_s)) for row in stretches]
    peak = max(row.rate for row in stretches)
    most = max(needed)
    over_time = tuple(number + 1 for number in needed)
    late = stretches[18].start_s
    steps = [ScalingStep(stretches[0].start_s, over_time[0])]
    for row, number in zip(stretches, over_time, strict=True):
        ready = number + round(0.4 * number)
        if ready != steps[-1].ready:
            steps.append(ScalingStep(row.start_s + 90.0, ready))
    hours = sum(step.ready for step in steps) / len(steps) * 24
    scaling = Autoscaling(
        rule="60 % utilisation",
        startup_s=60.0,
        is_kept=per_s > 100,
        broken_share=0.0 if per_s > 100 else 0.004,
        broken=() if per_s > 100 else (late,),
        fewest=min(step.ready for step in steps),
        most=max(step.ready for step in steps),
        replica_hours=hours,
        steps=tuple(steps),
    )
    return PlannedOption(
        name=name,
        model="pipeline",
        server="http://127.0.0.1:8000",
        replica=_replica(per_s, 20.0),
        price_per_h=price,
        fewest=_fleet(most, peak, per_s, 41.0),
        needed=NeededRange(most, most),
        whole=_fleet(most + 1, peak, per_s, 33.0),
        over_time=over_time,
        over_time_basis="interpolated",
        cost_per_h=(most + 1) * price,
        following_per_h=sum(over_time) / len(over_time) * price,
        autoscaling=scaling,
        scaled_per_h=hours / 24 * price,
        by_balancer=(("round-robin", most), ("random", most + 4), ("least-outstanding", most)),
        remarks=("Throughput was still growing at concurrency 8, the highest measured load.",)
        if per_s > 100
        else (),
    )


def _replica(per_s: float, alone_ms: float) -> ReplicaFigures:
    return ReplicaFigures(
        most_per_s=BasedFigure(per_s, "measured", "concurrency 8"),
        alone_ns=BasedFigure(alone_ms * NS_PER_MS, "measured", "concurrency 1"),
        places=2,
        measured=((1.0, per_s / 2), (2.0, per_s * 0.98), (4.0, per_s), (8.0, per_s)),
        mode="concurrency",
        is_growing=per_s > 100,
    )


def _fleet(count: int, rate: float, per_s: float, p99_ms: float) -> FleetFigures:
    source = "up to 5 requests in a replica, between concurrency 1 and 8"
    return FleetFigures(
        replicas=count,
        per_replica=rate / count,
        utilisation=BasedFigure(rate / count / per_s, "measured", "of the throughput at concurrency 8"),
        terms=(
            PlannedTerm(
                "p99<50ms",
                "p99",
                "latency",
                50.0 * NS_PER_MS,
                BasedFigure(p99_ms * NS_PER_MS, "interpolated", source),
            ),
            PlannedTerm(
                "errors<0.1%",
                "errors",
                "errors",
                0.001,
                BasedFigure(0.0, "measured", f"{per_s:g} requests/s"),
            ),
        ),
        basis="interpolated",
        source=source,
    )
