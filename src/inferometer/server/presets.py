"""Known servers: the options that matter for their speed, their usual values, and how each shows that it is ready.

The options are those of each server's documentation. A placeholder with one of these names needs no `--vary`.
`docs/tune-any-server.md` says which of them were run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.server.ready import ReadyCheck


@frozen
class PresetKnob:
    """An option of a server: its spelling in the command, the values to try, and the first of them, which is the
    server's own default if that is documented and fixed."""

    option: str
    values: tuple[Any, ...]
    default: Any = None
    short: str = ""  # another name of the option


@frozen
class Preset:
    """A known server."""

    title: str
    kind: str  # service kind
    example: str  # command with its main knobs
    marks: tuple[tuple[str, ...], ...]  # words at the start of its command, one of these rows
    ready: ReadyCheck
    knobs: Mapping[str, PresetKnob] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()  # apply if all their names are varied
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that every start needs
    at_once: str = ""  # knob for the number of requests that run at once
    memory: str = ""  # knob for the memory of the KV cache; more is more


_HEALTH = ReadyCheck(path="/health")

PRESETS: Mapping[str, Preset] = {
    "vllm": Preset(
        "vLLM",
        "openai",
        "vllm serve MODEL --port {port} --max-num-seqs {max_num_seqs} "
        "--max-num-batched-tokens {max_num_batched_tokens}",
        (("vllm", "serve"), ("vllm.entrypoints.openai.api_server",)),
        _HEALTH,
        {
            "max_num_seqs": PresetKnob("--max-num-seqs", (16, 32, 64, 128, 256, 512), 128),
            "max_num_batched_tokens": PresetKnob(
                "--max-num-batched-tokens", (1024, 2048, 4096, 8192, 16384), 2048
            ),
            "block_size": PresetKnob("--block-size", (16, 32), 16),
            "gpu_memory_utilization": PresetKnob("--gpu-memory-utilization", (0.8, 0.85, 0.9, 0.95), 0.9),
            "prefix_caching": PresetKnob(
                "", ("--enable-prefix-caching", "--no-enable-prefix-caching"), "--enable-prefix-caching"
            ),
            "eager": PresetKnob("", ("", "--enforce-eager"), ""),
        },
        conditions=("max_num_batched_tokens >= max_num_seqs",),
        at_once="max_num_seqs",
        memory="gpu_memory_utilization",
    ),
    "sglang": Preset(
        "SGLang",
        "openai",
        "python -m sglang.launch_server --model-path MODEL --port {port} "
        "--max-running-requests {max_running_requests} --chunked-prefill-size {chunked_prefill_size}",
        (("sglang.launch_server",), ("sglang", "serve")),
        _HEALTH,
        {
            "max_running_requests": PresetKnob("--max-running-requests", (16, 32, 64, 128, 256, 512)),
            "chunked_prefill_size": PresetKnob("--chunked-prefill-size", (2048, 4096, 8192, 16384), 8192),
            "mem_fraction_static": PresetKnob("--mem-fraction-static", (0.75, 0.8, 0.85, 0.9)),
            "schedule_policy": PresetKnob("--schedule-policy", ("fcfs", "lpm"), "fcfs"),
            "schedule_conservativeness": PresetKnob("--schedule-conservativeness", (0.3, 0.6, 1.0, 1.3), 1.0),
        },
        at_once="max_running_requests",
        memory="mem_fraction_static",
    ),
    "trtllm": Preset(
        "TensorRT-LLM",
        "openai",
        "trtllm-serve MODEL --port {port} --max_batch_size {max_batch_size} --max_num_tokens {max_num_tokens}",
        (("trtllm-serve",),),
        _HEALTH,
        {
            "max_batch_size": PresetKnob("--max_batch_size", (16, 32, 64, 128, 256, 512, 1024, 2048), 256),
            "max_num_tokens": PresetKnob("--max_num_tokens", (2048, 4096, 8192, 16384), 8192),
            "kv_cache_free_gpu_memory_fraction": PresetKnob(
                "--kv_cache_free_gpu_memory_fraction", (0.8, 0.85, 0.9, 0.95), 0.9
            ),
        },
        at_once="max_batch_size",
        memory="kv_cache_free_gpu_memory_fraction",
    ),
    "llamacpp": Preset(
        "llama.cpp",
        "openai",
        "llama-server -m MODEL.gguf --port {port} --parallel {parallel} --batch-size {batch_size} "
        "--ubatch-size {ubatch_size}",
        (("llama-server",),),
        _HEALTH,
        {
            "parallel": PresetKnob("--parallel", (1, 2, 4, 8, 16), 4, short="-np"),
            "batch_size": PresetKnob("--batch-size", (256, 512, 1024, 2048, 4096), 2048),
            "ubatch_size": PresetKnob("--ubatch-size", (128, 256, 512, 1024), 512),
            "threads": PresetKnob("--threads", (1, 2, 4, 8)),
            "cont_batching": PresetKnob("", ("--cont-batching", "--no-cont-batching"), "--cont-batching"),
        },
        conditions=("ubatch_size <= batch_size",),
        at_once="parallel",
    ),
    "transformers": Preset(
        "transformers serve",
        "openai",
        "transformers serve MODEL --port {port} --continuous-batching --cb-max-batch-tokens {cb_max_batch_tokens}",
        (("transformers", "serve"),),
        ReadyCheck(),
        {
            "cb_max_batch_tokens": PresetKnob("--cb-max-batch-tokens", (256, 512, 1024, 2048)),
            "cb_block_size": PresetKnob("--cb-block-size", (16, 32, 64, 128, 256)),
            "cb_num_blocks": PresetKnob("--cb-num-blocks", (256, 512, 1024, 2048)),
            "cb_cuda_graph": PresetKnob("", ("", "--cb-use-cuda-graph"), ""),
        },
    ),
    "torchserve": Preset(
        "TorchServe",
        "torchserve",
        "torchserve --foreground --disable-token-auth --model-store STORE --models m.mar --ts-config {config}",
        (("torchserve",),),
        ReadyCheck(path="/ping"),
        {
            "default_workers_per_model": PresetKnob("default_workers_per_model=", (1, 2, 4, 8)),
            "job_queue_size": PresetKnob("job_queue_size=", (100, 1000), 100),
            "netty_threads": PresetKnob("number_of_netty_threads=", (1, 2, 4, 8)),
        },
    ),
    "mlserver": Preset(
        "MLServer",
        "triton",
        "mlserver start FOLDER",
        (("mlserver", "start"),),
        ReadyCheck(path="/v2/health/ready"),
        {
            "parallel_workers": PresetKnob("MLSERVER_PARALLEL_WORKERS=", (0, 1, 2, 4, 8), 1),
            "max_batch_size": PresetKnob("MLSERVER_MODEL_MAX_BATCH_SIZE=", (0, 2, 4, 8, 16, 32), 0),
            "max_batch_time": PresetKnob("MLSERVER_MODEL_MAX_BATCH_TIME=", (0.0, 0.001, 0.01, 0.1), 0.0),
        },
        environment={
            "MLSERVER_HTTP_PORT": "{port}",
            "MLSERVER_GRPC_PORT": "{port_grpc}",
            "MLSERVER_METRICS_PORT": "{port_metrics}",
        },
    ),
}


