"""Control calls over HTTP, with the codec of the load. They are rare, so each blocks on its own connection."""

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

from inferometer.base.deadline import Deadline, DeadlineError
from inferometer.base.errors import MissingError, PeerError
from inferometer.base.messages import MESSAGES, body_text
from inferometer.base.text import decode_json, printable
from inferometer.model.answers import Shape, checked
from inferometer.options.names import option_name
from inferometer.services.endpoint import Connection, without_key
from inferometer.services.timed_socket import connect, receive_into, send_all
from inferometer.wire.http1 import Head, ReplyDecoder, encode_request

if TYPE_CHECKING:
    import ssl

LOAD_TIMEOUT_S = 600.0  # large models load slowly
LARGEST_BODY = 256 << 20
BUFFER = 64 * 1024


class BadReply(Exception):
    """An incomplete or invalid reply; `begins` is its first line if it is not HTTP at all."""

    def __init__(self, text: str, begins: str = "") -> None:
        super().__init__(text)
        self.begins = begins


class HttpControl:
    """GET and POST of JSON documents. `timeout_s` applies to the whole reply; None uses that of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._context: ssl.SSLContext | None = None
        if connection.endpoint.tls is not None:
            from inferometer.services.tls import tls_context

            self._context = tls_context(connection.endpoint.tls)

    def __reduce__(self) -> tuple[Any, ...]:
        return HttpControl, (self._connection,)  # a TLS context cannot be pickled

    def get(self, path: str, shape: Shape, *, timeout_s: float | None = None) -> Any:
        """Return the answer, checked against this shape."""
        return self._answer("GET", path, self._call("GET", path, None, timeout_s), shape)

    def post(
        self, path: str, document: Any, shape: Shape | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """Return the answer checked against this shape; without a shape only check for errors."""
        text = self._call("POST", path, json.dumps(document).encode(), timeout_s)
        return None if shape is None else self._answer("POST", path, text, shape)

    def _call(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> bytes:
        status, text = self.exchange(method, path, body, timeout_s=timeout_s)
        if status != 200:
            kind = MissingError if status in (404, 405, 501) else PeerError
            raise kind(self._reason(text) or f"the server answered {method} {path} with status {status}")
        return text

    def _answer(self, method: str, path: str, text: bytes, shape: Shape) -> Any:
        origin = f"the server's answer to {method} {path}"
        remedy = f"check that {self._connection.endpoint} is the server's HTTP address"
        try:
            document = decode_json(text) if text else {}
        except ValueError as error:
            raise PeerError(f"{origin} is not JSON: {text[:80]!r} ({error})", remedy=remedy) from error
        return checked(document, shape, origin, remedy=remedy)

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),),
        timeout_s: float | None = None,
        largest: int | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body of the answer, which has at most `largest` bytes; `headers` are sent with a body."""
        path = self._connection.endpoint.prefix + path or "/"
        given = (*self._headers(), *(() if body is None else headers))
        length = None if body is None else len(body)
        MESSAGES.debug("> %s %s, %d bytes", method, path, length or 0)
        if body and MESSAGES.is_shown:
            MESSAGES.debug("> %s", body_text(body))
        request = encode_request(method, path, given, length) + (body or b"")
        head, text = self._send(request, path, timeout_s, largest)
        MESSAGES.debug("< %d %s, %d bytes", head.status, printable(head.reason), len(text))
        if text and MESSAGES.is_shown:
            MESSAGES.debug("< %s", without_key(body_text(text), self._connection.key))
        return head.status, text

    def send(self, request: bytes, *, timeout_s: float | None = None) -> tuple[int, bytes]:
        """Send a rendered request; return status and body of the answer."""
        head, body = self._send(request, "", timeout_s)
        return head.status, body

    def location(self, path: str, *, timeout_s: float) -> str:
        """Return the redirect target of a GET; empty if there is none."""
        head, _ = self._send(encode_request("GET", path, self._headers(), None), path, timeout_s)
        return head.get("Location") or ""

    def infer(self, request: bytes) -> tuple[str | None, bytes]:
        """Send a rendered request; return the length of the reply's JSON header, if any, and its body."""
        head, body = self._send(request, "", None)
        if head.status != 200:
            raise PeerError(self._reason(body) or f"the server answered with status {head.status}")
        return head.get("Inference-Header-Content-Length"), body

    def _headers(self) -> tuple[tuple[str, str], ...]:
        headers = self._connection.headers
        own = (("Host", self._connection.endpoint.authority), ("Accept-Encoding", "identity"))
        given = {name.lower() for name, _ in headers}
        return (*(field for field in own if field[0].lower() not in given), *headers)

    def _reason(self, text: bytes) -> str:
        return without_key(reason_of(text), self._connection.key)

    def _send(
        self, request: bytes, path: str, timeout_s: float | None, largest: int | None = None
    ) -> tuple[Head, bytes]:
        endpoint = self._connection.endpoint
        deadline = Deadline.after(self._connection.timeout_s if timeout_s is None else timeout_s)
        try:
            with closing(connect(endpoint, deadline, self._context)) as sock:
                send_all(sock, request, deadline)
                return _reply(sock, deadline, LARGEST_BODY if largest is None else largest)
        except TimeoutError as error:
            url = f"{endpoint._replace(prefix='')}{path or endpoint.prefix}"
            raise late(url, error) from error
        except (OSError, BadReply) as error:
            why, remedy = why_unreachable(error)
            raise PeerError(f"{endpoint} cannot be reached: {why}", remedy=remedy) from error


