"""Access control of the browser interface, as docs/security.md describes it.

Every request passes the `Gatekeeper`. Its Host must be a name of this server (otherwise any site could reach it through
a domain that resolves to 127.0.0.1), a request that changes something must come from a page of this server, and every
request needs the token, which the address printed at the start contains and a cookie stores.

Behind a proxy, Host is either the name that the browser used, which `--allow-host` adds, or a name of this machine that
the proxy set. In the second case only Origin shows where the page came from, and it must be an allowed host.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import psutil

from inferometer.base.errors import UsageError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 1 << 20  # bytes of a request
MOST_UPLOAD = 256 << 20  # bytes of an uploaded file
MOST_DIGITS = 18  # most digits of a content length
UPLOADS = "/uploads/"
OPEN_PATHS = ("/static/ui.js", "/static/ui.css", "/static/report.css")  # need no token
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
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"https?://(.+)")
_NOWHERE = "192.0.2.1"  # TEST-NET-1, RFC 5737; nothing is sent there


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> frozenset[str]:
    """The valid Host values for a server that listens on `host`."""
    if is_loopback(host):
        return frozenset(LOOPBACK_NAMES)
    addresses = {row.address.partition("%")[0] for rows in psutil.net_if_addrs().values() for row in rows}
    return frozenset(
        name.lower() for name in (*LOOPBACK_NAMES, *addresses, host, socket.gethostname(), socket.getfqdn())
    )


def reached_at(host: str) -> str:
    """The host to type for a server that listens on `host`; a wildcard becomes an address of this machine."""
    if not _is_unspecified(host):
        return host
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chooser:
        chooser.connect((_NOWHERE, 9))  # selects a route without sending anything
        found: str = chooser.getsockname()[0]
        if not is_loopback(found):
            return found
    return socket.gethostname()


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def allowed_host(text: str) -> str:
    """The name or NAME:PORT of `--allow-host`, as browsers send it."""
    found = _HOST.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--allow-host '{text}' is not a host name",
            remedy="write the name that browsers use, such as runs.example.com or runs.example.com:8443",
        )
    return text.lower()


@dataclass(slots=True)
class Gatekeeper:
    """Wraps the application and refuses requests that do not come from a page of this server."""

    app: App
    token: str
    names: frozenset[str]  # of this machine
    port: int
    refused: App  # responds if the token is missing
    allowed: frozenset[str] = frozenset()  # names of a proxy, each with an optional port

    @property
    def cookie(self) -> str:
        """Browsers separate cookies by host but not by port, so the name contains the port."""
        return f"inferometer-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"unsupported protocol {scope['type']}")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        send = _with_headers(send)
        host = headers.get("host", "")
        if any([name for name, _ in scope["headers"]].count(name) > 1 for name in (b"host", b"origin")):
            return await _say(send, 400, "a request must have one Host and at most one Origin")
        if not self._is_ours(host):
            return await _say(send, 421, f"this server is not called '{host}'; --allow-host adds a name")
        is_reading = scope["method"] in ("GET", "HEAD")
        if not is_reading and not self._is_own_page(headers.get("origin", ""), host):
            return await _say(send, 403, "changes must come from a page of this server")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if is_reading and self._is_token(query.pop("token", "")):
            return await self._remember(send, scope["path"], query, is_secure=self._is_secure(headers))
        is_open = is_reading and scope["path"] in OPEN_PATHS
        if not is_open and not self._is_token(_cookie(headers.get("cookie", ""), self.cookie)):
            return await (self.refused(scope, receive, send) if is_reading else _say(send, 401, NO_TOKEN))
        most = MOST_UPLOAD if scope["path"].startswith(UPLOADS) else MOST_BODY
        if _declared(headers) > most:
            return await _say(send, 413, f"a request may have at most {most} bytes")
        limited = _Limited(receive, most)
        try:
            await self.app(scope, limited.receive, send)
        except TooLargeError:
            await _say(send, 413, f"a request may have at most {most} bytes")
        return None

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        return found is not None and (found[1].strip("[]").lower() in self.names or self._is_allowed(host))

    def _is_allowed(self, host: str) -> bool:
        """Whether `--allow-host` names the host, with this port or without one."""
        found = _HOST.fullmatch(host)
        return found is not None and not self.allowed.isdisjoint((found[1].lower(), host.lower()))

    def _is_own_page(self, origin: str, host: str) -> bool:
        found = _ORIGIN.fullmatch(origin)
        return found is not None and (found[1] == host or self._is_allowed(found[1]))

    def _is_secure(self, headers: Mapping[str, str]) -> bool:
        """Whether the browser uses TLS to a proxy; the header counts only if `--allow-host` announced a proxy."""
        return bool(self.allowed) and headers.get("x-forwarded-proto", "").lower() == "https"

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _remember(self, send: Send, path: str, query: Mapping[str, str], *, is_secure: bool) -> None:
        """Move the token from the address, which is visible and copied, into a cookie that scripts cannot read."""
        secure = "; Secure" if is_secure else ""
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        place = "/" + quote(path.lstrip("/\\"), errors="replace") + (f"?{urlencode(query)}" if query else "")
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        await _say(send, 303, "", headers)


NO_TOKEN = "the token is missing: open the address that `inferometer ui` printed"


class TooLargeError(Exception):
    """A request has more bytes than allowed."""


@dataclass(slots=True)
class _Limited:
    """Counts the bytes of a body, because its header may be wrong."""

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
    length = headers.get("content-length", "0").lstrip("0") or "0"
    return int(length[:MOST_DIGITS]) if length.isascii() and length.isdigit() else 0


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _with_headers(send: Send) -> Send:
    """Add the common headers, except those that the response already has."""

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


# --- reports in sandboxed frames, which cannot reach the store or the token

THEMES = ("light", "dark")
_OPENING = '<html lang="en">'


def framed(report: str, theme: str) -> str:
    """A report page without its own header, in the colours of the surrounding page."""
    chosen = f' data-theme="{theme}"' if theme in THEMES else ""
    return report.replace(_OPENING, f'{_OPENING[:-1]} data-framed="yes"{chosen}>', 1)


def frame_policy(report: str) -> str:
    """The content security policy of a report, which only allows the script at its end."""
    script = report.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
    )
