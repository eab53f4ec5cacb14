"""Traffic for the workers: the transport to the server, the requests, which are rendered to bytes once, and the
expected content of their replies. Replies are parsed only if requested.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from inferometer.base.errors import PeerError
from inferometer.model.unique import Unique
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.wire.http1 import Head, encode_request

if TYPE_CHECKING:
    from inferometer.model.spec import ModelSpec, Tensor  # not imported by workers unless they read replies
    from inferometer.services.check_plan import AnswerChecks
    from inferometer.services.task_plan import TaskPlan
    from inferometer.services.visit_plan import VisitPlan

REPLY_LIMIT = 64 * 1024 * 1024
"""Minimum of the size limit of a reply that is read, in bytes after decompression."""

ANY_REPLY_LIMIT = 4 * REPLY_LIMIT  # if the model does not declare the size of its outputs
TEXT_FACTOR = 8  # maximum bytes of JSON per byte of a tensor


def reply_limit(model: "ModelSpec", batch: int) -> int:
    """Return the size limit of a reply that is read: the size of the model's outputs, and at least REPLY_LIMIT."""
    from inferometer.model.numbers import DATATYPES

    total = 0
    for output in model.outputs:
        datatype = DATATYPES.get(output.datatype)
        if datatype is None or not datatype.size or output.is_dynamic:
            return ANY_REPLY_LIMIT
        total += math.prod(output.shape) * datatype.size
    return max(REPLY_LIMIT, TEXT_FACTOR * batch * total) if model.outputs else ANY_REPLY_LIMIT


Steps = Sequence[Sequence["Tensor"]]
"""The tensors of each request."""


class Reply(NamedTuple):
    """Result of reading a reply."""

    status: int = 0  # of `base.status`; 0 is success
    text: str = ""  # the server's error text
    responses: int = 1  # responses with data
    times: tuple[int, ...] = ()  # of a stream's responses, in ns, grouped by choice; see `Records.times`
    tokens: int = 0  # in the answer, as counted by the server; 0 if not reported
    prompt_tokens: int = 0  # in the request
    texts: tuple[tuple[int, bytes], ...] = ()  # the responses with their times, if kept
    message: Mapping[str, Any] | None = None  # the answer, if the next turn of a session repeats it
    end_ns: int = 0  # arrival of the last event with a part of the answer; 0: the end of the body
    reasoning_tokens: int = 0  # reasoning tokens among `tokens`, if reported
    cached_tokens: int = 0  # cached tokens among `prompt_tokens`, if reported
    first_ns: int = 0  # arrival of the first response; 0: the first of `times`
    answer_at: int = 0  # index in `times` of the first response after any reasoning; their number if none
    tool_at: int = 0  # position in `times`, from 1, of the first response of a tool call; 0 if none
    answer: str | None = None  # text of the answer, if it is checked


class ReplyBody(Protocol):
    """A reply with a success status, whose body is being received."""

    @property
    def times(self) -> Sequence[int]:
        """Times of the responses of a stream so far."""

    @property
    def said(self) -> Sequence[str]:
        """Texts of the answer so far; empty unless its reader keeps them."""

    def receive(self, data: bytes, now_ns: int) -> None:
        """Take more of the body, read from the socket at `now_ns`; raise PeerError if it is malformed."""

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        """Take data[begin:end] if it can be read in place; return whether it was taken."""

    def end(self) -> Reply:
        """Return the result; the reply is complete."""


