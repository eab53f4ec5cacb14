"""A simulated LLM server: continuous batching with slots, a KV cache, prefill and decode, in discrete steps.

`Engine.step()` decides the content and the duration of the next step; time is simulated (`sweep`) or real
(`tests.support.llm_server`). `metrics_page` renders the metrics of such a server in the format of vLLM, SGLang,
TensorRT-LLM or llama.cpp.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.serving import ServingLevel
from inferometer.observe.llm_metrics import LLAMA_CPP, SGLANG, TENSORRT_LLM, VLLM
from inferometer.observe.metrics import Sample, sample
from inferometer.stats.llm_server import maybe_llm_server

BLOCK = 16


@dataclass(frozen=True, slots=True)
class EngineSettings:
    prefill_per_s: float = 20_000.0  # prompt tokens
    step_s: float = 0.010  # duration of a decode step with one sequence
    step_per_sequence_s: float = 0.0001  # plus this for each additional one
    slots: int = 1_000
    kv_tokens: int = 1_000_000
    prefill_budget: int = 2_048  # maximum of prompt tokens in one step, except for a single prompt


@dataclass(slots=True, eq=False)
class AskedSequence:
    prompt: int
    answer: int
    made: int = 0
    arrived_s: float = 0.0
    token_times: list[float] = field(default_factory=list)

    @property
    def held(self) -> int:
        """Tokens held in the KV cache."""
        return self.prompt + self.made

    @property
    def is_done(self) -> bool:
        return self.made >= self.answer


@dataclass(slots=True)
class Engine:
    settings: EngineSettings
    waiting: deque[AskedSequence] = field(default_factory=deque)
    running: list[AskedSequence] = field(default_factory=list)
    preemptions: int = 0
    prompt_tokens: int = 0
    generated: int = 0

    def add(self, sequence: AskedSequence) -> None:
        self.waiting.append(sequence)

    @property
    def kv_used(self) -> int:
        return sum(sequence.held for sequence in self.running)

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running

    def step(self) -> float:
        """Admit sequences and return the duration of the step; `finish_step` is called after it."""
        settings, read = self.settings, 0
        while self.waiting and len(self.running) < settings.slots:
            first = self.waiting[0]
            if self.kv_used + len(self.running) + first.held + 1 > settings.kv_tokens:
                break
            if read and read + first.held > settings.prefill_budget:
                break
            self.running.append(self.waiting.popleft())
            read += first.held
            self.prompt_tokens += first.held
        while len(self.running) > 1 and self.kv_used + len(self.running) > settings.kv_tokens:
            self.waiting.appendleft(
                self.running.pop()
            )  # preempt the youngest: it starts again with the tokens it has generated
            self.preemptions += 1
        decode_s = settings.step_s + settings.step_per_sequence_s * max(0, len(self.running) - 1)
        return read / settings.prefill_per_s + decode_s

    def finish_step(self, now_s: float) -> list[AskedSequence]:
        """Add a token to every running sequence; return the finished ones."""
        for sequence in self.running:
            sequence.made += 1
            sequence.token_times.append(now_s)
        self.generated += len(self.running)
        done = [sequence for sequence in self.running if sequence.is_done]
        self.running = [sequence for sequence in self.running if not sequence.is_done]
        return done


# --- what it says of itself


def metrics_page(engine: Engine, dialect: str) -> str:
    settings = engine.settings
    use = engine.kv_used / settings.kv_tokens
    running, waiting = len(engine.running), len(engine.waiting)
    return "".join(
        f"# TYPE {line.partition('{')[0].partition(' ')[0]} untyped\n{line}\n"
        for line in _PAGES[dialect](engine, running, waiting, use)
    )


def _vllm(engine: Engine, running: int, waiting: int, use: float) -> list[str]:
    label = '{engine="0",model_name="tiny"}'
    blocks = engine.settings.kv_tokens // BLOCK
    return [
        f"vllm:num_requests_running{label} {running}.0",
        f"vllm:num_requests_waiting{label} {waiting}.0",
        f"vllm:kv_cache_usage_perc{label} {use}",
        f"vllm:num_preemptions_total{label} {engine.preemptions}.0",
        f"vllm:prefix_cache_queries_total{label} {engine.prompt_tokens}.0",
        f"vllm:prefix_cache_hits_total{label} 0.0",
        f"vllm:prompt_tokens_total{label} {engine.prompt_tokens}.0",
        f"vllm:generation_tokens_total{label} {engine.generated}.0",
        f'vllm:cache_config_info{{block_size="{BLOCK}",engine="0",num_gpu_blocks="{blocks}"}} 1.0',
    ]


def _sglang(engine: Engine, running: int, waiting: int, use: float) -> list[str]:
    label = '{model_name="tiny",tp_rank="0"}'
    return [
        f"sglang:num_running_reqs{label} {running}.0",
        f"sglang:num_queue_reqs{label} {waiting}.0",
        f"sglang:token_usage{label} {use:.2f}",
        f"sglang:max_total_num_tokens{label} {engine.settings.kv_tokens}.0",
        f"sglang:num_retracted_requests_total{label} {engine.preemptions}.0",
        f"sglang:prompt_tokens_total{label} {engine.prompt_tokens}.0",
        f"sglang:generation_tokens_total{label} {engine.generated}.0",
        f"sglang:cache_hit_rate{label} 0.0",
    ]


def _tensorrt(engine: Engine, running: int, waiting: int, use: float) -> list[str]:
    blocks = engine.settings.kv_tokens // BLOCK

    def line(name: str, label: str, kind: str, value: float) -> str:
        return f'nv_trt_llm_{name}{{{label}="{kind}",model="tensorrt_llm",version="1"}} {value}'

    requests = {"scheduled": running, "waiting": waiting, "active": running + waiting}
    parts = {
        "max": blocks,
        "used": round(use * blocks),
        "free": blocks - round(use * blocks),
        "tokens_per": BLOCK,
    }
    return [
        *(line("request_metrics", "request_type", kind, value) for kind, value in requests.items()),
        *(
            line("kv_cache_block_metrics", "kv_cache_block_type", kind, value)
            for kind, value in parts.items()
        ),
    ]


def _llama(engine: Engine, running: int, waiting: int, use: float) -> list[str]:
    return [
        f"llamacpp:prompt_tokens_total {engine.prompt_tokens}",
        f"llamacpp:tokens_predicted_total {engine.generated}",
        f"llamacpp:kv_cache_usage_ratio {use:.6f}",
        f"llamacpp:requests_processing {running}",
        f"llamacpp:requests_deferred {waiting}",
        "llamacpp:predicted_tokens_seconds nan",
    ]


_PAGES: dict[str, Callable[[Engine, int, int, float], list[str]]] = {
    VLLM: _vllm,
    SGLANG: _sglang,
    TENSORRT_LLM: _tensorrt,
    LLAMA_CPP: _llama,
}
DIALECTS = tuple(_PAGES)


# --- simulated load


@dataclass(frozen=True, slots=True)
class Traffic:
    prompt: int = 500
    answer: int = 100
    spread: float = 0.2  # relative spread of the lengths

    def draw(self, source: random.Random) -> AskedSequence:
        def around(length: int) -> int:
            return max(2, round(length * source.uniform(1 - self.spread, 1 + self.spread)))

        return AskedSequence(around(self.prompt), around(self.answer))


def simulated_level(
    settings: EngineSettings,
    traffic: Traffic,
    concurrency: int,
    *,
    seed: int,
    dialect: str | None,
    looks_s: float = 0.2,
) -> ServingLevel:
    """Simulate a closed loop, measured for six waves after a warm-up of two."""
    source = random.Random(f"{seed} {concurrency}")
    engine, now_s, next_look_s = Engine(settings), 0.0, 0.0
    done: list[tuple[float, AskedSequence]] = []
    samples: list[Sample] = []
    started_s = 0.0
    warm, wanted = 2 * concurrency, max(8 * concurrency, 30)

    def ask() -> None:
        sequence = traffic.draw(source)
        sequence.arrived_s = now_s
        engine.add(sequence)

    for _ in range(concurrency):
        ask()
    while len(done) < wanted:
        took_s = engine.step()
        while dialect is not None and next_look_s <= now_s + took_s:
            page = metrics_page(engine, dialect)
            if len(done) >= warm:
                samples.append(sample(page, at_ns=round(next_look_s * NS_PER_S)))
            next_look_s += looks_s
        now_s += took_s
        for sequence in engine.finish_step(now_s):
            done.append((now_s, sequence))
            if len(done) == warm:
                started_s = now_s
            ask()
    return _level(concurrency, [row for _, row in done[warm:]], now_s - started_s, samples)


def _level(
    concurrency: int, rows: Sequence[AskedSequence], elapsed_s: float, samples: Sequence[Sample]
) -> ServingLevel:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return ServingLevel(
        concurrency=concurrency,
        requests_per_s=len(rows) / elapsed_s,
        latency_ns=mean([row.token_times[-1] - row.arrived_s for row in rows]) * NS_PER_S,
        output_per_s=sum(row.answer for row in rows) / elapsed_s,
        prompt_per_s=sum(row.prompt for row in rows) / elapsed_s,
        answer_tokens=mean([row.answer for row in rows]),
        prompt_tokens=mean([row.prompt for row in rows]),
        first_ns=mean([row.token_times[0] - row.arrived_s for row in rows]) * NS_PER_S,
        between_ns=mean([(row.token_times[-1] - row.token_times[0]) / (row.answer - 1) for row in rows])
        * NS_PER_S,
        server=maybe_llm_server(samples),
    )


def simulated_sweep(
    settings: EngineSettings, traffic: Traffic, *, seed: int, dialect: str | None, most: int = 256
) -> tuple[ServingLevel, ...]:
    """Double the load as long as throughput grows, like `diagnose`."""
    levels = [simulated_level(settings, traffic, load, seed=seed, dialect=dialect) for load in (1, 2, 4, 8)]
    while levels[-1].concurrency < most and levels[-1].requests_per_s > 1.1 * levels[-2].requests_per_s:
        load = 2 * levels[-1].concurrency
        levels.append(simulated_level(settings, traffic, load, seed=seed, dialect=dialect))
    return tuple(levels)
