"""Pipeline -> ranked suggestions, each with its prediction. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.bottleneck import undisturbed
from inferometer.diagnose.diagnosis import (
    CLIENT_BATCH,
    CONCURRENCY,
    DYNAMIC_BATCHING,
    INSTANCES,
    OVERHEAD,
    THREADS,
    TRANSPORT,
    Change,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.diagnose.diagnosis import CPU as CPU_VERDICT
from inferometer.diagnose.observation import US_PER_S, Observation
from inferometer.diagnose.pipeline import Pipeline, Station, with_station
from inferometer.diagnose.queueing import Prediction, predict

WORTH_SAYING = 0.02  # gains below this are noise
_NEAR_BEST = 0.97  # a smaller change that gets so near is preferred
_ROOM = 0.5  # utilisation below which a step needs nothing
_FACTORS = (2, 3, 4, 6, 8)
_MOST_INSTANCES = 32
_MOST_BATCH = 64
_HTTP_THREADS = 8  # the server's own default
_TRANSPORT_SHARE = 0.1  # of the latency, below which the way of the tensors does not matter


@dataclass(frozen=True, slots=True)
class Situation:
    """What a suggestion can build on."""

    top: Observation
    table: tuple[StepFigures, ...]
    pipeline: Pipeline
    verdict: Verdict
    model: str  # the top model
    max_batch: int  # of the top model
    known_batches: frozenset[str]  # steps of which batches of several sizes were seen
    sequences: frozenset[str]  # steps whose requests belong together: no batches over them
    is_shared_memory: bool = False
    is_json: bool = False
    is_http: bool = True
    is_local: bool = False
    transfer_s: float = 0.0  # handing a request to the system, and its reply's way from first to last byte


def suggestions(situation: Situation) -> tuple[Suggestion, ...]:
    """The most promising first."""
    now = predict(situation.pipeline, situation.top.concurrency)
    found = [
        *_instances(situation, now),
        *_batching(situation, now),
        *_client_batch(situation, now),
        *_transport(situation, now),
        *_threads(situation, now),
        *_more_load(situation, now),
    ]
    return tuple(sorted(found, key=lambda row: (-round(row.gain, 2), row.latency_ns)))


# --- instances


def _instances(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    for row, station in _stations(situation):
        if row.utilisation < _ROOM:
            continue
        best = _best_count(situation, station)
        if best is None:
            continue
        count, found = best
        if found.throughput > now.throughput * (1 + WORTH_SAYING):
            yield _suggestion(
                situation,
                now,
                found,
                change=_instance_change(row, count),
                text=f"run {count} instances of {row.name} instead of {row.instances}",
                why=f"{_busy_words(row)}; {_cores_words(situation.pipeline, station, count)}",
            )
    yield from _fewer(situation)


def _best_count(situation: Situation, station: Station) -> tuple[int, Prediction] | None:
    """The fewest that come near the best; None where there is no room for another."""
    counts = _counts(situation, station)
    if not counts:
        return None
    found = [
        (
            count,
            predict(
                with_station(situation.pipeline, station.name, instances=count), situation.top.concurrency
            ),
        )
        for count in counts
    ]
    best = max(prediction.throughput for _, prediction in found)
    return next(row for row in found if row[1].throughput >= _NEAR_BEST * best)


def _counts(situation: Situation, station: Station) -> list[int]:
    """More than now, no more than requests in flight, and not more busy ones than there are cores."""
    cores = situation.pipeline.cores.count
    most = min(_MOST_INSTANCES, situation.top.concurrency)
    if station.cpu and not math.isinf(cores):
        most = min(most, math.ceil(cores / station.cpu))
    wanted = {station.instances + 1, most, *(station.instances * factor for factor in _FACTORS)}
    return sorted(count for count in wanted if station.instances < count <= most)


def _fewer(situation: Situation) -> Iterator[Suggestion]:
    """Where the cores are exhausted, instances beyond them only cost memory."""
    host, top = situation.top.host, situation.top
    if situation.verdict.kind != CPU_VERDICT or host is None:
        return
    quiet = undisturbed(top, situation.pipeline)
    for row, station in _stations(situation):
        if row.name != situation.verdict.step or station.instances <= host.cores:
            continue
        found = predict(with_station(quiet, row.name, instances=host.cores), top.concurrency)
        alone = predict(quiet, top.concurrency)
        if found.throughput > alone.throughput * (1 - WORTH_SAYING):
            yield _suggestion(
                situation,
                alone,
                found,
                change=_instance_change(row, host.cores),
                text=f"run {host.cores} instances of {row.name} instead of {row.instances}",
                why=f"there are {host.cores} cores: more instances than that do the same work and cost memory",
            )


def _instance_change(row: StepFigures, count: int) -> Change:
    group = {"kind": f"KIND_{row.device.upper()}", "count": count}
    return Change(INSTANCES, row.name, str(row.instances), str(count), {"instance_group": [group]})


def _busy_words(row: StepFigures) -> str:
    busy = f"{min(row.utilisation, 1.0):.0%}"
    if row.instances == 1:
        return f"its one instance is busy {busy} of the time"
    return f"its {row.instances} instances are busy {busy} of the time"


def _cores_words(pipeline: Pipeline, station: Station, count: int) -> str:
    if not station.cpu:
        return "they wait for something other than a core, so each brings its whole worth"
    work = pipeline.cores.work(count * station.cpu)
    return f"{count} busy ones get {work:.2g} cores' worth of work"


# --- batches formed by the server


def _batching(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    for row, station in _stations(situation):
        if (
            station.max_batch < 2
            or row.utilisation < _ROOM
            or row.name in situation.sequences
            or station.members
        ):
            continue
        size, delay_s, found = _best_batching(situation, station)
        if found.throughput <= now.throughput * (1 + WORTH_SAYING):
            continue
        formed = next(use.batch for use in found.stations if use.name == row.name)
        delay_us = round(delay_s * US_PER_S)
        before = f"preferred {station.preferred or 'any'}" if station.is_batching else "off"
        single_s, batch_s = station.service_s(1), station.service_s(size)
        why = (
            f"a batch of {size} takes {batch_s / single_s:.1f} times as long as one alone, measured"
            if row.name in situation.known_batches
            else f"a guess that a batch of {size} takes {batch_s / single_s:.1f} times as long as one: it was not seen"
        )
        yield _suggestion(
            situation,
            now,
            found,
            change=Change(
                DYNAMIC_BATCHING,
                row.name,
                before,
                f"preferred {size}, delay {delay_us} µs",
                {
                    "dynamic_batching": {
                        "preferred_batch_size": [size],
                        "max_queue_delay_microseconds": delay_us,
                    }
                },
            ),
            text=f"let the server form batches for {row.name}: preferred size {size}, delay {delay_us} µs",
            why=f"{why}; about {formed:.2g} would come together",
        )


def _best_batching(situation: Situation, station: Station) -> tuple[int, float, Prediction]:
    most = min(station.max_batch, _MOST_BATCH, situation.top.concurrency * situation.pipeline.items)
    sizes = sorted({max(2, most), *(size for size in (2, 4, 8, 16, 32, 64) if size <= most)})
    service_s = station.service_s(1)
    delays = sorted({0.0, min(service_s / 10, 0.005), min(service_s / 2, 0.02)})
    tried = [
        (
            size,
            round(delay_s, 6),
            predict(
                with_station(
                    situation.pipeline,
                    station.name,
                    is_batching=True,
                    preferred=(size,),
                    delay_s=round(delay_s, 6),
                ),
                situation.top.concurrency,
            ),
        )
        for size in sizes
        for delay_s in delays
    ]
    best = max(row[2].throughput for row in tried)
    return min(
        (row for row in tried if row[2].throughput >= _NEAR_BEST * best), key=lambda row: row[1:2] + row[:1]
    )


# --- what the client can do


def _client_batch(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    items = situation.pipeline.items
    limits = [situation.max_batch, *(station.max_batch for station, _ in situation.pipeline.walk())]
    most = min(limits, default=0)
    if most < 2 * items or not all(row.name in situation.known_batches for row in situation.table):
        return
    size = min(most, 8 * items)
    found = predict(replace(situation.pipeline, items=size), situation.top.concurrency)
    if found.throughput > now.throughput * (1 + WORTH_SAYING):
        yield _suggestion(
            situation,
            now,
            found,
            change=Change(CLIENT_BATCH, situation.model, str(items), str(size)),
            text=f"send {size} inferences in a request instead of {items} (-b {size})",
            why="what a request and an execution cost is then shared by more inferences",
        )


def _transport(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    top, pipeline = situation.top, situation.pipeline
    if pipeline.outside_s < _TRANSPORT_SHARE * top.latency_s:
        return
    if situation.is_json and situation.is_http and not situation.is_shared_memory:
        found = predict(replace(pipeline, outside_s=0.0, outside_cpu_s=0.0), top.concurrency)
        change = Change(TRANSPORT, situation.model, "JSON", "binary")
        yield _suggestion(
            situation, now, found, change=change, text="send tensors in binary form instead of JSON",
            why="numbers written as text are long and slow to read; this is the most it could bring",
        )  # fmt: skip
    elif situation.is_local and not situation.is_shared_memory:
        saved_s = min(2 * situation.transfer_s, pipeline.outside_s)  # the server copies as much as we do
        quicker = replace(
            pipeline,
            outside_s=pipeline.outside_s - saved_s,
            outside_cpu_s=max(0.0, pipeline.outside_cpu_s - saved_s),
        )
        found = predict(quicker, top.concurrency)
        if found.throughput > now.throughput * (1 + WORTH_SAYING):
            change = Change(TRANSPORT, situation.model, "network", "shared memory")
            yield _suggestion(
                situation, now, found, change=change, text="pass tensors in shared memory (--shared-memory system)",
                why=f"moving them takes {situation.transfer_s * 1e6:.0f} µs of a request on our side alone",
            )  # fmt: skip


def _threads(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    top, pipeline = situation.top, situation.pipeline
    if situation.verdict.kind != OVERHEAD or not situation.is_http or top.concurrency <= _HTTP_THREADS:
        return
    waiting_s = max(
        0.0, top.latency_s - pipeline.outside_s - sum(row.compute_ns for row in situation.table) / NS_PER_S
    )
    found = predict(replace(pipeline, outside_s=max(0.0, pipeline.outside_s - waiting_s)), top.concurrency)
    change = Change(THREADS, situation.model, str(_HTTP_THREADS), str(top.concurrency))
    yield _suggestion(
        situation, now, found, change=change,
        text=f"start the server with --http-thread-count {top.concurrency}",
        why=f"{top.concurrency} requests share {_HTTP_THREADS} threads by default; this is the most it could bring",
    )  # fmt: skip


def _more_load(situation: Situation, now: Prediction) -> Iterator[Suggestion]:
    """Where nothing is busy yet."""
    if any(row.utilisation >= _ROOM for row in situation.table):
        return
    concurrency = 2 * situation.top.concurrency
    found = predict(situation.pipeline, concurrency)
    if found.throughput > now.throughput * (1 + WORTH_SAYING):
        change = Change(CONCURRENCY, situation.model, str(situation.top.concurrency), str(concurrency))
        made = _suggestion(
            situation, now, found, change=change,
            text=f"keep {concurrency} requests in flight instead of {situation.top.concurrency}",
            why="no step is busy half of the time",
        )  # fmt: skip
        yield replace(made, concurrency=concurrency)


# --- common


def _stations(situation: Situation) -> Iterator[tuple[StepFigures, Station]]:
    by_name = {station.name: station for station, _ in situation.pipeline.walk()}
    for row in sorted(situation.table, key=lambda row: -row.utilisation):
        if row.name in by_name:
            yield row, by_name[row.name]


def _suggestion(
    situation: Situation, now: Prediction, found: Prediction, *, change: Change, text: str, why: str
) -> Suggestion:
    """What the model predicts, in proportion to what was measured: its own bias is then in neither."""
    top = situation.top
    gain = found.throughput / now.throughput - 1
    return Suggestion(
        change=change,
        text=text,
        concurrency=top.concurrency,
        throughput=top.throughput * (1 + gain),
        latency_ns=top.latency_s * found.latency_s / now.latency_s * NS_PER_S,
        gain=gain,
        why=why,
    )
