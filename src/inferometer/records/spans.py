"""Requests to be exported as spans: the reports of a worker about each, and their receiver."""

import random
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # needs numpy, which workers do without
    from inferometer.records.network_path import NetworkPath

SAMPLED = "sampled"
FAILED = "failed"
SLOW = "slow"
SLOWEST = 10  # successful requests of a load that always get a span
MOST_ROWS = 4096  # between two reports
TRACE_CELLS = 8  # integers that describe a sampled request
MOST_EVENTS = 128  # responses with a time of their own, the usual limit of OpenTelemetry


class SpanRow(NamedTuple):
    """A request with its ids. Times are as in `Records`."""

    reason: str  # SAMPLED, FAILED or SLOW
    trace_id: int
    span_id: int
    is_propagated: bool  # the request carried the ids to the server
    worker: int | None  # of sampled and failed requests
    slot: int | None
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


class SampledRequest(NamedTuple):
    """A sampled request, reported when it is sent."""

    due_ns: int
    step: int
    worker: int
    slot: int
    trace_id: int
    span_id: int
    is_propagated: bool


class Failure(NamedTuple):
    """A failed request: when it was due, the step and the slot that identify it, and its error text."""

    due_ns: int
    step: int
    worker: int
    slot: int
    text: str


class SpanReport(NamedTuple):
    """What a worker has noted since its last report, and how many sampled requests it had no room for."""

    cells: "array[int]" = array(
        "Q"
    )  # TRACE_CELLS for each sampled request: far smaller and faster than objects
    failures: tuple[Failure, ...] = ()
    dropped: int = 0

    @property
    def traces(self) -> Iterator[SampledRequest]:
        rows = iter(self.cells)
        for due_ns, step, worker, slot, high, low, span_id, is_propagated in zip(
            *[rows] * TRACE_CELLS, strict=True
        ):
            yield SampledRequest(due_ns, step, worker, slot, high << 64 | low, span_id, bool(is_propagated))


class SpanSink(Protocol):
    """Receiver of spans in the controller."""

    def add(self, rows: Iterable[SpanRow], dropped: int, path: "NetworkPath") -> None: ...


class Tracing(NamedTuple):
    """Rules for the choice of requests that become spans, and the receiver of the spans."""

    share: float  # of all requests, chosen at random before they are sent
    sink: SpanSink


def new_ids(source: random.Random) -> tuple[int, int]:
    """Draw a trace id and a span id; zero is not valid."""
    return source.getrandbits(128) or 1, source.getrandbits(64) or 1
