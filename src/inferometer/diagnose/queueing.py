"""Predictions: what a pipeline does under a load. Pure; the same pipeline gives the same figures.

pipeline, concurrency -> predict -> Prediction
pipeline, rate        -> predict_open -> Prediction
"""

import math
from dataclasses import dataclass

from inferometer.diagnose.pipeline import Pipeline, bounds
from inferometer.diagnose.simulation import Run, Simulation

REQUESTS = 300  # watched at least; more with many in flight
_ROUNDS = 6  # watched per request in flight
_SETTLING = 3  # rounds before that


@dataclass(frozen=True, slots=True)
class StationUse:
    """What one station does under the load."""

    name: str
    utilisation: float  # share of its instances' time that is held
    batch: float  # inferences per execution
    wait_s: float  # mean per visit
    service_s: float  # mean per execution, slowed down by others on the cores


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected of a pipeline under one load."""

    throughput: float  # infer/s
    latency_s: float  # mean; infinite when more arrives than can leave
    stations: tuple[StationUse, ...]
    busy_cores: float  # cores' worth of work asked of this machine
    bound: float  # infer/s that no load exceeds
    bottleneck: str  # the station that sets the bound, or pipeline.CORES


def predict(pipeline: Pipeline, concurrency: int) -> Prediction:
    """With so many requests in flight at any time."""
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, and must be 1 or more")
    run = Simulation(pipeline).closed(
        concurrency,
        warmup=max(_SETTLING * concurrency, 20),
        requests=max(_ROUNDS * concurrency, REQUESTS),
    )
    return _prediction(pipeline, run)


def predict_open(pipeline: Pipeline, rate: float, *, is_poisson: bool = True) -> Prediction:
    """With requests sent at a rate, in requests/s. More than the bound: the latency grows without end."""
    if rate <= 0:
        raise ValueError(f"the rate is {rate}, and must be above 0")
    bound, bottleneck = limit(pipeline)
    if rate * pipeline.items >= bound:
        return Prediction(bound, math.inf, (), 0.0, bound, bottleneck)
    run = Simulation(pipeline).open(rate, warmup=REQUESTS // 2, requests=4 * REQUESTS, is_poisson=is_poisson)
    return _prediction(pipeline, run)


def limit(pipeline: Pipeline) -> tuple[float, str]:
    """The infer/s that no load exceeds, and what sets it."""
    found = bounds(pipeline)
    name = min(found, key=lambda name: found[name])
    return found[name], name


def _prediction(pipeline: Pipeline, run: Run) -> Prediction:
    bound, bottleneck = limit(pipeline)
    throughput = run.requests * pipeline.items / run.seconds
    walk = list(pipeline.walk())
    uses = tuple(
        StationUse(
            name=station.name,
            utilisation=tally.busy_s / (run.seconds * station.instances),
            batch=tally.items / tally.executions if tally.executions else 0.0,
            wait_s=tally.wait_s / tally.waits if tally.waits else 0.0,
            service_s=tally.service_s / tally.executions if tally.executions else 0.0,
        )
        for (station, _), tally in zip(walk, run.tallies, strict=True)
    )
    core_s = pipeline.outside_cpu_s * run.requests + sum(
        station.cpu * (tally.executions * station.fixed_s + tally.items * station.item_s)
        for (station, _), tally in zip(walk, run.tallies, strict=True)
    )
    return Prediction(throughput, run.latency_s, uses, core_s / run.seconds, bound, bottleneck)
