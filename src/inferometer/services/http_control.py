"""Control calls over HTTP: rare, so a library does them; each on a fresh connection with a time-out."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inferometer.base.errors import MissingError, PeerError
from inferometer.base.messages import MESSAGES
from inferometer.base.text import decode_json, printable
from inferometer.model.answers import Shape, checked
from inferometer.services.endpoint import Connection, tls_context, without_key

TIMEOUT_S = 20.0
LOAD_TIMEOUT_S = 600.0  # large models take their time
LARGEST_BODY = 256 << 20


class HttpControl:
    """GET and POST of JSON documents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        tls = connection.endpoint.tls
        self._context = None if tls is None else tls_context(tls)

    def __reduce__(self) -> tuple[Any, ...]:
        return HttpControl, (self._connection,)  # a TLS context cannot be pickled

    def get(self, path: str, shape: Shape, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The answer, in this shape."""
        return self._answer("GET", path, self._call("GET", path, None, timeout_s), shape)

    def post(
        self, path: str, document: Any, shape: Shape | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """The answer in this shape; without one only an error matters."""
        text = self._call("POST", path, json.dumps(document).encode(), timeout_s)
        return None if shape is None else self._answer("POST", path, text, shape)

    def _call(self, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
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
        timeout_s: float = TIMEOUT_S,
    ) -> tuple[int, bytes]:
        """Status and body of whatever the server answers; `headers` go with a body."""
        path = self._connection.endpoint.prefix + path
        with self._open(timeout_s) as client:
            client.putrequest(method, path)
            for name, value in self._connection.headers:
                client.putheader(name, value)
            if body is not None:
                for name, value in headers:
                    client.putheader(name, value)
                client.putheader("Content-Length", str(len(body)))
            client.endheaders(body)
            MESSAGES.debug("> %s %s, %d bytes", method, path, len(body or b""))
            reply = client.getresponse()
            text = _whole_body(reply)
            MESSAGES.debug("< %d %s, %d bytes", reply.status, printable(reply.reason), len(text))
            return reply.status, text

    def location(self, path: str, *, timeout_s: float) -> str:
        """Where a GET is redirected to; nothing where it is not."""
        with self._open(timeout_s) as client:
            client.request("GET", path, headers=dict(self._connection.headers))
            return client.getresponse().getheader("Location", "")

    def infer(self, request: bytes) -> tuple[str | None, bytes]:
        """Send a request that is rendered already: length of the reply's JSON header, if it has one, and body."""
        with self._open(TIMEOUT_S) as client:
            client.sock.sendall(request)
            reply = http.client.HTTPResponse(client.sock, method="POST")
            reply.begin()
            body = _whole_body(reply)
        if reply.status != 200:
            raise PeerError(self._reason(body) or f"the server answered with status {reply.status}")
        return reply.getheader("Inference-Header-Content-Length"), body

    def _reason(self, text: bytes) -> str:
        return without_key(reason_of(text), self._connection.key)

    @contextmanager
    def _open(self, timeout_s: float) -> Iterator[http.client.HTTPConnection]:
        endpoint = self._connection.endpoint
        client = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
        try:
            client.connect()
            if self._context is not None and endpoint.tls is not None:
                name = endpoint.tls.server_name or endpoint.host
                client.sock = self._context.wrap_socket(client.sock, server_hostname=name)
            yield client
        except (OSError, http.client.HTTPException) as error:
            why, remedy = why_unreachable(error)
            raise PeerError(f"{endpoint} cannot be reached: {why}", remedy=remedy) from error
        finally:
            client.close()


def _whole_body(reply: http.client.HTTPResponse) -> bytes:
    """Not more than memory has room for, and not less than was announced."""
    text = reply.read(LARGEST_BODY)
    if len(text) == LARGEST_BODY and reply.read(1):
        raise http.client.HTTPException(f"its answer is longer than {LARGEST_BODY} bytes")
    if reply.length:
        raise http.client.IncompleteRead(text, reply.length)
    return text


_UNKNOWN_AUTHORITY = (
    "name its authority with --cacert, --ssl-https-ca-certificates-file or --ssl-grpc-root-certifications-file, or "
    "switch the check off with -k"
)
_WRONG_NAME = "reach it under the name in its certificate, or give that name with --server-name"

# By OpenSSL's verification codes.
_CERTIFICATE_REMEDIES = {
    9: "the certificate is not valid yet: check the clocks of both machines",
    10: "the certificate has expired: have it renewed, or switch the check off with -k",
    62: _WRONG_NAME,
    64: _WRONG_NAME,
}


def why_unreachable(error: Exception) -> tuple[str, str]:
    """The reason and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate is not accepted ({error.verify_message})"
        return reason, _CERTIFICATE_REMEDIES.get(error.verify_code, _UNKNOWN_AUTHORITY)
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS failed ({error})",
            "check that the port speaks TLS, and the client certificate if it wants one",
        )
    if isinstance(error, http.client.BadStatusLine):
        if "\x00\x00" in str(error)[:8]:
            return (
                "it speaks HTTP/2, as a gRPC port does",
                "measure with -i grpc, or give its HTTP port with -u",
            )
        return (
            f"it does not speak HTTP (its answer began with {str(error)[:60]!r})",
            "check the port given with -u",
        )
    return str(error) or type(error).__name__, "check the address given with -u, and that the server is up"


def reason_of(text: bytes) -> str:
    """The server's own words, if it gave any."""
    try:
        document = decode_json(text)
    except ValueError:
        return text[:300].decode("utf-8", "replace").strip()
    for name in ("error", "message"):
        if isinstance(document, dict) and isinstance(document.get(name), str):
            return str(document[name])
    return text[:300].decode("utf-8", "replace").strip()