class WholeBody:
    """Body of a reply that is not streamed: `judge` gets the bytes, empty if not wanted, and the time of the last one.

    A body longer than `limit` is refused.
    """

    __slots__ = ("_body", "_is_wanted", "_judge", "_last_ns", "_limit")

    def __init__(
        self, judge: Callable[[bytes, int], Reply], *, is_wanted: bool = True, limit: int | None = None
    ) -> None:
        self._judge = judge
        self._is_wanted = is_wanted
        self._limit = limit
        self._body = bytearray()
        self._last_ns = 0

    @property
    def times(self) -> Sequence[int]:
        return ()

    @property
    def said(self) -> Sequence[str]:
        return ()

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        return False

    def receive(self, data: bytes, now_ns: int) -> None:
        self._last_ns = now_ns
        if self._is_wanted:
            self._body += data
            if self._limit is not None and len(self._body) > self._limit:
                raise PeerError(f"the reply exceeds {self._limit} bytes")

    def end(self) -> Reply:
        return self._judge(bytes(self._body), self._last_ns)


class ReplyReader(Protocol):
    """Interpreter of HTTP replies beyond their status. Sent to the workers, so it must pickle."""

    def start(self, head: Head) -> ReplyBody:
        """Start reading a reply with a success status."""

    def refusal(self, status: int, text: str) -> str:
        """Return the message for a reply with an error status; `text` is the server's."""

    def keeping(self) -> "ReplyReader":
        """Return a reader of the same replies that keeps the answer, in `Reply.answer` or `Reply.texts`."""


OutputReader = Callable[[bytes | bytearray | memoryview], Mapping[str, bytes]]
"""Function that extracts the outputs of a reply, encoded as in a Tensor. Sent to the workers, so it must pickle."""


class Conversations(Protocol):
    """Sessions whose requests depend on earlier answers; a slot has one at a time. Must pickle."""

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """Return the next turn, built from the rendered request."""

    def answered(self, slot: int, reply: Reply) -> None: ...


IN_PROCESS = "in-process"


