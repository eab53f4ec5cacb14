"""Scripted gRPC servers on loopback: they answer, stall, refuse, reset or go away.

They are built on h2, which shares no code with our codec and detects clients that violate HTTP/2: a server
that saw a violation fails its `with` block. A **call** is one message and its origin; an **act** is the reaction to it,
on the same wire. `GrpcServer` runs a script; `FakeGrpcTriton` is a server for a whole run, with scripted inferences.
"""

import contextlib
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from google.protobuf.json_format import ParseDict
from tritonclient.grpc import service_pb2

from tests.support.servers import DEADLINE_S, PIECE, FakeModel

if TYPE_CHECKING:
    from h2.connection import H2Connection

SERVICE = "/inference.GRPCInferenceService/"
STREAM_INFER = "ModelStreamInfer"
PREFIX = 5  # prefix of a message: compression flag and length
ROOM = 2**31 - 1

HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 3, 4, 5  # settings
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 2, 7, 8, 11  # codes of HTTP/2

Headers = tuple[tuple[str, str], ...]
HEAD: Headers = ((":status", "200"), ("content-type", "application/grpc"))


@dataclass(frozen=True, slots=True)
class Call:
    """A received message, decompressed; connections and streams are numbered in the order of opening."""

    connection: int
    stream: int
    headers: Headers
    message: bytes
    is_compressed: bool = False

    @property
    def method(self) -> str:
        return (self.header(":path") or "").removeprefix(SERVICE)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


def framed(message: bytes) -> bytes:
    return struct.pack(">BL", 0, len(message)) + message


