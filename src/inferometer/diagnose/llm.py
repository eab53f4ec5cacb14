"""Find the limit of a server that generates text from the figures of a few loads. Pure.

Such a server computes for all its requests together. A prompt costs the time `prefill`, once; after that every step
generates one token for each of the n requests in service, and takes longer the more there are. A request therefore
costs the server

    1 / throughput = per_request + shared / n

where `per_request` is the cost that batching does not reduce (the prefill, and the part of a step that grows with n),
and `shared` the cost that all requests in service share. Both are fitted to the measured loads. Then

* the lightest load shows the prefill: as reported by the server's metrics, or else the 10th percentile of the time to
  first token, minus one step. Other programs on the machine delay some first tokens, but hardly ever make a first token
  early. Throughput x prefill is the share of the server's time spent on prompts (utilisation law), and 1 / prefill is
  the throughput they allow;
* if the number in service stops growing while the load grows, requests queue. That is the limit only if the fit
  predicts more throughput with more in service. The cause is the KV cache if it is full, and a setting otherwise;
* requests that queue in the server have been sent: if its metrics show any, the client is not the limit.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, duration, quantity, rough, share
from inferometer.diagnose.diagnosis import (
    CLIENT,
    CONCURRENCY,
    LIGHT,
    QUEUE,
    UNKNOWN,
    Change,
    CurvePoint,
    Suggestion,
    Verdict,
)
from inferometer.diagnose.loads import GROWING
from inferometer.diagnose.serving import (
    DECODE,
    KV_CACHE,
    PREFILL,
    SLOTS,
    LimitCheck,
    Serving,
    ServingLevel,
    State,
)
from inferometer.observe.llm_metrics import LLAMA_CPP, SGLANG, TENSORRT_LLM, VLLM

WORTH = 0.1  # predicted gain from which queueing is the limit
WAITING = 0.1  # share of the load in the server's queue from which requests count as queueing
FULL = 0.9  # peak usage from which the KV cache counts as full
HALF = 0.5  # share of the server's time from which prompts are the limit
FALLING = 0.2  # relative drop in throughput between loads from which a note is made
LIGHTEST = 2  # requests at once up to which there is hardly any queueing

_SETTINGS = {
    VLLM: "--max-num-seqs",
    SGLANG: "--max-running-requests",
    TENSORRT_LLM: "max_batch_size",
    LLAMA_CPP: "--parallel",
}
_MEMORY = {
    VLLM: "--gpu-memory-utilization, or --kv-cache-dtype fp8, which halves the memory per token",
    SGLANG: "--mem-fraction-static, or --kv-cache-dtype fp8_e5m2, which halves the memory per token",
    TENSORRT_LLM: "kv_cache_free_gpu_mem_fraction, or an 8-bit KV cache, which halves the memory per token",
    LLAMA_CPP: "--ctx-size, or --cache-type-k and --cache-type-v q8_0, which halve the memory per token",
}


@frozen
class LlmConclusion:
    """The conclusions from the figures of a sweep."""

    verdict: Verdict
    serving: Serving
    suggestions: tuple[Suggestion, ...]
    curve: tuple[CurvePoint, ...]
    notes: tuple[str, ...]


@frozen
class RequestCost:
    """Cost of a request to the server as a function of the number in service."""

    per_request_s: float
    shared_s: float

    def throughput(self, in_service: float) -> float:
        each_s = self.per_request_s + self.shared_s / max(in_service, 1.0)
        return 1 / each_s if each_s > 0 else math.inf


@frozen
class _Evidence:
    """The evidence behind verdicts, checks and suggestions."""

    model: str
    levels: tuple[ServingLevel, ...]
    client: str | None  # why the client was the limit, if it was
    cost: RequestCost
    prefill_s: float | None
    at_once: float | None  # requests in service at the top load if others queue; None if none do or unknown
    is_reported: bool  # reported by the server's metrics, not only observed by the client
    kv_is_full: bool | None
    fitting: int | None
    growth: float | None  # relative gain in throughput per doubling of the load

    @property
    def top(self) -> ServingLevel:
        return self.levels[-1]

    @property
    def is_client_limited(self) -> bool:
        return self.client is not None and not waits_inside(self.top)

    @property
    def best(self) -> float:
        return max(level.requests_per_s for level in self.levels)

    @property
    def server(self) -> str | None:
        return None if self.top.server is None else self.top.server.server

    @property
    def prefill_share(self) -> float | None:
        return None if self.prefill_s is None else min(1.0, self.top.requests_per_s * self.prefill_s)

    def with_in_service(self, in_service: float) -> float:
        """Return the throughput expected by the fit, scaled to the measurement at the top load."""
        assert self.at_once is not None
        return self.best * max(1.0, self.cost.throughput(in_service) / self.cost.throughput(self.at_once))

    @property
    def gain_of_more(self) -> float:
        """Throughput gain from doubling the requests in service."""
        return 0.0 if self.at_once is None else self.with_in_service(2 * self.at_once) / self.best - 1


def conclude_llm(levels: Sequence[ServingLevel], model: str, client: str | None = None) -> LlmConclusion:
    """Diagnose one or more measured loads; `client` says why this tool was the limit at the top load, if it was."""
    found = _evidence(tuple(sorted(levels, key=lambda level: level.concurrency)), model, client)
    verdict = _verdict(found)
    checks = tuple(_checks(found, verdict.kind))
    serving = Serving(
        levels=found.levels,
        checks=checks,
        server=found.server,
        at_once=None if found.at_once is None else round(found.at_once),
        fitting=found.fitting,
        advice=tuple(_advice(found, verdict.kind)),
    )
    suggestions = tuple(row for row in _suggestions(found, verdict.kind) if row.gain > 0)
    return LlmConclusion(verdict, serving, suggestions, tuple(_curve(found)), tuple(_notes(found)))


# --- the evidence


def _evidence(levels: tuple[ServingLevel, ...], model: str, client: str | None) -> _Evidence:
    top, best = levels[-1], max(level.requests_per_s for level in levels)
    prefill_s = _maybe_prefill_s(levels, best)
    reported = _reported_at_once(top)
    at_once = reported if reported is not None else _seen_at_once(levels, prefill_s)
    return _Evidence(
        model=model,
        levels=levels,
        client=client,
        cost=_fit([(_in_service(level, levels), level.requests_per_s) for level in levels], prefill_s),
        prefill_s=prefill_s,
        at_once=at_once,
        is_reported=reported is not None,
        kv_is_full=_kv_is_full(top),
        fitting=_maybe_fitting(levels),
        growth=_growth(levels),
    )


def _maybe_prefill_s(levels: Sequence[ServingLevel], best: float) -> float | None:
    """Return the cost of a prompt from the lightest load. Prompts may be read together or be cached, so it is limited
    to what the measured throughput allows."""
    light = levels[0]
    if light.concurrency > LIGHTEST:
        return None
    reported_ns = None if light.server is None else light.server.prefill_ns
    first_ns = next(
        (ns for ns in (reported_ns, light.quick_first_ns, light.first_ns) if ns is not None), None
    )
    if first_ns is None:
        return None
    step_ns = next((ns for ns in (light.quick_between_ns, light.between_ns) if ns is not None), 0.0)
    return min(max(0.0, first_ns - step_ns) / NS_PER_S, 1 / best)


def _reported_at_once(top: ServingLevel) -> float | None:
    """Return how many requests run while others queue, as reported by the server."""
    server = top.server
    if server is None or server.running_mean is None or not server.running_max or not waits_inside(top):
        return None
    # The number of sequences in a full KV cache varies; slots are almost always all taken.
    return max(1.0, server.running_mean) if _kv_is_full(top) else server.running_max


def waits_inside(level: ServingLevel) -> bool:
    """Return whether requests wait in the server's queue according to its metrics, so that the client did send them."""
    server = level.server
    if server is None:
        return False
    waiting = server.waiting_mean
    if waiting is None and server.queue_ns is not None:
        waiting = server.queue_ns / NS_PER_S * level.requests_per_s  # Little's law
    return waiting is not None and waiting >= max(WAITING * level.concurrency, 0.5)


