"""Prometheus metrics of LLM servers: a table of names, and parsing by it.

The names are those of vLLM 0.5 to 0.32, SGLang 0.4 to 0.5, the TensorRT-LLM backend of Triton (r24 and later),
`trtllm-serve` 1.x, and llama.cpp (`--metrics`; builds since mid-2025 no longer report their KV cache). Figures that a
server does not report stay unknown; they are never guessed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.wire.prometheus import MetricLine

VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP = "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp"

Kind = Literal["gauge", "counter"]
Joining = Literal["sum", "mean"]
"""How to combine several engines of one server."""


@frozen
class NamedMetric:
    """A row: the name under which one server reports a figure."""

    server: str
    noun: str  # a field of LlmReading
    names: tuple[str, ...]  # newest first: the first one found on a page counts
    kind: Kind
    unit: str
    labels: Mapping[str, str] = field(default_factory=dict)  # required on the line
    value_label: str = ""  # take the value from this label instead of the line
    joining: Joining = "sum"


@frozen
class LlmReading:
    """One poll of an LLM server; None if not reported."""

    server: str
    running: float | None = None  # requests being processed
    waiting: float | None = None  # requests in the queue
    slots: float | None = None  # configured limit of concurrently running requests
    kv_cache_use: float | None = None  # 0 to 1
    kv_blocks: float | None = None
    kv_blocks_used: float | None = None
    kv_block_tokens: float | None = None
    kv_tokens: float | None = None  # capacity of the KV cache
    preemptions: float | None = None  # requests that had to release their KV cache
    prompt_tokens: float | None = None
    prefix_queries: float | None = None  # prompt tokens looked up in the prefix cache
    prefix_hits: float | None = None  # found in it
    prefix_misses: float | None = None  # not found in it
    prefix_share: float | None = None  # hits over queries, if there are no counters
    generated_tokens: float | None = None
    draft_tokens: float | None = None  # proposed by speculative decoding
    accepted_tokens: float | None = None  # accepted ones
    accepted_share: float | None = None  # share of accepted draft tokens, if there are no counters
    queue_s: float | None = None  # total time that requests waited before they ran
    queued: float | None = None  # requests included in that time
    prefill_s: float | None = None  # total time to process prompts
    prefilled: float | None = None  # requests included in that time


def _rows(server: str, kind: Kind, unit: str, **names: str) -> tuple[NamedMetric, ...]:
    """Build rows without labels; several names of a noun are separated by spaces."""
    return tuple(NamedMetric(server, noun, tuple(text.split()), kind, unit) for noun, text in names.items())


def _share(server: str, noun: str, *names: str, **labels: str) -> NamedMetric:
    return NamedMetric(server, noun, names, "gauge", "share", labels, joining="mean")


def _labelled(noun: str, name: str, unit: str, **labels: str) -> NamedMetric:
    return NamedMetric(TENSORRT_LLM, noun, (name,), "gauge", unit, labels)


_REQUESTS, _BLOCKS = "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"
_CACHE_INFO = ("vllm:cache_config_info",)

TABLE: tuple[NamedMetric, ...] = (
    *_rows(
        VLLM, "gauge", "requests", running="vllm:num_requests_running", waiting="vllm:num_requests_waiting"
    ),
    _share(VLLM, "kv_cache_use", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    NamedMetric(VLLM, "kv_blocks", _CACHE_INFO, "gauge", "blocks", value_label="num_gpu_blocks"),
    NamedMetric(
        VLLM, "kv_block_tokens", _CACHE_INFO, "gauge", "tokens", value_label="block_size", joining="mean"
    ),
    *_rows(VLLM, "counter", "requests", preemptions="vllm:num_preemptions_total"),
    *_rows(
        VLLM,
        "counter",
        "tokens",
        prompt_tokens="vllm:prompt_tokens_total",
        prefix_queries="vllm:prefix_cache_queries_total vllm:gpu_prefix_cache_queries_total",
        prefix_hits="vllm:prefix_cache_hits_total vllm:gpu_prefix_cache_hits_total",
        generated_tokens="vllm:generation_tokens_total",
        draft_tokens="vllm:spec_decode_num_draft_tokens_total",
        accepted_tokens="vllm:spec_decode_num_accepted_tokens_total",
    ),
    *_rows(
        VLLM,
        "counter",
        "seconds",
        queue_s="vllm:request_queue_time_seconds_sum",
        prefill_s="vllm:request_prefill_time_seconds_sum",
    ),
    *_rows(
        VLLM,
        "counter",
        "requests",
        queued="vllm:request_queue_time_seconds_count",
        prefilled="vllm:request_prefill_time_seconds_count",
    ),
    _share(VLLM, "prefix_share", "vllm:gpu_prefix_cache_hit_rate"),
    _share(VLLM, "accepted_share", "vllm:spec_decode_draft_acceptance_rate"),
    *_rows(SGLANG, "gauge", "requests", running="sglang:num_running_reqs", waiting="sglang:num_queue_reqs"),
    _share(SGLANG, "kv_cache_use", "sglang:token_usage"),
    *_rows(SGLANG, "gauge", "tokens", kv_tokens="sglang:max_total_num_tokens"),
    *_rows(SGLANG, "counter", "requests", preemptions="sglang:num_retracted_requests_total"),
    *_rows(
        SGLANG,
        "counter",
        "tokens",
        prompt_tokens="sglang:prompt_tokens_total",
        prefix_queries="sglang:prompt_tokens_total",
        prefix_hits="sglang:cached_tokens_total",
        generated_tokens="sglang:generation_tokens_total",
    ),
    *_rows(
        SGLANG,
        "counter",
        "seconds",
        queue_s="sglang:queue_time_seconds_sum sglang:request_queue_time_seconds_sum",
    ),
    *_rows(
        SGLANG,
        "counter",
        "requests",
        queued="sglang:queue_time_seconds_count sglang:request_queue_time_seconds_count",
    ),
    _share(SGLANG, "prefix_share", "sglang:cache_hit_rate"),
    _share(SGLANG, "accepted_share", "sglang:spec_accept_rate"),
    _labelled("running", _REQUESTS, "requests", request_type="scheduled"),
    _labelled("waiting", _REQUESTS, "requests", request_type="waiting"),
    _labelled("slots", _REQUESTS, "requests", request_type="max"),
    _share(TENSORRT_LLM, "kv_cache_use", _BLOCKS, kv_cache_block_type="fraction"),
    _labelled("kv_blocks", _BLOCKS, "blocks", kv_cache_block_type="max"),
    _labelled("kv_blocks_used", _BLOCKS, "blocks", kv_cache_block_type="used"),
    NamedMetric(
        *(TENSORRT_LLM, "kv_block_tokens", (_BLOCKS,), "gauge", "tokens"),
        labels={"kv_cache_block_type": "tokens_per"},
        joining="mean",
    ),
    *_rows(
        TENSORRT_LLM,
        "gauge",
        "requests",
        running="trtllm_num_requests_running",
        waiting="trtllm_num_requests_waiting",
    ),
    _share(TENSORRT_LLM, "kv_cache_use", "trtllm_kv_cache_utilization"),
    *_rows(TENSORRT_LLM, "gauge", "blocks", kv_blocks="trtllm_kv_cache_max_blocks"),
    NamedMetric(
        *(TENSORRT_LLM, "kv_block_tokens", ("trtllm_kv_cache_tokens_per_block",), "gauge", "tokens"),
        joining="mean",
    ),
    _share(TENSORRT_LLM, "prefix_share", "trtllm_kv_cache_hit_rate"),
    *_rows(
        LLAMA_CPP,
        "gauge",
        "requests",
        running="llamacpp:requests_processing",
        waiting="llamacpp:requests_deferred",
    ),
    _share(LLAMA_CPP, "kv_cache_use", "llamacpp:kv_cache_usage_ratio"),
    *_rows(
        LLAMA_CPP,
        "counter",
        "tokens",
        prefix_misses="llamacpp:prompt_tokens_total",  # without cached ones
        prefix_hits="llamacpp:prompt_tokens_cached_total",
        generated_tokens="llamacpp:tokens_predicted_total",
        draft_tokens="llamacpp:spec_decode_num_draft_tokens_total",
        accepted_tokens="llamacpp:spec_decode_num_accepted_tokens_total",
    ),
)

COUNTERS = tuple(dict.fromkeys(row.noun for row in TABLE if row.kind == "counter"))

# With metrics of all schedulers enabled, SGLang reports the same figure for each part of an engine.
_PARTS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank"})


def maybe_llm_reading(lines: Iterable[MetricLine]) -> LlmReading | None:
    """Parse a page; None if no LLM server wrote it."""
    by_name: dict[str, list[MetricLine]] = {}
    for line in lines:
        by_name.setdefault(line.name, []).append(line)
    found: dict[str, dict[str, float]] = {}
    for row in TABLE:
        nouns = found.setdefault(row.server, {})
        value = None if row.noun in nouns else _maybe_value(row, by_name)
        if value is not None:
            nouns[row.noun] = value
    server = max(found, key=lambda name: len(found[name]))
    return LlmReading(server, **_completed(found[server])) if found[server] else None


def _maybe_value(row: NamedMetric, by_name: Mapping[str, Sequence[MetricLine]]) -> float | None:
    for name in row.names:
        lines = [line for line in by_name.get(name, ()) if row.labels.items() <= line.labels.items()]
        engines: dict[frozenset[tuple[str, str]], float] = {}
        for line in lines:
            value = _number(line.labels.get(row.value_label)) if row.value_label else line.value
            if value is not None and (
                row.unit != "share" or 0 <= value <= 1
            ):  # vLLM reports -1 for "not in use"
                key = frozenset(item for item in line.labels.items() if item[0] not in _PARTS)
                engines[key] = max(value, engines.get(key, value))
        if engines:
            total = sum(engines.values())
            return total / len(engines) if row.joining == "mean" else total
    return None


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def _completed(found: dict[str, float]) -> dict[str, float]:
    """Add values derived from blocks, or from hits and misses."""
    blocks = found.get("kv_blocks")
    if "kv_cache_use" not in found and blocks and "kv_blocks_used" in found:
        found["kv_cache_use"] = found["kv_blocks_used"] / blocks
    if "kv_tokens" not in found and blocks and "kv_block_tokens" in found:
        found["kv_tokens"] = blocks * found["kv_block_tokens"]
    if "prefix_misses" in found and "prefix_hits" in found:
        found["prefix_queries"] = found["prompt_tokens"] = found["prefix_misses"] + found["prefix_hits"]
    return found


def was_restarted(readings: Sequence[LlmReading]) -> bool:
    """Return whether a counter decreased, or another server answered, between two polls."""
    return any(
        before.server != after.server or any(_fell(before, after, noun) for noun in COUNTERS)
        for before, after in pairwise(readings)
    )


def _fell(before: LlmReading, after: LlmReading, noun: str) -> bool:
    old, new = getattr(before, noun), getattr(after, noun)
    return old is not None and new is not None and new < old
