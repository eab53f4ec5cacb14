"""Address of the server, and the common parameters of calls to it."""

import re
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.secrets import redacted
from inferometer.base.text import is_digits

if TYPE_CHECKING:
    # Not imported by workers: it loads the whole table of options.
    from inferometer.options.options import Tls


class Endpoint(NamedTuple):
    """Host, port, path prefix and, for https, the TLS settings."""

    host: str
    port: int
    prefix: str = ""
    tls: "Tls | None" = None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, int, bool]:
        """The scope of credentials: host, port and whether TLS is used."""
        return self.host.lower(), self.port, self.tls is not None

    def __str__(self) -> str:
        return redacted(f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}")


CONTROL_TIMEOUT_S = 20.0
KEY_HEADERS = ("authorization", "x-api-key")


class Connection(NamedTuple):
    """Common parameters of control calls to the server: address, headers, and the time for a whole reply."""

    endpoint: Endpoint
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = CONTROL_TIMEOUT_S

    def __repr__(self) -> str:
        return f"Connection({self.endpoint!r})"  # headers may contain secrets

    def beside(self, endpoint: Endpoint) -> "Connection":
        """Return a connection to another address; headers and client certificates are only sent to their own origin.

        Another port is another origin, as it may belong to another user of that machine.
        """
        if endpoint.origin == self.endpoint.origin:
            return self._replace(endpoint=endpoint)
        if endpoint.tls is not None:
            from dataclasses import replace  # not needed by workers

            tls = replace(endpoint.tls, certificate_file=None, key_file=None)
            endpoint = endpoint._replace(tls=tls)
        return Connection(endpoint, timeout_s=self.timeout_s)

    @property
    def key(self) -> str:
        """The key after `Bearer`, or in the header for keys; empty if none is sent."""
        said = [value.split() for name, value in self.headers if name.lower() in KEY_HEADERS]
        return said[0][-1] if said and said[0] else ""


def without_key(text: str, key: str) -> str:
    """Remove the key from a server's text: a server that refuses a key may repeat it."""
    return text.replace(key, "***") if key else text


def parse_endpoint(url: str, *, default_port: int, tls: "Tls") -> Endpoint:
    """Parse `host`, `host:port`, `[v6]:port` or `http(s)://host:port/prefix`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "http", url
    if scheme.lower() not in ("http", "https"):
        raise UsageError(
            f"the address '{url}' has the unsupported scheme '{scheme}'",
            remedy="use host:port, http://host:port or https://host:port",
        )
    secure = scheme.lower() == "https"
    authority, slash, path = rest.partition("/")
    host, port = split_authority(authority, url)
    if port is None:
        port = 443 if secure else default_port
    return Endpoint(host=host, port=port, prefix=(slash + path).rstrip("/"), tls=tls if secure else None)


def split_authority(authority: str, url: str) -> tuple[str, int | None]:
    """Return host and port, if given; `url` is the whole address for error messages."""
    if authority.startswith("["):
        host, _, tail = authority[1:].partition("]")
        port_text = tail.removeprefix(":")
    else:
        host, _, port_text = authority.partition(":")
    if not _is_name(host) or not (is_digits(port_text) or port_text == ""):
        raise UsageError(f"the address '{url}' is not host:port", remedy="write it like localhost:8000")
    port = int(port_text) if port_text else None
    if port is not None and not 0 < port < 65536:
        raise UsageError(
            f"the address '{url}' has the invalid port {port}", remedy="use a port from 1 to 65535"
        )
    return host, port


def _is_name(host: str) -> bool:
    """Return whether the host can be resolved: Python uses its IDNA form, which not every text has."""
    if re.search(r"[;'\"<>|\\(){}^`*!$&=+]", host) is not None:
        return False
    try:
        return bool(host.encode("idna")) and host.isprintable()
    except UnicodeError:
        return False