def _seen_at_once(levels: Sequence[ServingLevel], prefill_s: float | None) -> float | None:
    """Return the number of concurrent token streams that the client saw (Little's law), if doubling the load made
    them neither more nor slower although prompts left the server time to spare."""
    if len(levels) < 2 or (levels[-1].server is not None and levels[-1].server.waiting_mean is not None):
        return None  # the server reports that none wait
    before, top = levels[-2:]
    was, now = _streams(before), _streams(top)
    if was is None or now is None or before.between_ns is None or top.between_ns is None:
        return None
    has_more = top.concurrency >= 1.5 * before.concurrency
    is_flat = now <= 1.15 * was and top.between_ns <= 1.15 * before.between_ns
    prompts = 0.0 if prefill_s is None else top.requests_per_s * prefill_s
    is_outside = now + prompts < 0.8 * top.concurrency
    return now + prompts if has_more and is_flat and is_outside else None


def _streams(level: ServingLevel) -> float | None:
    if level.output_per_s is None or level.between_s is None:
        return None
    return level.output_per_s * level.between_s


def _in_service(level: ServingLevel, levels: Sequence[ServingLevel]) -> float:
    """Return the number of requests in service: all of them, unless some are known to wait."""
    server = level.server
    if server is not None and server.running_mean is not None:
        return min(float(level.concurrency), max(1.0, server.running_mean))
    first_s, light_s = level.first_s, levels[0].first_s
    waited_s = 0.0 if first_s is None or light_s is None else max(0.0, first_s - light_s)
    return min(float(level.concurrency), max(1.0, level.requests_per_s * (level.latency_s - waited_s)))


