"""Merged figures of a level: from windows to a Measurement."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, TypeVar

from inferometer.base import status
from inferometer.base.secrets import redacted
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.model.spec import ModelSpec
from inferometer.observe.host import Gpu
from inferometer.observe.metrics import Queue, Sample
from inferometer.observe.statistics import ModelStatistics, difference, is_reset
from inferometer.stats.binomial import share_estimate
from inferometer.stats.energy import PoweredDevice, PowerReading, energy_figures
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import (
    SHOWN,
    estimates,
    few_margin,
    mean_estimate,
    mean_margin,
    percentile_estimates,
    rate_interval,
)
from inferometer.stats.llm_server import maybe_llm_server
from inferometer.stats.machine_figures import GpuFigures, HostFigures, QueueFigures, ServerMetrics
from inferometer.stats.measurement import ClientCost, FailureGroup, Measurement, SequenceFigures, StartFigures
from inferometer.stats.series import Series
from inferometer.stats.slo_outcome import CheckFigures, Goodput
from inferometer.stats.streams import lanes
from inferometer.stats.text_figures import Streaming, TokenFigures
from inferometer.stats.windows import Window
from inferometer.stats.work import (
    MANY,
    flow,
    narrowed,
    request_rate,
    response_rate,
    whole_token_rate,
    widened,
)

Number = TypeVar("Number", int, float)
Key = TypeVar("Key", str, tuple[str, str])
Row = TypeVar("Row", Gpu, Queue)


class Subject(NamedTuple):
    """Facts about the measured service that the figures depend on."""

    model: ModelSpec
    batch: int
    percentile: int | None
    level_start_ns: int
    examples: Mapping[int, str]
    promise: str = ""  # SLO that requests are judged by
    samples: Sequence[Sample] | None = None  # of the server's metrics; None if not collected
    devices: Sequence[PoweredDevice] = ()  # of this machine, if the server runs on it


def measurement(whole: Window, subject: Subject, *, was_reset: bool = False) -> Measurement:
    """Compute the figures of a window, usually of several joined ones; `was_reset` as in `counters_were_reset`."""
    count = whole.count
    wanted = _wanted(subject.percentile)
    latency, rate = whole.latency_ns.distribution(wanted), rate_estimate(whole, subject.batch)
    requests = scaled(rate, 1 / subject.batch)
    tokens = _tokens(whole, requests)
    return Measurement(
        batch=subject.batch,
        duration_ns=whole.duration_ns,
        request_count=count,
        failed_count=whole.failed_count,
        delayed_count=whole.delayed,
        infer_per_s=rate,
        send_per_s=_sent(whole) * NS_PER_S / max(whole.expense.elapsed_ns, 1),
        latency=latency,
        latency_intervals=estimates(whole.latency_ns, wanted),
        service=latency if whole.lag_ns is None else whole.service_ns.distribution(),
        send_ns=whole.send_ns // max(count, 1),
        receive_ns=whole.receive_ns // max(count, 1),
        received_bytes=whole.received_bytes,
        client=_client_cost(whole),
        server=None if was_reset else _server(whole, subject.model),
        failures=_failures(whole, subject),
        streaming=_streaming(whole),
        sequences=_sequences(whole),
        tokens=tokens,
        goodput=_goodput(whole, subject),
        empty_count=whole.empty,
        blank_count=whole.blank,
        cancelled=whole.cancelled.figures(),
        lanes=lanes(whole.latest, subject.level_start_ns),
        metrics=None if subject.samples is None else server_metrics(subject.samples),
        energy=energy_figures(
            subject.devices or devices_of(subject.samples or ()),
            whole.start_ns,
            whole.end_ns,
            requests=requests,
            batch=subject.batch,
            tokens=None if tokens is None else tokens.output_interval or Estimate(tokens.output_per_s),
        ),
        checks=_checks(whole, subject),
    )


def _checks(whole: Window, subject: Subject) -> CheckFigures | None:
    if not whole.checked:
        return None
    example = redacted(subject.examples.get(status.WRONG, "")) if whole.wrong else ""
    return CheckFigures(whole.checked, whole.wrong, share_estimate(whole.wrong, whole.checked), example)


def _streaming(whole: Window) -> Streaming | None:
    found = whole.streams.figures(whole.duration_ns)
    if found is None or not whole.is_followed:
        return found
    return replace(found, per_s=_arrivals(whole).value)


def _arrivals(whole: Window) -> Estimate:
    """Return the responses per second, by arrival."""
    in_flight = whole.busy_ns / whole.duration_ns
    lengths = whole.streams.responses
    return response_rate(flow(whole.arrivals.groups(), whole.ends.groups(), lengths, in_flight))


def _tokens(whole: Window, requests: Estimate) -> TokenFigures | None:
    if whole.tokens is None:
        return None
    found = whole.tokens.figures(whole.duration_ns, requests)
    arrived = token_estimate(whole)
    if arrived is None:
        return found
    prompt_per_s = requests.value * found.prompt / max(whole.count, 1)
    if arrived.limits is None and found.output_interval is not None and found.output_per_s:
        arrived = scaled(found.output_interval, arrived.value / found.output_per_s)
    return replace(found, output_per_s=arrived.value, output_interval=arrived, prompt_per_s=prompt_per_s)


def _sent(whole: Window) -> int:
    """Return the number of requests sent, without those that were started but never had a connection."""
    unsent = whole.unsent_count
    if unsent and unsent == whole.ended_count:
        return 0
    return max(0, whole.expense.sent - unsent)


def start_figures(whole: Window, subject: Subject) -> StartFigures:
    """Compute the figures of an excluded start."""
    latency = whole.latency_ns.distribution(_wanted(subject.percentile))
    return StartFigures(whole.duration_ns, whole.count, whole.infer_per_s(subject.batch), latency)


def _mean_estimate(latency: Series) -> Estimate:
    return mean_estimate(float(latency.mean), mean_margin(latency))


def latency_estimate(window: Window, chosen: int | None) -> Estimate:
    """Return the estimate of the mean, or of the chosen percentile."""
    latency = window.latency_ns
    if not latency.count:
        return Estimate(0.0)
    if chosen is None:
        return _mean_estimate(latency)
    return percentile_estimates(latency, _wanted(chosen))[chosen]


def rate_estimate(window: Window, batch: int) -> Estimate:
    """Return inferences per second: by work done if a closed load had few rounds, otherwise by ends."""
    if _is_few_rounds(window):
        latency = window.latency_ns
        mean = mean_estimate(latency.total / latency.count, few_margin(latency))
        requests = request_rate(_in_flight(window), mean)
        return scaled(_narrowed(window, requests), batch)
    return rate_interval(window.infer_per_s(batch), window.ends.groups(), window.duration_ns // NS_PER_US)


def _is_few_rounds(window: Window) -> bool:
    """Return whether a closed load had so few rounds that ends alone would miss much of the work."""
    in_flight = window.busy_ns / window.duration_ns
    return window.is_followed and window.lag_ns is None and 0 < window.count < MANY * in_flight


def _in_flight(window: Window) -> float:
    """Return the mean number in flight of requests that succeed: all, by the share of time spent on them."""
    good_ns = window.latency_ns.total
    failed_ns = window.cancelled.ran_ns.total + sum(row.total_ns for row in window.failures.values())
    empty_ns = good_ns / window.count * window.empty  # their duration is not recorded
    return window.busy_ns / window.duration_ns * good_ns / max(good_ns + failed_ns + empty_ns, 1)


def _narrowed(window: Window, requests: Estimate) -> Estimate:
    """Return requests per second, with the interval of tokens per second where that is narrower."""
    tokens = token_estimate(window)
    if tokens is None or window.tokens is None or not tokens.value:
        return requests
    lengths = window.tokens.output
    if lengths.count != window.count:
        return requests  # some answers without a known length
    mean = lengths.total / lengths.count
    return narrowed(requests, tokens, mean_estimate(mean, few_margin(lengths)))


def token_estimate(window: Window) -> Estimate | None:
    """Return output tokens per second, by arrival or, for whole answers, by latency; None if unknown.

    Tokens arrive in events; finished answers show how many tokens an event has, and which share belongs to successful
    answers.
    """
    if not window.is_followed or window.tokens is None:
        return None
    if not window.arrivals.count:
        is_known = _is_few_rounds(window) and window.tokens.output.count == window.count
        return (
            whole_token_rate(_in_flight(window), window.tokens.output, window.latency_ns)
            if is_known
            else None
        )
    events, total = window.ended_events, window.tokens.output.total
    each = total / events if events else 1.0
    found = scaled(_arrivals(window), each)
    if not total:
        return found
    # Speculative decoding: how many tokens a response has differs between answers.
    rest = window.token_squares - 2 * each * window.token_events + each * each * window.event_squares
    return widened(found, math.sqrt(max(rest, 0.0)) / total, window.ended_count)


def scaled(estimate: Estimate, factor: float) -> Estimate:
    ends = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return Estimate(estimate.value * factor, *ends)


def _wanted(chosen: int | None) -> list[int]:
    return sorted({*SHOWN, *(() if chosen is None else (chosen,))})


def _client_cost(whole: Window) -> ClientCost:
    spent, lag = whole.expense, whole.lag_ns
    elapsed_ns, requests = spent.elapsed_ns, whole.ended_count
    return ClientCost(
        workers=len(spent.cpu_ns),
        cpu_share=max(spent.cpu_ns, default=0) / elapsed_ns if elapsed_ns else 0.0,
        cpu_us_per_request=sum(spent.cpu_ns) / NS_PER_US / requests if requests else 0.0,
        reconnects=spent.reconnects,
        connect_ns=spent.connect_ns // spent.connects if spent.connects else 0,
        connects=spent.connects,
        files=spent.files,
        file_limit=spent.file_limit,
        stolen_cores=spent.stolen_ns / elapsed_ns if elapsed_ns else 0.0,
        loop_lag_p50_ns=spent.loop_lags_ns.percentile(50),
        loop_lag_max_ns=spent.loop_lags_ns.distribution().max_ns or 0,
        lag_p50_ns=0 if lag is None else lag.percentile(50),
        lag_p99_ns=0 if lag is None else lag.percentile(99),
    )


def _server(whole: Window, model: ModelSpec) -> ModelStatistics | None:
    before, after = whole.before, whole.after
    return None if before is None or after is None else difference(model, before.counters, after.counters)


def counters_were_reset(windows: Sequence[Window]) -> bool:
    """Return whether the server's counters were reset in between, so that its work is unknown."""
    readings = [window.before for window in windows] + [windows[-1].after]
    counters = [reading.counters for reading in readings if reading is not None]
    return any(is_reset(before, after) for before, after in pairwise(counters))


