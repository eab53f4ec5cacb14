"""guidellm's JSON: one file with a benchmark for each level, and the individual requests if they are known."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import inferometer
from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.report.foreign.figures import Written, in_unit, known, percentiles
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.built import StatedRequest
from inferometer.stats.foreign.guidellm import PERCENTILES


def files(levels: Sequence[Written]) -> Iterator[tuple[str, str]]:
    document = {
        "metadata": {"version": 2, "guidellm_version": f"inferometer {inferometer.__version__}"},
        "benchmarks": [_benchmark(row) for row in levels],
    }
    yield "benchmarks.json", json.dumps(document) + "\n"


def _benchmark(written: Written) -> dict[str, Any]:
    found, result, level = written.measurement, written.result, written.level
    if level.mode == "concurrency":
        strategy: dict[str, Any] = {"type_": "concurrent", "streams": round(level.value)}
    elif level.mode == "request_rate":
        strategy = {"type_": result.effective.distribution, "rate": level.value}
    else:
        strategy = {"type_": "unstated"}
    backend = {"target": result.server.get("url"), "model": result.model.get("name")}
    start = _start(result.started_at)
    seconds = found.duration_ns / NS_PER_S
    return known(
        {
            "type_": "generative_benchmark",
            "config": {"strategy": strategy, "backend": known({"kind": "openai_http", **backend})},
            "metrics": dict(_metrics(written)),
            "requests": _requests(written.requests) if written.requests else None,
            "start_time": start,
            "end_time": None if start is None else start + seconds,
            "duration": seconds,
        }
    )


def _start(started_at: str) -> float | None:
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except (ValueError, OverflowError):
        return None


def _metrics(written: Written) -> Iterator[tuple[str, Any]]:
    found = written.measurement
    counts = {"successful": found.request_count, "errored": found.failed_count, "incomplete": 0}
    yield "request_totals", counts | {"total": sum(counts.values())}
    yield "requests_per_second", {"successful": {"mean": found.infer_per_s.value / found.batch}}
    yield from _times("request_latency", found.latency, NS_PER_S)
    if found.streaming is not None:
        yield from _times("time_to_first_token_ms", found.streaming.first, NS_PER_MS)
    tokens = found.tokens
    if tokens is None:
        return
    yield from _times("inter_token_latency_ms", tokens.between, NS_PER_MS)
    yield from _times("output_token_count", tokens.per_answer, 1, tokens.output)
    if tokens.prompt:
        yield from _times("prompt_token_count", tokens.per_prompt, 1, tokens.prompt)
        yield "prompt_tokens_per_second", {"successful": {"mean": tokens.prompt_per_s}}
    yield "output_tokens_per_second", {"successful": {"mean": tokens.output_per_s}}


def _times(name: str, found: Distribution, unit: int, total: int | None = None) -> Iterator[tuple[str, Any]]:
    if not found.count:
        return
    figures = {
        "mean": found.mean_ns / unit if total is None else total / found.count,
        "median": in_unit(found.maybe_percentile_ns(50.0), unit),
        "std_dev": in_unit(found.std_ns, unit),
        "min": in_unit(found.min_ns, unit),
        "max": in_unit(found.max_ns, unit),
        "count": found.count,
        "total_sum": None if total is None else float(total),
        "percentiles": percentiles(found, unit, PERCENTILES),
    }
    yield name, {"successful": known(figures)}


def _requests(rows: Sequence[StatedRequest]) -> dict[str, list[Any]]:
    good = [_request(number, row) for number, row in enumerate(rows) if row.status == status.OK]
    bad = [_request(number, row) for number, row in enumerate(rows) if row.status != status.OK]
    return {"successful": good, "errored": bad, "incomplete": []}


def _request(number: int, row: StatedRequest) -> dict[str, Any]:
    timings = {
        "request_start": row.start_ns / NS_PER_S,
        "first_token_iteration": row.first_ns / NS_PER_S if row.first_ns else None,
        "last_token_iteration": (row.times_ns[-1] if row.times_ns else row.end_ns) / NS_PER_S
        if row.first_ns
        else None,
        "request_end": row.end_ns / NS_PER_S,
    }
    is_good = row.status == status.OK
    return {
        "request_id": str(number),
        "info": known(
            {
                "status": "completed" if is_good else "errored",
                "timings": known(timings),
                "error": None if is_good else row.message or status.kind(row.status),
            }
        ),
        "input_metrics": {"text_tokens": row.prompt_tokens, "total_tokens": row.prompt_tokens},
        "output_metrics": {"text_tokens": row.tokens, "total_tokens": row.tokens},
    }
