"""Windows -> Measurement: the merged figures of a level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from inferometer.base import status
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.model.spec import ModelSpec
from inferometer.observe.metrics import Sample
from inferometer.observe.statistics import ModelStatistics, difference, is_reset
from inferometer.stats.ends import join_groups
from inferometer.stats.intervals import mean_estimate, mean_margin, percentile_estimates, rate_interval
from inferometer.stats.measurement import (
    ClientCost,
    Estimate,
    FailureGroup,
    Goodput,
    Measurement,
    SequenceFigures,
    StartFigures,
    Streaming,
)
from inferometer.stats.series import Series, joined
from inferometer.stats.server_metrics import server_metrics
from inferometer.stats.tokens import token_figures
from inferometer.stats.windows import Window, add_failures, join_expenses, join_streams

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
    """The figures of windows that follow each other."""
    latency = joined([window.latency_ns for window in windows])
    duration_ns = windows[-1].end_ns - windows[0].start_ns
    count = latency.count
    elapsed_ns = sum(window.expense.elapsed_ns for window in windows)
    wanted = _wanted(subject.percentile)
    whole = latency.distribution(wanted)
    lags = [window.lag_ns for window in windows if window.lag_ns is not None]
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
        latency_intervals=_latency_estimates(latency, wanted),
        service=joined([window.service_ns for window in windows]).distribution() if lags else whole,
        send_ns=sum(window.send_ns for window in windows) // max(count, 1),
        receive_ns=sum(window.receive_ns for window in windows) // max(count, 1),
        received_bytes=sum(window.received_bytes for window in windows),
        client=_client_cost(windows, joined(lags) if lags else None),
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
    latency = joined([window.latency_ns for window in windows])
    rate = latency.count * subject.batch * NS_PER_S / duration_ns
    return StartFigures(duration_ns, latency.count, rate, latency.distribution(_wanted(subject.percentile)))


def _latency_estimates(latency: Series, wanted: Sequence[int]) -> tuple[tuple[str, Estimate], ...]:
    """In nanoseconds."""
    if not latency.count:
        return ()
    percentiles = percentile_estimates(latency, wanted)
    return (("mean", _mean_estimate(latency)), *((f"p{p}", percentiles[p]) for p in wanted))


def _mean_estimate(latency: Series) -> Estimate:
    return mean_estimate(float(latency.mean), mean_margin(latency))


def latency_estimate(windows: Sequence[Window], chosen: int | None) -> Estimate:
    """Of the mean, or of the chosen percentile."""
    latency = joined([window.latency_ns for window in windows])
    if not latency.count:
        return Estimate(0.0)
    return (
        _mean_estimate(latency) if chosen is None else percentile_estimates(latency, _wanted(chosen))[chosen]
    )


def rate_estimate(windows: Sequence[Window], batch: int) -> Estimate:
    start_ns = windows[0].start_ns
    span_ns = windows[-1].end_ns - start_ns
    ends = [window.ends.groups().later((window.start_ns - start_ns) // NS_PER_US) for window in windows]
    count = sum(window.count for window in windows)
    return rate_interval(count * batch * NS_PER_S / span_ns, join_groups(ends), span_ns // NS_PER_US)


def _wanted(chosen: int | None) -> list[int]:
    return sorted({*SHOWN, *(() if chosen is None else (chosen,))})


def _client_cost(windows: Sequence[Window], lag: Series | None) -> ClientCost:
    whole = join_expenses([window.expense for window in windows])
    elapsed_ns = whole.elapsed_ns
    requests = sum(window.count + window.failed_count + window.empty for window in windows)
    return ClientCost(
        workers=len(whole.cpu_ns),
        cpu_share=max(whole.cpu_ns, default=0) / elapsed_ns if elapsed_ns else 0.0,
        cpu_us_per_request=sum(whole.cpu_ns) / NS_PER_US / requests if requests else 0.0,
        reconnects=whole.reconnects,
        connect_ns=whole.connect_ns // whole.connects if whole.connects else 0,
        connects=whole.connects,
        files=whole.files,
        file_limit=whole.file_limit,
        stolen_cores=whole.stolen_ns / elapsed_ns if elapsed_ns else 0.0,
        loop_lag_p50_ns=whole.loop_lags_ns.percentile(50),
        loop_lag_max_ns=whole.loop_lags_ns.distribution().max_ns,
        lag_p50_ns=0 if lag is None else lag.percentile(50),
        lag_p99_ns=0 if lag is None else lag.percentile(99),
    )


def _server(windows: Sequence[Window], model: ModelSpec) -> ModelStatistics | None:
    before, after = windows[0].before, windows[-1].after
    if before is None or after is None or counters_were_reset(windows):
        return None
    return difference(model, before.counters, after.counters)


def counters_were_reset(windows: Sequence[Window]) -> bool:
    """Whether the server began to count from zero in between: then what it did is not known."""
    readings = [window.before for window in windows] + [windows[-1].after]
    counters = [reading.counters for reading in readings if reading is not None]
    return any(is_reset(before, after) for before, after in pairwise(counters))


def _streaming(windows: Sequence[Window], duration_ns: int) -> Streaming | None:
    whole = join_streams([window.streams for window in windows])
    if not whole.responses.count:
        return None
    responses = whole.responses.total
    return Streaming(
        responses=responses,
        per_s=responses * NS_PER_S / duration_ns,
        per_request=whole.responses.distribution(),
        first=whole.first_ns.distribution(),
        gaps=whole.gap_ns.distribution(),
    )


def _goodput(windows: Sequence[Window], subject: Subject, duration_ns: int, ended: int) -> Goodput | None:
    if not subject.promise:
        return None
    number = sum(window.kept for window in windows)
    per_s = number * subject.batch * NS_PER_S / duration_ns
    return Goodput(subject.promise, number, per_s, number / ended if ended else 0.0)


def _sequences(windows: Sequence[Window], duration_ns: int) -> SequenceFigures | None:
    whole = joined([window.sequence_ns for window in windows])
    if not whole.count:
        return None
    return SequenceFigures(whole.count, whole.count * NS_PER_S / duration_ns, whole.distribution())


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