def _fit(points: Sequence[tuple[float, float]], prefill_s: float | None) -> RequestCost:
    """Fit by least squares of the relative error, with both parts non-negative and prompts no cheaper than observed."""
    rows = [(1 / n, 1 / throughput, throughput**2) for n, throughput in points]  # 1/n, cost, weight
    whole = sum(weight for *_, weight in rows)
    mean_x = sum(x * weight for x, _, weight in rows) / whole
    mean_y = sum(y * weight for _, y, weight in rows) / whole
    spread = sum(weight * (x - mean_x) ** 2 for x, _, weight in rows) / whole
    if spread < 1e-12:  # one load: the shared cost is unknown
        return RequestCost(mean_y, 0.0)
    slope = sum(weight * (x - mean_x) * (y - mean_y) for x, y, weight in rows) / whole / spread
    per_request_s = min(max(mean_y - slope * mean_x, prefill_s or 0.0), mean_y)
    return RequestCost(per_request_s, (mean_y - per_request_s) / mean_x)


def _kv_is_full(top: ServingLevel) -> bool | None:
    server = top.server
    if server is None or server.kv_cache_max is None:
        return None
    return server.kv_cache_max >= FULL or bool(server.preemptions)


def _maybe_fitting(levels: Sequence[ServingLevel]) -> int | None:
    """Return how many sequences of this length fit into the KV cache, by its size or by the usage of running
    sequences."""
    top = levels[-1]
    server = top.server
    if server is None:
        return None
    most = max((level.server.running_max or 0.0 for level in levels if level.server is not None), default=0.0)
    if server.kv_tokens and top.prompt_tokens and top.answer_tokens:
        return max(math.floor(server.kv_tokens / (top.prompt_tokens + top.answer_tokens)), math.floor(most))
    if server.kv_cache_mean and server.running_mean:
        return max(math.floor(server.running_mean / server.kv_cache_mean), math.floor(most))
    return None


def _growth(levels: Sequence[ServingLevel]) -> float | None:
    if len(levels) < 2:
        return None
    before, top = levels[-2:]
    doublings = math.log2(top.concurrency / before.concurrency)
    return math.pow(top.requests_per_s / before.requests_per_s, 1 / doublings) - 1


# --- the verdict


