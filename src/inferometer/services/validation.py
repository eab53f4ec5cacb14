"""Whether a reply holds what was expected: replies are opened only when this is asked for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import PeerError
from inferometer.model.numbers import decode, encode, values
from inferometer.model.tensor import Tensor
from inferometer.services.traffic import Validation
from inferometer.wire.protobuf import fields

FLOATS = ("FP16", "BF16", "FP32", "FP64")
_UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What a reply of a strange shape raises when it is read as if it were a good one."""


class Checker:
    """Says what is wrong with a reply; decides beforehand whether it will be looked at."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._debt = 0.0

    def wants_next(self) -> bool:
        """Evenly spread over the requests, so that every step gets its turn."""
        self._debt += self._validation.share
        if self._debt < 1:
            return False
        self._debt -= 1
        return True

    def check(self, step: int, found: Mapping[str, bytes]) -> str:
        """The first difference in words; empty when there is none."""
        for tensor in self._validation.expected[step]:
            if tensor.name not in found:
                return f"output '{tensor.name}' is missing from the reply"
            if found[tensor.name] != tensor.data:
                difference = self._difference(tensor, found[tensor.name])
                if difference:
                    return f"Output doesn't match expected output: {difference}"
        return ""

    def _difference(self, tensor: Tensor, data: bytes) -> str:
        if tensor.datatype == "BYTES":
            return _string_difference(tensor, data)
        if len(data) != len(tensor.data):
            sizes = f"'{tensor.name}' has {len(data)} bytes, expected {len(tensor.data)}"
            return f"Output size doesn't match expected size: {sizes}"
        wanted, got = (values(tensor.datatype, raw) for raw in (tensor.data, data))
        wrong = wanted != got
        if tensor.datatype in FLOATS:
            wrong &= ~self._near(wanted.astype(np.float64), got.astype(np.float64))
        places = np.flatnonzero(wrong)
        if not len(places):
            return ""
        first = int(places[0])
        where = f"output '{tensor.name}' at index {first}"
        return f"{where}: expected {wanted[first].item()!r}, got {got[first].item()!r} ({len(places)} differ)"

    def _near(self, wanted: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.bool_]:
        limit = self._validation.tolerance + self._validation.relative * np.abs(wanted)
        near: NDArray[np.bool_] = (np.abs(wanted - got) <= limit) | (np.isnan(wanted) & np.isnan(got))
        return near


def _string_difference(tensor: Tensor, data: bytes) -> str:
    try:
        wanted, got = decode("BYTES", tensor.data), decode("BYTES", data)
    except ValueError as error:
        return f"output '{tensor.name}' cannot be read: {error}"
    if len(wanted) != len(got):
        return f"output '{tensor.name}' has {len(got)} elements, expected {len(wanted)}"
    for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
        if one != other:
            return f"output '{tensor.name}' at index {index}: expected {one[:80]!r}, got {other[:80]!r}"
    return ""


def http_outputs(body: bytes | bytearray, header_length: str | None) -> dict[str, bytes]:
    """The bytes of the outputs of a KServe v2 reply over HTTP, with binary or JSON data."""
    return {name: tensor.data for name, tensor in http_tensors(body, header_length).items()}


def http_tensors(body: bytes | bytearray, header_length: str | None) -> dict[str, Tensor]:
    """The outputs of such a reply."""
    try:
        length = len(body) if header_length is None else int(header_length)
        document = json.loads(body[:length])
        rows: Sequence[Any] = document["outputs"]
        outputs = {}
        for row in rows:
            parameters = row.get("parameters") or {}  # some servers say null
            size = parameters.get("binary_data_size")
            if "shared_memory_region" in parameters:
                continue
            if size is None:
                data = encode(row["datatype"], _flat(row["data"]))
            else:
                data = bytes(body[length : length + size])
                length += size
            shape = tuple(map(int, row.get("shape", ())))
            outputs[row["name"]] = Tensor(row["name"], row.get("datatype", ""), shape, data)
    except _UNREADABLE as error:
        raise PeerError(f"the reply cannot be read: {error!r}") from error
    return outputs


def _flat(values: list[Any]) -> list[Any]:
    while values and isinstance(values[0], list):
        values = [value for row in values for value in row]
    return values


OUTPUTS, RAW_CONTENTS = 5, 6  # fields of ModelInferResponse
NAME, DATATYPE, CONTENTS = 1, 2, 5  # of InferOutputTensor


def grpc_outputs(message: bytes | bytearray | memoryview) -> dict[str, bytes]:
    """The outputs of a ModelInferResponse; servers that answer with typed contents go through the official messages."""
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
        raise PeerError(f"the reply cannot be read: {error!r}") from error


def grpc_tensors(message: bytes) -> dict[str, Tensor]:
    """The outputs of a ModelInferResponse with datatype and shape, for those who are in no hurry."""
    data = grpc_outputs(message)
    reply = _message(message)
    return {
        row.name: Tensor(row.name, row.datatype, tuple(row.shape), data[row.name]) for row in reply.outputs
    }


def _typed_outputs(message: bytes) -> dict[str, bytes]:
    return {
        output.name: encode(
            output.datatype, [value for _, values in output.contents.ListFields() for value in values]
        )
        for output in _message(message).outputs
    }


def _message(message: bytes) -> Any:
    from google.protobuf.message import DecodeError

    from inferometer.services.messages import load_messages

    try:
        return load_messages().ModelInferResponse.FromString(message)
    except DecodeError as error:
        raise PeerError(f"the reply cannot be read: {error!r}") from error
