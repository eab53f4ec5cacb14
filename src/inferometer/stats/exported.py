"""What the per-request export holds, level after level; nothing of it is ever whole in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Value(NamedTuple):
    """One tensor of a request or response, raw; None when it is not known, as with what lies in shared memory."""

    name: str
    datatype: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class ExportedResponse:
    """One response of a request; its time is nanoseconds since the epoch."""

    time_ns: int
    outputs: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ExportedRequest:
    """One request; all times are nanoseconds since the epoch."""

    due_ns: int
    sent_ns: int  # 0 when it never left
    end_ns: int
    status: str  # ok, or the kind of failure
    step: int  # which request of the dataset
    worker: int
    sequence_id: int  # 0 without
    received: int  # bytes
    inputs: tuple[Value, ...]
    responses: tuple[ExportedResponse, ...]

    @property
    def is_good(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True, slots=True)
class ExportedLevel:
    """A level and the requests that ended in its windows; they can be gone through once."""

    mode: str  # concurrency or request_rate
    value: float
    boundaries_ns: tuple[int, ...]
    requests: Iterator[ExportedRequest]


@dataclass(frozen=True, slots=True)
class Export:
    """Every level must be gone through before the next is asked for."""

    service_kind: str
    endpoint: str
    levels: Iterator[ExportedLevel]
    problem: str = ""  # why later requests are missing; empty when none are
