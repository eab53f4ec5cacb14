"""Requests as OpenTelemetry spans, pushed to a collector (`--otlp-traces`).

A span begins when its request was due and ends with its reply; the phases on the client are its events. A separate
thread encodes and pushes the spans. If the collector fails or does not respond, one warning names it; the run
continues, and spans that could not be delivered are counted.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from inferometer import __version__
from inferometer.base import status as outcome
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.text import printable
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.base.varint import varint
from inferometer.options.names import option_name
from inferometer.records.network_path import NetworkPath
from inferometer.records.path import Opening
from inferometer.records.spans import SLOW, SLOWEST, SpanRow
from inferometer.report.genai import error_type, genai_attributes, server_attributes
from inferometer.report.otlp import Post
from inferometer.stats.watcher import Watcher

PERIOD_S = 1.0
LAST_S = 3.0  # wait for the last spans at the end of a run, if the previous push succeeded
MOST_WAITING = 20_000  # spans between two pushes; later ones are dropped and counted
AT_ONCE = 1000  # spans of a push
SAMPLED_FLAG = 1
_FLOAT_BYTES = 8


@frozen
class SpanSubject:
    """Attributes common to all spans of a run."""

    url: str
    protocol: str  # http, grpc or in-process
    models: tuple[str, ...] = ("",)
    model_of_step: tuple[int, ...] = ()  # index in `models`; empty if there is only one
    api: str = ""  # of a text server

    def model(self, step: int) -> str:
        return self.models[self.model_of_step[step]] if self.model_of_step else self.models[0]


@frozen
class LabeledSpan:
    """A request with the level that it belongs to, and the connection that was opened for it, if any."""

    row: SpanRow
    mode: str
    value: float
    opening: Opening | None = None
    resolve_ns: int = 0


class SpanExport(Watcher):
    """Receives spans from the workers and pushes them. Starts its thread when it is created."""

    def __init__(self, post: Post, warn: Callable[[str], None], *, epoch_ns: int | None = None) -> None:
        try:
            import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
        except ImportError as error:
            raise UsageError(
                f"{option_name('--otlp-traces')} requires the OpenTelemetry packages, which are not "
                "installed",
                remedy="pip install 'inferometer[otlp]'",
            ) from error
        self.subject = SpanSubject("", "http")
        self._post = post
        self._warn = warn
        self._epoch_ns = time.time_ns() - monotonic_ns() if epoch_ns is None else epoch_ns
        self._level = ("", 0.0)
        self._slow: list[LabeledSpan] = []  # the slowest requests of the current level
        self._waiting: deque[LabeledSpan] = deque()
        self.offered = self.delivered = 0  # spans of this run, and those that the collector accepted
        self._problem = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._push_on, name="spans", daemon=True)
        self._thread.start()

    # --- called by the controller

    def level_started(self, mode: str, value: float) -> None:
        self._end_level()
        self._level = mode, value

    def add(self, rows: Iterable[SpanRow], dropped: int, path: NetworkPath) -> None:
        self.offered += dropped
        for row in rows:
            opening = path.firsts.get(row.sent_ns)
            span = LabeledSpan(row, *self._level, opening, path.resolve_ns if opening is not None else 0)
            if row.reason == SLOW:
                self._slow.append(span)
            else:
                self._queue(span)
        self._slow = sorted(self._slow, key=lambda span: -span.row.took_ns)[:SLOWEST]

    def _queue(self, span: LabeledSpan) -> None:
        self.offered += 1
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(span)

    def _end_level(self) -> None:
        for span in self._slow:
            self._queue(span)
        self._slow = []

    def close(self) -> None:
        """Push the last spans, unless the collector is failing, and say how many were not delivered."""
        self._end_level()
        self._ended.set()
        self._thread.join(LAST_S if not self._problem else 0)
        with self._lock:
            lost = self.offered - self.delivered
            if lost:
                why = f": {self._problem}" if self._problem else ""
                self._warn(f"{lost:,} of {self.offered:,} spans were not delivered to {self._post.url}{why}")

    # --- the thread

    def _push_on(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._push()
        self._push()

    def _push(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
            try:
                rejected, why = self._send(batch)
            except PeerError as error:
                rejected, why = len(batch), error.message
            with self._lock:
                self.delivered += len(batch) - rejected
                if rejected and not self._problem:
                    self._warn(
                        f"--otlp-traces cannot push spans to {self._post.url}; the run continues: {why}"
                    )
                self._problem = why if rejected else ""
            if rejected:
                return

    def _send(self, batch: Sequence[LabeledSpan]) -> tuple[int, str]:
        """Push the spans; return how many the collector rejected, and why."""
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        reply = self._post(encoded(batch, self.subject, self._epoch_ns))
        try:
            found = ExportTraceServiceResponse.FromString(reply).partial_success
        except DecodeError:  # the status says that all is well, and some collectors answer in JSON
            return 0, ""
        rejected = min(max(found.rejected_spans, 0), len(batch))
        return rejected, printable(found.error_message[:200])


# --- encoding


def encoded(batch: Sequence[LabeledSpan], subject: SpanSubject, epoch_ns: int) -> bytes:
    """Encode spans as a push to a collector."""
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

    resource, scope = ResourceSpans(), ScopeSpans()
    for key, value in (("service.name", "inferometer"), ("service.version", __version__)):
        _put(resource.resource.attributes, key, value)
    scope.scope.name, scope.scope.version = "inferometer", __version__
    spans = [_part(2, _encoded_span(span, subject, epoch_ns)) for span in batch]
    of_scope = b"".join((scope.SerializeToString(), *spans))
    return _part(1, resource.SerializeToString() + _part(2, of_scope))


def _part(number: int, content: bytes) -> bytes:
    """Encode a field of a message that is bytes, a text or another message."""
    return b"".join((bytes((number << 3 | 2,)), varint(len(content)), content))


# Encoded by hand: the official messages would cost as much as the whole sampled request.
_IDS = Struct(">2sQQ2sQ").pack  # trace_id is field 1, span_id field 2
_TIMES = Struct("<BQBQ").pack  # start_time_unix_nano is the fixed field 7, end_time_unix_nano 8
_NUMBER = Struct("<d").pack
_TIME = Struct("<BQ").pack
_LOW = (1 << 64) - 1


def _encoded_span(span: LabeledSpan, subject: SpanSubject, epoch_ns: int) -> bytes:
    row = span.row
    end_ns = row.end_ns if row.end_ns > row.due_ns else row.due_ns
    trace_id = row.trace_id
    return b"".join(
        (
            _IDS(b"\x0a\x10", trace_id >> 64, trace_id & _LOW, b"\x12\x08", row.span_id),
            _TIMES(7 << 3 | 1, epoch_ns + row.due_ns, 8 << 3 | 1, epoch_ns + end_ns),
            # Most attributes are the same for many spans.
            _common(subject, subject.model(row.step), span.mode, span.value),
            *[_pair(key, value) for key, value in own_attributes(span, subject).items()],
            _before_number("inferometer.latency"),
            _NUMBER(row.took_ns / NS_PER_S),
            *[_encoded_event(name, epoch_ns + time_ns) for name, time_ns in events(span)],
            _unusual(row),
        )
    )


@lru_cache
def _before_number(key: str) -> bytes:
    """Encode an attribute up to its value, which is a float."""
    return _pair(key, 1.0)[:-_FLOAT_BYTES]


@lru_cache
def _before_time(name: str) -> tuple[bytes, bytes]:
    """Encode an event as the parts before and after its time."""
    following = _part(2, name.encode())
    return bytes((11 << 3 | 2, 9 + len(following))), following


def _encoded_event(name: str, time_ns: int) -> bytes:
    before, following = _before_time(name)
    return b"".join((before, _TIME(1 << 3 | 1, time_ns), following))


def _unusual(row: SpanRow) -> bytes:
    """Encode the fields that few spans have: the number of dropped events, and the failure."""
    has_failed = row.status not in (outcome.OK, outcome.WITHDRAWN)
    if not has_failed and not row.responses > len(row.times) > 0:
        return b""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    target = Span()
    if row.responses > len(row.times) > 0:
        target.dropped_events_count = row.responses - len(row.times)
    if has_failed:
        target.status.code = target.status.STATUS_CODE_ERROR
        target.status.message = redacted(printable(row.text)) or outcome.kind(row.status)
    return target.SerializeToString()


@lru_cache(maxsize=256)
def _common(subject: SpanSubject, model: str, mode: str, value: float) -> bytes:
    """Encode the attributes common to all spans of a model and a level."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    found = server_attributes(subject.url)
    operation = "infer"
    if subject.api:
        found |= genai_attributes(subject.api, model, subject.url)
        operation = found["gen_ai.operation.name"]
    if subject.protocol == "grpc":
        found["rpc.system"] = "grpc"
    found |= {"inferometer.load.mode": mode, "inferometer.load.value": float(value)}
    span = Span(flags=SAMPLED_FLAG, kind=Span.SPAN_KIND_CLIENT, name=f"{operation} {model}".rstrip())
    for key, each in found.items():
        _put(span.attributes, key, each)
    return span.SerializeToString()


