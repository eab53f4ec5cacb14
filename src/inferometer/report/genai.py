"""Names of OpenTelemetry's conventions for generative AI: operations, providers and the client's histograms.

https://github.com/open-telemetry/semantic-conventions-genai describes them; their status is "development".
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from inferometer.base import status as outcome
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.records.records import Column, Records
from inferometer.stats.streams import gaps_ns

OPERATIONS: Mapping[str, tuple[str, str]] = {
    "chat": ("chat", "openai"),
    "completions": ("text_completion", "openai"),
    "responses": ("chat", "openai"),
    "embeddings": ("embeddings", "openai"),
    "rerank": ("rerank", "openai"),
    "transcriptions": ("transcription", "openai"),
    "anthropic": ("chat", "anthropic"),
    "ollama": ("chat", "ollama"),
    "ollama-generate": ("text_completion", "ollama"),
    "ollama-embed": ("embeddings", "ollama"),
    "tgi": ("text_completion", "huggingface"),
    "triton-generate": ("text_completion", "triton"),
    "tei-embed": ("embeddings", "huggingface"),
    "tei-rerank": ("rerank", "huggingface"),
    "cohere-embed": ("embeddings", "cohere"),
    "cohere-rerank": ("rerank", "cohere"),
}
"""Operation and provider of each API. The provider is the format of the API, not the software that serves it. The
conventions have no name for ranking and transcription, nor for some of the providers."""

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple(float(4**power) for power in range(14))
"""Bucket boundaries that the conventions recommend."""


def error_type(status: int) -> str:
    """Return the value of `error.type`: the server's code, or our name of the failure."""
    if status >= outcome.GRPC:
        return outcome.GRPC_CODES[status - outcome.GRPC]
    return str(status - outcome.HTTP) if status >= outcome.HTTP else outcome.kind(status)


def genai_attributes(api: str, model: str, url: str) -> dict[str, Any]:
    """Return the attributes that the conventions require of every span and figure."""
    operation, provider = OPERATIONS.get(api, (api, "openai"))
    found: dict[str, Any] = {"gen_ai.operation.name": operation, "gen_ai.provider.name": provider}
    if model:
        found["gen_ai.request.model"] = model
    return found | server_attributes(url)


def server_attributes(url: str) -> dict[str, Any]:
    """Return address and port of the server."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return {}
    return {"server.address": parts.hostname, "server.port": port} if parts.hostname else {}


@frozen
class HistogramSpec:
    """A histogram of the conventions."""

    name: str
    unit: str
    help: str
    bounds: tuple[float, ...] = SECONDS


DURATION = HistogramSpec("gen_ai.client.operation.duration", "s", "GenAI operation duration.")
FIRST_CHUNK = HistogramSpec(
    "gen_ai.client.operation.time_to_first_chunk", "s", "Time from the send to the first part of a stream."
)
PER_CHUNK = HistogramSpec(
    "gen_ai.client.operation.time_per_output_chunk", "s", "Time between two parts of a stream."
)
USAGE = HistogramSpec(
    "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", TOKENS
)


class HistogramCounts:
    """Counts of one histogram with one set of attributes, since the run began."""

    __slots__ = ("buckets", "count", "high", "low", "total")

    def __init__(self, spec: HistogramSpec) -> None:
        self.buckets = np.zeros(len(spec.bounds) + 1, dtype=np.int64)
        self.count = 0
        self.total = 0.0
        self.low, self.high = np.inf, -np.inf

    def add(self, spec: HistogramSpec, values: "np.ndarray[Any, Any]") -> None:
        if not len(values):
            return
        # A value on a boundary belongs to the bucket below it.
        places = np.searchsorted(spec.bounds, values, side="left")
        self.buckets += np.bincount(places, minlength=len(self.buckets))
        self.count += len(values)
        self.total += float(values.sum())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))


Labels = tuple[tuple[str, str], ...]


class GenAiHistograms:
    """The histograms of a run, from its records."""

    def __init__(self) -> None:
        self.counts: dict[tuple[HistogramSpec, Labels], HistogramCounts] = {}

    def add(self, records: Records) -> None:
        sent = records.where(records.sent_ns > 0)
        for status in np.unique(sent.status):
            if status == outcome.WITHDRAWN:
                continue
            ended = sent.where(sent.status == status)
            labels = () if status == outcome.OK else (("error.type", error_type(int(status))),)
            self._count(DURATION, labels, (ended.end_ns - ended.sent_ns) / NS_PER_S)
        good = sent.good
        streamed = good.where(good.stamps > 0)
        self._count(FIRST_CHUNK, (), (streamed.first_ns - streamed.sent_ns) / NS_PER_S)
        self._count(PER_CHUNK, (), gaps_ns(streamed) / NS_PER_S)
        for kind, tokens in (("input", good.prompt_tokens), ("output", good.tokens)):
            self._count(USAGE, (("gen_ai.token.type", kind),), _known(tokens))

    def _count(self, spec: HistogramSpec, labels: Labels, values: "np.ndarray[Any, Any]") -> None:
        if len(values):
            self.counts.setdefault((spec, labels), HistogramCounts(spec)).add(spec, values)

    def __iter__(self) -> Iterator[tuple[HistogramSpec, Labels, HistogramCounts]]:
        for (spec, labels), counts in self.counts.items():
            yield spec, labels, counts


def _known(tokens: Column) -> "np.ndarray[Any, Any]":
    return tokens[tokens > 0].astype(np.float64)