def _goodput(whole: Window, subject: Subject) -> Goodput | None:
    if not subject.promise:
        return None
    per_s = whole.kept * subject.batch * NS_PER_S / whole.duration_ns
    ended = whole.count + whole.failed_count
    return Goodput(subject.promise, whole.kept, per_s, whole.kept / ended if ended else 0.0)


def _sequences(whole: Window) -> SequenceFigures | None:
    count = whole.sequence_ns.count
    if not count:
        return None
    return SequenceFigures(count, count * NS_PER_S / whole.duration_ns, whole.sequence_ns.distribution())


def _failures(whole: Window, subject: Subject) -> tuple[FailureGroup, ...]:
    return tuple(
        FailureGroup(
            kind=status.kind(code),
            count=found.count,
            example=redacted(subject.examples.get(code, "")),
            first_s=(found.first_ns - subject.level_start_ns) / NS_PER_S,
            last_s=(found.last_ns - subject.level_start_ns) / NS_PER_S,
            mean_ns=found.total_ns // found.count,
            max_ns=found.longest_ns,
        )
        for code, found in sorted(whole.failures.items())
    )


# --- samples of the server's metrics; missing values are None


def server_metrics(samples: Sequence[Sample]) -> ServerMetrics:
    """Compute the figures of samples in the order they were taken."""
    queues = [_queue(*key, rows) for key, rows in _by_key(sample.queues for sample in samples)]
    return ServerMetrics(
        polls=len(samples),
        gpus=gpu_figures(sample.gpus for sample in samples),
        cpu_share=_mean(sample.cpu_share for sample in samples),
        memory_used_bytes=_most(sample.memory_used_bytes for sample in samples),
        memory_total_bytes=_first(sample.memory_total_bytes for sample in samples),
        queues=tuple(row for row in queues if row.requests or row.pending_max),
        host=_host(samples),
        llm=maybe_llm_server(samples),
    )


