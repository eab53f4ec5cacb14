"""Twins of servers without statistics, from latencies and throughput alone. Pure.

The server is one station. Either a number of requests are in service at once and the others wait for one of them to
end, as with worker processes, or all requests share a capacity, as threads share cores. In both cases the throughput
saturates at `most`. With k in service at once, a service takes k / most, at most the latency of a single request; the
rest of that latency does not queue. The variant that explains all measured loads best is chosen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.base.units import plain_number
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.pipeline import Station
from inferometer.options.names import option_name
from inferometer.twin.twin import TwinModel

GROWING = 0.05  # relative gain over the load before above which throughput has not saturated
MANY = 4096  # in service at once if they share a capacity
_TRIED = 12  # numbers in service at once


def check_plain(name: str, seen: Sequence[Observation], *, are_closed: bool) -> None:
    """Raise unless latencies alone can tell a station from these loads."""
    words = f"the server of '{name}' provides no statistics, so its twin is fitted to latencies alone"
    loads = option_name("-c", "1,2,4,8")
    remedy = f"measure it with {loads}, up to where throughput stops growing: inferometer measure URL {name}"
    if not are_closed:
        raise UsageError(f"{words}, which rates do not determine", remedy=remedy)
    if len({row.concurrency for row in seen}) < 2:
        raise UsageError(f"{words}, and one load does not show what saturates", remedy=remedy)


def plain_model(
    empty: TwinModel, seen: Sequence[Observation], misfit: Callable[[TwinModel], float]
) -> TwinModel:
    """Return the station that explains the loads best; `empty` has everything but the station."""
    return min(_candidates(empty, seen), key=misfit)


def _candidates(empty: TwinModel, seen: Sequence[Observation]) -> Iterator[TwinModel]:
    rows = sorted(seen, key=lambda row: row.concurrency)
    alone_s = rows[0].latency_s / rows[0].concurrency if rows[0].concurrency > 1 else rows[0].latency_s
    most = max(row.throughput / row.items for row in rows)
    for count in _counts(most * alone_s, rows):
        service_s = min(count / most, alone_s)
        station = Station(empty.name, service_s, instances=count, cpu=0.0)
        yield replace(empty, stations=(station,), outside_s=alone_s - service_s)
    if not is_growing(rows):
        station = Station(empty.name, alone_s, instances=MANY, cpu=1.0)
        yield replace(empty, stations=(station,), outside_s=0.0, cores=max(1.0, most * alone_s))


def _counts(at_once: float, rows: Sequence[Observation]) -> list[int]:
    """Return the numbers of requests in service to try: at most the measured one if throughput has not saturated."""
    highest = max(1, math.ceil(at_once - 0.02))
    if is_growing(rows):
        return [max(highest, rows[-1].concurrency)]
    if highest <= _TRIED:
        return list(range(1, highest + 1))
    return sorted({round(highest ** (place / (_TRIED - 1))) for place in range(_TRIED)})


def is_growing(rows: Sequence[Observation]) -> bool:
    """Return whether throughput had not saturated at the highest load."""
    *before, last = sorted(rows, key=lambda row: row.concurrency)
    return last.throughput > (1 + GROWING) * max(row.throughput for row in before)


def as_observed(model: TwinModel, seen: Observation) -> Observation:
    """Return the observation with the station as its only step."""
    station = model.stations[0]
    step = Step(
        station.name,
        1.0,
        station.fixed_s,
        station.fixed_s,
        setup=StepSetup(instances=station.instances),
    )
    return replace(seen, steps=(step,))


def plain_notes(model: TwinModel, seen: Sequence[Observation]) -> Iterator[str]:
    station = model.stations[0]
    if station.instances == MANY and model.cores is not None:
        found = f"requests share a capacity for {plain_number(round(model.cores, 1))} at a time"
    else:
        found = f"{station.instances} in service at once"
    yield f"{model.name}: fitted to latencies alone, since the server provides no statistics: {found}"
    if is_growing(seen):
        last = max(row.concurrency for row in seen)
        yield (
            f"{model.name}: throughput was still growing at concurrency {last}, so what limits it is not known; "
            "measure higher loads"
        )
