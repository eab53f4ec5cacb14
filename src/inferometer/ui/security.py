"""Who may ask, and what pages may do: docs/security.md says what is promised.

Every request passes the `Gatekeeper`: its Host must be a name of ours (else any page could reach us through a name of
its own that leads to 127.0.0.1), a request that changes something must come from a page of ours, and all of them need
the token, which the address printed at the start brings and a cookie keeps.
"""

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

import psutil

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 1 << 20  # bytes of a request
MOST_UPLOAD = 256 << 20  # bytes of a file that is dropped in
UPLOADS = "/uploads/"
OPEN_PATHS = ("/static/ui.js", "/static/ui.css", "/static/report.css")  # the same for everybody
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
    b"content-security-policy": PAGE_POLICY.encode(),
}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> frozenset[str]:
    """What the Host of a request may be for a server that listens on `host`."""
    if is_loopback(host):
        return frozenset(LOOPBACK_NAMES)
    addresses = {row.address.partition("%")[0] for rows in psutil.net_if_addrs().values() for row in rows}
    return frozenset(
        name.lower() for name in (*LOOPBACK_NAMES, *addresses, host, socket.gethostname(), socket.getfqdn())
    )


@dataclass(slots=True)
class Gatekeeper:
    """Around the application: refuses what does not come from a page of ours."""

    app: App
    token: str
    names: frozenset[str]  # of hosts
    port: int
    refused: App  # answers where the token is missing

    @property
    def cookie(self) -> str:
        """Browsers keep cookies by host, not by port: two stores must not share one."""
        return f"inferometer-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"nothing here speaks {scope['type']}")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        send = _with_headers(send)
        host = headers.get("host", "")
        if not self._is_ours(host):
            return await _say(send, 421, f"this server is not called '{host}'")
        is_reading = scope["method"] in ("GET", "HEAD")
        if not is_reading and headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            return await _say(send, 403, "a change must be asked for by a page of this server")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if is_reading and self._is_token(query.pop("token", "")):
            return await self._remember(send, scope["path"], query)
        is_open = is_reading and scope["path"] in OPEN_PATHS
        if not is_open and not self._is_token(_cookie(headers.get("cookie", ""), self.cookie)):
            return await (self.refused(scope, receive, send) if is_reading else _say(send, 401, NO_TOKEN))
        most = MOST_UPLOAD if scope["path"].startswith(UPLOADS) else MOST_BODY
        if _declared(headers) > most:
            return await _say(send, 413, f"a request may have {most} bytes at most")
        limited = _Limited(receive, most)
        try:
            await self.app(scope, limited.receive, send)
        except TooLargeError:
            await _say(send, 413, f"a request may have {most} bytes at most")
        return None

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        return found is not None and found[1].strip("[]").lower() in self.names

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _remember(self, send: Send, path: str, query: Mapping[str, str]) -> None:
        """The token goes from the address, which is seen and copied, into a cookie that no script can read."""
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        place = "/" + path.lstrip("/\\") + (f"?{urlencode(query)}" if query else "")
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        await _say(send, 303, "", headers)


NO_TOKEN = "the token is missing: open the address that `inferometer ui` printed"


class TooLargeError(Exception):
    """More bytes arrived than a request may have."""


@dataclass(slots=True)
class _Limited:
    """Counts the bytes of a body: what its header says need not be true."""

    source: Receive
    most: int
    seen: int = 0

    async def receive(self) -> Message:
        message = await self.source()
        self.seen += len(message.get("body", b""))
        if self.seen > self.most:
            raise TooLargeError
        return message


def _declared(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() else 0


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _with_headers(send: Send) -> Send:
    """Adds the headers of every answer, except those that the answer has already."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
            known = {name.lower() for name, _ in own}
            message["headers"] = [
                *own,
                *((name, value) for name, value in _HEADERS.items() if name not in known),
            ]
        await send(message)

    return sending


async def _say(send: Send, status: int, text: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    whole = [(b"content-type", b"text/plain; charset=utf-8"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": whole})
    await send({"type": "http.response.body", "body": text.encode()})