def devices_of(samples: Sequence[Sample]) -> tuple[PoweredDevice, ...]:
    """Return the GPUs whose power or energy the server's metrics report."""
    readings: dict[str, list[PowerReading]] = {}
    busy: set[str] = set()
    for sample in samples:
        for uuid, gpu in sample.gpus.items():
            if gpu.power_w is not None or gpu.energy_j is not None:
                readings.setdefault(uuid, []).append(PowerReading(sample.at_ns, gpu.power_w, gpu.energy_j))
            if gpu.utilization is None or gpu.utilization > 0:
                busy.add(uuid)
    return tuple(PoweredDevice(uuid, tuple(rows), is_used=uuid in busy) for uuid, rows in readings.items())


def gpu_figures(looks: Iterable[Mapping[str, Gpu]]) -> tuple[GpuFigures, ...]:
    return tuple(
        GpuFigures(
            uuid=uuid,
            utilization=_mean(gpu.utilization for gpu in rows),
            power_w=_mean(gpu.power_w for gpu in rows),
            memory_used_bytes=_most(gpu.memory_used_bytes for gpu in rows),
            memory_total_bytes=_first(gpu.memory_total_bytes for gpu in rows),
            memory_share=_mean(gpu.memory_share for gpu in rows),
            clock_mhz=_mean(gpu.clock_mhz for gpu in rows),
        )
        for uuid, rows in _by_key(looks)
    )


