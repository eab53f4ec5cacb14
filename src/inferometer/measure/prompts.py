"""Prompts of a run: generated from the lengths in a trace, as requested, and as sent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.prompts import TOKENS_OF_A_PROMPT, text_of
from inferometer.dataset.replay import Trace
from inferometer.dataset.tokens import Tokenizer, open_tokenizer
from inferometer.dataset.trace_prompts import TracePrompts
from inferometer.dataset.trace_tokens import TraceTokens
from inferometer.model.spec import ModelSpec
from inferometer.model.unique import Unique
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.records.records import Totals
from inferometer.services.apis import maybe_requested
from inferometer.services.kind import KINDS
from inferometer.stats.prompt_figures import PromptFigures
from inferometer.stats.prompts import (
    AskedPrompts,
    SentPrompt,
    described_figures,
    prompt_figures,
)

_COPIES = 2  # of all requests in memory
_GIB = 1024**3
_OTHER_PROMPTS = ("data.sources", "data.prompts", "data.prompt_tokens")
_DEFINED_BY_TRACE = ("data.prefix_tokens", "data.unique_prompts", "data.repeat_prompts")


@frozen
class RunPrompts:
    """The requests of a run before they are rendered."""

    asked: AskedPrompts
    steps: Sequence[Step]
    unique: Unique | None
    tokenizer: str | None
    described: tuple[TraceTokens, ...] | None = None  # lengths from a trace, so that texts need not be read

    def repeated(self, count: int) -> "RunPrompts":
        """Return the same prompts for requests that are listed once for each of several addresses."""
        described = None if self.described is None else tuple(self.described) * count
        return replace(self, steps=tuple(self.steps) * count, described=described)

    def figures(self, totals: Totals) -> PromptFigures | None:
        """Return the figures of the sent prompts."""
        if self.described is not None:
            counts = zip(self.described, map(int, totals.steps), strict=False)
            return described_figures(self.asked, list(counts), open_tokenizer(self.tokenizer))
        sent = [
            SentPrompt(text_of(step, self.unique), int(count))
            for step, count in zip(self.steps, totals.steps, strict=False)
            if count
        ]
        base = 0 if self.unique is None else len(self.unique.words)
        return prompt_figures(self.asked, sent, open_tokenizer(self.tokenizer), base)


def maybe_prompts(options: Options, dataset: Dataset, steps: Sequence[Step]) -> RunPrompts | None:
    """Return the prompts; None if requests have none, or repeat a conversation."""
    api = maybe_requested(options.endpoint)
    if api is not None and api.takes_sound:
        return None
    if not KINDS[options.service_kind].has_tokens or options.session_concurrency is not None:
        return None
    data, is_made = options.data, not dataset.is_given
    length = TOKENS_OF_A_PROMPT if data.prompt_tokens is None else data.prompt_tokens
    asked = AskedPrompts(
        asked=str(length) if is_made else "",
        asked_output="" if options.output_tokens is None else str(options.output_tokens),
        prefix_tokens=data.prefix_tokens or 0,
        prefixes=0 if data.prefix_tokens is None else data.prefix_pool or 1,
    )
    described = steps.tokens if isinstance(steps, TracePrompts) else None
    return RunPrompts(asked, steps, dataset.unique, data.tokenizer, described)


def maybe_described(trace: Trace | None, options: Options, model: ModelSpec) -> Dataset | None:
    """Generate a prompt for each line of the trace; None if it has no lengths, or only its times are used."""
    if trace is None or not any(entry.tokens is not None for entry in trace.entries):
        return None
    if not any(spec.datatype == "JSON" for spec in model.inputs) or set(_OTHER_PROMPTS) & set(options.given):
        return None
    for entry in trace.entries:
        if entry.tokens is None:
            detail = "it has no 'input_length', which other lines have"
            raise trace.error(entry, detail, remedy="give every line an 'input_length', or none of them")
    _refuse_options_of_trace(trace, options)
    tokenizer = open_tokenizer(options.data.tokenizer)
    prompts = TracePrompts(trace.entries, tokenizer, options.data.seed)
    _require_room(trace, prompts.size)
    return Dataset("trace", (prompts,), findings=tuple(_about(trace, tokenizer)))


def _refuse_options_of_trace(trace: Trace, options: Options) -> None:
    """Reject options that the trace overrides, rather than ignore them."""
    has_outputs = any(entry.tokens is not None and entry.tokens.output is not None for entry in trace.entries)
    for field in (*_DEFINED_BY_TRACE, *(("output_tokens",) if has_outputs else ())):
        if field in options.given:
            raise UsageError(
                f"{option_name(field)} describes prompts, but the trace '{trace.path}' already defines them",
                remedy="remove it",
            )


def _about(trace: Trace, tokenizer: Tokenizer) -> Iterator[str]:
    name = Path(trace.path).name
    counted = "" if tokenizer.is_exact else ", counted in words: --tokenizer makes them exact"
    yield f"{name}: {len(trace.entries):,} prompts generated from the lengths in this {trace.format} trace{counted}"
    unanswered = sum(entry.tokens is not None and entry.tokens.output == 0 for entry in trace.entries)
    if unanswered:
        yield f"{name}: {unanswered:,} requests have an output length of 0 and ask for 1 token, the minimum"


def _require_room(trace: Trace, size: float) -> None:
    """Check that all requests fit in memory."""
    import psutil

    free = psutil.virtual_memory().available
    if _COPIES * size <= free:
        return
    fitting = int(len(trace.entries) * free / (_COPIES * size))
    raise UsageError(
        f"the {len(trace.entries):,} prompts of '{trace.path}' need {_COPIES * size / _GIB:,.1f} GiB of memory, but "
        f"{free / _GIB:,.1f} GiB is free",
        remedy=f"replay part of it, such as its first {fitting:,} requests: head -n {fitting} truncates a file",
    )
