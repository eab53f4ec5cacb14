"""The server's own times, from its counters.

A model either works itself or only passes requests on to its members. One that works (also a BLS model,
whose members run inside its own compute time) is described by its own counters. An ensemble does no work:
its queue and compute are the sums over the workers below it, each weighted by how often it was called per
call of the ensemble.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inferometer.base.units import NS_PER_US
from inferometer.observe.statistics import Counters, ModelStatistics


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """Averages per request in whole microseconds, each truncated by itself."""

    latency: int
    overhead: int
    queue: int
    compute: int
    compute_input: int
    compute_infer: int
    compute_output: int
    cached: int  # time of hits, misses and compute together
    cache_hit: int
    cache_lookup: int  # lookup and insertion of a miss
    cache_miss: int  # the same and the compute it led to


def any_cache(model: ModelStatistics) -> bool:
    return model.has_cache or any(any_cache(member) for member in model.members)


def compute_ns(counters: Counters) -> int:
    return counters.compute_input_ns + counters.compute_infer_ns + counters.compute_output_ns


def average_ns(ns: int, count: int) -> int:
    return ns // count if count else 0


def figures(model: ModelStatistics, cached: bool) -> ServerFigures:
    """The averages of one model; `cached` when any model of the whole family uses the response cache."""
    calls = model.counters.success_count
    rows = tuple(row.counters for row in unique(workers(model)))

    def total(ns: str, count: str) -> int:
        return sum(
            _weighted_us(getattr(row, ns), getattr(row, count), row.success_count, calls) for row in rows
        )

    latency = average_ns(model.counters.success_ns, calls) // NS_PER_US
    queue = total("queue_ns", "queue_count")
    compute = sum(
        _weighted_us(compute_ns(row), row.compute_infer_count, row.success_count, calls) for row in rows
    )
    together = sum(
        _weighted_us(
            row.cache_hit_ns + row.cache_miss_ns + compute_ns(row),
            row.compute_infer_count + row.cache_hit_count,
            row.success_count,
            calls,
        )
        for row in rows
    )
    lookup = total("cache_miss_ns", "cache_miss_count")
    return ServerFigures(
        latency=latency,
        overhead=max(0, latency - queue - (together if cached else compute)),
        queue=queue,
        compute=compute,
        compute_input=total("compute_input_ns", "compute_input_count"),
        compute_infer=total("compute_infer_ns", "compute_infer_count"),
        compute_output=total("compute_output_ns", "compute_output_count"),
        cached=together,
        cache_hit=total("cache_hit_ns", "cache_hit_count"),
        cache_lookup=lookup,
        cache_miss=lookup + compute,
    )


def own_cache_us(counters: Counters) -> tuple[int, int]:
    """Average hit and miss of a model's own cache, also where the model passes its requests on."""
    hit = average_ns(counters.cache_hit_ns, counters.cache_hit_count)
    miss = average_ns(counters.cache_miss_ns, counters.cache_miss_count)
    return hit // NS_PER_US, miss // NS_PER_US


def _weighted_us(ns: int, count: int, calls: int, of: int) -> int:
    # One division at the end: a member called as often as its ensemble gives exactly its own average.
    return ns * calls // (count * of * NS_PER_US) if count and of else 0


def workers(model: ModelStatistics) -> Iterator[ModelStatistics]:
    """The models that do the work of this one; one that only passes requests on does none."""
    if not (model.is_ensemble and model.members):
        yield model
        return
    for member in model.members:
        yield from workers(member)


def unique(models: Iterator[ModelStatistics]) -> tuple[ModelStatistics, ...]:
    """Each model once."""
    # The server counts per model, not per place in an ensemble: one used in two places holds both already.
    return tuple({(row.name, row.version): row for row in models}.values())
