"""Encoding of the KServe v2 protocol, for Triton and plain KServe v2 servers, as used by the links of `load`.

A request is rendered once. The parts that differ between sends, its sequence and its ID, are written into places of
fixed length over HTTP, and appended to the message over gRPC, where fields may be in any order. Replies are parsed only
if their outputs are needed.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.messages import body_text
from inferometer.base.varint import varint
from inferometer.wire.protobuf import LENGTH, VARINT, fields

if TYPE_CHECKING:
    from inferometer.model.spec import Tensor

REQUEST_ID, PARAMETERS = 3, 4  # fields of ModelInferRequest, and of ModelInferResponse
OUTPUTS, RAW_CONTENTS = 5, 6  # of ModelInferResponse
RAW_INPUTS = 7  # of ModelInferRequest
NAME = 1  # of InferOutputTensor
KEY, VALUE = 1, 2  # of a map's entry
BOOL, INT64 = 1, 2  # of InferParameter
ERROR_MESSAGE, INFER_RESPONSE = 1, 2  # of ModelStreamInferResponse
FINAL = b"triton_final_response"


# --- sequences and IDs

Mark = tuple[int, bool, bool]
"""Sequence ID, whether it starts, whether it ends."""

_FORM = '"sequence_id":{:<20},"sequence_start":{:<5},"sequence_end":{:<5}'

PLACE = _FORM.format("", "", "").encode()
"""Placeholder for the mark in a rendered HTTP request; JSON allows blanks after a value."""

ID_PLACE = b'""' + b" " * 20
"""Placeholder in a rendered HTTP request for an ID that is filled in at each send."""


def http_mark(mark: Mark) -> bytes:
    """Encode the mark with the length of PLACE, so that no length in the request changes."""
    sequence_id, is_start, is_end = mark
    return _FORM.format(sequence_id, *("true" if flag else "false" for flag in (is_start, is_end))).encode()


def grpc_mark(mark: Mark) -> bytes:
    """Encode the mark as parameters to append to a message, whose fields may be in any order."""
    sequence_id, is_start, is_end = mark
    return (
        _parameter(b"sequence_id", INT64, sequence_id)
        + _parameter(b"sequence_start", BOOL, is_start)
        + _parameter(b"sequence_end", BOOL, is_end)
    )


def _parameter(name: bytes, kind: int, value: int) -> bytes:
    inner = varint(kind << 3 | VARINT) + varint(value)
    entry = _chunk(KEY, name) + _chunk(VALUE, inner)
    return _chunk(PARAMETERS, entry)


def raw_input(data: bytes) -> bytes:
    """Encode the values of an input for the end of a ModelInferRequest."""
    return _chunk(RAW_INPUTS, data)


def _chunk(number: int, data: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(data)) + data


# --- responses on a ModelStreamInfer stream


class StreamReply(NamedTuple):
    """A response on a stream. `request_id` identifies its request; a final response without data only ends it."""

    request_id: bytes
    error: str
    has_data: bool
    is_final: bool


def read_stream_reply(message: bytes | bytearray | memoryview) -> StreamReply:
    """Read a response; one without the final flag ends its request, as sent by servers without decoupled models."""
    error, request_id, has_data, is_final = "", b"", False, True
    for number, value in fields(memoryview(message)):
        if number == ERROR_MESSAGE and isinstance(value, memoryview):
            error = bytes(value).decode("utf-8", "replace")
        elif number == INFER_RESPONSE and isinstance(value, memoryview):
            for inner, part in fields(value):
                if inner == REQUEST_ID and isinstance(part, memoryview):
                    request_id = bytes(part)
                elif inner == OUTPUTS:
                    has_data = True
                elif inner == PARAMETERS and isinstance(part, memoryview):
                    is_final = _final(part, is_final)
    return StreamReply(request_id, error, has_data, is_final)


def infer_response(message: bytes | bytearray | memoryview) -> memoryview:
    """Return the ModelInferResponse inside a stream's response; empty if there is none."""
    found = dict(fields(memoryview(message))).get(INFER_RESPONSE)
    return found if isinstance(found, memoryview) else memoryview(b"")


def _final(entry: memoryview, known: bool) -> bool:
    parts = dict(fields(entry))
    key, value = parts.get(KEY), parts.get(VALUE)
    if not isinstance(key, memoryview) or bytes(key) != FINAL:
        return known
    flag = dict(fields(value)).get(BOOL) if isinstance(value, memoryview) else None
    return isinstance(flag, int) and flag != 0


# --- outputs

_UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Exceptions raised when a malformed reply is read as a valid one."""


def http_outputs(body: bytes | bytearray, header_length: str | None) -> dict[str, bytes]:
    """Return the raw outputs of a KServe v2 reply over HTTP, with binary or JSON data."""
    try:
        return {row["name"]: data for row, data in _http_rows(body, header_length)}
    except _UNREADABLE as error:
        raise PeerError(f"cannot read the reply: {error!r}") from error


def http_tensors(body: bytes | bytearray, header_length: str | None) -> "dict[str, Tensor]":
    """Return the outputs of a KServe v2 reply over HTTP as tensors."""
    from inferometer.model.spec import Tensor

    try:
        return {
            row["name"]: Tensor(
                row["name"], row.get("datatype", ""), tuple(map(int, row.get("shape", ()))), data
            )
            for row, data in _http_rows(body, header_length)
        }
    except _UNREADABLE as error:
        raise PeerError(f"cannot read the reply: {error!r}") from error


@cache
def _json_reader() -> tuple[Any, Any]:
    """Import what reads a reply, once: even later an import costs more than the function that it is for."""
    import json  # workers load it, and numpy, only if they read replies

    from inferometer.model import numbers

    return json.loads, numbers


def _http_rows(body: bytes | bytearray, header_length: str | None) -> Iterator[tuple[Any, bytes]]:
    """Yield the description of each output that is not in shared memory, and its data."""
    decode, numbers = _json_reader()
    length = len(body) if header_length is None else int(header_length)
    for row in decode(body[:length])["outputs"]:
        parameters = row.get("parameters") or {}  # some servers send null
        size = parameters.get("binary_data_size")
        if "shared_memory_region" in parameters:
            continue
        if size is None:
            yield row, numbers.encode(row["datatype"], numbers.flat(row["data"]))
        else:
            yield row, bytes(body[length : length + size])
            length += size


def grpc_outputs(message: bytes | bytearray | memoryview) -> dict[str, bytes]:
    """Return the outputs of a ModelInferResponse; typed contents are read with the official messages."""
    names: list[str] = []
    raw: list[bytes] = []
    try:
        for number, value in fields(memoryview(message)):
            if number == OUTPUTS and isinstance(value, memoryview):
                name = dict(fields(value)).get(NAME)
                names.append(bytes(name).decode() if isinstance(name, memoryview) else "")
            elif number == RAW_CONTENTS and isinstance(value, memoryview):
                raw.append(bytes(value))
        if len(raw) == len(names):
            return dict(zip(names, raw, strict=True))
        return _typed_outputs(bytes(message))
    except _UNREADABLE as error:
        raise PeerError(f"cannot read the reply: {error!r}") from error


def grpc_tensors(message: bytes) -> "dict[str, Tensor]":
    """Return the outputs of a ModelInferResponse with datatype and shape; slower than `grpc_outputs`."""
    from inferometer.model.spec import Tensor

    data = grpc_outputs(message)
    reply = _message(message)
    return {
        row.name: Tensor(row.name, row.datatype, tuple(row.shape), data[row.name]) for row in reply.outputs
    }


def _typed_outputs(message: bytes) -> dict[str, bytes]:
    from inferometer.model.numbers import encode

    return {
        output.name: encode(
            output.datatype, [value for _, values in output.contents.ListFields() for value in values]
        )
        for output in _message(message).outputs
    }


def _message(message: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return load_messages().ModelInferResponse.FromString(message)
    except DecodeError as error:
        raise PeerError(f"cannot read the reply: {error!r}") from error


# --- messages

_RAW = ("raw_input_contents", "raw_output_contents")


def message_text(message: Any) -> str:
    """Format a protobuf message as one line of JSON without secrets, with only the sizes of raw tensors."""
    from google.protobuf.json_format import MessageToJson

    sizes = {name: [len(data) for data in getattr(message, name, ())] for name in _RAW}
    if any(sizes.values()):
        short = type(message)()
        short.CopyFrom(message)
        for name in _RAW:
            if hasattr(short, name):
                short.ClearField(name)
        message = short
    text = body_text(MessageToJson(message, preserving_proto_field_name=True, indent=None).encode())
    return text + "".join(f" + {name} of {rows} bytes" for name, rows in sizes.items() if rows)


def infer_text(message: bytes | bytearray | memoryview, *, is_reply: bool) -> str:
    """Format a ModelInferRequest or ModelInferResponse as JSON, and any other message by its size."""
    from google.protobuf.message import DecodeError

    messages = load_messages()
    kind = messages.ModelInferResponse if is_reply else messages.ModelInferRequest
    try:
        return message_text(kind.FromString(bytes(message)))
    except (DecodeError, ValueError):
        return f"{len(message)} bytes"


_PACKAGE = "tritonclient.grpc"
_INSTALL = "pip install 'inferometer[grpc]'"


@cache
def load_messages() -> Any:
    """Import the official messages (`service_pb2`) without the rest of their package, which needs grpcio.

    A later import of the real package still gets all of it.
    """
    from google.protobuf.runtime_version import VersionError

    try:
        return _import_messages()
    except VersionError as error:
        raise UsageError(
            f"the messages in tritonclient do not match the installed protobuf: {error}", remedy=_INSTALL
        ) from error


def _import_messages() -> ModuleType:
    if _PACKAGE in sys.modules:
        return importlib.import_module(f"{_PACKAGE}.service_pb2")
    from importlib.util import find_spec

    spec = find_spec("tritonclient")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "gRPC requests to Triton or KServe and Triton's model configurations need the package tritonclient, "
            "which is not installed",
            remedy=_INSTALL,
        )
    stand_in = ModuleType(_PACKAGE)
    stand_in.__path__ = [os.path.join(next(iter(spec.submodule_search_locations)), "grpc")]
    sys.modules[_PACKAGE] = stand_in
    try:
        return importlib.import_module(f"{_PACKAGE}.service_pb2")
    finally:
        for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]:
            del sys.modules[name]
