"""Derive the bottleneck of a pipeline, suggestions, and the modelled load curve from observations. Pure.

The bottleneck is found by asking the fitted model what-if questions: with twice the instances of the busiest step, with
more cores, with batches. The share of time alone is not enough: a step may take most of the time and still have spare
capacity.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, duration, quantity, rough, share, significant
from inferometer.diagnose.diagnosis import (
    BATCHING,
    CLIENT,
    COMPUTE,
    CPU,
    FEED,
    LIGHT,
    NETWORK,
    OVERHEAD,
    QUEUE,
    SHARED,
    UNKNOWN,
    CurvePoint,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.diagnose.fit import GPU_DEVICE, cores_of, fitted, knows_batches, lightest, undisturbed
from inferometer.diagnose.gpu import BUSY_STEP, IDLE, WORTHWHILE, GpuCase, maybe_gpu_verdict
from inferometer.diagnose.holding import (
    STRETCHED,
    SlowBatches,
    maybe_shared,
    maybe_slow_batches,
    service_alone_s,
)
from inferometer.diagnose.observation import Observation, Step, StepSetup, inside_s
from inferometer.diagnose.queueing import Cores, Pipeline, Station, predict, with_station
from inferometer.diagnose.suggest import Circumstances, Situation, suggestions
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import relative_difference
from inferometer.stats.machine_figures import FULL, SOME
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling, rule

BUSY_CLIENT = 0.9  # share of a core
UNDISTURBED = 0.1  # share of busy time waiting for a core below which other programs do not matter
STARVED = 0.25  # share of the latency spent waiting for a core
GROWING = 0.1  # relative growth of throughput with the load above which it has not saturated


_NOTHING = Pipeline(())
_UNIDENTIFIED = "The step times include waiting for a core, so the limiting step cannot be identified"


@frozen
class Conclusion:
    """The conclusions from the evidence; without statistics, only the verdict."""

    verdict: Verdict
    table: tuple[StepFigures, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    effective_cores: float | None = None  # the work that all cores do together; None if unknown
    pipeline: Pipeline = _NOTHING


def conclude(
    sweep: Sequence[Observation], circumstances: Circumstances, extra: Sequence[Observation] = ()
) -> Conclusion:
    """Diagnose a sweep.

    The verdict is about the sweep, whose last row is the diagnosed level; `extra` only helps to fit the model.
    """
    top = sweep[-1]
    if not top.steps:
        return Conclusion(_verdict(sweep, (), _NOTHING))
    rows = (*extra, *sweep)
    pipeline = fitted(rows, circumstances.cores)
    cores = pipeline.cores
    table = _step_table(sweep, pipeline)
    transfer_s = 0.0 if circumstances.is_shared_memory else circumstances.transfer_s
    found = _verdict(sweep, table, pipeline, GpuCase(rows, table, pipeline, transfer_s))
    if found.kind == CPU and found.step is None and top.is_crowded:
        return Conclusion(found, table)  # every figure includes the effect of other programs
    known = frozenset(row.name for row in table if knows_batches(row.name, rows))
    return Conclusion(
        found,
        table,
        suggestions(Situation(top, table, pipeline, found, known, circumstances, rows)),
        tuple(_curve_point(row, pipeline) for row in sweep),
        None if math.isinf(cores.count) else cores.work(cores.count),
        pipeline,
    )


def _curve_point(row: Observation, pipeline: Pipeline) -> CurvePoint:
    """Return the modelled figures next to the measured ones."""
    expected = predict(replace(pipeline, items=row.items), row.concurrency)
    return CurvePoint(
        row.concurrency,
        expected.throughput,
        expected.latency_s * NS_PER_S,
        row.throughput,
        row.latency_s * NS_PER_S,
    )


def _step_table(rows: Sequence[Observation], pipeline: Pipeline) -> tuple[StepFigures, ...]:
    """Return the figures of each step at the last observation."""
    top, light = rows[-1], lightest(rows)
    stations = {station.name: station for station in pipeline.walk()}
    reached = _reached(rows)
    light_s = {
        step.name: calls * (step.wait_s + step.own_s) / light.latency_s for step, calls, _ in light.walk()
    }
    work_s = sum(calls * step.own_s for step, calls, _ in top.walk())
    return tuple(
        StepFigures(
            name=step.name,
            depth=depth,
            calls=calls,
            service_ns=step.service_s * NS_PER_S,
            queue_ns=calls * step.wait_s * NS_PER_S,
            compute_ns=calls * step.own_s * NS_PER_S,
            latency_share=min(1.0, calls * (step.wait_s + step.own_s) / top.latency_s),
            light_share=min(1.0, light_s.get(step.name, 0.0)),
            compute_share=calls * step.own_s / work_s if work_s else 0.0,
            instances=step.setup.instances,
            device=step.setup.device,
            batch=step.batch,
            max_batch=step.setup.max_batch,
            is_batching=step.setup.is_batching,
            utilisation=top.throughput * calls * step.service_s / (step.batch * step.setup.instances),
            bound=max(reached, _bound(step, calls, stations[step.name], top.items))
            if calls * step.service_s
            else None,
        )
        for step, calls, depth in top.walk()
    )


def _reached(rows: Sequence[Observation]) -> float:
    """Return the highest throughput measured with the current configuration."""
    return max(row.throughput for row in rows if _setups(row) == _setups(rows[-1]))


def _setups(row: Observation) -> list[tuple[str, StepSetup]]:
    return [(step.name, step.setup) for step, _, _ in row.walk()]


def _bound(step: Step, calls: float, station: Station, items: int) -> float:
    """Return the capacity of a step with all instances busy, with batches as formed or of the maximum size."""
    most = step.setup.instances * step.batch / (calls * step.service_s)
    full_s = station.service_s(station.max_batch, station.max_batch / items)
    if station.is_batching and not station.members and full_s:
        most = max(most, step.setup.instances * station.max_batch / (calls * full_s))
    return most


def _at_most(bound: float, least: float) -> str:
    """Format a bound with three digits, or rounded up to four if that would be less than was measured."""
    rounded = float(f"{bound:.3g}")
    if rounded < least:
        unit = 10.0 ** (math.floor(math.log10(bound)) - 3)
        rounded = math.ceil(bound / unit) * unit
    return significant(rounded, 4)


def outside_s(row: Observation) -> tuple[float, float]:
    """Return the seconds of the latency outside the server, and inside it but outside all steps."""
    if row.server_s is None:
        return row.latency_s, 0.0
    return max(0.0, row.latency_s - row.server_s), max(0.0, row.server_s - inside_s(row.steps))


def _verdict(
    rows: Sequence[Observation],
    table: Sequence[StepFigures],
    pipeline: Pipeline,
    gpu_case: GpuCase | None = None,
) -> Verdict:
    """Return what limits the throughput at the last observation; `pipeline` is fitted to the observations."""
    top = rows[-1]
    if top.client_share > BUSY_CLIENT:
        return Verdict(
            CLIENT,
            f"This tool is the limit: it used {share(top.client_share)} of a core for sending and receiving. "
            "Add worker processes with --workers, or run it on another machine.",
        )
    if not top.steps:
        return Verdict(
            UNKNOWN,
            "The server provides no statistics, so only the client's view is available: "
            f"{quantity(top.throughput)} {top.rate_unit} at concurrency {top.concurrency}{_growth_words(rows)}.",
        )
    busiest = max(table, key=lambda row: row.utilisation)
    if top.is_crowded and not _is_undisturbed(top, busiest):
        return Verdict(CPU, _taken_words(top))
    of_gpu = None if gpu_case is None else maybe_gpu_verdict(gpu_case)
    if of_gpu is not None:
        return of_gpu
    evidence = rows if gpu_case is None else gpu_case.rows
    held_up = _maybe_held_up(evidence, busiest) if busiest.utilisation >= BUSY_STEP else None
    if held_up is not None:
        return held_up
    if busiest.utilisation >= BUSY_STEP:
        return _with_idle_gpu(_busy_step(rows, busiest, pipeline), top, busiest)
    hungriest = _maybe_hungriest(top)
    if _is_host_busy(top) and hungriest is not None:
        return Verdict(
            CPU, f"{_cpu_words(top)} {hungriest} spends the most time waiting for a core.", hungriest
        )
    if _is_host_busy(top) and not _is_growing(rows):
        return Verdict(CPU, f"{_cpu_words(top)} No step keeps its instances busy all the time.")
    return _no_busy_step(rows, table, busiest)


# --- a step whose instances are busy


def _maybe_held_up(rows: Sequence[Observation], busiest: StepFigures) -> Verdict | None:
    """Return a verdict if instances wait for each other, or batches cost more than their parts."""
    slow = maybe_slow_batches(rows, busiest.name)
    if slow is not None and busiest.is_batching:
        return Verdict(BATCHING, _slow_words(busiest, slow, rows[-1].rate_unit), busiest.name)
    shared = maybe_shared(rows, busiest.name)
    if shared is None or busiest.instances + 0.5 < shared.working:
        return None
    sentence = (
        f"{busiest.name} limits the throughput, and more instances would not help: {rough(shared.in_service)} "
        f"concurrent executions do the work of {rough(shared.working)} and use {rough(shared.cores)} cores. "
        "They share something we cannot observe: a lock, a queue, or an external limit."
    )
    return Verdict(SHARED, sentence, busiest.name)


def _slow_words(busiest: StepFigures, slow: SlowBatches, rate_unit: str) -> str:
    times = f"{duration(slow.batch_s * NS_PER_S)}, {slow.batch_s / slow.one_s:.1f} times as long as"
    what = "a single one" if slow.items == 1 else f"one of {rough(slow.items)}"
    return (
        f"Batching makes {busiest.name} slower: an execution of {rough(slow.batch)} takes "
        f"{times} {what} ({duration(slow.one_s * NS_PER_S)}). Without dynamic batching it could reach "
        f"{quantity(busiest.instances * slow.items / slow.one_s / busiest.calls)} {rate_unit}."
    )


def _busy_step(rows: Sequence[Observation], busiest: StepFigures, pipeline: Pipeline) -> Verdict:
    top = rows[-1]
    quiet = undisturbed(top, pipeline)
    alone = predict(quiet, top.concurrency).throughput
    station = next(station for station in pipeline.walk() if station.name == busiest.name)
    more = predict(with_station(quiet, busiest.name, instances=2 * station.instances), top.concurrency)
    free = predict(replace(quiet, cores=Cores()), top.concurrency)
    helps_more = more.throughput / alone - 1
    helps_cores = free.throughput / alone - 1
    is_shared_out = helps_more < WORTHWHILE and helps_cores > WORTHWHILE
    by_cores = _maybe_by_cores(top, busiest) if is_shared_out or _is_starved(top, busiest) else None
    if by_cores is not None:
        return by_cores
    words = f"all its {busiest.instances} instances are" if busiest.instances > 1 else "its only instance is"
    bound = _at_most(busiest.bound or 0.0, _reached(rows))
    sentence = (
        f"{busiest.name} limits the throughput: {words} busy {share(min(busiest.utilisation, 1.0))} of the time, "
        f"which allows at most {bound} {top.rate_unit}. Without queueing it takes "
        f"{share(busiest.light_share)} of a request's time."
    )
    if top.host is None and _is_stretched(rows, busiest):
        sentence += (
            " Its executions take longer as more of them run at once: they share the server's cores, or something "
            "else, such as a lock."
        )
    if station.max_batch > 1 and not station.is_batching and busiest.batch < station.max_batch:
        now = predict(pipeline, top.concurrency).throughput
        batched = predict(with_station(pipeline, busiest.name, is_batching=True), top.concurrency).throughput
        if batched / now - 1 > WORTHWHILE:
            sentence += (
                f" It accepts batches of up to {station.max_batch}, but gets one request at a time: dynamic batching "
                "is off."
            )
            return Verdict(BATCHING, sentence, busiest.name)
    return Verdict(COMPUTE, sentence, busiest.name)


def _maybe_by_cores(top: Observation, busiest: StepFigures) -> Verdict | None:
    """Return a verdict if the cores are seen to be exhausted, and the step to need them."""
    host, name = top.host, busiest.name
    if host is None or not host.is_full:
        return None
    shared = "more instances would only share the same cores"
    most = min(host.busy, cores_of(host))
    use = host.models.get(name)
    if use is None:
        used = host.server
        if used is None:
            words = f"The server's process was not found, so its share is unknown. {name} is the busiest step"
            return Verdict(CPU, f"{_cpu_words(top)} {words}.", name)
        if used < most / 2:
            return Verdict(CPU, f"{_cpu_words(top)} {_UNIDENTIFIED}.")
        return Verdict(CPU, f"{_cpu_words(top)} {name} is the busiest step; {shared}.", name)
    held = busiest.utilisation * busiest.instances
    if use.cores >= most / 2:
        return Verdict(CPU, f"{_cpu_words(top)} {name} uses {rough(use.cores)} of them; {shared}.", name)
    if use.waiting >= UNDISTURBED * held or use.cores + use.waiting >= held / 2:
        waits = share(min(1.0, use.waiting / held))
        words = f"{name} uses {rough(use.cores)} of them, and its instances wait for a core {waits} of their busy time"
        return Verdict(CPU, f"{_cpu_words(top)} {words}; {shared}.", name)
    return None


def _is_stretched(rows: Sequence[Observation], busiest: StepFigures) -> bool:
    """Return whether executions take longer than alone, and their batches are not the reason."""
    alone_s = service_alone_s(rows, busiest.name)
    per_item_s = busiest.service_ns / busiest.batch / NS_PER_S
    return busiest.instances > 1 and alone_s is not None and per_item_s > STRETCHED * alone_s


def _with_idle_gpu(found: Verdict, top: Observation, busiest: StepFigures) -> Verdict:
    """Extend the verdict if a step on the CPU keeps a GPU waiting."""
    is_on_gpu = any(step.setup.device == GPU_DEVICE for step, _, _ in top.walk())
    if not is_on_gpu or busiest.device == GPU_DEVICE or top.gpu_share is None or top.gpu_share >= IDLE:
        return found
    words = f" The GPU waits for it and is busy only {share(top.gpu_share)} of the time."
    return replace(found, kind=FEED if found.kind == COMPUTE else found.kind, sentence=found.sentence + words)


def _is_undisturbed(top: Observation, busiest: StepFigures) -> bool:
    """Return whether the step is busy and almost never waits for a core, so that other programs make no difference."""
    use = None if top.host is None else top.host.models.get(busiest.name)
    held = busiest.utilisation * busiest.instances
    return use is not None and busiest.utilisation >= BUSY_STEP and use.waiting < UNDISTURBED * held


def _is_host_busy(top: Observation) -> bool:
    return top.host is not None and top.host.is_full


def _is_starved(top: Observation, busiest: StepFigures) -> bool:
    """Return whether the machine is full and the step's instances spend most of their busy time waiting for a core."""
    use = None if top.host is None else top.host.models.get(busiest.name)
    held = busiest.utilisation * busiest.instances
    return use is not None and _is_host_busy(top) and use.waiting > held / 2