class Wire:
    """The server's end of one connection. Thread-safe; does nothing once it is closed."""

    def __init__(self, connection: socket.socket, number: int, settings: Mapping[int, int]) -> None:
        self.number = number
        self.resets: list[tuple[int, int]] = []  # (stream, code) of the calls that the client cancelled
        self.pongs = 0
        self.is_closed = False
        self.faults: list[str] = []
        self._socket = connection
        self._lock = threading.RLock()
        self._last = ROOM  # streams above it are not served
        self._heads: dict[int, Headers] = {}  # heads of requests
        self._bodies: dict[int, bytearray] = {}
        self._begun: set[int] = set()  # streams whose reply has started,
        self._over: set[int] = set()  # and those whose reply has ended
        self._unsent: dict[int, bytearray] = {}
        self._trailers: dict[int, Headers] = {}
        self._http2 = _http2()
        self._http2.initiate_connection()
        self._http2.update_settings(dict(settings))
        self._transmit()

    # --- what acts do

    def answer(self, call: Call, *messages: bytes, trailers: Headers | None = None) -> None:
        """Send a part of a reply; with trailers, the last one."""
        with self._lock:
            if call.stream in self._over:
                return
            if call.stream not in self._begun:
                self._begin(call.stream, HEAD)
            self._unsent[call.stream] += b"".join(map(framed, messages))
            if trailers is not None:
                self._trailers[call.stream] = trailers
            self._flush()

    def answer_plainly(self, call: Call, headers: Headers, body: bytes = b"") -> None:
        """Send a reply without messages: headers and an optional body."""
        with self._lock, self._while_open():
            self._http2.send_headers(call.stream, headers, end_stream=not body)
            if body:
                self._http2.send_data(call.stream, body, end_stream=True)
            self._transmit()

    def reset_stream(self, call: Call, code: int = INTERNAL_ERROR) -> None:
        with self._lock, self._while_open():
            self._over.add(call.stream)
            self._http2.reset_stream(call.stream, code)
            self._transmit()

    def ping(self) -> None:
        with self._lock, self._while_open():
            self._http2.ping(b"inferome")
            self._transmit()

    def goaway(self, last: int = ROOM, code: int = NO_ERROR) -> None:
        """Refuse streams above the last; bypass h2, which would end the connection."""
        with self._lock:
            self._last = min(self._last, last)
            self.send(struct.pack(">BHBBLLL", 0, 8, 7, 0, 0, last, code))

    def increase_window(self, size: int) -> None:
        """Increase the send window of the connection."""
        with self._lock, self._while_open():
            self._http2.increment_flow_control_window(size)
            self._transmit()

    def send(self, data: bytes) -> None:
        """Send exactly these bytes, valid frames or not."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self._socket.close()

    def hang_up(self) -> None:
        """Stop sending. Closing with unread data would reset the connection and discard sent data."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close abruptly: the peer gets RST."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # --- the loop

    def receive(self) -> list[Call] | None:
        """Return the received calls; None if the client has disconnected or violated the protocol."""
        from h2.exceptions import ProtocolError

        try:
            data = self._socket.recv(PIECE)
        except OSError:
            return None
        if not data:
            return None
        with self._lock:
            try:
                events = self._http2.receive_data(data)
            except ProtocolError as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                self._transmit()
                return None
            calls = [call for event in events for call in self._read(event)]
            self._flush()
        return calls

    def _read(self, event: Any) -> list[Call]:
        from h2 import events

        stream = getattr(event, "stream_id", 0)
        if isinstance(event, events.RequestReceived):
            self._heads[stream] = tuple((str(name), str(value)) for name, value in event.headers)
            self._bodies[stream] = bytearray()
        elif isinstance(event, events.DataReceived):
            self._http2.acknowledge_received_data(event.flow_controlled_length, stream)
            self._bodies[stream] += event.data
            return self._calls(stream) if self._is_stream(stream) else []
        elif isinstance(event, events.StreamEnded):
            if not self._is_stream(stream):
                return self._calls(stream)
            self._end_stream(stream)  # the client sends no more requests
        elif isinstance(event, events.StreamReset):
            self.resets.append((stream, int(event.error_code)))
        elif isinstance(event, events.PingAckReceived):
            self.pongs += 1
        return []

    def _is_stream(self, stream: int) -> bool:
        return (":path", SERVICE + STREAM_INFER) in self._heads[stream]

    def _end_stream(self, stream: int) -> None:
        if stream not in self._over:
            self._trailers.setdefault(stream, _status(0))
            if stream not in self._begun:
                self._begin(stream, HEAD)

    def _calls(self, stream: int) -> list[Call]:
        """Yield the complete messages of a stream."""
        body, headers, calls = self._bodies[stream], self._heads[stream], []
        while len(body) >= PREFIX:
            flag, size = struct.unpack_from(">BL", body)
            if len(body) < PREFIX + size:
                break
            message = bytes(body[PREFIX : PREFIX + size])
            del body[: PREFIX + size]
            if flag:
                message = zlib.decompress(message, 47)  # zlib or gzip
            calls.append(Call(self.number, stream, headers, message, is_compressed=bool(flag)))
        return calls if stream <= self._last and stream not in self._over else []

    # --- sending

    def _begin(self, stream: int, headers: Headers) -> None:
        self._begun.add(stream)
        self._unsent[stream] = bytearray()
        with self._while_open():
            self._http2.send_headers(stream, headers)

    def _flush(self) -> None:
        """Send what the client's windows allow."""
        for stream in list(self._unsent):
            with self._while_open(stream):
                self._push(stream, self._unsent[stream])
        self._transmit()

    def _push(self, stream: int, unsent: bytearray) -> None:
        while unsent:
            size = self._http2.local_flow_control_window(stream)
            size = min(size, self._http2.max_outbound_frame_size, len(unsent))
            if size <= 0:
                return
            self._http2.send_data(stream, bytes(unsent[:size]))
            del unsent[:size]
        if stream in self._trailers:
            del self._unsent[stream]
            self._over.add(stream)
            self._http2.send_headers(stream, self._trailers.pop(stream), end_stream=True)

    def _transmit(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(self._http2.data_to_send())

    @contextlib.contextmanager
    def _while_open(self, stream: int = 0) -> Any:
        """Ignore errors on a stream that the client cancelled or the server reset."""
        from h2.exceptions import ProtocolError

        try:
            yield
        except ProtocolError:
            self._over.add(stream)
            self._unsent.pop(stream, None)


def _http2() -> "H2Connection":
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.settings import SettingCodes, Settings

    http2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    # A client may open any number of streams before it receives our settings.
    http2.local_settings = Settings(client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: ROOM})
    return http2


