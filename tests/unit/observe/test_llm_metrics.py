"""Metrics pages of LLM servers, read by their documented names."""

import dataclasses

import pytest

from inferometer.base.units import NS_PER_S
from inferometer.observe.llm_metrics import (
    LLAMA_CPP,
    SGLANG,
    TABLE,
    TENSORRT_LLM,
    VLLM,
    LlmReading,
    maybe_llm_reading,
    was_restarted,
)
from inferometer.observe.metrics import Sample, sample
from inferometer.stats.llm_server import maybe_llm_server
from inferometer.wire.prometheus import metric_lines

VLLM_PAGE = """\
# HELP vllm:num_requests_running Requests in the batches of the model.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/model"} 12.0
vllm:num_requests_running{engine="1",model_name="org/model"} 10.0
vllm:num_requests_waiting{engine="0",model_name="org/model"} 3.0
vllm:num_requests_waiting{engine="1",model_name="org/model"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/model"} 0.75
vllm:kv_cache_usage_perc{engine="1",model_name="org/model"} 0.25
vllm:num_preemptions_total{engine="0",model_name="org/model"} 7.0
vllm:num_preemptions_created{engine="0",model_name="org/model"} 1.7e+09
vllm:prefix_cache_queries_total{engine="0",model_name="org/model"} 4000.0
vllm:prefix_cache_hits_total{engine="0",model_name="org/model"} 1000.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="org/model"} 55.0
vllm:prompt_tokens_total{engine="0",model_name="org/model"} 4000.0
vllm:generation_tokens_total{engine="0",model_name="org/model"} 2500.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="org/model"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="org/model"} 240.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="500"} 1.0
"""
OLD_VLLM_PAGE = """\
vllm:num_requests_running{model_name="m"} 2.0
vllm:num_requests_swapped{model_name="m"} 0.0
vllm:num_requests_waiting{model_name="m"} 1.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:cpu_cache_usage_perc{model_name="m"} 0.0
vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0
"""
SGLANG_PAGE = """\
sglang:num_running_reqs{model_name="m",engine_type="unified",tp_rank="0",pp_rank="0"} 9.0
sglang:num_running_reqs{model_name="m",engine_type="unified",tp_rank="1",pp_rank="0"} 9.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 4.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 170000.0
sglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 2.0
sglang:prompt_tokens_total{model_name="m"} 8000.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 1500.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 500.0
sglang:generation_tokens_total{model_name="m"} 7000.0
sglang:cache_hit_rate{model_name="m",tp_rank="0"} 0.9
sglang:spec_accept_rate{model_name="m",tp_rank="0"} 0.6
sglang:gen_throughput{model_name="m",tp_rank="0"} 86.5
"""
TRITON_PAGE = """\
nv_inference_request_success{model="tensorrt_llm",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 5
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 8
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 13
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1560
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 4680
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6240
nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="generation_requests",version="1"} 7
"""
TRTLLM_SERVE_PAGE = """\
trtllm_num_requests_running{engine_type="undefined",model_name="m"} 3
trtllm_num_requests_waiting{engine_type="undefined",model_name="m"} 1
trtllm_kv_cache_utilization{engine_type="undefined",model_name="m"} 0.4
trtllm_kv_cache_hit_rate{engine_type="undefined",model_name="m"} 0.1
trtllm_kv_cache_max_blocks{engine_type="undefined",model_name="m"} 100
trtllm_kv_cache_tokens_per_block{engine_type="undefined",model_name="m"} 32
"""
LLAMA_PAGE = """\
# HELP llamacpp:prompt_tokens_total Prompt tokens that were computed
llamacpp:prompt_tokens_total 120
llamacpp:prompt_tokens_cached_total 80
llamacpp:tokens_predicted_total 50
llamacpp:n_decode_total 44
llamacpp:spec_decode_num_draft_tokens_total 0
llamacpp:spec_decode_num_accepted_tokens_total 0
llamacpp:predicted_tokens_seconds nan
llamacpp:requests_processing 4
llamacpp:requests_deferred 2
llamacpp:n_busy_slots_per_decode 3.1
"""
OLD_LLAMA_PAGE = """\
llamacpp:prompt_tokens_total 120
llamacpp:tokens_predicted_total 50
llamacpp:kv_cache_usage_ratio 0.25
llamacpp:kv_cache_tokens 1024
llamacpp:requests_processing 1
llamacpp:requests_deferred 0
"""

