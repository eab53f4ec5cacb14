"""aiperf's files: `profile_export_aiperf.json`, and `profile_export.jsonl` if individual requests are known."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import inferometer
from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S, plain_number
from inferometer.report.foreign.figures import Written, in_unit, known, percentiles
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.aiperf import NAMES, PROFILING
from inferometer.stats.foreign.built import StatedRequest
from inferometer.stats.series import rank

SCHEMA = "1.4"
WRITER = f"inferometer {inferometer.__version__}"


def files(written: Written) -> Iterator[tuple[str, str]]:
    yield "profile_export_aiperf.json", json.dumps(_summary(written), indent=2) + "\n"
    if written.requests:
        lines = (json.dumps(_line(number, row)) for number, row in enumerate(written.requests))
        yield "profile_export.jsonl", "\n".join(lines) + "\n"


def _summary(written: Written) -> dict[str, Any]:
    found, result = written.measurement, written.result
    tokens, streaming = found.tokens, found.streaming
    seconds = found.duration_ns / NS_PER_S
    start, end = _times(result.started_at, seconds)
    fields: dict[str, Any] = {
        "schema_version": SCHEMA,
        "aiperf_version": WRITER,
        "request_throughput": {"unit": "requests/sec", "avg": found.infer_per_s.value / found.batch},
        "request_latency": _distribution(found.latency, "ms", NS_PER_MS),
        "request_count": {"unit": "requests", "avg": float(found.request_count)},
        "error_request_count": {"unit": "requests", "avg": float(found.failed_count)}
        if found.failed_count
        else None,
        "benchmark_duration": {"unit": "sec", "avg": seconds} if seconds else None,
    }
    if streaming is not None:
        fields["time_to_first_token"] = _distribution(streaming.first, "ms", NS_PER_MS)
        fields["inter_chunk_latency"] = _distribution(streaming.gaps, "ms", NS_PER_MS)
    if tokens is not None:
        fields |= {
            "inter_token_latency": _distribution(tokens.between, "ms", NS_PER_MS),
            "output_token_throughput": {"unit": "tokens/sec", "avg": tokens.output_per_s},
            "input_token_throughput": {"unit": "tokens/sec", "avg": tokens.prompt_per_s}
            if tokens.prompt
            else None,
            "output_sequence_length": _lengths(tokens.per_answer, tokens.output),
            "input_sequence_length": _lengths(tokens.per_prompt, tokens.prompt) if tokens.prompt else None,
            "total_osl": {"unit": "tokens", "avg": float(tokens.output)},
            "total_output_tokens": {"unit": "tokens", "avg": float(tokens.output)},
            "total_isl": {"unit": "tokens", "avg": float(tokens.prompt)} if tokens.prompt else None,
            "e2e_output_token_throughput": None
            if tokens.per_user is None
            else {
                "unit": "tokens/sec/user",
                "avg": tokens.per_user.mean.value,
                **{f"p{plain_number(p)}": rate for p, rate in tokens.per_user.percentiles if p == int(p)},
            },
        }
    fields |= {
        "output_token_throughput_per_user": _decode_rates(written.requests),
        "input_config": _config(written),
        "was_cancelled": False,
        "error_summary": [
            {
                "error_details": {"type": row.kind, "message": row.example, **_code(row.kind)},
                "count": row.count,
            }
            for row in found.failures
        ],
        "start_time": start,
        "end_time": end,
    }
    return known(fields)


def _times(started_at: str, seconds: float) -> tuple[str | None, str | None]:
    try:
        start = datetime.fromisoformat(started_at)
        return start.isoformat(), (start + timedelta(seconds=seconds)).isoformat()
    except (ValueError, OverflowError):
        return None, None


def _code(kind: str) -> dict[str, int]:
    code = kind.removeprefix("http ")
    return {"code": int(code)} if code != kind and code.isdigit() else {}


def _config(written: Written) -> dict[str, Any]:
    level, result = written.level, written.result
    phase: dict[str, Any] = {"name": PROFILING, "kind": PROFILING}
    if level.mode == "concurrency":
        phase |= {"type": "concurrency", "concurrency": round(level.value)}
    elif level.mode == "request_rate":
        is_poisson = result.effective.distribution == "poisson"
        phase |= {"type": "poisson" if is_poisson else "constant", "rate": level.value}
    endpoint = known({"urls": [url] if (url := result.server.get("url")) else None})
    endpoint["streaming"] = written.measurement.streaming is not None
    model = result.model.get("name")
    return {
        "models": {"items": [{"name": str(model)}] if model else []},
        "endpoint": endpoint,
        "phases": [phase],
    }


def _distribution(found: Distribution, unit: str, size: int) -> dict[str, Any] | None:
    if not found.count:
        return None
    return known(
        {
            "unit": unit,
            "avg": found.mean_ns / size,
            **percentiles(found, size, NAMES.percentiles),
            "min": in_unit(found.min_ns, size),
            "max": in_unit(found.max_ns, size),
            "std": in_unit(found.std_ns, size),
            "count": found.count,
        }
    )


def _lengths(found: Distribution, total: int) -> dict[str, Any] | None:
    fields = _distribution(found, "tokens", 1)
    return None if fields is None else fields | {"avg": total / found.count, "sum": float(total)}


def _between_ns(row: StatedRequest) -> int | None:
    """Return the mean time between tokens of an answer; None if it has no two tokens at different times."""
    if not row.first_ns or row.tokens < 2:
        return None
    return (row.end_ns - row.first_ns) // (row.tokens - 1) or None


def _decode_rates(rows: Sequence[StatedRequest]) -> dict[str, Any] | None:
    """Return aiperf's figure per user, the inverse of the time between tokens; only requests give it."""
    rates = sorted(NS_PER_S / between for row in rows if (between := _between_ns(row)) is not None)
    if not rates:
        return None
    known = {name: rates[rank(p, len(rates))] for p, name in NAMES.percentiles}
    ends = {"min": rates[0], "max": rates[-1], "count": len(rates)}
    return {"unit": "tokens/sec/user", "avg": sum(rates) / len(rates), **known, **ends}


