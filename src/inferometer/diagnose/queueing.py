"""Prediction of a pipeline's throughput and latency at a concurrency.

pipeline, concurrency -> predict -> Prediction

Formulas are not enough: service times of models hardly vary, batches form from waiting requests, a step that calls
others holds its instance meanwhile, and all steps slow each other down on shared cores. Mean-value analysis assumes
exponential service times and cannot model the rest. A few hundred simulated requests take milliseconds.

The result is deterministic: the same pipeline gives the same figures.
"""

from functools import lru_cache

from inferometer.base.frozen import frozen
from inferometer.diagnose.pipeline import Cores, Devices, Pipeline, Station, with_station
from inferometer.diagnose.simulation import SimulatedTraffic, Simulation

__all__ = ["Cores", "Devices", "Pipeline", "Prediction", "Station", "predict", "with_station"]

REQUESTS = 300  # observed at least; more with many in flight
_ROUNDS = 12  # observed per request in flight
_SETTLING = 4  # rounds before the observation


@frozen
class Prediction:
    """Expected figures of a pipeline under one load."""

    throughput: float  # infer/s
    latency_s: float  # mean
    batches: dict[str, float]  # inferences per execution of each station


def predict(pipeline: Pipeline, concurrency: int, *, is_in_step: bool = True) -> Prediction:
    """Predict the pipeline with a constant number of requests in flight.

    Requests start all at once, as a load does, or one after the other. The difference matters if the queue delay of a
    batcher is shorter than an execution: requests that arrived together stay together, but once separated they never
    meet again, because the first has waited long enough whenever an instance becomes free.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, but must be at least 1")
    return _predicted(pipeline, concurrency, is_in_step)


@lru_cache(maxsize=1024)
def _predicted(pipeline: Pipeline, concurrency: int, is_in_step: bool) -> Prediction:
    """Predict with a cache, since a fit, its suggestions and the next observation repeat predictions."""
    # The means of one model hardly depend on which request gets which core.
    traffic = SimulatedTraffic(pipeline, concurrency, is_in_step=is_in_step)
    simulation = Simulation((traffic,), is_even=True)
    simulation.advance(max(_SETTLING * concurrency, 20))
    start_s = simulation.now_s
    simulation.watch()
    ended = simulation.advance(max(_ROUNDS * concurrency, REQUESTS))
    seconds = simulation.now_s - start_s
    return Prediction(
        throughput=len(ended) * pipeline.items / seconds,
        latency_s=sum(row.latency_s for row in ended) / len(ended),
        batches=simulation.batches(),
    )
