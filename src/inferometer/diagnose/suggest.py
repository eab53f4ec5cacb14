"""Ranked suggestions for a pipeline, each with its prediction. Pure."""

import math
from collections.abc import Iterator
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, rough, share
from inferometer.diagnose.diagnosis import (
    CLIENT_BATCH,
    CONCURRENCY,
    DYNAMIC_BATCHING,
    INSTANCES,
    OVERHEAD,
    SWITCHED_OFF,
    THREADS,
    TRANSPORT,
    Change,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.diagnose.diagnosis import CPU as CPU_VERDICT
from inferometer.diagnose.fit import GPU_DEVICE, cores_of, undisturbed
from inferometer.diagnose.gpu import EXHAUSTED, room_for_instances
from inferometer.diagnose.holding import maybe_shared, maybe_slow_batches
from inferometer.diagnose.observation import US_PER_S, Observation
from inferometer.diagnose.queueing import Pipeline, Prediction, Station, predict, with_station

WORTH_SAYING = 0.02  # smaller gains are noise
_CHANCE = 2 / 3  # share of the difference between the last level and all levels attributed to chance
_NEAR_BEST = 0.97  # share of the best gain at which a smaller change is preferred
_ROOM = 0.5  # utilisation below which a step needs no change
_FACTORS = (2, 3, 4, 6, 8)
_MOST_INSTANCES = 32
_MOST_BATCH = 64
_PATIENT = 1.25  # executions that a batcher waits: a shorter delay does not rejoin separated requests
_LONGEST_DELAY_S = 0.1
_HTTP_THREADS = 8  # the server's default
_TRANSPORT_SHARE = 0.1  # share of the latency below which the transport of tensors does not matter


@frozen
class Circumstances:
    """Facts about the setup that the measurements do not show."""

    model: str  # the top model
    max_batch: int  # of the top model
    cores: float | None  # of the server's machine; None if unknown
    is_shared_memory: bool = False
    is_json: bool = False
    is_http: bool = True
    is_local: bool = False
    transfer_s: float = 0.0  # of a request to the system, and of its reply from first to last byte


@frozen
class Situation:
    """The input of all suggestions."""

    top: Observation
    table: tuple[StepFigures, ...]
    pipeline: Pipeline
    verdict: Verdict
    known_batches: frozenset[str]  # steps for which batches of several sizes were observed
    given: Circumstances
    rows: tuple[Observation, ...] = ()  # all observations

    def predict(self, pipeline: Pipeline) -> Prediction:
        """Predict at the diagnosed load."""
        return predict(pipeline, self.top.concurrency)

    def busy_stations(self) -> Iterator[tuple[StepFigures, Station]]:
        """Yield the steps that need a change, busiest first."""
        by_name = {station.name: station for station in self.pipeline.walk()}
        for row in sorted(self.table, key=lambda row: -row.utilisation):
            if row.name in by_name and row.utilisation >= _ROOM:
                yield row, by_name[row.name]


@frozen
class _Idea:
    """A change with its prediction. It is suggested if the gain exceeds `least`."""

    change: Change
    text: str
    why: str
    found: Prediction
    before: Prediction | None = None  # baseline, if not the current pipeline
    least: float = WORTH_SAYING
    concurrency: int | None = None  # if different from the diagnosed load


def suggestions(situation: Situation) -> tuple[Suggestion, ...]:
    """Return suggestions in descending order of gain."""
    now = situation.predict(situation.pipeline)
    is_on_gpu = any(row.device == GPU_DEVICE for row in situation.table)
    found = []
    for ideas in (
        _instances,
        _fewer,
        _no_batching,
        _batching,
        _client_batch,
        _transport,
        _threads,
        _more_load,
    ):
        for idea in ideas(situation):
            made = _suggestion(idea, now, situation.top, is_on_gpu)
            if made.gain > idea.least:
                found.append(made)
    return tuple(sorted(found, key=lambda row: (-round(row.gain, 2), row.latency_ns)))


def _suggestion(idea: _Idea, now: Prediction, top: Observation, is_on_gpu: bool) -> Suggestion:
    """Scale the prediction to the measurement, so that the model's bias cancels out.

    If GPU executions are launched from a core with varying speed, the last level was faster or slower than the others
    by chance as well. The larger the change, the more the prediction relies on all levels and not only on the last.
    """
    before = now if idea.before is None else idea.before
    change = math.log(idea.found.throughput / before.throughput)
    if is_on_gpu and idea.before is None:
        chance = math.log(now.throughput / top.throughput)
        change += min(1.0, abs(change) / math.log(2)) * _CHANCE * chance
    gain = math.exp(change) - 1
    return Suggestion(
        change=idea.change,
        text=idea.text,
        concurrency=top.concurrency if idea.concurrency is None else idea.concurrency,
        throughput=top.throughput * (1 + gain),
        latency_ns=top.latency_s * idea.found.latency_s / before.latency_s * NS_PER_S,
        gain=gain,
        why=idea.why,
    )


# --- instances


def _instances(situation: Situation) -> Iterator[_Idea]:
    for row, station in situation.busy_stations():
        if station.is_batching and maybe_slow_batches(situation.rows, row.name) is not None:
            continue  # its batches are the limit, and more instances would form them as well
        found = {
            count: situation.predict(with_station(situation.pipeline, station.name, instances=count))
            for count in _counts(situation, station)
        }
        if found:
            best = max(prediction.throughput for prediction in found.values())
            count = next(count for count in found if found[count].throughput >= _NEAR_BEST * best)
            why = f"{_busy_words(row)}; {_sharing_words(situation.pipeline, station, count)}"
            yield _other_count(row, count, why, found[count])


def _counts(situation: Situation, station: Station) -> list[int]:
    """Return larger counts, up to the requests in flight and the cores that busy instances can use."""
    cores = situation.pipeline.cores.count
    most = min(_MOST_INSTANCES, situation.top.concurrency)
    shared = maybe_shared(situation.rows, station.name)
    if shared is not None:
        most = min(most, shared.instances)
    if station.cpu and not math.isinf(cores):
        most = min(most, math.ceil(cores / station.cpu / station.threads))
    wanted = {station.instances + 1, most, *(station.instances * factor for factor in _FACTORS)}
    if not station.gpu_s(1):
        return sorted(count for count in wanted if station.instances < count <= most)
    room = room_for_instances(situation.top)
    if (situation.top.gpu_share or 0.0) >= EXHAUSTED:
        room = 0
    if room is not None:
        most = min(most, station.instances + room)
    wanted |= {1, station.instances // 2, most}  # fewer instances may disturb each other less
    return sorted(count for count in wanted if 0 < count <= most and count != station.instances)


def _fewer(situation: Situation) -> Iterator[_Idea]:
    """Suggest fewer instances if the cores are exhausted or instances wait for each other, since the surplus only costs
    memory."""
    for row in situation.table:
        shared = maybe_shared(situation.rows, row.name)
        if shared is not None and row.instances > (enough := shared.instances):
            why = f"only about {rough(shared.working)} do useful work at a time: they share something other than a core"
            same = situation.predict(situation.pipeline)
            yield replace(_other_count(row, enough, why, same), least=-WORTH_SAYING)
    host = situation.top.host
    if situation.verdict.kind != CPU_VERDICT or host is None:
        return
    quiet = undisturbed(situation.top, situation.pipeline)
    cores = int(cores_of(host))
    for row in situation.table:
        if row.name == situation.verdict.step and row.instances > cores:
            found = situation.predict(with_station(quiet, row.name, instances=cores))
            why = f"there are {cores} cores: more instances do no more work and cost memory"
            idea = _other_count(row, cores, why, found)
            yield replace(idea, before=situation.predict(quiet), least=-WORTH_SAYING)


def _other_count(row: StepFigures, count: int, why: str, found: Prediction) -> _Idea:
    group = {"kind": f"KIND_{row.device.upper()}", "count": count}
    change = Change(INSTANCES, row.name, str(row.instances), str(count), {"instance_group": [group]})
    return _Idea(change, f"run {count} instances of {row.name} instead of {row.instances}", why, found)


def _busy_words(row: StepFigures) -> str:
    busy = share(min(row.utilisation, 1.0))
    if row.instances == 1:
        return f"its only instance is busy {busy} of the time"
    return f"its {row.instances} instances are busy {busy} of the time"


def _sharing_words(pipeline: Pipeline, station: Station, count: int) -> str:
    if station.gpu_s(1):
        part = station.gpu_s(1) / station.service_s(1)
        return f"an execution spends {share(part)} of its time on the GPU, which all instances share"
    if not station.cpu:
        return "they wait for something other than a core, so each adds its full capacity"
    work = pipeline.cores.work(count * station.cpu * station.threads)
    return f"{count} busy instances do {rough(work)} cores' worth of work"


# --- batches formed by the server


def _no_batching(situation: Situation) -> Iterator[_Idea]:
    """Suggest no batching if a batch takes longer than its parts in sequence."""
    items = situation.pipeline.items
    for row, station in situation.busy_stations():
        slow = maybe_slow_batches(situation.rows, row.name)
        if slow is None or not station.is_batching or slow.items != items:
            continue
        changes = {"is_batching": False, "fixed_s": slow.one_s, "item_s": 0.0, "request_s": 0.0}
        single = situation.predict(with_station(situation.pipeline, station.name, **changes))
        formed = {"is_batching": False, "fixed_s": slow.batch_s * items / slow.batch}
        before = situation.predict(with_station(situation.pipeline, station.name, **(changes | formed)))
        times = slow.batch_s / slow.one_s
        yield _Idea(
            no_batching(row.name),
            no_batching_words(row.name),
            f"a batch of {rough(slow.batch)} takes {times:.1f} times as long as a single request (measured)",
            single,
            before=before,
        )


def no_batching(name: str) -> Change:
    return Change(DYNAMIC_BATCHING, name, "on", SWITCHED_OFF, {"dynamic_batching": None})


def no_batching_words(name: str) -> str:
    return f"turn off dynamic batching for {name}"


def _batching(situation: Situation) -> Iterator[_Idea]:
    sequences = {step.name for step, _, _ in situation.top.walk() if step.setup.is_sequence}
    for row, station in situation.busy_stations():
        if station.max_batch < 2 or row.name in sequences or station.members:
            continue
        if maybe_slow_batches(situation.rows, row.name) is not None:
            continue
        size, delay_s, found = _best_batching(situation, station)
        delay_us = round(delay_s * US_PER_S)
        before = f"preferred {station.preferred or 'any'}" if station.is_batching else SWITCHED_OFF
        ratio = station.service_s(size, size / situation.pipeline.items) / station.service_s(1)
        times = f"a batch of {size} takes {ratio:.1f} times as long as a single request"
        why = (
            f"{times} (measured)"
            if row.name in situation.known_batches
            else f"assuming that {times} (not measured)"
        )
        batching = {"preferred_batch_size": [size], "max_queue_delay_microseconds": delay_us}
        after = f"preferred {size}, delay {delay_us} µs"
        yield _Idea(
            Change(DYNAMIC_BATCHING, row.name, before, after, {"dynamic_batching": batching}),
            f"let the server form batches for {row.name}: preferred size {size}, delay {delay_us} µs",
            f"{why}; batches would hold about {rough(found.batches[row.name])} requests",
            found,
        )


def _best_batching(situation: Situation, station: Station) -> tuple[int, float, Prediction]:
    most = min(station.max_batch, _MOST_BATCH, situation.top.concurrency * situation.pipeline.items)
    sizes = sorted({max(2, most), *(size for size in (2, 4, 8, 16, 32, 64) if size <= most)})
    tried = []
    for size in sizes:
        execution_s = station.service_s(size, size / situation.pipeline.items)
        for delay_s in (0.0, round(min(_PATIENT * execution_s, _LONGEST_DELAY_S), 6)):
            batched = with_station(
                situation.pipeline, station.name, is_batching=True, preferred=(size,), delay_s=delay_s
            )
            found = predict(batched, situation.top.concurrency, is_in_step=False)
            tried.append((size, delay_s, found))
    best = max(row[2].throughput for row in tried)
    return min(
        (row for row in tried if row[2].throughput >= _NEAR_BEST * best), key=lambda row: (row[1], row[0])
    )


# --- what the client can do


def _client_batch(situation: Situation) -> Iterator[_Idea]:
    items = situation.pipeline.items
    most = min([situation.given.max_batch, *(station.max_batch for station in situation.pipeline.walk())])
    if most < 2 * items or not all(row.name in situation.known_batches for row in situation.table):
        return
    size = min(most, 8 * items)
    yield _Idea(
        Change(CLIENT_BATCH, situation.given.model, str(items), str(size)),
        f"send {size} inferences per request instead of {items} (-b {size})",
        "more inferences share the cost of a request and an execution",
        situation.predict(replace(situation.pipeline, items=size)),
    )


def _transport(situation: Situation) -> Iterator[_Idea]:
    top, pipeline, given = situation.top, situation.pipeline, situation.given
    is_small = pipeline.outside_s < _TRANSPORT_SHARE * top.latency_s
    if is_small or given.is_shared_memory or top.client_limit:  # whose waits are outside the server as well
        return
    if given.is_json and given.is_http:
        yield _Idea(
            Change(TRANSPORT, given.model, "JSON", "binary"),
            "send tensors in binary form instead of JSON",
            "numbers as text are long and slow to parse; this is the highest possible gain",
            situation.predict(replace(pipeline, outside_s=0.0, outside_cpu_s=0.0)),
            least=-math.inf,
        )
    elif given.is_local:
        saved_s = min(2 * given.transfer_s, pipeline.outside_s)  # the server copies as much as we do
        quicker = replace(
            pipeline,
            outside_s=pipeline.outside_s - saved_s,
            outside_cpu_s=max(0.0, pipeline.outside_cpu_s - saved_s),
        )
        yield _Idea(
            Change(TRANSPORT, given.model, "network", "shared memory"),
            "pass tensors through shared memory (--shared-memory system)",
            f"moving them takes {given.transfer_s * 1e6:.0f} µs per request on the client alone",
            situation.predict(quicker),
        )


def _threads(situation: Situation) -> Iterator[_Idea]:
    top, pipeline = situation.top, situation.pipeline
    if situation.verdict.kind != OVERHEAD or not situation.given.is_http or top.concurrency <= _HTTP_THREADS:
        return
    working_s = sum(row.compute_ns for row in situation.table) / NS_PER_S
    waiting_s = max(0.0, top.latency_s - pipeline.outside_s - working_s)
    yield _Idea(
        Change(THREADS, situation.given.model, str(_HTTP_THREADS), str(top.concurrency)),
        f"start the server with --http-thread-count {top.concurrency}",
        f"{top.concurrency} requests share {_HTTP_THREADS} threads by default; this is the highest possible gain",
        situation.predict(replace(pipeline, outside_s=max(0.0, pipeline.outside_s - waiting_s))),
        least=-math.inf,
    )


def _more_load(situation: Situation) -> Iterator[_Idea]:
    """Suggest more load if no step is busy."""
    if any(row.utilisation >= _ROOM for row in situation.table):
        return
    now, concurrency = situation.top.concurrency, 2 * situation.top.concurrency
    yield _Idea(
        Change(CONCURRENCY, situation.given.model, str(now), str(concurrency)),
        f"keep {concurrency} requests in flight instead of {now}",
        "no step is busy half the time",
        predict(situation.pipeline, concurrency),
        concurrency=concurrency,
    )
