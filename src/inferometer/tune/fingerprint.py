"""A digest of the requests of a search: trials are only comparable if it is equal."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields

from inferometer.options.options import DataOptions, Options
from inferometer.tune.settings import Prompts

# Options that determine the requests. The duration of the measurement is not among them.
_LATER = (
    "prompt_column",
    "tokenizer",
    "prefix_tokens",
    "prefix_pool",
    "prefix_zipf",
    "unique_prompts",
    "repeat_prompts",
)
_SENT = (
    "protocol",
    "service_kind",
    "grpc_compression",
    "request_parameters",
    "streaming",
    "endpoint",
    "body_template",
    "reply_paths",
    "bodies",
    "output_tokens",
    "data",
    "shared_memory",
    "input_format",
    "output_format",
    "request_distribution",
    "sequences",
    "sequence_length",
    "sequence_length_variation",
    "serial_sequences",
)


def fingerprint(options: Mapping[str, Options], prompts: Mapping[str, Prompts | None]) -> str:
    """Return a digest of the requests to each model, without defaults. The journal stores it, so the digested text must
    not change."""
    plain = Options(model="")
    rows = [
        f"{model} {name} {_written(getattr(asked, name))}"
        for model, asked in sorted(options.items())
        for name in _SENT
        if getattr(asked, name) != getattr(plain, name)
    ]
    for model, made in sorted(prompts.items(), key=lambda row: row[0]):
        rows += [f"{model} {made!r}", *(f"{model} {text}" for text in (() if made is None else made.later))]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12] if rows else ""


def _written(value: object) -> str:
    """Write the value as the first version did: fields of DataOptions added later only appear if set."""
    if not isinstance(value, DataOptions):
        return repr(value)
    plain = DataOptions()
    shown = [
        f"{row.name}={getattr(value, row.name)!r}"
        for row in fields(DataOptions)
        if row.name not in _LATER or getattr(value, row.name) != getattr(plain, row.name)
    ]
    return f"DataOptions({', '.join(shown)})"
