"""What a pipeline does with so many requests in flight.

pipeline, concurrency -> predict -> Prediction

Why not formulas: service times of models hardly vary, batches form from whoever waits, a step that calls others holds
its instance meanwhile, and all of them slow each other down on the same cores. Mean-value formulas assume the first
away and have no place for the rest. A few hundred simulated requests settle it in milliseconds.

Nothing is random to the outside: the same pipeline gives the same figures.
"""

from dataclasses import dataclass
from functools import lru_cache

from inferometer.diagnose.pipeline import Cores, Devices, Pipeline, Station, with_station
from inferometer.diagnose.simulation import SimulatedTraffic, Simulation

__all__ = ["Cores", "Devices", "Pipeline", "Prediction", "Station", "predict", "with_station"]

REQUESTS = 300  # watched at least; more with many in flight
_ROUNDS = 12  # watched per request in flight
_SETTLING = 4  # rounds before that


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected of a pipeline under one load."""

    throughput: float  # infer/s
    latency_s: float  # mean
    batches: dict[str, float]  # of each station: inferences per execution


def predict(pipeline: Pipeline, concurrency: int, *, is_in_step: bool = True) -> Prediction:
    """With so many requests in flight at any time.

    They begin all at once, as a load does, or one after the other. That makes a difference where a batcher waits for
    less time than an execution takes: requests that came together stay together, but those that once fell apart never
    meet again, as the first of them has waited long enough whenever an instance is free.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, but must be at least 1")
    return _predicted(pipeline, concurrency, is_in_step)


@lru_cache(maxsize=1024)
def _predicted(pipeline: Pipeline, concurrency: int, is_in_step: bool) -> Prediction:
    """A fit and the suggestions after it ask the same again, and again with the next observation."""
    # Means of one model hardly depend on which of its requests gets which core.
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
