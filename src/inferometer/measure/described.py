"""Prompts generated from the lengths in a trace, unless the user provides other prompts."""

from collections.abc import Iterator
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.replay import Trace
from inferometer.dataset.tokens import Tokenizer, open_tokenizer
from inferometer.dataset.trace_prompts import TracePrompts
from inferometer.measure.checks import option_name
from inferometer.model.spec import ModelSpec
from inferometer.options.options import Options

_COPIES = 2  # of all requests in memory
_GIB = 1024**3
_OTHER_PROMPTS = ("data.sources", "data.prompts", "data.prompt_tokens")
_DEFINED_BY_TRACE = ("data.prefix_tokens", "data.unique_prompts", "data.repeat_prompts")


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
