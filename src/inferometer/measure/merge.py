"""Windows -> Measurement: the merged figures of a level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.measure.intervals import (
    mean_estimate,
    mean_margin,
    percentile_estimate,
    percentile_margin,
    rate_interval,
)
from inferometer.measure.measurement import (
    ClientCost,
    Distribution,
    Estimate,
    FailureGroup,
    Goodput,
    Measurement,
    SequenceFigures,
    StartFigures,
    Streaming,
)
from inferometer.measure.quantiles import Durations, distribution, mean, percentile
from inferometer.measure.server_metrics import server_metrics
from inferometer.measure.tokens import token_figures
from inferometer.measure.windows import Window, add_failures, join_streams
from inferometer.model.spec import ModelSpec
from inferometer.observe.metrics import Sample
from inferometer.observe.statistics import ModelStatistics, difference
from inferometer.records import status

SHOWN = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Subject:
    """What the windows are of, as far as the figures need to know."""

    model: ModelSpec
    batch: int
    percentile: int | None
    level_start_ns: int
    examples: Mapping[int, str]
    promise: str = ""  # that requests are held to
    samples: Sequence[Sample] | None = None  # of the server's metrics; None when they are not collected


def measurement(windows: Sequence[Window], subject: Subject) -> Measurement:
    """The figures of windows that follow each other. A single window's durations are sorted in place."""
    latency = (
        windows[0].latency_ns
        if len(windows) == 1
        else np.concatenate([window.latency_ns for window in windows])
    )
    duration_ns = windows[-1].end_ns - windows[0].start_ns
    count = len(latency)
    elapsed_ns = sum(window.expense.elapsed_ns for window in windows)
    service = _from_send(windows)
    lag = None if service is None else latency - service
    wanted = _wanted(subject.percentile)
    widths = _Widths.of(latency, wanted)
    whole = distribution(latency, wanted)  # which sorts
    failed = sum(window.failed_count for window in windows)
    empty = sum(window.empty for window in windows)
    return Measurement(
        batch=subject.batch,
        duration_ns=duration_ns,
        request_count=count,
        failed_count=failed,
        delayed_count=sum(window.delayed for window in windows),
        infer_per_s=rate_estimate(windows, subject.batch),
        send_per_s=_sent(windows) * NS_PER_S / max(elapsed_ns, 1),
        latency=whole,
        latency_intervals=_latency_estimates(whole, latency, widths),
        service=whole if service is None else distribution(service),
        send_ns=sum(window.send_ns for window in windows) // max(count, 1),
        receive_ns=sum(window.receive_ns for window in windows) // max(count, 1),
        received_bytes=sum(window.received_bytes for window in windows),
        client=_client_cost(windows, lag),
        server=_server(windows, subject.model),
        failures=_failures(windows, subject),
        streaming=_streaming(windows, duration_ns),
        sequences=_sequences(windows, duration_ns),
        tokens=token_figures([window.tokens for window in windows if window.tokens is not None], duration_ns),
        goodput=_goodput(windows, subject, duration_ns, count + failed),
        empty_count=empty,
        metrics=None if subject.samples is None else server_metrics(subject.samples),
    )


def _sent(windows: Sequence[Window]) -> int:
    """Requests that went out: some were begun and never had a connection."""
    unsent = sum(window.unsent_count for window in windows)
    if unsent and unsent == sum(window.count + window.failed_count + window.empty for window in windows):
        return 0
    return max(0, sum(window.expense.sent for window in windows) - unsent)


def start_figures(windows: Sequence[Window], subject: Subject) -> StartFigures | None:
    """Of the windows that are left out of the measurement; None when there are none."""
    if not windows:
        return None
    duration_ns = windows[-1].end_ns - windows[0].start_ns
    latency = np.concatenate([window.latency_ns for window in windows])
    rate = len(latency) * subject.batch * NS_PER_S / duration_ns
    return StartFigures(duration_ns, len(latency), rate, distribution(latency, _wanted(subject.percentile)))


def _from_send(windows: Sequence[Window]) -> Durations | None:
    """Service times in the order of ends; None where they are the latencies."""
    if windows[0].service_ns is windows[0].latency_ns:
        return None
    return np.concatenate([window.service_ns for window in windows])


@dataclass(frozen=True, slots=True)
class _Widths:
    """Of the intervals of a series, found before it is sorted."""

    mean: float | None
    percentiles: dict[int, float | None]

    @staticmethod
    def of(latency: Durations, wanted: Sequence[int]) -> "_Widths":
        return _Widths(mean_margin(latency), {p: percentile_margin(latency, p) for p in wanted})


def _latency_estimates(
    whole: Distribution, ordered: Durations, widths: _Widths
) -> tuple[tuple[str, Estimate], ...]:
    """In nanoseconds."""
    if not whole.count:
        return ()
    rows = [("mean", mean_estimate(float(whole.mean_ns), widths.mean))]
    return tuple(
        rows + [(f"p{p}", percentile_estimate(ordered, p, width)) for p, width in widths.percentiles.items()]
    )