class Wiring(NamedTuple):
    """Transport parameters of requests."""

    endpoint: Endpoint
    protocol: str = "http"  # or grpc, or IN_PROCESS, with the endpoint of the control calls
    connections: int = 0  # 0: decided by the link
    block: bytes = b""  # gRPC: the header block of every call
    is_streaming: bool = False  # any number of responses; gRPC: requests share streams that stay open
    streams: int = 0  # maximum number of shared streams; 0: one per slot or sequence
    is_whole_calls: bool = False  # gRPC: a request is all messages of a call, with any number of replies
    has_one_reply: bool = False  # gRPC: whole calls have exactly one reply
    compression: str | None = None  # gRPC: gzip or deflate
    reader: ReplyReader | None = None  # HTTP: None does not read bodies, and any 2xx is a success
    outputs: OutputReader | None = None  # extracts outputs for comparison; None: KServe v2
    conversations: Conversations | None = None  # HTTP: turns of a sequence carry the conversation
    has_ids: bool = False  # every request has a different ID, as always on streams
    unique: Unique | None = None  # HTTP: fills the placeholder for a unique prefix
    worker: int = 0  # index of this worker among `workers`
    workers: int = 1
    reply_limit: int = REPLY_LIMIT  # bytes of a reply that is read; a longer one fails the request
    others: tuple["Wiring", ...] = ()  # further addresses; the requests of each follow those of this one
    balance: str = ""  # how requests are spread over all addresses: one of `options.options.BALANCES`

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (self.endpoint, *(other.endpoint for other in self.others))

    def first_id(self, number: int = 0) -> int:
        """Return the ID of the worker's first request on this stream: (thread << 48) + counter in the classic tool."""
        return (number * self.workers + self.worker) << 48

    def share(self, index: int, parts: int) -> "Wiring":
        """Return the wiring of worker `index` with its share of the connections and streams, at least one."""

        def own(total: int) -> int:
            return max(1, total // parts + (index < total % parts)) if total else 0

        return self._replace(
            connections=own(self.connections),
            streams=own(self.streams),
            worker=index,
            workers=parts,
            others=tuple(other.share(index, parts) for other in self.others),
        )


# --- comparison of replies


FLOATS = ("FP16", "BF16", "FP32", "FP64")


class Validation(NamedTuple):
    """Expected outputs of each step, tolerance of floats, and the share of replies to check."""

    expected: "tuple[tuple[Tensor, ...], ...]"
    tolerance: float = 0.0  # absolute
    relative: float = 0.0  # fraction of the expected value
    share: float = 1.0


class Checker:
    """Checker of replies, which decides in advance which replies to check."""

    def __init__(self, validation: Validation) -> None:
        from inferometer.model import numbers  # imports numpy now, not at the first difference under load

        self._numbers = numbers
        self._validation = validation
        self._debt = 0.0

    def wants_next(self) -> bool:
        """Return whether to check the next reply; checks are spread evenly, so that every step gets its turn."""
        self._debt += self._validation.share
        if self._debt < 1:
            return False
        self._debt -= 1
        return True

    def check(self, step: int, found: Mapping[str, bytes]) -> str:
        """Return a description of the first difference; empty if there is none."""
        for tensor in self._validation.expected[step]:
            if tensor.name not in found:
                return f"output '{tensor.name}' is missing from the reply"
            if found[tensor.name] != tensor.data:
                difference = self._difference(tensor, found[tensor.name])
                if difference:
                    return f"Output doesn't match expected output: {difference}"
        return ""

    def _difference(self, tensor: "Tensor", data: bytes) -> str:
        import numpy as np

        if tensor.datatype == "BYTES":
            return self._string_difference(tensor, data)
        if len(data) != len(tensor.data):
            sizes = f"'{tensor.name}' has {len(data)} bytes, expected {len(tensor.data)}"
            return f"Output size doesn't match expected size: {sizes}"
        wanted, got = (self._numbers.values(tensor.datatype, raw) for raw in (tensor.data, data))
        wrong = wanted != got
        if tensor.datatype in FLOATS:
            left, right = wanted.astype(np.float64), got.astype(np.float64)
            asked = self._validation
            wrong &= ~np.isclose(right, left, asked.relative, asked.tolerance, equal_nan=True)
        places = np.flatnonzero(wrong)
        if not len(places):
            return ""
        first = int(places[0])
        where = f"output '{tensor.name}' at index {first}"
        return f"{where}: expected {wanted[first].item()!r}, got {got[first].item()!r} ({len(places)} differ)"

    def _string_difference(self, tensor: "Tensor", data: bytes) -> str:
        try:
            wanted, got = (self._numbers.decode("BYTES", raw) for raw in (tensor.data, data))
        except ValueError as error:
            return f"output '{tensor.name}' cannot be decoded: {error}"
        if len(wanted) != len(got):
            return f"output '{tensor.name}' has {len(got)} elements, expected {len(wanted)}"
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            if one != other:
                return f"output '{tensor.name}' at index {index}: expected {one[:80]!r}, got {other[:80]!r}"
        return ""


# --- requests


class Traffic(NamedTuple):
    """Requests and their wiring. `requests[n]` is that of step n: for HTTP head and body, for gRPC the message or the
    whole call."""

    wiring: Wiring
    requests: tuple[bytes, ...]
    validation: Validation | None = None
    checks: "AnswerChecks | None" = None
    findings: tuple[str, ...] = ()  # findings about the server, as sentences for the user
    asked_tokens: tuple[int, ...] = ()  # by step, the maximum tokens that its request asks for; 0 if none
    visits: "VisitPlan | None" = None  # generates requests under load; `requests` holds an empty one per step
    tasks: "TaskPlan | None" = None  # likewise


def render_http(
    connection: Connection,
    path: str,
    body: bytes | None,
    headers: Sequence[tuple[str, str]] = (("Content-Type", "application/json"),),
    *,
    method: str = "POST",
) -> bytes:
    """Render a complete request to this path; headers given by the user replace the defaults."""
    given = {name.lower() for name, _ in connection.headers}
    own = (("Host", connection.endpoint.authority), *headers)
    kept = [(name, value) for name, value in own if name.lower() not in given]
    length = None if body is None else len(body)
    return encode_request(method, path, [*kept, *connection.headers], length) + (body or b"")