def _verdict(found: _Evidence) -> Verdict:
    if found.is_client_limited:
        return Verdict(CLIENT, f"This tool is the limit, not the server: {found.client}.")
    if found.at_once is not None and found.gain_of_more >= WORTH:
        return _outside(found, found.at_once)
    if found.growth is not None and found.growth >= GROWING:
        return Verdict(
            LIGHT,
            f"Nothing limits throughput yet: at {_load(found.top)} it grows by {share(found.growth)} per doubling.",
        )
    if found.growth is None and found.at_once is None:
        return Verdict(UNKNOWN, "One load is not enough to find the limit: give several, such as -c 1:16:x2.")
    if found.prefill_share is None:
        return Verdict(
            UNKNOWN,
            "Throughput has saturated, but without the time to first token at a light load it is unknown whether "
            "prefill or decode takes the server's time.",
        )
    prefill = found.prefill_share
    if prefill >= HALF:
        return Verdict(
            PREFILL,
            f"Prefill is the limit: {_prompt_words(found)} take {share(prefill)} of the server's time at "
            f"{_load(found.top)}.",
        )
    doubt = ""
    if found.kv_is_full is None:
        doubt = (
            " A full KV cache that preempts requests would look the same, and the server does not report it."
        )
    return Verdict(
        DECODE,
        f"Decode is the limit: {_token_words(found)}; prompts take only {share(prefill)} of the time.{doubt}",
    )


def _outside(found: _Evidence, at_once: float) -> Verdict:
    """Return the verdict for requests that queue although the server could serve more at once."""
    number = f"{round(at_once):,}"
    if found.kv_is_full:
        fits = "" if found.fitting is None else f"; {found.fitting:,} sequences of this length fit"
        return Verdict(
            KV_CACHE,
            f"The KV cache is the limit: it is full with {number} requests, and the rest wait{fits}.",
        )
    waits = f"The queue is the limit: {number} requests run at once, and the rest wait"
    if found.kv_is_full is None:
        cause = "for a slot or for room in the KV cache: the server does not report which"
        return Verdict(QUEUE, f"{waits} {cause}.")
    return Verdict(
        QUEUE, f"{waits} although the KV cache has room: the server's configured limit is reached."
    )


def _load(level: ServingLevel) -> str:
    return f"concurrency {level.concurrency}"


def _prompt_words(found: _Evidence) -> str:
    top = found.top
    each = "prompts" if not top.prompt_tokens else f"prompts of {quantity(top.prompt_tokens)} tokens"
    return each if found.prefill_s is None else f"{each} ({duration(found.prefill_s * NS_PER_S)} each)"


def _token_words(found: _Evidence) -> str:
    light, top = found.levels[0], found.top
    if top.output_per_s is None or top.between_ns is None or light.between_ns is None:
        return f"throughput does not grow beyond {_load(top)}"
    return (
        f"the server generates {quantity(top.output_per_s)} tokens/s at any load, and a token takes "
        f"{duration(top.between_ns)} instead of {duration(light.between_ns)}"
    )


# --- each limit on its own


def _checks(found: _Evidence, verdict: str) -> Iterator[LimitCheck]:
    yield _prefill_check(found, verdict)
    yield _decode_check(found, verdict)
    yield _kv_check(found, verdict)
    yield _queue_check(found, verdict)
    limits, text = found.is_client_limited, found.client or "this tool kept up with its own load"
    if found.client is not None and not limits:
        text = f"{found.client}, but requests wait inside the server: a faster client would not help"
    yield LimitCheck(CLIENT, "limits" if limits else "has room", text, bound=found.best if limits else None)


def _prefill_check(found: _Evidence, verdict: str) -> LimitCheck:
    light, top = found.levels[0], found.top
    part = found.prefill_share
    if part is None or light.first_ns is None or top.first_ns is None:
        return LimitCheck(PREFILL, "not known", "the time to first token at a light load was not measured")
    speed = "" if top.prompt_per_s is None else f", {quantity(top.prompt_per_s)} prompt tokens/s"
    text = (
        f"first token after {duration(light.first_ns)} at {_load(light)}, {duration(top.first_ns)} at "
        f"{top.concurrency}{speed}; prompts take {share(part)} of the server's time"
    )
    bound = None if not found.prefill_s else max(1 / found.prefill_s, found.best)
    return LimitCheck(PREFILL, "limits" if verdict == PREFILL else "has room", text, part, bound)