def _maybe_hungriest(top: Observation) -> str | None:
    """Return the step that waits most for a core, if waiting makes up a large part of the latency."""
    models = {} if top.host is None else top.host.models
    if sum(use.waiting for use in models.values()) < STARVED * top.concurrency:
        return None
    return max(models, key=lambda name: models[name].waiting)


def _cpu_words(top: Observation) -> str:
    host = top.host
    assert host is not None
    if host.server_cores is not None and host.server is not None and host.busy < FULL * host.cores:
        allowed = f"{host.server_cores} of {host.cores} cores"
        return f"The CPU is exhausted: the server may run on {allowed} and uses {rough(host.server)}."
    words = f"The CPU is exhausted: {rough(host.busy)} of {host.cores} cores are busy"
    others = top.other_cores
    if others is not None and host.server is not None:
        uses = {"this tool": max(top.client_cores, host.ours.cores), "other programs": others}
        words += f"; the server uses {rough(host.server)}"
        words += "".join(f", {name} {rough(used)}" for name, used in uses.items() if used > SOME * host.cores)
    return f"{words}."


def _taken_words(top: Observation) -> str:
    host, others = top.host, top.other_cores
    assert host is not None
    assert host.server is not None
    assert others is not None
    return (
        f"The machine is busy with other programs: they use {rough(others)} of its {host.cores} cores, the server uses "
        f"{rough(host.server)}. {_UNIDENTIFIED}: diagnose again when the other programs have finished."
    )


