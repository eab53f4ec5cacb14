"""llm-d's benchmark report 0.2, as JSON, which is also YAML."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from inferometer.base.units import NS_PER_S
from inferometer.report.foreign.figures import Written, in_unit, known, percentiles
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.llm_d import PERCENTILES, VERSION


def files(written: Written) -> Iterator[tuple[str, str]]:
    yield "benchmark_report_v0.2.json", json.dumps(_document(written), indent=2) + "\n"


def _document(written: Written) -> dict[str, Any]:
    result, level = written.result, written.level
    words = f"{result.started_at} {result.tool} {level.mode} {level.value} {level.name}"
    return {
        "version": VERSION,
        "run": {"uid": hashlib.sha256(words.encode()).hexdigest()[:32], "time": _time(written)},
        "scenario": {"load": _load(written)},
        "results": {"request_performance": {"aggregate": _aggregate(written)}},
    }


def _time(written: Written) -> dict[str, str]:
    seconds = written.measurement.duration_ns / NS_PER_S
    try:
        start = datetime.fromisoformat(written.result.started_at).astimezone()
        ends = {"start": start.isoformat(), "end": (start + timedelta(seconds=seconds)).isoformat()}
    except (ValueError, OverflowError):
        ends = {}
    return {**ends, "duration": f"PT{seconds:.9f}S"}


def _load(written: Written) -> dict[str, Any] | None:
    """Return the load; the format requires the length of prompts, so without tokens there is none."""
    level, tokens = written.level, written.measurement.tokens
    if tokens is None or not tokens.per_prompt.count or not tokens.prompt:
        return None
    tool, _, version = written.result.tool.partition(" ")
    standard = {
        "tool": tool,
        "tool_version": version or "unknown",
        "source": "unknown",
        "input_seq_len": _lengths(tokens.per_prompt, tokens.prompt),
        "rate_qps": level.value if level.mode == "request_rate" and level.value > 0 else None,
        "concurrency": max(1, round(level.value)) if level.mode == "concurrency" else None,
    }
    return {"metadata": {}, "standardized": known(standard), "native": {}}


def _lengths(found: Distribution, total: int) -> dict[str, Any]:
    is_fixed = found.min_ns is not None and found.min_ns == found.max_ns
    fields = {"distribution": "fixed" if is_fixed else "other", "value": total / found.count}
    return fields | known(
        {"min": found.min_ns, "max": max(found.max_ns, 1) if found.max_ns is not None else None}
    )


def _aggregate(written: Written) -> dict[str, Any]:
    found = written.measurement
    tokens, streaming = found.tokens, found.streaming
    per_s = found.infer_per_s.value / found.batch
    rates: dict[str, Any] = {"request_rate": {"units": "queries/s", "mean": per_s}}
    latency: dict[str, Any] = {"request_latency": _statistics(found.latency, "s")}
    requests: dict[str, Any] = {
        "total": found.request_count + found.failed_count,
        "failures": found.failed_count,
    }
    if streaming is not None:
        latency["time_to_first_token"] = _statistics(streaming.first, "s")
        latency["inter_token_latency"] = _statistics(streaming.gaps, "s/token")
    if tokens is not None:
        latency["time_per_output_token"] = _statistics(tokens.between, "s/token")
        requests["output_length"] = _statistics(tokens.per_answer, "count", tokens.output)
        rates["output_token_rate"] = {"units": "tokens/s", "mean": tokens.output_per_s}
        if tokens.prompt:
            requests["input_length"] = _statistics(tokens.per_prompt, "count", tokens.prompt)
            rates["input_token_rate"] = {"units": "tokens/s", "mean": tokens.prompt_per_s}
            rates["total_token_rate"] = {
                "units": "tokens/s",
                "mean": tokens.prompt_per_s + tokens.output_per_s,
            }
    return {"requests": known(requests), "latency": known(latency), "throughput": rates}


def _statistics(found: Distribution, units: str, total: int | None = None) -> dict[str, Any] | None:
    if not found.count:
        return None
    unit = 1 if units == "count" else NS_PER_S
    return known(
        {
            "units": units,
            "mean": found.mean_ns / unit if total is None else total / found.count,
            "stddev": in_unit(found.std_ns, unit),
            "min": in_unit(found.min_ns, unit),
            **percentiles(found, unit, PERCENTILES),
            "max": in_unit(found.max_ns, unit),
        }
    )
