"""Measure a short sweep, watch the machine at the same time, and conclude."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.diagnose.bottleneck import outside_s
from inferometer.diagnose.conclude import Circumstances, Conclusion, Evidence, conclude
from inferometer.diagnose.diagnosis import COMMAND, Diagnosis, Machine
from inferometer.diagnose.host import HostWatch, find_server
from inferometer.diagnose.observation import HostUse, Observation, observation
from inferometer.load.plan import Closed
from inferometer.measure.checks import changed
from inferometer.measure.instrument import Instrument, LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.prepare import Setup, prepare
from inferometer.measure.run import make_instrument, start_workers
from inferometer.observe.host import is_this_host
from inferometer.options.options import Options
from inferometer.options.values import Range
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher

LEVELS = (1, 2, 4, 8)
MOST = 64  # an unasked sweep goes no further
GROWING = 0.1  # of throughput, above which it goes further than LEVELS
PROBE_BATCH = 8
_PROBE_S = 1.0
_CROWDED = 0.3  # of all cores, kept busy by others


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """What the user wants to know."""

    options: Options
    cores: float | None = None  # of the server's machine, when the user tells


@dataclass(frozen=True, slots=True)
class Examination:
    """What was measured and seen of a model, before anything is concluded."""

    asked: DiagnoseRequest
    setup: Setup
    circumstances: Circumstances
    evidence: Evidence
    results: tuple[Result, ...]
    notes: tuple[str, ...]


def examine(asked: DiagnoseRequest, watcher: Watcher) -> Examination:
    """Measure the sweep, and once a batch where batches are possible but not seen."""
    _check(asked.options)
    setup = prepare(changed(asked.options, concurrency=_whole_span(asked.options)), command=COMMAND)
    for warning in setup.warnings:
        watcher.said(warning)
    watch = watch_host(setup, watcher)
    rows, result = _sweep(setup, watch, levels(asked.options))
    if not rows:
        raise PeerError(
            f"no request to '{asked.options.model}' ended well, so there is nothing to diagnose",
            remedy=f"try `inferometer measure -m {asked.options.model}`, which shows the failures",
        )
    extra, notes = _probe(asked, setup, rows, watch)
    evidence = Evidence(tuple(rows), extra)
    return Examination(
        asked=asked,
        setup=setup,
        circumstances=_circumstances(setup, asked, result),
        evidence=evidence,
        results=(result,),
        notes=(*notes, *_blind_spots(asked, evidence)),
    )


def diagnose(examined: Examination) -> tuple[Diagnosis, Conclusion]:
    """What the evidence says, as the value every report is made of."""
    found = conclude(examined.evidence, examined.circumstances)
    top = examined.evidence.sweep[-1]
    client_s, overhead_s = outside_s(top)
    first = examined.results[0]
    host = top.host
    diagnosis = Diagnosis(
        tool=first.tool,
        command=COMMAND,
        started_at=first.started_at,
        model=examined.setup.model.name,
        verdict=found.verdict,
        concurrency=top.concurrency,
        throughput=top.throughput,
        latency_ns=top.latency_s * NS_PER_S,
        steps=found.table,
        client_ns=client_s * NS_PER_S,
        overhead_ns=overhead_s * NS_PER_S,
        machine=Machine(
            cores=None if examined.circumstances.cores is None else round(examined.circumstances.cores),
            effective_cores=found.effective_cores,
            cpu_share=None if host is None else host.busy / host.cores,
            gpu_share=None if host is None else host.gpu_share,
        ),
        suggestions=found.suggestions,
        curve=found.curve,
        results=examined.results,
        notes=examined.notes,
    )
    return diagnosis, found


def _check(options: Options) -> None:
    if options.request_rate is not None or options.request_intervals is not None:
        raise UsageError(
            "diagnose loads by concurrency, not by rate", remedy="give --concurrency-range, or none"
        )


def levels(options: Options) -> tuple[int, ...] | None:
    """The asked range in doubling steps, or in its own; None lets the sweep find its end."""
    span = options.concurrency
    if span is None:
        return None
    start, end = int(span.start), int(span.end or span.start)
    if span.step != 1:
        return tuple(range(start, end + 1, int(span.step)))
    found = [start]
    while found[-1] < end:
        found.append(min(2 * found[-1], end))
    return tuple(found)


def _whole_span(options: Options) -> Range:
    """As much load as may come: workers are made for it once."""
    asked = levels(options)
    return Range(1, MOST) if asked is None else Range(1, max(asked))


# --- measuring


def watch_host(setup: Setup, inner: Watcher) -> Watcher:
    """The watcher; where the server runs on this machine, one that also notes how busy that is."""
    endpoint = setup.traffic.wiring.endpoint
    if not is_this_host(endpoint.host):
        return inner
    return HostWatch(
        inner, cores=len(os.sched_getaffinity(0)), server=find_server(endpoint.port), clock=monotonic_ns
    )


def _sweep(setup: Setup, watch: Watcher, wanted: Sequence[int] | None) -> tuple[list[Observation], Result]:
    rows: list[Observation] = []
    result = setup.result
    with start_workers(setup) as load:
        instrument = make_instrument(setup, load, watch)
        for concurrency in _planned(wanted, rows):
            level = measure(instrument, setup, concurrency)
            result = replace(result, levels=(*result.levels, level))
            row = observation(level, setup.model, _host(watch, level))
            if row is not None:
                rows.append(row)
            if level.is_cut_short or watch.is_interrupted():
                break
    return rows, result


def _planned(wanted: Sequence[int] | None, rows: Sequence[Observation]) -> Iterator[int]:
    yield from LEVELS if wanted is None else wanted
    if wanted is not None:
        return
    concurrency = LEVELS[-1]
    while concurrency < MOST and len(rows) > 1 and rows[-1].throughput > rows[-2].throughput * (1 + GROWING):
        concurrency *= 2
        yield concurrency


def measure(instrument: Instrument, setup: Setup, concurrency: int) -> Level:
    """One level; the first requests after a change are not in it."""
    instrument.load.apply(Closed(0))
    warm_up(instrument, Closed(concurrency, count=setup.options.warmup_request_count or 2 * concurrency))
    return measure_level(
        instrument, setup.level_settings, LoadPoint("concurrency", concurrency, Closed(concurrency))
    )


def measure_once(setup: Setup, watch: Watcher, concurrency: int) -> tuple[Observation | None, Result]:
    """One level with workers of its own."""
    rows, result = _sweep(setup, watch, (concurrency,))
    return (rows[0] if rows else None), result


def _host(watch: Watcher, level: Level) -> HostUse | None:
    if isinstance(watch, HostWatch):
        return watch.last
    return None


def _probe(
    asked: DiagnoseRequest, setup: Setup, rows: Sequence[Observation], watch: Watcher
) -> tuple[tuple[Observation, ...], tuple[str, ...]]:
    """One request with several inferences at a time: it shows what a batch costs before the server forms any."""
    model, top = setup.model, rows[-1]
    size = min(model.max_batch_size, PROBE_BATCH)
    is_of_use = any(step.setup.max_batch > 1 and step.batch < 1.5 * top.items for step, _, _ in top.walk())
    if size <= top.items or not is_of_use or model.any_sequence or watch.is_interrupted():
        return (), ()
    options = changed(asked.options, batch=size, concurrency=Range(1), duration_s=_PROBE_S)
    try:
        row, _ = measure_once(prepare(options, command=COMMAND), watch, 1)
    except InferometerError as error:
        return (), (f"What a batch of {size} costs could not be measured: {error.message}",)
    return ((row,) if row is not None and row.steps else ()), ()


# --- what is known besides


def _circumstances(setup: Setup, asked: DiagnoseRequest, result: Result) -> Circumstances:
    endpoint = setup.traffic.wiring.endpoint
    is_local = is_this_host(endpoint.host)
    cores = asked.cores
    if cores is None and is_local:
        cores = float(len(os.sched_getaffinity(0)))
    found = result.levels[-1].measurement
    options = setup.options
    return Circumstances(
        model=setup.model.name,
        max_batch=setup.model.max_batch_size,
        cores=cores,
        is_shared_memory=options.shared_memory != "none",
        is_json="json" in (options.input_format, options.output_format),
        is_http=options.protocol == "http",
        is_local=is_local,
        transfer_s=0.0 if found is None else (found.send_ns + found.receive_ns) / NS_PER_S,
    )


def _blind_spots(asked: DiagnoseRequest, evidence: Evidence) -> Iterator[str]:
    top = evidence.sweep[-1]
    if not top.steps:
        yield (
            "The server gives no statistics of its models, so the time inside it cannot be split into queue, compute "
            "and steps; only throughput, latency and our own cost are known."
        )
        return
    if top.host is None and asked.cores is None:
        yield (
            "The server runs on another machine whose cores were not seen: predictions assume there are enough. "
            "Tell how many it has with --cores."
        )
    if top.host is not None and top.host.server is not None:
        others = top.host.busy - top.host.server - top.throughput / top.items * top.client_core_s
        if others > _CROWDED * top.host.cores:
            yield (
                f"Other programs kept {others:.2g} of this machine's {top.host.cores} cores busy meanwhile: figures "
                "and predictions are as restless as they are."
            )
    elif top.host is not None:
        yield (
            "The server's process was not found on this machine, so it is assumed that steps on the CPU keep a core "
            "busy as long as they run."
        )