# --- no step is busy


def _no_busy_step(rows: Sequence[Observation], table: Sequence[StepFigures], busiest: StepFigures) -> Verdict:
    top = rows[-1]
    client_s, overhead_s = outside_s(top)
    waiting_s = sum(row.queue_ns for row in table) / NS_PER_S
    working_s = sum(row.compute_ns for row in table) / NS_PER_S
    shares = {NETWORK: client_s, OVERHEAD: overhead_s, QUEUE: waiting_s, LIGHT: working_s}
    kind = max(shares, key=lambda name: shares[name])
    if kind == NETWORK and top.client_limit and (top.trip_s or 0.0) < client_s / 2:
        return Verdict(
            CLIENT, f"This tool is the limit: {top.client_limit.removeprefix('client-limited: ')}."
        )
    part = shares[kind] / top.latency_s
    idle = f"no step is busy more than {share(busiest.utilisation)} of the time"
    slowest = max(table, key=lambda row: row.queue_ns).name
    sentences = {
        NETWORK: f"{share(part)} of the latency is spent between client and server, and {idle}: "
        f"{_network_words(top, client_s)}.",
        OVERHEAD: f"{share(part)} of the latency is server overhead outside the steps, and {idle}.",
        QUEUE: f"{share(part)} of the latency is queueing, most of it at {slowest}, although {idle}: "
        "requests arrive in bursts, or a queue delay holds them back.",
        LIGHT: f"Nothing is exhausted at concurrency {top.concurrency}: {idle}{_growth_words(rows)}."
        f"{_more_words(rows)}",
    }
    return Verdict(kind, sentences[kind], {QUEUE: slowest, LIGHT: busiest.name}.get(kind))