def late(url: str, error: TimeoutError) -> PeerError:
    """Return the error for a reply that was not complete by its deadline."""
    said = str(error) if isinstance(error, DeadlineError) else f"in time ({error})"
    return PeerError(
        f"{url} did not send a complete reply {said}",
        remedy=f"check the address given with {option_name('-u')}, and whether the server is overloaded",
    )


def _reply(sock: socket.socket, deadline: Deadline, largest: int) -> tuple[Head, bytes]:
    """Read a complete reply of at most `largest` bytes."""
    decoder = ReplyDecoder(keep=True)
    buffer = bytearray(BUFFER)
    while True:
        length = receive_into(sock, buffer, deadline)
        if not (length or decoder.received):
            raise ConnectionResetError("it closed the connection without an answer")
        is_first = not decoder.received
        try:
            is_whole = decoder.receive(buffer, length) if length else decoder.eof()
        except PeerError as error:
            line = bytes(buffer[:length]).partition(b"\n")[0].decode("latin-1")
            is_other = is_first and not line.startswith("HTTP/")
            raise BadReply(str(error), line if is_other else "") from error
        if len(decoder.body) > largest:
            raise BadReply(f"its answer exceeds {largest} bytes")
        if is_whole:
            assert decoder.head is not None
            return decoder.head, bytes(decoder.body)


def why_unreachable(error: Exception) -> tuple[str, str]:
    """Return the reason and the remedy."""
    if isinstance(error, BadReply) and error.begins:
        if "\x00\x00" in error.begins[:8]:
            return (
                "it speaks HTTP/2, as a gRPC port does",
                f"use {option_name('--grpc')}, or give its HTTP port",
            )
        return (
            f"it does not speak HTTP (its answer begins with {error.begins[:60]!r})",
            "check the port",
        )
    remedy = f"check the address given with {option_name('-u')}, and that the server is up"
    usual = str(error) or type(error).__name__, remedy
    if isinstance(error, (BadReply, ConnectionError, TimeoutError)):
        return usual
    from inferometer.services.tls import maybe_problem

    return maybe_problem(error) or usual


def reason_of(text: bytes) -> str:
    """Return the server's error text, if any."""
    try:
        document = decode_json(text)
    except ValueError:
        return text[:300].decode("utf-8", "replace").strip()
    for name in ("error", "message"):
        if isinstance(document, dict) and isinstance(document.get(name), str):
            return str(document[name])
    return text[:300].decode("utf-8", "replace").strip()
