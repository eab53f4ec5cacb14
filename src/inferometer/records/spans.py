"""Requests to be exported as spans: what a worker reports about each, and who receives it."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # needs numpy, which workers do without
    from inferometer.records.network_path import NetworkPath

SAMPLED = "sampled"
FAILED = "failed"
SLOW = "slow"
MOST_EVENTS = 128  # responses with a time of their own, the usual limit of OpenTelemetry


class SpanRow(NamedTuple):
    """A request with its ids. Times are as in `Records`."""

    reason: str  # SAMPLED, FAILED or SLOW
    trace_id: int
    span_id: int
    is_propagated: bool  # the request carried the ids to the server
    worker: int
    slot: int
    due_ns: int
    sent_ns: int
    wrote_ns: int
    first_ns: int
    end_ns: int
    status: int
    text: str  # the error text of a failure
    step: int
    received: int
    responses: int
    times: tuple[int, ...]  # of the first MOST_EVENTS responses of a stream
    tokens: int = 0
    prompt_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    took_ns: int = 0  # latency as the level counts it


class SpanReport(NamedTuple):
    """Spans of a worker since its last report, and how many it had no room for."""

    rows: tuple[SpanRow, ...] = ()
    dropped: int = 0


class SpanSink(Protocol):
    """Receiver of spans in the controller."""

    def add(self, report: SpanReport, path: "NetworkPath") -> None: ...


class Tracing(NamedTuple):
    """Which requests become spans, and their receiver."""

    share: float  # of all requests, chosen at random before they are sent
    sink: SpanSink