def _status(code: int, text: str = "") -> Headers:
    return (("grpc-status", str(code)), *((("grpc-message", text),) if text else ()))


Act = Callable[[Wire, Call], None]
Script = Callable[[Call], Act]


# --- acts


def answer(*messages: bytes) -> Act:
    """A complete successful reply."""
    return lambda wire, call: wire.answer(call, *messages, trailers=_status(0))


def say(*messages: bytes) -> Act:
    """Messages of an unfinished reply."""
    return lambda wire, call: wire.answer(call, *messages)


def fail(code: int, text: str = "", *messages: bytes) -> Act:
    """An error status in the trailers, after these messages."""
    return lambda wire, call: wire.answer(call, *messages, trailers=_status(code, text))


def refuse(code: int, text: str = "") -> Act:
    """An error status in the head ("trailers-only")."""
    return lambda wire, call: wire.answer_plainly(call, HEAD + _status(code, text))


def answer_http(status: int, kind: str, body: bytes) -> Act:
    """The reply of a proxy that does not support gRPC."""
    return lambda wire, call: wire.answer_plainly(
        call, ((":status", str(status)), ("content-type", kind)), body
    )


def reset_stream(code: int) -> Act:
    return lambda wire, call: wire.reset_stream(call, code)


def goaway(last: int = ROOM, code: int = NO_ERROR) -> Act:
    return lambda wire, call: wire.goaway(last, code)


def ping(wire: Wire, call: Call) -> None:
    wire.ping()


def hang_up(wire: Wire, call: Call) -> None:
    wire.hang_up()


def reset(wire: Wire, call: Call) -> None:
    wire.reset()


def never(wire: Wire, call: Call) -> None:
    """No answer."""


def raw(data: bytes) -> Act:
    return lambda wire, call: wire.send(data)


def each(*acts: Act) -> Act:
    """Run the acts one after the other."""

    def act(wire: Wire, call: Call) -> None:
        for one in acts:
            one(wire, call)

    return act


# --- servers


