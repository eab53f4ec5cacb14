"""What workers get of visits: how they are made, and who makes the requests of their steps."""

from typing import Any, NamedTuple, Protocol

from inferometer.model.flow import MakeVisit
from inferometer.model.visit import Call


class StepCaller(Protocol):
    """The requests of one step."""

    def request(self, call: Call) -> bytes:
        """Over HTTP head and body, over gRPC the message; UsageError for values that do not fit."""

    def http_answer(self, body: bytes | bytearray, header_length: str | None) -> Any:
        """PeerError for nonsense."""

    def grpc_answer(self, message: bytes) -> Any: ...


class VisitPlan(NamedTuple):
    """How visits are made, and what their steps are called; `callers` are those of the steps."""

    make: MakeVisit
    steps: tuple[str, ...]
    callers: tuple[StepCaller, ...]
    origin: str = ""  # where the visit is written, for messages
