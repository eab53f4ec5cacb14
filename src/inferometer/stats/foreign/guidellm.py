"""Results of guidellm: one JSON file with a benchmark for each load, which has summaries and individual requests."""

import re
from collections.abc import Iterator

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.built import (
    ARRIVALS,
    Origin,
    StatedRequest,
    Summary,
    as_stated,
    level_of,
    measured,
    result_of,
    stated,
)
from inferometer.stats.foreign.failures import status_of
from inferometer.stats.foreign.part import Names, Part, summary
from inferometer.stats.measurement import UNSTATED, Level
from inferometer.stats.result import Result

TOOL = "guidellm"
PERCENTILES = (
    *((0.1, "p001"), (1.0, "p01"), (5.0, "p05"), (10.0, "p10"), (25.0, "p25"), (50.0, "p50")),
    *((75.0, "p75"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p999")),
)
_HTTP = re.compile(r"'?\b([1-5]\d\d)\b")


def is_one(document: dict[str, object]) -> bool:
    rows = document.get("benchmarks")
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], dict) and "metrics" in rows[0]


def read(document: Part) -> Result:
    metadata = document.maybe_part("metadata")
    benchmarks = list(document.parts("benchmarks"))
    levels = [_level(row) for row in benchmarks]
    kinds = {_strategy(row).text("type_") for row in benchmarks}.intersection(ARRIVALS)
    first = benchmarks[0]
    config = first.maybe_part("config") or first
    backend = config.maybe_part("backend")
    return result_of(
        Origin(
            tool=TOOL,
            version="" if metadata is None else metadata.text("guidellm_version"),
            started_at=_started_at(first),
            model="" if backend is None else backend.text("model"),
            url="" if backend is None else backend.text("target"),
            arrivals=kinds.pop() if len(kinds) == 1 else UNSTATED,
        ),
        levels,
    )


def _started_at(benchmark: Part) -> str:
    from datetime import UTC, datetime

    found = benchmark.moment_ns("start_time", NS_PER_S)
    if not found:
        return ""
    try:
        return datetime.fromtimestamp(found / NS_PER_S, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return ""


def _level(benchmark: Part) -> Level:
    said = _summary(benchmark)
    rows = list(_requests(benchmark))
    found = measured(rows, span=_span(benchmark))
    mode, value = _load(benchmark)
    if found is None or not any(row.status == status.OK for row in rows):
        return level_of(mode, value, stated(said), has_requests=False)
    return level_of(mode, value, as_stated(found, said), has_requests=True)


def _span(benchmark: Part) -> tuple[int, int] | None:
    start, end = (benchmark.moment_ns(name, NS_PER_S) for name in ("start_time", "end_time"))
    return None if start is None or end is None or end <= start else (start, end)


def _strategy(benchmark: Part) -> Part:
    config = benchmark.maybe_part("config") or benchmark
    return config.maybe_part("strategy") or config


def _load(benchmark: Part) -> tuple[str, float]:
    strategy = _strategy(benchmark)
    for name in ("rate", "initial_rate"):
        if (rate := strategy.maybe_number(name)) is not None:
            return "request_rate", rate
    if strategy.text("type_") == "synchronous":
        return "concurrency", 1.0
    for name in ("streams", "max_concurrency"):
        if (streams := strategy.maybe_number(name)) is not None:
            return "concurrency", streams
    return UNSTATED, 0.0


def _summary(benchmark: Part) -> Summary:
    metrics = benchmark.part("metrics")
    totals = metrics.maybe_part("request_totals")
    made = None if totals is None else totals.maybe_count("successful")
    failed = None if totals is None else totals.maybe_count("errored")
    if made is None:
        raise metrics.error("request_totals.successful", "is missing")

    def times(name: str, unit: int) -> Distribution | None:
        metric = metrics.maybe_part(name)
        part = None if metric is None else metric.maybe_part("successful")
        found = None if part is None else _distribution(part, unit)
        return found if found is None or found.count else None

    def mean(name: str) -> float | None:
        metric = metrics.maybe_part(name)
        part = None if metric is None else metric.maybe_part("successful")
        return None if part is None else part.maybe_number("mean")

    def total(name: str) -> int | None:
        metric = metrics.maybe_part(name)
        part = None if metric is None else metric.maybe_part("successful")
        found = None if part is None else part.maybe_number("total_sum")
        return None if found is None else round(found)

    return Summary(
        requests=made,
        failed=failed or 0,
        duration_ns=benchmark.maybe_ns("duration") or 0,
        per_s=mean("requests_per_second"),
        latency=times("request_latency", NS_PER_S),
        first=times("time_to_first_token_ms", NS_PER_MS),
        between=times("inter_token_latency_ms", NS_PER_MS),
        per_answer=times("output_token_count", 1),
        per_prompt=times("prompt_token_count", 1),
        output=total("output_token_count"),
        prompt=total("prompt_token_count"),
        output_per_s=mean("output_tokens_per_second"),
        prompt_per_s=mean("prompt_tokens_per_second"),
    )


def _distribution(part: Part, unit: int) -> Distribution | None:
    found = summary(part, Names("mean", "std_dev", "min", "max", "count"), unit, 0)
    percentiles = part.maybe_part("percentiles")
    if found is None or percentiles is None:
        return found
    known = ((p, percentiles.maybe_ns(name, unit)) for p, name in PERCENTILES)
    return Distribution(
        found.count,
        found.mean_ns,
        found.std_ns,
        found.min_ns,
        found.max_ns,
        tuple((p, ns) for p, ns in known if ns is not None),
    )


# --- requests


def _requests(benchmark: Part) -> Iterator[StatedRequest]:
    requests = benchmark.maybe_part("requests")
    if requests is None:
        return
    for row in requests.parts("successful"):
        if (found := _request(row)) is not None:
            yield found
    for row in requests.parts("errored"):
        if (found := _failed(row)) is not None:
            yield found


def _request(row: Part) -> StatedRequest | None:
    timings = _timings(row)
    start, end = (timings.moment_ns(name, NS_PER_S) for name in ("request_start", "request_end"))
    if start is None or end is None:
        return None
    first, last = (timings.moment_ns(f"{name}_token_iteration", NS_PER_S) for name in ("first", "last"))
    return StatedRequest(
        start_ns=start,
        end_ns=max(end, start),
        first_ns=0 if first is None else min(max(first, start), end),
        last_ns=0 if first is None or last is None else max(last, first),
        tokens=_tokens(row, "output_metrics"),
        prompt_tokens=_tokens(row, "input_metrics"),
    )


def _failed(row: Part) -> StatedRequest | None:
    timings, info = _timings(row), row.maybe_part("info") or row
    start = timings.moment_ns("request_start", NS_PER_S) or timings.moment_ns("resolve_start", NS_PER_S)
    end = timings.moment_ns("request_end", NS_PER_S) or timings.moment_ns("resolve_end", NS_PER_S)
    if start is None or end is None:
        return None
    message = info.text("error")
    code = _HTTP.search(message)
    return StatedRequest(
        start,
        max(end, start),
        status=status_of(None if code is None else int(code[1]), message),
        message=message,
    )


def _timings(row: Part) -> Part:
    info = row.maybe_part("info")
    found = None if info is None else info.maybe_part("timings")
    return row if found is None else found


def _tokens(row: Part, name: str) -> int:
    part = row.maybe_part(name)
    found = None if part is None else part.maybe_count("total_tokens") or part.maybe_count("text_tokens")
    return found or 0