class GrpcServer:
    """A scripted server. Use as a context manager; stop() and start() restart it on the same port."""

    def __init__(
        self,
        script: Script,
        *,
        settings: Mapping[int, int] | None = None,
        window: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.calls: list[Call] = []  # in the order in which their last byte arrived
        self.wires: list[Wire] = []  # in the order in which they were accepted
        self._script = script
        self._settings = settings or {}
        self._window = window  # window of each connection beyond the standard 64 KiB
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._news = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def faults(self) -> list[str]:
        """Protocol violations of the client."""
        with self._news:
            return [fault for wire in self.wires for fault in wire.faults]

    def __enter__(self) -> Self:
        self._start(self._accept, self._listener)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        assert kind is not None or not self.faults, self.faults

    def stop(self) -> None:
        """Stop like a killed process: close the listener and cut every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._news:
            wires = list(self.wires)
        for wire in wires:
            wire.close()

    def start(self) -> None:
        """Listen again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept, self._listener)

    def wait_for(self, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
        """Wait until the condition holds; it is checked after every call and every end of a connection."""
        with self._news:
            return self._news.wait_for(holds, deadline_s)

    def _start(self, work: Callable[..., None], argument: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
        except OSError:  # one side rejects the certificate of the other
            connection.close()
            return
        with self._news:
            wire = Wire(connection, len(self.wires), self._settings)
            self.wires.append(wire)
        if self._window:
            wire.increase_window(self._window)
        while (calls := wire.receive()) is not None:
            for call in calls:
                act = self._script(call)
                with self._news:
                    self.calls.append(call)
                    self._news.notify_all()
                act(wire, call)
        wire.close()
        with self._news:
            wire.is_closed = True
            self._news.notify_all()


Infer = Callable[[int, Call], Act | None]
"""(number of the inference from 0, its call) -> what happens to it; None is the usual answer."""


class FakeGrpcTriton:
    """Metadata, configuration, statistics and inference of one model. Use as a context manager."""

    def __init__(
        self,
        infer: Infer = lambda number, call: None,
        *,
        model: FakeModel | None = None,
        decoupled: bool = False,
        control: Callable[[str, bytes], bytes] = lambda method, message: message,
        settings: Mapping[int, int] | None = None,
        window: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._control = control  # (method, the usual answer to a control call) -> what is answered
        self.server = GrpcServer(self._act, settings=settings, window=window, tls=tls)
        self.model = FakeModel() if model is None else model
        self.inferences: list[Call] = []
        self._decoupled = decoupled
        self._infer = infer
        self._good = self._bad = 0
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.server.__exit__(kind)

    def wait_for_inferences(self, count: int) -> bool:
        return self.server.wait_for(lambda: len(self.inferences) >= count)

    def _act(self, call: Call) -> Act:
        if call.method in ("ModelInfer", STREAM_INFER):
            return self._inference(call)
        replies = {
            "ServerMetadata": self._server,
            "ModelMetadata": self._metadata,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "ServerReady": lambda: service_pb2.ServerReadyResponse(ready=True),
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": service_pb2.RepositoryModelLoadResponse,
            "RepositoryModelUnload": service_pb2.RepositoryModelUnloadResponse,
        }
        if call.method not in replies:
            return refuse(12, f"{call.method} is not implemented")
        asked = service_pb2.ModelMetadataRequest.FromString(
            call.message
        ).name  # `name` is the first field of all of them
        if asked not in ("", self.model.name):
            return refuse(5, f"Request for unknown model: '{asked}' is not found")
        return answer(self._control(call.method, replies[call.method]().SerializeToString()))

    def _inference(self, call: Call) -> Act:
        with self._counting:
            self.inferences.append(call)
            act = self._infer(self._good + self._bad, call)
            self._good += act is None
            self._bad += act is not None
        return usual(call) if act is None else act

    def _server(self) -> Any:
        extensions = ("model_configuration", "statistics")
        return service_pb2.ServerMetadataResponse(name="fake", version="2.51.0", extensions=extensions)

    def _index(self) -> Any:
        rows = [{"name": self.model.name, "state": "READY"}]
        return ParseDict({"models": rows}, service_pb2.RepositoryIndexResponse())

    def _metadata(self) -> Any:
        return ParseDict(self.model.metadata(), service_pb2.ModelMetadataResponse())

    def _config(self) -> Any:
        config = {**self.model.config(), "model_transaction_policy": {"decoupled": self._decoupled}}
        return ParseDict({"config": config}, service_pb2.ModelConfigResponse())

    def _statistics(self) -> Any:
        with self._counting:
            found = self.model.statistics(good=self._good, bad=self._bad)
        return ParseDict(found, service_pb2.ModelStatisticsResponse())


def asked(call: Call) -> Any:
    """Decode an inference with the official message."""
    return service_pb2.ModelInferRequest.FromString(call.message)


def usual(call: Call) -> Act:
    """The usual answer of Triton to an inference; on a stream it is the final response."""
    request_id = asked(call).id
    if call.method == STREAM_INFER:
        return say(response(request_id))
    return answer(infer_response(request_id).SerializeToString())


def response(request_id: str, *, has_data: bool = True, is_final: bool | None = True) -> bytes:
    """Build a message of ModelStreamInfer; None leaves the flag out."""
    inner = infer_response(request_id, has_data=has_data)
    if is_final is not None:
        inner.parameters["triton_final_response"].bool_param = is_final
    return bytes(service_pb2.ModelStreamInferResponse(infer_response=inner).SerializeToString())


def error_response(request_id: str, text: str) -> bytes:
    """Build an error message of ModelStreamInfer; the stream continues."""
    inner = service_pb2.ModelInferResponse(id=request_id)
    message = service_pb2.ModelStreamInferResponse(error_message=text, infer_response=inner)
    return bytes(message.SerializeToString())


def infer_response(request_id: str, *, has_data: bool = True) -> Any:
    reply = service_pb2.ModelInferResponse(model_name="fake", model_version="1", id=request_id)
    if has_data:
        reply.outputs.add(name="OUTPUT0", datatype="INT32", shape=(1,))
        reply.raw_output_contents.append(bytes(4))
    return reply