def _decode_check(found: _Evidence, verdict: str) -> LimitCheck:
    light, top = found.levels[0], found.top
    if top.between_ns is None or light.between_ns is None or top.output_per_s is None:
        return LimitCheck(DECODE, "not known", "the answers were not streamed, or had one token each")
    text = (
        f"a token every {duration(light.between_ns)} at {_load(light)}, {duration(top.between_ns)} at "
        f"{top.concurrency}; {quantity(top.output_per_s)} tokens/s in total"
    )
    bound = None if found.cost.per_request_s <= 0 else max(1 / found.cost.per_request_s, found.best)
    state: State = "limits" if verdict == DECODE else "not known" if verdict == UNKNOWN else "has room"
    return LimitCheck(DECODE, state, text, bound=bound if len(found.levels) > 1 else None)


def _kv_check(found: _Evidence, verdict: str) -> LimitCheck:
    server = found.top.server
    if server is None or server.kv_cache_max is None:
        why = (
            "the server's metrics were not read" if server is None else f"{server.server} does not report it"
        )
        return LimitCheck(KV_CACHE, "not known", f"usage unknown: {why}")
    words = [f"at most {share(server.kv_cache_max)} in use"]
    if server.preemptions is not None:
        words.append(f"{server.preemptions:,} preemptions")
    if found.fitting is not None:
        more = max(0, found.fitting - math.floor(server.running_max or 0))
        words.append(f"{found.fitting:,} sequences of this length fit, {more:,} more than were running")
    state: State = "limits" if verdict == KV_CACHE else "has room"
    bound = found.best if verdict == KV_CACHE else None
    return LimitCheck(KV_CACHE, state, ", ".join(words), server.kv_cache_max, bound)


def _queue_check(found: _Evidence, verdict: str) -> LimitCheck:
    server, top = found.top.server, found.top
    if server is not None and server.running_mean is not None and server.waiting_mean is not None:
        text = f"of {top.concurrency} requests, {rough(server.running_mean)} run and {rough(server.waiting_mean)} wait"
        if server.slots:
            text += f", with {server.slots:,} slots"
    elif found.at_once is not None:
        text = (
            f"tokens arrive for {rough(found.at_once)} requests at once, out of {top.concurrency} in flight"
        )
    else:
        text = "the server's queue is unknown without its metrics"
        return LimitCheck(QUEUE, "not known", text)
    if verdict == QUEUE:
        return LimitCheck(QUEUE, "limits", text, 1.0, found.best)
    if found.at_once is not None:
        text += f"; twice as many would raise throughput by {share(found.gain_of_more)}"
    return LimitCheck(QUEUE, "has room", text)


# --- what would help


def _suggestions(found: _Evidence, verdict: str) -> Iterator[Suggestion]:
    if verdict in (QUEUE, KV_CACHE) and found.at_once is not None:
        yield _more_at_once(found, verdict, found.at_once)
    elif verdict == PREFILL and found.top.prompt_tokens:
        yield _shorter(found, "prompt tokens", found.top.prompt_tokens, found.prefill_s or 0.0)
    elif verdict == DECODE and found.top.answer_tokens:
        made_s = max(0.0, 1 / found.best - (found.prefill_s or 0.0))
        yield _shorter(found, "answer tokens", found.top.answer_tokens, made_s)
    elif verdict == LIGHT:
        load = 2 * found.top.concurrency
        expected = found.best * max(
            1.0, found.cost.throughput(load) / found.cost.throughput(found.top.concurrency)
        )
        change = Change(CONCURRENCY, found.model, str(found.top.concurrency), str(load))
        yield _suggestion(found, change, f"send {load} requests at once", load, expected, "the load is light")


