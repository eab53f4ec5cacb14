"""What a diagnosis knows of a server that makes text: its loads, and each thing that can limit it with the evidence."""

from dataclasses import dataclass
from typing import Literal

from inferometer.base.units import NS_PER_S
from inferometer.stats.measurement import Distribution, Level, LlmServerFigures

PREFILL = "prefill"  # reading prompts takes the server's time
DECODE = "decode"  # making tokens does
KV_CACHE = "kv cache"  # no more sequences fit into the KV cache
QUICK = 10  # percentile
SLOTS = "slots"  # to change: how many requests the server runs at once

State = Literal["limits", "has room", "not known"]


@dataclass(frozen=True, slots=True)
class ServingLevel:
    """One load of an endpoint that makes text; None is what was not seen."""

    concurrency: int
    requests_per_s: float
    latency_ns: float
    output_per_s: float | None = None  # tokens
    prompt_per_s: float | None = None
    answer_tokens: float | None = None  # mean of the answers
    prompt_tokens: float | None = None
    first_ns: float | None = None  # mean time to the first token
    between_ns: float | None = None  # mean time from one token to the next
    quick_first_ns: float | None = (
        None  # time to the first token that one in ten stays below: hardly disturbed
    )
    quick_between_ns: float | None = None  # the same of the time from one token to the next
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


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One thing that can limit, and what speaks for or against it."""

    kind: str  # prefill, decode, kv cache, queue or client
    state: State
    evidence: str
    used: float | None = None  # how much of it is in use, as a share
    bound: float | None = None  # requests/s that it allows by itself; never below what was measured


@dataclass(frozen=True, slots=True)
class Serving:
    """The evidence of a diagnosis of a server that makes text."""

    levels: tuple[ServingLevel, ...]
    checks: tuple[LimitCheck, ...]
    server: str | None = None  # that gave metrics of its own
    at_once: int | None = None  # most requests that it ran at once, where there were more
    fitting: int | None = None  # sequences of this length that fit into its KV cache
    advice: tuple[str, ...] = ()  # what would help, without a prediction


def _quick_ns(times: Distribution) -> float | None:
    return float(times.percentile_ns(QUICK)) if times.count else None


def maybe_serving_level(level: Level) -> ServingLevel | None:
    """What the diagnosis needs of a measured level; None where nothing ended well."""
    found = level.measurement
    if found is None or not found.request_count:
        return None
    tokens, streaming = found.tokens, found.streaming
    counted_per_s = found.infer_per_s.value / found.batch
    # Requests of one load often end in waves, of which a short time has one more or one less. Their latency does not
    # depend on that, and where a closed loop answers all, load / latency is its throughput (Little's law).
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