def _line(number: int, row: StatedRequest) -> dict[str, Any]:
    metadata = {
        "session_num": number,
        "request_start_ns": row.start_ns,
        "request_end_ns": row.end_ns,
        "worker_id": "inferometer",
        "record_processor_id": "inferometer",
        "benchmark_phase": PROFILING,
        "was_cancelled": row.status == status.CANCELLED,
    }
    if row.status != status.OK:
        kind = status.kind(row.status)
        error = {"type": kind, "message": row.message or kind, **_code(kind)}
        return {"metadata": metadata, "metrics": {}, "error": error}
    return {"metadata": metadata, "metrics": dict(_metrics(row))}


def _metrics(row: StatedRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    def ms(ns: int) -> dict[str, Any]:
        return {"value": ns / NS_PER_MS, "unit": "ms"}

    yield "request_latency", ms(row.end_ns - row.start_ns)
    if row.first_ns:
        yield "time_to_first_token", ms(row.first_ns - row.start_ns)
    if len(row.times_ns) > 1:
        gaps = [
            (after - before) / NS_PER_MS
            for before, after in zip(row.times_ns, row.times_ns[1:], strict=False)
        ]
        yield "inter_chunk_latency", {"value": gaps, "unit": "ms"}
    if (between := _between_ns(row)) is not None:
        yield "inter_token_latency", ms(between)
        yield "output_token_throughput_per_user", {"value": NS_PER_S / between, "unit": "tokens/sec/user"}
    for name, count in (("output_sequence_length", row.tokens), ("input_sequence_length", row.prompt_tokens)):
        if count:
            yield name, {"value": count, "unit": "tokens"}
    if row.tokens and row.end_ns > row.start_ns:
        rate = row.tokens * NS_PER_S / (row.end_ns - row.start_ns)
        yield "e2e_output_token_throughput", {"value": rate, "unit": "tokens/sec/user"}