@lru_cache(maxsize=4096, typed=True)
def _pair(key: str, value: Any) -> bytes:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    span = Span()
    _put(span.attributes, key, value)
    return span.SerializeToString()


def _put(target: Any, key: str, value: Any) -> None:
    pair = target.add()
    pair.key = key
    if isinstance(value, bool):
        pair.value.bool_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, float):
        pair.value.double_value = value
    else:
        pair.value.string_value = str(value)


def own_attributes(span: LabeledSpan, subject: SpanSubject) -> dict[str, Any]:
    """Return the attributes of the request itself, except its latency."""
    row = span.row
    found = _usage(row) if subject.api else {}
    if row.status not in (outcome.OK, outcome.WITHDRAWN):
        found["error.type"] = error_type(row.status)
    if subject.protocol == "grpc":
        if row.status == outcome.OK or row.status >= outcome.GRPC:
            found["rpc.grpc.status_code"] = max(0, row.status - outcome.GRPC)
    elif outcome.HTTP <= row.status < outcome.GRPC:
        found["http.response.status_code"] = row.status - outcome.HTTP
    found["inferometer.reason"] = row.reason
    found["inferometer.propagated"] = row.is_propagated
    found["inferometer.step"] = row.step
    found["inferometer.received.bytes"] = row.received
    if row.worker is not None:
        found["inferometer.worker"], found["inferometer.slot"] = row.worker, row.slot
    if span.opening is not None:
        found["inferometer.connection.first_request"] = True
        found["inferometer.connection.resolve"] = span.resolve_ns / NS_PER_S
    return found


