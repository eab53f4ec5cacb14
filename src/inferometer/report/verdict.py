"""A measurement in one sentence."""

from inferometer.observe.statistics import ModelStatistics
from inferometer.report.console import finding_sentence
from inferometer.report.format import duration, interval, level_label, quantity, share
from inferometer.report.server import parts
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result

NEAR = 0.05  # share of the highest throughput within which a lighter load does as well


def measured(result: Result) -> tuple[tuple[Level, Measurement], ...]:
    """The levels that had good answers, by load."""
    rows = [
        (level, level.measurement)
        for level in result.levels
        if level.measurement is not None and level.measurement.request_count
    ]
    return tuple(sorted(rows, key=lambda row: row[0].value))


def best(result: Result) -> tuple[Level, Measurement] | None:
    """The level a reader should look at: of a search the one that was held, else the highest throughput."""
    rows = measured(result)
    if result.finding is not None and result.finding.value:
        rows = tuple(row for row in rows if row[0].value == result.finding.value) or rows
        return rows[-1] if rows else None
    sound = tuple(row for row in rows if row[0].is_as_asked) or rows
    return max(sound, key=lambda row: row[1].infer_per_s.value, default=None)


def verdict(result: Result) -> str:
    """What came of it: how much, at what latency, limited by what."""
    if result.finding is not None:
        return finding_sentence(result.finding)
    found = best(result)
    if found is None:
        return "No request was answered, so there is nothing to report."
    level, measurement = found
    clauses = (_throughput(level, measurement), _limit(measurement.server), _failed(result))
    return "; ".join(clause for clause in clauses if clause) + "."


def _throughput(level: Level, measurement: Measurement) -> str:
    rate = f"{quantity(measurement.infer_per_s.value)} infer/s {interval(measurement.infer_per_s)}".rstrip()
    half, most = (duration(measurement.latency.percentile_ns(p)) for p in (50, 99))
    where = level_label(level.mode, level.value)
    return f"{rate} at {where}, half of the requests within {half} and 99 % within {most}"


def _limit(server: ModelStatistics | None) -> str:
    rows = () if server is None else parts(server)
    if server is None or not rows:
        return ""
    slowest = max(rows, key=lambda row: row.ns)
    part = slowest.ns * server.counters.success_count / max(1, server.counters.success_ns)
    words = f"{share(min(1.0, part))} of the server's time is {slowest.name}"
    waiting = slowest.queue_ns / slowest.ns if slowest.ns else 0.0
    return f"{words}, {share(waiting)} of that waiting in its queue" if 0.5 < waiting < 1 else words


def _failed(result: Result) -> str:
    return f"{share(result.failed_share)} of all requests failed" if result.failed_share else ""


def enough(result: Result) -> Level | None:
    """The lightest load that is nearly as good as the best; None when that is the best itself."""
    found = best(result)
    if found is None or found[0].mode != "concurrency":
        return None
    least = found[1].infer_per_s.value * (1 - NEAR)
    first = next((level for level, row in measured(result) if row.infer_per_s.value >= least), found[0])
    return first if first.value < found[0].value else None
