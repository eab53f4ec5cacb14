"""Calls to OpenTelemetry collectors, with keys and certificates from OpenTelemetry's own environment variables."""

import gzip
import os
from urllib.parse import unquote

from inferometer.base.errors import PeerError
from inferometer.base.text import printable
from inferometer.options.options import Tls
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.http_control import HttpControl, reason_of

TIMEOUT_S = 2.0  # for a whole exchange
LARGEST_REPLY = 1 << 20
CONTENT_TYPE = ("Content-Type", "application/x-protobuf")


class CollectorPost:
    """Sends bodies to one address. Never follows a redirect, so keys reach no other origin."""

    def __init__(self, url: str, signal: str) -> None:
        """`signal` is the part of the variables' names, such as TRACES."""
        authorities = _setting(signal, "CERTIFICATE")
        tls = Tls(
            ca_file=authorities,
            certificate_file=_setting(signal, "CLIENT_CERTIFICATE"),
            key_file=_setting(signal, "CLIENT_KEY"),
        )
        self._is_packed = (_setting(signal, "COMPRESSION") or "").lower() == "gzip"
        endpoint = parse_endpoint(url, default_port=80, tls=tls)
        self.url = str(endpoint)
        self._control = HttpControl(Connection(endpoint, _headers(signal), TIMEOUT_S))

    def __call__(self, body: bytes, /) -> bytes:
        headers: tuple[tuple[str, str], ...] = (CONTENT_TYPE,)
        if self._is_packed:
            body, headers = gzip.compress(body), (CONTENT_TYPE, ("Content-Encoding", "gzip"))
        status, text = self._control.exchange("POST", "", body, headers=headers, largest=LARGEST_REPLY)
        if not 200 <= status < 300:
            said = printable(reason_of(text)[:200])
            raise PeerError(
                f"it answered with status {status}" + (f" ({said})" if said.isascii() and said else "")
            )
        return text


def _setting(signal: str, name: str) -> str | None:
    """Return the environment variable for this signal, otherwise the one for all signals."""
    return (
        os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}")
        or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}")
        or None
    )


def _headers(signal: str) -> tuple[tuple[str, str], ...]:
    """Parse `name=value,name=value` with percent-encoded values; parts of another form are ignored."""
    pairs = (part.partition("=") for part in (_setting(signal, "HEADERS") or "").split(","))
    return tuple(
        (name.strip(), unquote(value.strip()))
        for name, separator, value in pairs
        if separator and name.strip()
    )
