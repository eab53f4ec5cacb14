"""The summary of MLPerf's loadgen: the figures, without a verdict, which only loadgen's own rules give."""

from collections.abc import Iterator

from inferometer.base.units import plain_number
from inferometer.report.foreign.figures import Written
from inferometer.stats.foreign.mlperf import HEADING

_PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
_RULE = "=" * 48


def files(written: Written) -> Iterator[tuple[str, str]]:
    yield "mlperf_log_summary.txt", "\n".join(_lines(written)) + "\n"


def _lines(written: Written) -> Iterator[str]:
    found, level = written.measurement, written.level
    scenario = _scenario(written)
    per_s = found.infer_per_s.value
    yield from (_RULE, HEADING, _RULE)
    yield f"SUT name : {_one_line(str(written.result.model.get('name', '')))}"
    yield f"Scenario : {scenario}"
    yield "Mode     : PerformanceOnly"
    if scenario == "Server":
        yield f"Completed samples per second    : {per_s:.2f}"
    elif scenario == "Offline":
        yield f"Samples per second: {per_s:.6g}"
    else:
        known = found.latency.maybe_percentile_ns(90.0)
        if known is not None:
            yield f"90.0th percentile latency (ns) : {known}"
    yield "Result is : not judged"
    yield f" * Processed {found.request_count} queries."
    yield from ("", _RULE, "Additional Stats", _RULE)
    if scenario == "SingleStream":
        yield f"QPS w/ loadgen overhead         : {per_s / found.batch:.2f}"
        yield ""
    yield from _times(written)
    yield from ("", _RULE, "Test Parameters Used", _RULE)
    samples = found.request_count * found.batch if scenario == "Offline" else found.batch
    yield f"samples_per_query : {samples}"
    yield f"target_qps : {plain_number(level.value)}" if scenario == "Server" else "target_qps : 0"
    yield f"min_query_count : {found.request_count}"


def _scenario(written: Written) -> str:
    """Return the scenario that the load corresponds to; a closed load with several in flight is Offline."""
    level = written.level
    if level.mode == "request_rate":
        return "Server"
    if level.mode == "concurrency" and level.value == 1:
        return "SingleStream" if written.measurement.batch == 1 else "MultiStream"
    return "Offline"


def _times(written: Written) -> Iterator[str]:
    latency = written.measurement.latency
    if not latency.count:
        return
    for name, ns in (("Min", latency.min_ns), ("Max", latency.max_ns), ("Mean", latency.mean_ns)):
        if ns is not None:
            yield f"{f'{name} latency (ns)':<32}: {ns}"
    for p in _PERCENTILES:
        if (ns := latency.maybe_percentile_ns(p)) is not None:
            yield f"{f'{p:.2f} percentile latency (ns)':<32}: {ns}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
