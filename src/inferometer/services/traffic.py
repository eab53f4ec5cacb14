"""What the workers need to put load on a server: how to reach it, the requests, rendered to bytes once, and what their
replies must hold. Replies are opened only when that is asked for.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from inferometer.base.errors import PeerError
from inferometer.model.unique import Unique
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.wire.http1 import Head, encode_request

if TYPE_CHECKING:
    from inferometer.model.spec import ModelSpec, Tensor  # workers do without it, unless they read replies
    from inferometer.services.visit_plan import VisitPlan

REPLY_LIMIT = 64 * 1024 * 1024
"""Bytes of a reply that is read, after decompression: the least limit there is."""

ANY_REPLY_LIMIT = 4 * REPLY_LIMIT  # where the model does not say how large its outputs are
TEXT_FACTOR = 8  # bytes of JSON that a byte of a tensor takes at the most


def reply_limit(model: "ModelSpec", batch: int) -> int:
    """Bytes that a reply may have where it is read: what the model's outputs account for, and at least REPLY_LIMIT."""
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
    """What a reply turned out to be."""

    status: int = 0  # of `base.status`; 0 is good
    text: str = ""  # the server's words, for a failure
    responses: int = 1  # that carried data
    times: tuple[
        int, ...
    ] = ()  # of the responses of a stream, nanoseconds; choice by choice, see `Records.times`
    tokens: int = 0  # in the answer, as the server counts them; 0 where it does not say
    prompt_tokens: int = 0  # in the request
    texts: tuple[tuple[int, bytes], ...] = ()  # the responses with their times, where they are kept
    message: Mapping[str, Any] | None = None  # what was answered, where the next turn of a session repeats it
    end_ns: int = (
        0  # when the last event of a stream came that carries some of the answer; 0: the end of the body
    )
    reasoning_tokens: int = 0  # of `tokens`, those that were thought and not said, where the server tells
    cached_tokens: int = 0  # of `prompt_tokens`, those that the server had in a cache, where it tells
    first_ns: int = 0  # when the first response came; 0: the first of `times`
    answer_at: int = (
        0  # which of `times` is the first of the answer, after any reasoning; their number where none is
    )


class ReplyBody(Protocol):
    """One reply with a good status, as its body comes."""

    @property
    def times(self) -> Sequence[int]:
        """Of the responses of a stream that have come so far."""

    def receive(self, data: bytes, now_ns: int) -> None:
        """More of the body; `now_ns` is when it came out of the socket. PeerError for nonsense."""

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        """The same for data[begin:end], where that can be understood as it lies there; else nothing has happened."""

    def end(self) -> Reply:
        """The reply is whole."""


class WholeBody:
    """Of a reply in one piece: `judge` gets the bytes, none where they are not wanted, and when the last came.

    One of more bytes than `limit` is refused.
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
    """What replies over HTTP mean beyond their status. Goes to the workers, so it must pickle."""

    def start(self, head: Head) -> ReplyBody:
        """Of a reply with a good status."""

    def refusal(self, status: int, text: str) -> str:
        """What to say of a reply with a bad status; `text` is the server's own."""


OutputReader = Callable[[bytes | bytearray | memoryview], Mapping[str, bytes]]
"""Takes the outputs out of a whole reply, each as it lies in a Tensor. Goes to the workers: it must pickle."""


class Conversations(Protocol):
    """Sessions whose requests depend on earlier answers; a slot has one at a time. Must pickle."""

    def request(self, slot: int, rendered: bytes | memoryview, *, is_start: bool) -> bytes:
        """The next turn, of the request as it was rendered."""

    def answered(self, slot: int, reply: Reply) -> None: ...


IN_PROCESS = "in-process"


class Wiring(NamedTuple):
    """How requests travel."""

    endpoint: Endpoint
    protocol: str = "http"  # or grpc, or IN_PROCESS: then the endpoint is that of the control calls
    connections: int = 0  # 0 leaves the number to the link
    block: bytes = b""  # gRPC: the header block of every call
    is_streaming: bool = False  # any number of responses; gRPC: requests share streams that stay open
    streams: int = 0  # that they share, at most; 0 is one for each slot or sequence
    is_whole_calls: bool = False  # gRPC: a request is all messages of a call; any number come back
    has_one_reply: bool = False  # gRPC: of whole calls, exactly one message comes back
    compression: str | None = None  # gRPC: gzip or deflate
    reader: ReplyReader | None = None  # HTTP: None leaves bodies unread, and any 2xx is good
    outputs: OutputReader | None = None  # reads the outputs of a reply to be compared; None is KServe v2
    conversations: Conversations | None = None  # HTTP: the turns of a sequence carry what was said before
    has_ids: bool = False  # every request carries another id; on streams they always do
    unique: Unique | None = None  # HTTP: fills the place that requests have for a unique start
    worker: int = 0  # whose it is, of so many
    workers: int = 1
    reply_limit: int = REPLY_LIMIT  # bytes of a reply that is read; a longer one is a failed request

    def first_id(self, number: int = 0) -> int:
        """Of the worker's first request, on its stream of this number: (thread << 48) + counter in the classic tool."""
        return (number * self.workers + self.worker) << 48

    def share(self, index: int, parts: int) -> "Wiring":
        """What worker `index` has of it: its part of the connections and streams, but at least one."""

        def own(total: int) -> int:
            return max(1, total // parts + (index < total % parts)) if total else 0

        return self._replace(
            connections=own(self.connections),
            streams=own(self.streams),
            worker=index,
            workers=parts,
        )


# --- what replies are compared with

FLOATS = ("FP16", "BF16", "FP32", "FP64")


class Validation(NamedTuple):
    """What each step's reply must hold, how far floats may be off, and which share of the replies is looked at."""

    expected: "tuple[tuple[Tensor, ...], ...]"
    tolerance: float = 0.0  # absolute
    relative: float = 0.0  # of the expected value
    share: float = 1.0


class Checker:
    """Says what is wrong with a reply; decides beforehand whether it will be looked at."""

    def __init__(self, validation: Validation) -> None:
        from inferometer.model import numbers  # loads numpy: now, not at the first difference under load

        self._numbers = numbers
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
    """`requests[n]` of step n: over HTTP head and body, over gRPC the message, or all of a call."""

    wiring: Wiring
    requests: tuple[bytes, ...]
    validation: Validation | None = None
    findings: tuple[str, ...] = ()  # what was found out by asking the server, in sentences for the user
    asked_tokens: tuple[
        int, ...
    ] = ()  # by step, the most tokens that its request asks for; 0 where it does not
    visits: "VisitPlan | None" = (
        None  # makes the requests while the load runs; `requests` are empty, one for each step
    )


def render_http(
    connection: Connection,
    path: str,
    body: bytes | None,
    headers: Sequence[tuple[str, str]] = (("Content-Type", "application/json"),),
    *,
    method: str = "POST",
) -> bytes:
    """A whole request to this path; headers that the user gave take the place of ours."""
    given = {name.lower() for name, _ in connection.headers}
    own = (("Host", connection.endpoint.authority), *headers)
    kept = [(name, value) for name, value in own if name.lower() not in given]
    length = None if body is None else len(body)
    return encode_request(method, path, [*kept, *connection.headers], length) + (body or b"")