def maybe_preset(words: Sequence[str]) -> Preset | None:
    """Return the preset of the server that a command starts, also by `python -m` or through `env`."""
    names = [Path(word).name for word in words]
    for preset in PRESETS.values():
        for row in preset.marks:
            starts = range(len(names) - len(row) + 1)
            if any(tuple(names[start : start + len(row)]) == row for start in starts):
                return preset
    return None


def option_value(words: Sequence[str], knob: PresetKnob) -> str | None:
    """Return the value of an option in a command; None if it is not given."""
    place = _maybe_place(words, knob)
    if place is None:
        return None
    _, sign, value = words[place].partition("=")
    return value if sign else words[place + 1] if place + 1 < len(words) else ""


def with_option(words: Sequence[str], knob: PresetKnob, value: object) -> tuple[str, ...]:
    """Return the command with this value of the option, which is appended if it is not given."""
    place = _maybe_place(words, knob)
    if place is None:
        return (*words, knob.option, str(value))
    name, sign, _ = words[place].partition("=")
    given = (f"{name}={value}",) if sign else (name, str(value))
    return (*words[:place], *given, *words[place + len(given) :])


def _maybe_place(words: Sequence[str], knob: PresetKnob) -> int | None:
    """Return the position of the last word that names the option, as the last one counts."""
    names = {knob.option.replace("_", "-"), knob.short} - {""}
    places = [n for n, word in enumerate(words) if word.partition("=")[0].replace("_", "-") in names]
    return places[-1] if places else None
