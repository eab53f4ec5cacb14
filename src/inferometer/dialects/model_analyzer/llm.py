"""`model_type: LLM`: what `genai_perf_flags` ask for, on our own engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.values import Read, choice, flag, mapping, number, text, whole
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.stats.figures import TOKEN_TAGS
from inferometer.tune.settings import LENGTHS, Prompts

READERS: Mapping[str, Read] = {
    "backend": choice(*LENGTHS),
    "endpoint": text,
    "service-kind": choice("triton", "openai"),
    "url": text,
    "expected-output-tokens": whole(1),
    "input-tokens-mean": whole(1),
    "input-tokens-stddev": number(),
    "input-type": choice("synthetic", "file"),
    "input-file": text,
    "num-of-output-prompts": whole(1),
    "random-seed": whole(0),
    "streaming": flag,
}
# As later versions of GenAI-Perf call them.
_NEWER = {
    "output-tokens-mean": "expected-output-tokens",
    "synthetic-input-tokens-mean": "input-tokens-mean",
    "synthetic-input-tokens-stddev": "input-tokens-stddev",
    "num-prompts": "num-of-output-prompts",
    "num-dataset-entries": "num-of-output-prompts",
    "endpoint-type": "endpoint",
}
_REFUSED = {
    "input-dataset": (
        "names a dataset of the internet, and nothing is fetched from there",
        "give prompts with input-file, one per line, or let them be made",
    ),
    "tokenizer": (
        "names a tokenizer, and tokens are counted without one: by the server, else as the responses of a stream",
        "leave it out",
    ),
}
_ENDPOINTS = {"chat": "v1/chat/completions", "completions": "v1/completions"}


def genai_flags(path: str, value: Any) -> Mapping[str, Any]:
    """Values by the name that the contract gives a flag."""
    found: dict[str, Any] = {}
    for name, row in mapping(path, value).items():
        if name in _REFUSED:
            why, remedy = _REFUSED[name]
            raise UsageError(f"{path}.{name} {why}", remedy=remedy)
        known = _NEWER.get(name, name)
        if known not in READERS:
            raise UsageError(
                f"{path}.{name} is not a flag that the built-in load generator has",
                remedy=f"they are {', '.join([*READERS, *_NEWER])}",
            )
        if row is not None:
            found[known] = READERS[known](f"{path}.{name}", row)
    if (found.get("input-type") == "file") != ("input-file" in found):
        raise UsageError(
            f"{path}.input-type and {path}.input-file do not fit",
            remedy="give input-type file with an input-file",
        )
    return found


def applied(
    options: Options, flags: Mapping[str, Any], path: str, *, has_data: bool
) -> tuple[Options, Prompts | None]:
    """The options of a model that makes text, and its prompts where the data is not given."""
    is_streamed = flags.get("streaming", True)
    if flags.get("service-kind") == "openai":
        options = _at_openai(options, flags, path)
    else:
        _check_triton(options, flags, path, is_streamed=is_streamed)
        options = changed(options, url=flags.get("url", options.url))
    options = changed(options, streaming=is_streamed, asynchronous=True, synchronous=False)
    if has_data:
        return options, None
    return changed(options, output_tokens=flags.get("expected-output-tokens")), _prompts(flags, is_streamed)


def _prompts(flags: Mapping[str, Any], is_streamed: bool) -> Prompts:
    plain = Prompts()
    return Prompts(
        count=flags.get("num-of-output-prompts", plain.count),
        mean=flags.get("input-tokens-mean", plain.mean),
        deviation=flags.get("input-tokens-stddev", plain.deviation),
        seed=flags.get("random-seed", plain.seed),
        file=flags.get("input-file"),
        output_tokens=flags.get("expected-output-tokens"),
        backend=flags.get("backend"),
        is_streamed=is_streamed,
    )


def _at_openai(options: Options, flags: Mapping[str, Any], path: str) -> Options:
    if "url" not in flags:
        raise UsageError(
            f"{path}.service-kind is openai and {path}.url is not given",
            remedy="give the address of the OpenAI-style front of the server; Triton itself has none",
        )
    if "backend" in flags:
        raise UsageError(f"{path}.backend belongs to service-kind triton", remedy="leave it out")
    given = flags.get("endpoint", "chat")
    return changed(
        options,
        service_kind="openai",
        protocol="http",
        url=flags["url"],
        endpoint=_ENDPOINTS.get(given, given),
        collect_metrics=None,
        metrics_url=None,
        metrics_interval_ms=None,
    )


def _check_triton(options: Options, flags: Mapping[str, Any], path: str, *, is_streamed: bool) -> None:
    if "endpoint" in flags:
        raise UsageError(f"{path}.endpoint belongs to service-kind openai", remedy="leave it out")
    if is_streamed and options.protocol != "grpc":
        raise UsageError(
            f"model_type LLM streams its answers, and {options.protocol} has no streams to a Triton",
            remedy=f"take --client-protocol grpc, or {path}.streaming: false (then tokens are not measured)",
        )


def unmeasured(flags: Mapping[str, Any], wanted: Sequence[str]) -> list[str]:
    """Metrics of tokens among these that will have no value."""
    if flags.get("streaming", True):
        return []
    is_counted = flags.get("service-kind") == "openai"
    return [
        tag for tag in wanted if tag in TOKEN_TAGS and not (is_counted and tag == "output_token_throughput")
    ]
