"""Requests to an ASGI application without a socket or another thread."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer.ui.security import App


@dataclass(slots=True)
class Answered:
    """The answer of the application."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


def asked(
    app: App,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    is_cut: bool = False,
) -> Answered:
    """Return the answer to one request. The body is passed in pieces of 64 KiB, like servers do; with `is_cut`, the
    peer leaves before its end."""
    found = Answered()
    pieces = [body[start : start + 65536] for start in range(0, len(body), 65536)] or [b""]
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": place,
        "raw_path": place.encode(errors="replace"),
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [
            (name.lower().encode(), value.encode("latin-1", "replace"))
            for name, value in (headers.items() if isinstance(headers, Mapping) else headers)
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8700),
    }

    async def receive() -> Any:
        if not pieces and is_cut:
            return {"type": "http.disconnect"}
        if not pieces:
            await asyncio.sleep(3600)
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces) or is_cut}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.status = message["status"]
            found.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            found.body += message.get("body", b"")

    async def answer() -> None:
        await app(scope, receive, send)

    asyncio.run(answer())
    return found