def _more_at_once(found: _Evidence, verdict: str, at_once: float) -> Suggestion:
    """Suggest twice as many requests in service; of slots, no more than the KV cache has room for."""
    before, after = round(at_once), 2 * round(at_once)
    if verdict == QUEUE and found.kv_is_full is False and found.fitting is not None:
        after = min(after, max(found.fitting, before))
    load = max(found.top.concurrency, after)
    expected = found.with_in_service(after)
    measured = (
        f"fitted to the throughput at {', '.join(str(level.concurrency) for level in found.levels)} at once"
    )
    if verdict == KV_CACHE:
        where = _MEMORY.get(found.server or "", "more memory for it, or a smaller data type")
        change = Change(KV_CACHE, found.model, f"{before} sequences", f"{after} sequences")
        return _suggestion(
            found,
            change,
            f"make room for {after} sequences in the KV cache ({where})",
            load,
            expected,
            measured,
        )
    setting = _SETTINGS.get(found.server or "", "the server's limit on concurrent requests")
    change = Change(SLOTS, found.model, str(before), str(after))
    return _suggestion(
        found, change, f"let {after} requests run at once ({setting})", load, expected, measured
    )


def _shorter(found: _Evidence, what: str, tokens: float, cost_s: float) -> Suggestion:
    """Suggest half as many prompt or output tokens, which halves the time spent on them."""
    expected = 1 / (1 / found.best - cost_s / 2)
    change = Change(what, found.model, quantity(tokens), quantity(tokens / 2))
    way = "or half of each from the prefix cache" if what == "prompt tokens" else "or two tokens per step"
    text = f"{what.partition(' ')[0]}s of half the length, {way}"
    costs = f"{duration(NS_PER_S / found.best)}, {duration(cost_s * NS_PER_S)}"
    why = f"a request costs the server {costs} of it for {what}"
    return _suggestion(found, change, text, found.top.concurrency, expected, why)


def _suggestion(
    found: _Evidence, change: Change, text: str, load: int, expected: float, why: str
) -> Suggestion:
    return Suggestion(
        change, text, load, expected, load / expected * NS_PER_S, expected / found.best - 1, why
    )


def _advice(found: _Evidence, verdict: str) -> Iterator[str]:
    """Yield advice without a prediction, since no measurement shows its effect."""
    if verdict == PREFILL:
        yield "Prefix caching if prompts share a prefix; prefill on separate GPUs; more tensor parallelism."
    elif verdict == DECODE:
        yield "Quantized weights; speculative decoding; more tensor parallelism, or another replica."
    elif verdict == QUEUE and found.kv_is_full is None and found.server is None:
        yield "Give the server's metrics address (--metrics-url) to see whether slots or the KV cache are full."


def _curve(found: _Evidence) -> Iterator[CurvePoint]:
    for level in found.levels:
        throughput = found.cost.throughput(_in_service(level, found.levels))
        latency_ns = level.concurrency / throughput * NS_PER_S
        yield CurvePoint(level.concurrency, throughput, latency_ns, level.requests_per_s, level.latency_ns)


def _notes(found: _Evidence) -> Iterator[str]:
    server = found.top.server
    for before, after in pairwise(found.levels):
        if after.requests_per_s < (1 - FALLING) * before.requests_per_s:
            yield (
                f"Throughput fell from {quantity(before.requests_per_s)} requests/s at {_load(before)} to "
                f"{quantity(after.requests_per_s)} at {after.concurrency}: the server gets slower under load, or "
                "something else disturbed it"
            )
    if server is None:
        yield (
            "The server's own metrics are unavailable, so running requests, waiting requests and the KV cache are "
            "judged from the client's view, or not at all"
        )
        return
    if server.was_restarted:
        yield "The server was restarted while it was measured: its counters are not usable"
    if server.prefix_share is not None and server.prefix_share > 0.2:
        yield (
            f"{share(server.prefix_share)} of the prompt tokens came from the prefix cache: prompts that do not "
            "repeat will need more prefill"
        )
