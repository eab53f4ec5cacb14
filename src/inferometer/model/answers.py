"""Validation of server answers, done once at the boundary.

A `Shape` describes the structure of an answer. `checked` returns the answer with every part that a shape names
converted to its type, or raises a PeerError that names the invalid part. Other parts are left unchanged; null means
absent.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from inferometer.base.errors import PeerError

Shape = Any
"""`{name: shape}`, `[shape]` for a list of any length, `AtMost(shape, most)` for a limited one, `Named(shape)` for
an object with any names; or a leaf: a function that converts the value, or raises a ValueError that describes the
expected value."""


class Required(NamedTuple):
    """A part that must be present."""

    shape: Shape


class Named(NamedTuple):
    """An object with arbitrary names."""

    shape: Shape


class AtMost(NamedTuple):
    """A list of limited length."""

    shape: Shape
    most: int


_INTEGER = re.compile(r"-?[0-9]{1,20}")


LONGEST_TEXT = 1 << 16  # characters
LONGEST_NAME = 1024
MOST_DIMENSIONS = 256
MOST_LISTED = 4096  # instance groups, batch sizes, extensions: reports list them all


def text(value: Any) -> str:
    """Convert to text: some servers send versions as numbers, and unknown enum members are numbers over gRPC."""
    return _short(value, LONGEST_TEXT)


def name(value: Any) -> str:
    """Convert to a short text for requests, tables and messages."""
    return _short(value, LONGEST_NAME)


def _short(value: Any, longest: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and len(value) <= longest:
        return value
    raise ValueError("a text" if not isinstance(value, str) else f"a text of up to {longest:,} characters")


def texts(value: Any) -> tuple[str, ...]:
    """Convert one text or a list of texts."""
    try:
        return tuple(map(text, value)) if isinstance(value, list) else (text(value),)
    except ValueError:
        raise ValueError("a text or a list of texts") from None


def whole(value: Any) -> int:
    """Convert to an integer: the JSON form of protobuf messages writes 64-bit integers as strings."""
    return _between(value, -(2**63), 2**63, "a whole number")


def count(value: Any) -> int:
    return _between(value, 0, 2**64, "a count")


def _between(value: Any, low: int, high: int, expected: str) -> int:
    is_digits = isinstance(value, str) and _INTEGER.fullmatch(value) is not None
    if is_digits or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
        raise ValueError(f"{expected} of up to 64 bits")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def checked(document: Any, shape: Shape, origin: str, *, remedy: str = "") -> Any:
    """Validate a document; `origin` names the server and the call in errors."""
    try:
        return _fitted(document, shape, None)
    except _Unfit as error:
        raise PeerError(f"{origin} {error}", remedy=remedy) from error


class _Unfit(ValueError):
    """A part does not match its shape."""


_Place = tuple["_Place", str] | None
"""Position of a part: that of its parent, and its own name or number. It is formatted only for errors."""


def _fitted(value: Any, shape: Shape, where: _Place) -> Any:
    if isinstance(shape, Required):
        return _fitted(value, shape.shape, where)
    if isinstance(shape, Named):
        _require(value, Mapping, "an object", where)
        return {
            key: _fitted(part, shape.shape, (where, key)) for key, part in value.items() if part is not None
        }
    if isinstance(shape, Mapping):
        return _object(value, shape, where)
    if isinstance(shape, AtMost):
        _require(value, (list, tuple), "a list", where)
        if len(value) > shape.most:
            raise _unfit(value, f"a list of up to {shape.most:,}", where)
        return _fitted(value, [shape.shape], where)
    if isinstance(shape, list):
        _require(value, (list, tuple), "a list", where)
        return [_fitted(part, shape[0], (where, f"[{number}]")) for number, part in enumerate(value)]
    try:
        return shape(value)
    except ValueError as error:
        raise _unfit(value, str(error), where) from None


def _object(value: Any, shape: Mapping[str, Shape], where: _Place) -> dict[str, Any]:
    _require(value, Mapping, "an object", where)
    found = dict(value)
    for key, part in shape.items():
        if found.get(key) is not None:
            found[key] = _fitted(found[key], part, (where, key))
        elif isinstance(part, Required):
            raise _Unfit(f"has no '{_written((where, key))}'")
        else:
            found.pop(key, None)
    return found


def _require(value: Any, kinds: type | tuple[type, ...], expected: str, where: _Place) -> None:
    if not isinstance(value, kinds):
        raise _unfit(value, expected, where)


def _unfit(value: Any, expected: str, where: _Place) -> _Unfit:
    found = "null" if value is None else repr(value)
    shown = found if len(found) <= 60 else f"{found[:60]}..."
    place = "in it" if where is None else f"as {_written(where)!r}"
    return _Unfit(f"must have {expected} {place}, but has {shown}")


def _written(where: _Place) -> str:
    parts: list[str] = []
    while where is not None:
        where, part = where
        parts.append(part if len(part) <= LONGEST_NAME else f"{part[:60]}...")
    return ".".join(reversed(parts)).replace(".[", "[")


# --- KServe v2 and Triton

SERVER = {"name": text, "version": text, "extensions": AtMost(text, MOST_LISTED)}

_TENSOR = {"name": Required(name), "datatype": Required(name), "shape": AtMost(whole, MOST_DIMENSIONS)}
METADATA = {
    "name": name,
    "versions": AtMost(name, MOST_LISTED),
    "platform": name,
    "inputs": [_TENSOR],
    "outputs": [_TENSOR],
}

CONFIG = {
    "name": name,
    "platform": name,
    "backend": name,
    "max_batch_size": whole,
    "input": [{"name": Required(name), "optional": flag, "is_shape_tensor": flag}],
    "output": [{"name": Required(name)}],
    "instance_group": AtMost(
        {"name": name, "kind": name, "count": whole, "gpus": AtMost(whole, MOST_LISTED)}, MOST_LISTED
    ),
    "dynamic_batching": {
        "preferred_batch_size": AtMost(whole, MOST_LISTED),
        "max_queue_delay_microseconds": count,
    },
    "sequence_batching": {},
    "ensemble_scheduling": {"step": [{"model_name": Required(name), "model_version": whole}]},
    "model_transaction_policy": {"decoupled": flag},
    "response_cache": {"enable": flag},
    "parameters": {},
}

_DURATION = {"count": count, "ns": count}
DURATIONS = (
    "success",
    "fail",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "cache_hit",
    "cache_miss",
)
COMPUTE_PARTS = ("compute_input", "compute_infer", "compute_output")
STATISTICS = {
    "model_stats": [
        {
            "name": Required(name),
            "version": Required(name),
            "inference_count": count,
            "execution_count": count,
            "inference_stats": dict.fromkeys(DURATIONS, _DURATION),
            "batch_stats": AtMost(
                {"batch_size": Required(count), **dict.fromkeys(COMPUTE_PARTS, _DURATION)}, MOST_LISTED
            ),
        }
    ]
}

INDEX = [{"name": Required(name), "version": name, "state": name, "reason": text}]
MODELS = {"models": [name]}  # for servers without a repository
TRACE_SETTINGS = Named(texts)

# --- other kinds

_SIGNATURE_TENSOR = {
    "dtype": Required(name),
    "tensor_shape": {"unknown_rank": flag, "dim": AtMost({"size": whole}, MOST_DIMENSIONS)},
}
SIGNATURES = Named({"inputs": Named(_SIGNATURE_TENSOR), "outputs": Named(_SIGNATURE_TENSOR)})
TFSERVING_METADATA = {
    "metadata": Required({"signature_def": Required({"signature_def": Required(SIGNATURES)})})
}

TORCHSERVE_MODELS = {"models": Required([{"modelName": Required(name)}]), "nextPageToken": text}
TORCHSERVE_MODEL = [
    {
        "modelName": name,
        "modelVersion": name,
        "batchSize": whole,
        "maxBatchDelay": whole,
        "workers": [{"status": text}],
    }
]

TEXT_MODELS = {"data": [{"id": name}], "models": [{"name": name}], "model_id": name}
"""Lists of models: of OpenAI-style servers and Anthropic, of Ollama and Cohere, of TGI and TEI."""