def _network_words(top: Observation, client_s: float) -> str:
    """Say whether the round trips of the path explain the time between client and server."""
    if top.trip_s is None or top.trip_s >= client_s / 2:
        return "the network and its buffers"
    return (
        f"the network's round trip of {duration(top.trip_s * NS_PER_S)} explains only {share(top.trip_s / client_s)} "
        "of it; the rest is spent on transfers, in a proxy, or in the server outside its statistics"
    )


def _is_growing(rows: Sequence[Observation]) -> bool:
    growth = _maybe_growth(rows)
    return growth is not None and growth.value > GROWING


def _maybe_growth(rows: Sequence[Observation]) -> Estimate | None:
    """Return the relative growth of throughput from the next lighter load; None if there is none."""
    top = rows[-1]
    before = [row for row in rows[:-1] if row.items == top.items and row.concurrency < top.concurrency]
    return relative_difference(before[-1].rate, top.rate) if before else None


def _growth_ruling(rows: Sequence[Observation]) -> Ruling:
    growth = _maybe_growth(rows)
    return INCONCLUSIVE if growth is None else rule(growth, matters=GROWING).ruling


def _growth_words(rows: Sequence[Observation]) -> str:
    """Say whether throughput grows with the load, if the intervals show it."""
    return {
        SHOWN: ", and throughput still grows with the load",
        NOT_SHOWN: ", and throughput no longer grows with the load",
        INCONCLUSIVE: "",
    }[_growth_ruling(rows)]


def _more_words(rows: Sequence[Observation]) -> str:
    """Say what more load would do, as far as the intervals show it."""
    return {
        SHOWN: " Throughput would grow with more load.",
        NOT_SHOWN: "",
        INCONCLUSIVE: " More load may raise throughput: measure at a higher concurrency to find out.",
    }[_growth_ruling(rows)]
