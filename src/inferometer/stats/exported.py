"""Contents of the per-request export, read level by level and never held entirely in memory."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.model.numbers import values


class Value(NamedTuple):
    """One raw tensor of a request or response; None if its data is unknown, as in shared memory."""

    name: str
    datatype: str
    data: bytes | None


@frozen
class ExportedResponse:
    """One response of a request; its time is in nanoseconds since the epoch."""

    time_ns: int
    outputs: tuple[Value, ...]


@frozen
class ExportedRequest:
    """One request; all times are in nanoseconds since the epoch."""

    due_ns: int
    sent_ns: int  # 0 if it was never sent
    end_ns: int
    status: str  # ok, or the kind of failure
    step: int  # number of the request in the dataset
    worker: int
    sequence_id: int  # 0 if none
    received: int  # bytes
    inputs: tuple[Value, ...]
    responses: tuple[ExportedResponse, ...]

    @property
    def is_good(self) -> bool:
        return self.status == "ok"


@frozen
class ExportedLevel:
    """A level and an iterator over the requests that ended in its windows."""

    mode: str  # concurrency or request_rate
    value: float
    boundaries_ns: tuple[int, ...]
    requests: Iterator[ExportedRequest]


@frozen
class Export:
    """Export of a run. Read each level completely before the next."""

    service_kind: str
    endpoint: str
    levels: Iterator[ExportedLevel]
    problem: str = ""  # why later requests are missing; empty if none are


# --- tensors as JSON text


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_value(datatype: str, data: bytes | None) -> str:
    """A tensor as the classic export writes it: a single element as is, several in a flat list, BYTES as one
    string."""
    if data is None:
        return "null"
    if not data:
        return '""'
    if datatype == "BYTES":
        data = data[4:]  # only the first length is removed, as in the classic tool
        return compact(data.decode("utf-8", "replace"))
    if datatype == "JSON":
        return compact(data.decode("utf-8", "replace"))
    try:
        found = values(datatype, data)
    except (KeyError, ValueError):
        return "null"  # not a whole number of elements, or an unknown type
    elements = found.tolist()
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        elements = [element if np.isfinite(element) else None for element in elements]  # JSON has no NaN
    return compact(elements[0] if len(elements) == 1 else elements)
