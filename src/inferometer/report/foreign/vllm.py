"""The result of `vllm bench serve`, with the lists of `--save-detailed` if individual requests are known."""

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S, plain_number
from inferometer.report.foreign.figures import Written, in_unit, known
from inferometer.stats.estimate import Distribution

_PERCENTILES = (90.0, 95.0, 99.0)
_BURSTINESS = {"poisson": 1.0}  # a constant rate would be infinite


def files(written: Written) -> Iterator[tuple[str, str]]:
    yield "vllm_bench_serve.json", json.dumps(_document(written)) + "\n"


def _document(written: Written) -> dict[str, Any]:
    found, level = written.measurement, written.level
    tokens, streaming = found.tokens, found.streaming
    seconds = found.duration_ns / NS_PER_S
    is_rate = level.mode == "request_rate"
    times = {
        "ttft": None if streaming is None else streaming.first,
        "tpot": None if tokens is None else tokens.between,
        "itl": None if streaming is None else streaming.gaps,
        "e2el": found.latency,
    }
    output, prompt = (0, 0) if tokens is None else (tokens.output, tokens.prompt)
    fields = {
        "date": _date(written.result.started_at),
        "backend": "openai",
        "model_id": str(written.result.model.get("name", "")),
        "num_prompts": found.request_count + found.failed_count,
        "request_rate": level.value if is_rate else "inf",
        "burstiness": _BURSTINESS.get(written.result.effective.distribution) if is_rate else None,
        "max_concurrency": round(level.value) if level.mode == "concurrency" else None,
        "duration": seconds,
        "completed": found.request_count,
        "failed": found.failed_count,
        "total_input_tokens": prompt,
        "total_output_tokens": output,
        "request_throughput": found.infer_per_s.value / found.batch,
        "output_throughput": None if tokens is None else tokens.output_per_s,
        "total_token_throughput": None if tokens is None else tokens.output_per_s + tokens.prompt_per_s,
    }
    for name, times_ns in times.items():
        if times_ns is not None and times_ns.count:
            fields |= _times(name, times_ns)
    return known(fields) | _lists(written)


def _date(started_at: str) -> str | None:
    try:
        return datetime.fromisoformat(started_at).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return None


def _times(name: str, found: Distribution) -> dict[str, float | None]:
    ends = {
        f"p{plain_number(p)}_{name}_ms": in_unit(found.maybe_percentile_ns(p), NS_PER_MS)
        for p in _PERCENTILES
    }
    return {
        f"mean_{name}_ms": found.mean_ns / NS_PER_MS,
        f"median_{name}_ms": in_unit(found.maybe_percentile_ns(50.0), NS_PER_MS),
        f"std_{name}_ms": in_unit(found.std_ns, NS_PER_MS),
        **ends,
    }


def _lists(written: Written) -> dict[str, list[Any]]:
    """Return the lists, if every successful request has the times of its responses, as vLLM's requests do."""
    rows = sorted(written.requests, key=lambda row: row.start_ns)
    if not rows or any(not row.times_ns for row in rows if row.status == status.OK):
        return {}
    origin = rows[0].start_ns
    return {
        "input_lens": [row.prompt_tokens for row in rows],
        "output_lens": [row.tokens for row in rows],
        "ttfts": [max(0, row.first_ns - row.start_ns) / NS_PER_S if row.first_ns else 0.0 for row in rows],
        "itls": [[(after - before) / NS_PER_S for before, after in pairwise(row.times_ns)] for row in rows],
        "start_times": [(row.start_ns - origin) / NS_PER_S for row in rows],
        "errors": ["" if row.status == status.OK else row.message or status.kind(row.status) for row in rows],
    }
