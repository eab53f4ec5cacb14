"""Diagnosis data of a server that generates text: its loads, and each possible limit with the evidence."""

from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.stats.estimate import Distribution
from inferometer.stats.machine_figures import LlmServerFigures
from inferometer.stats.measurement import Level

PREFILL = "prefill"  # reading prompts takes the server's time
DECODE = "decode"  # generating tokens takes it
KV_CACHE = "kv cache"  # no more sequences fit into the KV cache
QUICK = 10  # percentile
SLOTS = "slots"  # changes the number of requests that the server runs at once

State = Literal["limits", "has room", "not known"]


@frozen
class ServingLevel:
    """One load of an endpoint that generates text; None for figures that were not observed."""

    concurrency: int
    requests_per_s: float
    latency_ns: float
    output_per_s: float | None = None  # tokens
    prompt_per_s: float | None = None
    answer_tokens: float | None = None  # mean per answer
    prompt_tokens: float | None = None
    first_ns: float | None = None  # mean time to first token
    between_ns: float | None = None  # mean time between tokens
    quick_first_ns: float | None = None  # 10th percentile of the time to first token: hardly disturbed
    quick_between_ns: float | None = None  # the same for the time between tokens
    server: LlmServerFigures | None = None

    @property
    def latency_s(self) -> float:
        return self.latency_ns / NS_PER_S

    @property
    def first_s(self) -> float | None:
        return None if self.first_ns is None else self.first_ns / NS_PER_S

    @property
    def between_s(self) -> float | None:
        return None if self.between_ns is None else self.between_ns / NS_PER_S


@frozen
class LimitCheck:
    """A possible limit, with the evidence for or against it."""

    kind: str  # prefill, decode, kv cache, queue or client
    state: State
    evidence: str
    used: float | None = None  # share in use
    bound: float | None = None  # requests/s that this limit allows on its own; never below the measured rate


@frozen
class Serving:
    """The evidence in the diagnosis of a server that generates text."""

    levels: tuple[ServingLevel, ...]
    checks: tuple[LimitCheck, ...]
    server: str | None = None  # kind of server that provided metrics
    at_once: int | None = None  # most requests that it ran at once, if more were in flight
    fitting: int | None = None  # sequences of this length that fit into its KV cache
    advice: tuple[str, ...] = ()  # further advice, without a prediction


def _quick_ns(times: Distribution) -> float | None:
    return float(times.percentile_ns(QUICK)) if times.count else None


def maybe_serving_level(level: Level) -> ServingLevel | None:
    """Return the figures that a diagnosis needs from a level; None if no request succeeded."""
    found = level.measurement
    if found is None or not found.request_count:
        return None
    tokens, streaming = found.tokens, found.streaming
    counted_per_s = found.infer_per_s.value / found.batch
    # Requests of one load often end in waves, and a short measurement may contain one more or less. Their latency is
    # not affected, and if a closed loop answers all requests, load / latency is its throughput (Little's law).
    is_all_good = not found.failed_count and not found.empty_count and found.latency.mean_ns
    per_s = level.value * NS_PER_S / found.latency.mean_ns if is_all_good else counted_per_s
    waves = per_s / counted_per_s if counted_per_s else 1.0
    return ServingLevel(
        concurrency=round(level.value),
        requests_per_s=per_s,
        latency_ns=found.latency.mean_ns,
        output_per_s=None if tokens is None or not tokens.output else tokens.output_per_s * waves,
        prompt_per_s=None if tokens is None or not tokens.prompt else tokens.prompt_per_s * waves,
        answer_tokens=None if tokens is None or not tokens.output else tokens.per_answer.mean_ns,
        prompt_tokens=None if tokens is None or not tokens.prompt else tokens.per_prompt.mean_ns,
        first_ns=None if streaming is None or not streaming.first.count else streaming.first.mean_ns,
        between_ns=None if tokens is None or not tokens.between.count else tokens.between.mean_ns,
        quick_first_ns=None if streaming is None else _quick_ns(streaming.first),
        quick_between_ns=None if tokens is None else _quick_ns(tokens.between),
        server=None if found.metrics is None else found.metrics.llm,
    )