def latency_estimate(windows: Sequence[Window], chosen: int | None) -> Estimate:
    """Of the mean, or of the chosen percentile."""
    latency = np.concatenate([window.latency_ns for window in windows])
    if not len(latency):
        return Estimate(0.0)
    if chosen is None:
        return mean_estimate(float(mean(latency)), mean_margin(latency))
    width = percentile_margin(latency, chosen)
    latency.sort()
    return percentile_estimate(latency, chosen, width)


def rate_estimate(windows: Sequence[Window], batch: int) -> Estimate:
    start_ns = windows[0].start_ns
    span_ns = windows[-1].end_ns - start_ns
    ends = [window.ended_us + np.uint32((window.start_ns - start_ns) // NS_PER_US) for window in windows[1:]]
    ended: NDArray[np.uint32] = np.concatenate([windows[0].ended_us, *ends]) if ends else windows[0].ended_us
    return rate_interval(len(ended) * batch * NS_PER_S / span_ns, ended, span_ns // NS_PER_US)


def _wanted(chosen: int | None) -> list[int]:
    return sorted({*SHOWN, *(() if chosen is None else (chosen,))})


def _client_cost(windows: Sequence[Window], lag: Durations | None) -> ClientCost:
    expenses = [window.expense for window in windows]
    elapsed_ns = sum(expense.elapsed_ns for expense in expenses)
    busy_ns = [sum(each) for each in zip(*(expense.cpu_ns for expense in expenses), strict=True)]
    requests = sum(window.count + window.failed_count + window.empty for window in windows)
    connects = sum(expense.connects for expense in expenses)
    loop_lags = np.array([lag for expense in expenses for lag in expense.loop_lags_ns], dtype=np.int64)
    return ClientCost(
        workers=len(busy_ns),
        cpu_share=max(busy_ns, default=0) / elapsed_ns if elapsed_ns else 0.0,
        cpu_us_per_request=sum(busy_ns) / NS_PER_US / requests if requests else 0.0,
        reconnects=sum(expense.reconnects for expense in expenses),
        connect_ns=sum(expense.connect_ns for expense in expenses) // connects if connects else 0,
        connects=connects,
        files=max((expense.files for expense in expenses), default=0),
        file_limit=max((expense.file_limit for expense in expenses), default=0),
        stolen_cores=sum(expense.stolen_ns for expense in expenses) / elapsed_ns if elapsed_ns else 0.0,
        loop_lag_p50_ns=percentile(loop_lags, 50) if len(loop_lags) else 0,
        loop_lag_max_ns=int(loop_lags.max(initial=0)),
        lag_p50_ns=percentile(lag, 50) if lag is not None and len(lag) else 0,
        lag_p99_ns=percentile(lag, 99) if lag is not None and len(lag) else 0,
    )


def _server(windows: Sequence[Window], model: ModelSpec) -> ModelStatistics | None:
    before, after = windows[0].before, windows[-1].after
    if before is None or after is None:
        return None
    return difference(model, before.counters, after.counters)


def _streaming(windows: Sequence[Window], duration_ns: int) -> Streaming | None:
    whole = join_streams([window.streams for window in windows if window.streams is not None])
    if whole is None:
        return None
    responses = int(whole.responses.sum())
    return Streaming(
        responses=responses,
        per_s=responses * NS_PER_S / duration_ns,
        per_request=distribution(whole.responses),
        first=distribution(whole.first_ns),
        gaps=distribution(whole.gap_ns),
    )


def _goodput(windows: Sequence[Window], subject: Subject, duration_ns: int, ended: int) -> Goodput | None:
    if not subject.promise:
        return None
    number = sum(window.kept for window in windows)
    per_s = number * subject.batch * NS_PER_S / duration_ns
    return Goodput(subject.promise, number, per_s, number / ended if ended else 0.0)


def _sequences(windows: Sequence[Window], duration_ns: int) -> SequenceFigures | None:
    whole = np.concatenate([window.sequence_ns for window in windows])
    if not len(whole):
        return None
    return SequenceFigures(len(whole), len(whole) * NS_PER_S / duration_ns, distribution(whole))


def _failures(windows: Sequence[Window], subject: Subject) -> tuple[FailureGroup, ...]:
    return tuple(
        FailureGroup(
            kind=status.kind(code),
            count=found.count,
            example=subject.examples.get(code, ""),
            first_s=(found.first_ns - subject.level_start_ns) / NS_PER_S,
            last_s=(found.last_ns - subject.level_start_ns) / NS_PER_S,
            mean_ns=found.total_ns // found.count,
            max_ns=found.longest_ns,
        )
        for code, found in sorted(add_failures(windows).items())
    )