def _by_key(looks: "Iterable[Mapping[Key, Row]]") -> "list[tuple[Key, list[Row]]]":
    """Group the rows of all polls by key, sorted."""
    rows: dict[Key, list[Row]] = {}
    for look in looks:
        for key, row in look.items():
            rows.setdefault(key, []).append(row)
    return sorted(rows.items(), key=itemgetter(0))


def _queue(model: str, version: str, rows: Sequence[Queue]) -> QueueFigures:
    requests = _growth([row.requests for row in rows])
    waited_us = _growth([row.queue_us for row in rows])
    return QueueFigures(
        model=model,
        version=version,
        pending_mean=_mean(row.pending for row in rows),
        pending_max=_most(row.pending for row in rows),
        requests=None if requests is None else round(requests),
        queue_us=None if waited_us is None or not requests else waited_us / requests,
    )


def _host(samples: Sequence[Sample]) -> HostFigures | None:
    seen = [sample.host for sample in samples if sample.host is not None]
    if not seen:
        return None
    busy_s, total_s = seen[-1].busy_s - seen[0].busy_s, seen[-1].total_s - seen[0].total_s
    return HostFigures(
        cpu_share=min(1.0, max(0.0, busy_s / total_s)) if total_s > 0 else None,
        memory_used_bytes=max(look.memory_used_bytes for look in seen),
        gpus=gpu_figures(look.gpus for look in seen),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def _growth(values: Sequence[float | None]) -> float | None:
    """Return the growth of a counter; None with fewer than two values, or after a restart."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or known[-1] < known[0]:
        return None
    return known[-1] - known[0]
