"""Builders of frozen results from a few figures. Times are in microseconds unless named otherwise."""

from collections.abc import Sequence
from typing import Any

from inferometer.base.notes import Remark
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import ClientCost, FailureGroup, Level, Measurement, WindowFigures
from inferometer.stats.result import Result

EFFECTIVE: dict[str, Any] = {
    "batch": 1,
    "batch_given": False,
    "service_kind": "triton",
    "protocol": "http",
    "warmup_request_count": 0,
    "request_count": 0,
    "measurement_mode": "time_windows",
    "measurement_interval_ms": 700,
    "measurement_request_count": 50,
    "asynchronous": False,
    "percentile": None,
    "concurrency_start": 1,
    "concurrency_end": None,
    "latency_limit_ms": 0,
    "verbose": 0,
    "verbose_csv": False,
    "binary_search": False,
    "max_trials": 10,
    "data_streams": 1,
    "data_steps": 1,
    "data_given": False,
    "stopping": "stability",
    "request_timeout_s": 0.0,
    "max_error_rate": 0.0,
    "workers": 1,
    "mode": "concurrency",
}


def result(
    *levels: Level, model: dict[str, Any] | None = None, remarks: Sequence[Remark] = (), **effective: Any
) -> Result:
    return Result(
        tool="inferometer 0.1.0",
        command="perf_analyzer",
        started_at="2025-01-01T00:00:00Z",
        asked={},
        effective=Effective(**{**EFFECTIVE, **effective}),
        host={},
        server={},
        model={"name": "addsub", "version": "1", "is_decoupled": False, "any_cache": False, **(model or {})},
        levels=levels,
        remarks=tuple(remarks),
    )


def level(
    measurement: Measurement | None,
    value: float = 1,
    *,
    mode: str = "concurrency",
    windows: Sequence[WindowFigures] = (),
    is_stable: bool = True,
    is_over_limit: bool = False,
    remarks: Sequence[Remark] = (),
) -> Level:
    return Level(mode, value, measurement, tuple(windows), is_stable, is_over_limit, tuple(remarks))


def window(rate: float, latency: int, std: int = 0, count: int = 1000, failed: int = 0) -> WindowFigures:
    return WindowFigures(
        0.0, 700_000_000, count, failed, rate, latency * 1000 + 999, latency * 1000 + 999, std * 1000 + 999
    )


def distribution(mean: int, std: int, percentiles: dict[int, int], count: int = 1000) -> Distribution:
    """Figures just below the next whole microsecond, to detect reports that round."""
    ns = {p: us * 1000 + 999 for p, us in percentiles.items()}
    largest = max(ns.values(), default=mean * 1000)
    return Distribution(
        count, mean * 1000, std * 1000 + 999, 0, largest, tuple((float(p), v) for p, v in ns.items())
    )


def measurement(
    count: int,
    rate: float,
    mean: int,
    std: int,
    percentiles: Sequence[int],
    *,
    transport: int | None = None,
    send: int = 0,
    receive: int = 0,
    server: ModelStatistics | None = None,
    cpu: float = 0.03357,
    interval: float | None = None,
    failures: Sequence[FailureGroup] = (),
    delayed: int = 0,
    send_rate: float | None = None,
    extra: dict[int, int] | None = None,
) -> Measurement:
    shown = dict(sorted({**dict(zip((50, 90, 95, 99), percentiles, strict=True)), **(extra or {})}.items()))
    estimate = (
        Estimate(rate) if interval is None else Estimate(rate, rate * (1 - interval), rate * (1 + interval))
    )
    return Measurement(
        batch=1,
        duration_ns=2_100_000_000,
        request_count=count,
        failed_count=sum(group.count for group in failures),
        delayed_count=delayed,
        infer_per_s=estimate,
        send_per_s=rate if send_rate is None else send_rate,
        latency=distribution(mean, std, shown, count),
        latency_intervals=(),
        service=distribution(mean if transport is None else transport, std, shown, count),
        send_ns=send * 1000 + 400,
        receive_ns=receive * 1000 + 300,
        received_bytes=0,
        client=ClientCost(1, cpu, 30.0, 0, 0),
        server=server,
        failures=tuple(failures),
    )


def counters(
    calls: int,
    latency: float,
    queue: float = 0,
    compute: tuple[float, float, float] | None = None,
    *,
    inferences: int | None = None,
    executions: int | None = None,
    computed: int | None = None,
    hits: tuple[int, float] = (0, 0),
    misses: tuple[int, float] = (0, 0),
) -> Counters:
    """Convert averages in microseconds to sums in nanoseconds."""
    done = (calls if computed is None else computed) if compute is not None else 0
    inputs, infer, outputs = compute or (0, 0, 0)

    def ns(average: float, count: int) -> int:
        return round(average * 1000) * count

    return Counters(
        inference_count=calls if inferences is None else inferences,
        execution_count=calls if executions is None else executions,
        success_count=calls,
        success_ns=ns(latency, calls),
        queue_count=calls if queue else 0,
        queue_ns=ns(queue, calls),
        compute_input_count=done,
        compute_input_ns=ns(inputs, done),
        compute_infer_count=done,
        compute_infer_ns=ns(infer, done),
        compute_output_count=done,
        compute_output_ns=ns(outputs, done),
        cache_hit_count=hits[0],
        cache_hit_ns=ns(hits[1], hits[0]),
        cache_miss_count=misses[0],
        cache_miss_ns=ns(misses[1], misses[0]),
    )


def model(name: str, row: Counters, *members: ModelStatistics, **flags: Any) -> ModelStatistics:
    return ModelStatistics(name, flags.pop("version", "1"), row, members=members, **flags)


def ensemble(name: str, row: Counters, *members: ModelStatistics, **flags: Any) -> ModelStatistics:
    return model(name, row, *members, is_ensemble=True, **flags)
