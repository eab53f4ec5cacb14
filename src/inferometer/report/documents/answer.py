"""The answer of a measurement in one sentence."""

from inferometer.options.values import Range
from inferometer.report.documents.levels import is_client_limited, may_be_more
from inferometer.report.format import (
    RISING,
    duration,
    has_schedule,
    level_label,
    level_value,
    plain_number,
    plural,
    rate,
    share,
)
from inferometer.report.sentences import UNSTEADY, verdict_words
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result, best, measured

NEARLY = 0.1  # a lighter load this close to the best one is worth mentioning
SURE = 0.1  # widest half interval for statements about other loads


def answer(result: Result) -> str:
    """State throughput, load and latency, and whether throughput has saturated; empty if nothing was answered."""
    chosen = best(result)
    if chosen is None:
        return ""
    level, measurement = chosen
    times, unit = _times(measurement), result.effective.rate_unit
    if has_schedule(result.effective):
        return f"{_whole(measurement)}, {rate(measurement.infer_per_s, unit)} on average, {times}."
    if level.mode in ("concurrency", RISING) or result.source:
        where = level_label(level.mode, level.value)
        if (periodic := result.effective.periodic) is not None:
            where = f"concurrency {plain_number(periodic[0])} to {Range(*periodic).last}"
        more = _beyond(result, level, measurement)
        return f"{_throughput(measurement, unit)} at {where}, {times}{_unsteady(level)}{more}."
    asked = f"{level_value(level.mode, level.value)} requests/s"
    if not level.is_as_asked:
        found = rate(measurement.infer_per_s, unit)
        return f"{found} instead of the requested {asked}, {times}: {verdict_words(level)}."
    words = f"{times}{_unsteady(level)}{_too_much(result, level)}."
    if is_client_limited(level) or not _is_sure(measurement.infer_per_s):
        per_s = rate(measurement.infer_per_s, unit)
        return f"Inconclusive whether the server keeps up with {asked}: {per_s}, {words}"
    return f"Keeps up with {asked}: {words}"


def _too_much(result: Result, kept: Level) -> str:
    """Name the next higher rate that could not be sustained; it shows the server's capacity only if the client kept
    up."""
    spoilt = next((row for row in result.levels if row.value > kept.value and not row.is_as_asked), None)
    if spoilt is None:
        return ""
    asked = level_value(spoilt.mode, spoilt.value)
    return (
        f"; with {asked}, this client was the limit" if is_client_limited(spoilt) else f"; not with {asked}"
    )


def _unsteady(level: Level) -> str:
    """Say that the server changed during the measurement, or settled only after a while."""
    if level.doubt is not None and level.doubt.kind in UNSTEADY:
        return f"; not steady: {level.doubt.text}"
    return "" if level.start is None else f", excluding a cold start of {duration(level.start.duration_ns)}"


def _throughput(measurement: Measurement, unit: str) -> str:
    """Throughput in tokens if there are any, because answers vary in length."""
    tokens = measurement.tokens
    if tokens is None or not tokens.output:
        return rate(measurement.infer_per_s, unit)
    return rate(tokens.output_interval or Estimate(tokens.output_per_s), "tokens/s")


def _times(measurement: Measurement) -> str:
    """Latency; for streamed text, the times to the first token and between tokens instead."""
    tokens, streaming = measurement.tokens, measurement.streaming
    if tokens is None or streaming is None or not streaming.first.count:
        return ", ".join(f"{name} {duration(ns)}" for name, ns in middle_and_tail(measurement.latency))
    shown = (("first token after", streaming.first), ("then one every", tokens.between))
    return ", ".join(
        f"{words} {' and '.join(f'{name} {duration(ns)}' for name, ns in middle_and_tail(times))}"
        for words, times in shown
        if times.count
    )


def middle_and_tail(latency: Distribution) -> tuple[tuple[str, int], ...]:
    """p50 and p99; with fewer than a hundred requests, the slowest instead of p99. Unknown figures are left out."""
    is_few = latency.count < 100 and latency.max_ns is not None
    tail = ("slowest", latency.max_ns) if is_few else ("p99", latency.maybe_percentile_ns(99))
    rows = (("p50", latency.maybe_percentile_ns(50)), tail)
    return tuple((name, ns) for name, ns in rows if ns is not None)


def _whole(measurement: Measurement) -> str:
    """State how many requests were answered, for a load that ends by itself."""
    count, failed = measurement.request_count, measurement.failed_count
    if not failed:
        return f"All {plural(count, 'request')} were answered" if count > 1 else "The request was answered"
    return f"{count:,} of {plural(count + failed, 'request')} were answered"


def _beyond(result: Result, level: Level, measurement: Measurement) -> str:
    """Compare the best load with the other loads, if their intervals allow it."""
    most = measurement.infer_per_s
    if not _is_sure(most) or any(is_client_limited(row) for row in result.levels if row.value >= level.value):
        return ""
    rows = [(row, found.infer_per_s) for row, found in measured(result) if row.is_as_asked]
    heavier = [found for row, found in rows if row.value > level.value]
    if heavier:
        return ": throughput has saturated" if not any(may_be_more(found, most) for found in heavier) else ""
    lighter = [(row, found) for row, found in rows if row.value < level.value]
    if not lighter or any(row.value > level.value for row in result.levels):
        return ""
    near, found = lighter[-1]
    if found.value < most.value * (1 - NEARLY):
        return ": throughput may rise further with more load"
    if not _is_sure(found):
        return ""
    return f": {level_label(near.mode, near.value)} already reaches {share(found.value / most.value)} of it"


def _is_sure(found: Estimate) -> bool:
    half = found.relative_half_width
    return half is not None and half <= SURE
