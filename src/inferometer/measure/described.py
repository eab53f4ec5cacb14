"""Prompts that a trace of lengths describes: they are made, unless the user gives others to send at its times."""

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

_COPIES = 2  # of all requests, in memory
_GIB = 1024**3
_OTHER_PROMPTS = ("data.sources", "data.prompts", "data.prompt_tokens")
_SAID = ("data.prefix_tokens", "data.unique_prompts", "data.repeat_prompts")


def maybe_described(trace: Trace | None, options: Options, model: ModelSpec) -> Dataset | None:
    """A prompt for each line of the trace; None where it has no lengths, or only its times are wanted."""
    if trace is None or not any(entry.tokens is not None for entry in trace.entries):
        return None
    if not any(spec.datatype == "JSON" for spec in model.inputs) or set(_OTHER_PROMPTS) & set(options.given):
        return None
    for entry in trace.entries:
        if entry.tokens is None:
            detail = "it has no 'input_length', which other lines have"
            raise trace.error(entry, detail, remedy="give every line one, or none")
    _refuse_what_it_says(trace, options)
    tokenizer = open_tokenizer(options.data.tokenizer)
    prompts = TracePrompts(trace.entries, tokenizer, options.data.seed)
    _require_room(trace, prompts.size)
    return Dataset("trace", (prompts,), findings=tuple(_about(trace, tokenizer)))


def _refuse_what_it_says(trace: Trace, options: Options) -> None:
    """Nothing that is given is ignored."""
    has_outputs = any(entry.tokens is not None and entry.tokens.output is not None for entry in trace.entries)
    for field in (*_SAID, *(("output_tokens",) if has_outputs else ())):
        if field in options.given:
            raise UsageError(
                f"{option_name(field)} is about prompts, and the trace '{trace.path}' says itself what they are like",
                remedy="leave it out",
            )


def _about(trace: Trace, tokenizer: Tokenizer) -> Iterator[str]:
    name = Path(trace.path).name
    counted = "" if tokenizer.is_exact else ", counted in words: --tokenizer makes them exact"
    yield f"{name}: {len(trace.entries):,} prompts are made of the lengths that this {trace.format} trace has{counted}"
    unanswered = sum(entry.tokens is not None and entry.tokens.output == 0 for entry in trace.entries)
    if unanswered:
        yield f"{name}: {unanswered:,} requests have no tokens in their answer, and ask for 1, the fewest there are"


def _require_room(trace: Trace, size: float) -> None:
    """All requests lie in memory while they are sent."""
    import psutil

    free = psutil.virtual_memory().available
    if _COPIES * size <= free:
        return
    fitting = int(len(trace.entries) * free / (_COPIES * size))
    raise UsageError(
        f"the {len(trace.entries):,} prompts of '{trace.path}' need {_COPIES * size / _GIB:,.1f} GiB of memory, and "
        f"{free / _GIB:,.1f} GiB are free",
        remedy=f"replay part of it, such as its first {fitting:,} requests: head -n {fitting} cuts a file",
    )