PAGES = [
    (
        VLLM_PAGE,
        LlmReading(
            VLLM, running=22, waiting=3, kv_cache_use=0.5, kv_blocks=1500, kv_block_tokens=16, kv_tokens=24_000,
            preemptions=7, prompt_tokens=4000, prefix_queries=4000, prefix_hits=1000, generated_tokens=2500,
            draft_tokens=300, accepted_tokens=240,
        ),
    ),
    (OLD_VLLM_PAGE, LlmReading(VLLM, running=2, waiting=1, kv_cache_use=0.5, kv_block_tokens=16)),
    (
        SGLANG_PAGE,
        LlmReading(
            SGLANG, running=9, waiting=4, kv_cache_use=0.28, kv_tokens=170_000, preemptions=2, prompt_tokens=8000,
            prefix_queries=8000, prefix_hits=2000, prefix_share=0.9, generated_tokens=7000, accepted_share=0.6,
        ),
    ),
    (
        TRITON_PAGE,
        LlmReading(
            TENSORRT_LLM, running=8, waiting=5, slots=512, kv_cache_use=0.25, kv_blocks=6240, kv_blocks_used=1560,
            kv_block_tokens=64, kv_tokens=399_360,
        ),
    ),
    (
        TRTLLM_SERVE_PAGE,
        LlmReading(
            TENSORRT_LLM, running=3, waiting=1, kv_cache_use=0.4, kv_blocks=100, kv_block_tokens=32, kv_tokens=3200,
            prefix_share=0.1,
        ),
    ),
    (
        LLAMA_PAGE,
        LlmReading(
            LLAMA_CPP, running=4, waiting=2, prompt_tokens=200, prefix_queries=200, prefix_hits=80, prefix_misses=120,
            generated_tokens=50, draft_tokens=0, accepted_tokens=0,
        ),
    ),
    (
        OLD_LLAMA_PAGE,
        LlmReading(LLAMA_CPP, running=1, waiting=0, kv_cache_use=0.25, prefix_misses=120, generated_tokens=50),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("page", "reading"), PAGES)
def test_a_page_is_read_by_the_names_of_its_server(page: str, reading: LlmReading) -> None:
    assert maybe_llm_reading(metric_lines(page)) == reading


@pytest.mark.parametrize(
    "page", ["", "nv_gpu_utilization 0.5\n", "up 1\nvllm_is_near 4\n", '{"not": "metrics"}']
)
def test_other_pages_do_not_belong_to_an_llm_server(page: str) -> None:
    assert maybe_llm_reading(metric_lines(page)) is None
    assert sample(page, at_ns=0).llm is None


def test_every_row_names_a_field_and_no_noun_is_both_counter_and_gauge() -> None:
    nouns = {one.name for one in dataclasses.fields(LlmReading)} - {"server"}
    assert {row.noun for row in TABLE} <= nouns
    kinds: dict[tuple[str, str], set[str]] = {}
    for row in TABLE:
        kinds.setdefault((row.server, row.noun), set()).add(row.kind)
    assert all(len(found) == 1 for found in kinds.values())


# --- a level


def looks(*pages: str) -> list[Sample]:
    return [sample(page, at_ns=number * NS_PER_S) for number, page in enumerate(pages)]


def test_gauges_are_means_and_counters_differences() -> None:
    later = VLLM_PAGE
    for name, old, new in (
        ("num_requests_running", 12, 20),
        ("generation_tokens_total", 2500, 2900),
        ("num_preemptions_total", 7, 9),
        ("prefix_cache_hits_total", 1000, 1600),
        ("prefix_cache_queries_total", 4000, 6000),
    ):
        labels = '{engine="0",model_name="org/model"}'
        assert f"vllm:{name}{labels} {old}.0" in later
        later = later.replace(f"vllm:{name}{labels} {old}.0", f"vllm:{name}{labels} {new}.0")
    found = maybe_llm_server(looks(VLLM_PAGE, later))
    assert found is not None
    assert (found.running_mean, found.running_max, found.present_max) == (26, 30, 33)
    assert (found.preemptions, found.generated_per_s, found.prefix_hits, found.prefix_share) == (
        2,
        400,
        600,
        0.3,
    )
    assert (found.kv_tokens, found.kv_cache_max, found.was_restarted) == (24_000, 0.5, False)
    assert found.draft_tokens == 0
    assert found.accepted_share is None  # nothing was drafted meanwhile


@pytest.mark.parametrize(
    ("server", "queue", "prefill"),
    [
        (
            "vllm:num_requests_running 1.0",
            "vllm:request_queue_time_seconds",
            "vllm:request_prefill_time_seconds",
        ),
        ("sglang:num_running_reqs 1.0", "sglang:queue_time_seconds", None),
    ],
)
def test_queue_and_prefill_times_are_means_over_requests_between_the_polls(
    server: str, queue: str, prefill: str | None
) -> None:
    def page(queue_s: float, queued: int, prefill_s: float, prefilled: int) -> str:
        rows = [server, f"{queue}_sum {queue_s}", f"{queue}_count {queued}", f'{queue}_bucket{{le="1.0"}} 3']
        if prefill is not None:
            rows += [f"{prefill}_sum {prefill_s}", f"{prefill}_count {prefilled}"]
        return "".join(f"{row}\n" for row in rows)

    found = maybe_llm_server(looks(page(1.0, 10, 2.0, 10), page(7.0, 30, 3.0, 20)))
    assert found is not None
    assert (found.queue_ns, found.prefill_ns) == (3e8, None if prefill is None else 1e8)
    idle = maybe_llm_server(looks(page(1.0, 10, 2.0, 10), page(1.0, 10, 2.0, 10)))
    assert idle is not None
    assert (idle.queue_ns, idle.prefill_ns) == (None, None)


def test_a_restart_is_detected_even_if_counters_exceed_their_old_values() -> None:
    pages = [VLLM_PAGE.replace("} 2500.0", f"}} {count}.0") for count in (2500, 10, 9000)]
    found = maybe_llm_server(looks(*pages))
    assert found is not None
    assert found.was_restarted
    assert (found.generated_per_s, found.preemptions, found.prefix_share) == (None, None, None)
    assert found.running_mean == 22


def test_another_server_at_the_same_address_is_a_restart() -> None:
    readings = [maybe_llm_reading(metric_lines(page)) for page in (VLLM_PAGE, SGLANG_PAGE)]
    assert was_restarted([row for row in readings if row is not None])


def test_a_single_poll_has_no_counts() -> None:
    found = maybe_llm_server(looks(SGLANG_PAGE))
    assert found is not None
    assert (found.running_mean, found.generated_per_s, found.preemptions) == (9, None, None)
    assert (found.prefix_share, found.accepted_share) == (0.9, 0.6)  # as reported by the server


def test_polls_without_known_metrics_give_no_figures() -> None:
    assert maybe_llm_server(looks("up 1\n")) is None
    assert maybe_llm_server([]) is None
