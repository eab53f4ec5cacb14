"""Visits as sent to the workers: how to create them, and the callers of their steps."""

from typing import Any, NamedTuple, Protocol

from inferometer.model.flow import MakeVisit
from inferometer.model.visit import Call


class StepCaller(Protocol):
    """Generator of the requests of one step, and reader of its answers."""

    def request(self, call: Call) -> bytes:
        """Return head and body for HTTP, or the message for gRPC; raise UsageError for values that do not fit."""

    def http_answer(self, body: bytes | bytearray, header_length: str | None) -> Any:
        """Return the answer; raise PeerError if it is malformed."""

    def grpc_answer(self, message: bytes) -> Any: ...


class VisitPlan(NamedTuple):
    """How to create visits, and the names and callers of their steps."""

    make: MakeVisit
    steps: tuple[str, ...]
    callers: tuple[StepCaller, ...]
    origin: str = ""  # source of the visit, for messages