def _usage(row: SpanRow) -> dict[str, Any]:
    counts = {
        "gen_ai.usage.input_tokens": row.prompt_tokens,
        "gen_ai.usage.output_tokens": row.tokens,
        "gen_ai.usage.cache_read.input_tokens": row.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": row.reasoning_tokens,
    }
    found: dict[str, Any] = {key: count for key, count in counts.items() if count}
    if row.times:
        found["gen_ai.request.stream"] = True
        if row.first_ns and row.sent_ns:
            found["gen_ai.response.time_to_first_chunk"] = (row.first_ns - row.sent_ns) / NS_PER_S
    return found


def events(span: LabeledSpan) -> Iterator[tuple[str, int]]:
    """Yield the phases of a request on the client, in order of time. The host name is resolved before the load."""
    row, opening = span.row, span.opening
    if opening is not None and opening.started_ns >= row.due_ns:  # otherwise it was opened in advance
        yield "inferometer.connect", opening.started_ns
        yield "inferometer.connected", opening.connected_ns
        if opening.has_tls:
            yield "inferometer.tls_done", opening.opened_ns
    if row.sent_ns:
        yield "inferometer.send", row.sent_ns
    if row.wrote_ns:
        yield "inferometer.sent", row.wrote_ns
    if row.first_ns:
        yield "inferometer.first_byte", row.first_ns
    for time_ns in row.times:
        yield "inferometer.response", time_ns
