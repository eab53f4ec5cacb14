"""Control calls over gRPC, with the codec of the load. They are rare, so each blocks on its own connection."""

import socket
import weakref
from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from inferometer.base.deadline import Deadline
from inferometer.base.errors import MissingError, PeerError
from inferometer.base.messages import MESSAGES
from inferometer.model.answers import Shape, checked
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import late, why_unreachable
from inferometer.services.kserve import message_text
from inferometer.services.timed_socket import connect, receive_into, send_all
from inferometer.services.traffic import Wiring
from inferometer.wire.grpc import (
    REFUSED,
    RESET,
    STATUS,
    UNIMPLEMENTED,
    GrpcConnection,
    encode_headers,
    name_of_code,
    render_call,
)
from inferometer.wire.sender import Http2Request

BUFFER = 1024 * 1024

Reply = TypeVar("Reply", bound=Message)


class GrpcControl:
    """Unary calls to one service."""

    def __init__(self, connection: Connection, service: str) -> None:
        self._connection = connection
        self._service = service
        self._kept: tuple[socket.socket, GrpcConnection] | None = None

    def __reduce__(self) -> tuple[type["GrpcControl"], tuple[Connection, str]]:
        """Pickle without the open connection: another process, such as a guard, opens its own."""
        return GrpcControl, (self._connection, self._service)

    def block(self, method: str, *, compression: str | None = None) -> bytes:
        """Return the header block of a call."""
        endpoint = self._connection.endpoint
        return encode_headers(
            path=f"/{self._service}/{method}",
            authority=endpoint.authority,
            scheme="https" if endpoint.tls else "http",
            metadata=self._connection.headers,
            compression=compression,
        )

    def wiring(self, method: str, options: Options, **more: Any) -> Wiring:
        """Return the wiring for calls of a method under load."""
        return Wiring(
            endpoint=self._connection.endpoint,
            protocol="grpc",
            connections=options.connections or 0,
            block=self.block(method, compression=options.compression),
            compression=options.compression,
            **more,
        )

    def call_again(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        """Make a time-critical call on a kept connection: opening one takes long on a busy machine."""
        rendered = render_call(self.block(method), request.SerializeToString())
        deadline = self._deadline(None)
        try:
            if self._kept is not None and not self._kept[1].http2.can_open:
                self._release()  # the server accepts no more calls on it
            if self._kept is None:
                self._kept = self._connect(deadline), GrpcConnection()
                weakref.finalize(self, self._kept[0].close)
            return reply.FromString(_exchange(*self._kept, rendered, method, self._not_grpc(), deadline))
        except TimeoutError as error:
            self._release()
            raise self._late(method, error) from error
        except (OSError, PeerError, DecodeError):  # a server may close an idle connection
            self._release()
            return self.call(method, request, reply)

    def _release(self) -> None:
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    def call(
        self, method: str, request: Message, reply: type[Reply], *, timeout_s: float | None = None
    ) -> Reply:
        """Return the reply; raise PeerError with the server's text on failure."""
        if MESSAGES.is_shown:
            MESSAGES.debug("> %s", message_text(request))
        message = self.call_bytes(method, request.SerializeToString(), timeout_s=timeout_s)
        try:
            found = reply.FromString(message)
            if MESSAGES.is_shown:
                MESSAGES.debug("< %s", message_text(found))
            return found
        except DecodeError as error:
            raise PeerError(f"the server's answer to {method} is not a {reply.__name__}") from error

    def call_bytes(self, method: str, request: bytes, *, timeout_s: float | None = None) -> bytes:
        """Make a call with encoded messages."""
        rendered = render_call(self.block(method), request)
        endpoint = self._connection.endpoint
        MESSAGES.debug("> %s, %d bytes", method, len(request))
        deadline = self._deadline(timeout_s)
        try:
            with self._connect(deadline) as sock:
                message = _exchange(sock, GrpcConnection(), rendered, method, self._not_grpc(), deadline)
            MESSAGES.debug("< %s, %d bytes", method, len(message))
            return message
        except TimeoutError as error:
            raise self._late(method, error) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            raise PeerError(f"{endpoint.authority} closed the connection", remedy=self._not_grpc()) from error
        except OSError as error:
            reason, remedy = why_unreachable(error)
            raise PeerError(f"{endpoint.authority} cannot be reached: {reason}", remedy=remedy) from error

    def _not_grpc(self) -> str:
        """Return the remedy for an address that does not speak gRPC."""
        is_secure = self._connection.endpoint.tls is not None
        also = (
            "the client certificate if it requires one"
            if is_secure
            else f"whether it needs TLS ({option_name('--tls')})"
        )
        over_http = f"leave out {option_name('--grpc')} to measure over HTTP"
        return f"check that the port is the server's gRPC port, and {also}; or {over_http}"

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return Deadline.after(self._connection.timeout_s if timeout_s is None else timeout_s)

    def _late(self, method: str, error: TimeoutError) -> PeerError:
        endpoint = self._connection.endpoint
        scheme = "grpcs" if endpoint.tls is not None else "grpc"
        return late(f"{scheme}://{endpoint.authority}/{self._service}/{method}", error)

    def _connect(self, deadline: Deadline) -> socket.socket:
        endpoint = self._connection.endpoint
        context = None
        if endpoint.tls is not None:
            from inferometer.services.tls import tls_context

            context = tls_context(endpoint.tls)
            context.set_alpn_protocols(["h2"])
        return connect(endpoint, deadline, context)


def document(message: Message, shape: Shape, method: str) -> Mapping[str, Any]:
    """Convert a message to the form of the same answer over HTTP, checked against this shape."""
    found = MessageToDict(message, preserving_proto_field_name=True)
    answer: Mapping[str, Any] = checked(found, shape, f"the server's answer to {method}")
    return answer


def _exchange(
    sock: socket.socket,
    connection: GrpcConnection,
    request: Http2Request,
    method: str,
    not_grpc: str,
    deadline: Deadline,
) -> bytes:
    connection.open(None, request, keep=True)
    buffer = bytearray(BUFFER)
    message = b""
    while True:
        while connection.http2.wants_to_send:
            for chunk in connection.take():
                send_all(sock, chunk, deadline)
        length = receive_into(sock, buffer, deadline)
        for _, ending, part in connection.receive(buffer, length) if length else connection.eof():
            if ending is None:
                message = bytes(part or b"")
            elif ending.code:
                text = ending.text or f"{method} ended with {name_of_code(ending.code)}"
                kind = MissingError if ending.code == UNIMPLEMENTED else PeerError
                raise kind(text, remedy="" if ending.cause in (STATUS, RESET, REFUSED) else not_grpc)
            else:
                return message
