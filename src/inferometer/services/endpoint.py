"""Where the server is and how to speak TLS to it."""

import base64
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits

if TYPE_CHECKING:
    from inferometer.options.options import Tls  # the whole table of options: workers do without it

DER = "DER"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host, port, path prefix and, for https, the TLS settings."""

    host: str
    port: int
    prefix: str = ""
    tls: "Tls | None" = None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


@dataclass(frozen=True, slots=True)
class Connection:
    """What every call to the server carries: address and headers."""

    endpoint: Endpoint
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets

    @property
    def key(self) -> str:
        """What stands behind `Bearer`; empty where no key is sent."""
        said = [value.split() for name, value in self.headers if name.lower() == "authorization"]
        return said[0][-1] if said and said[0] else ""


def without_key(text: str, key: str) -> str:
    """What a server says: one that refuses a key may repeat it."""
    return text.replace(key, "***") if key else text


def parse_endpoint(url: str, *, default_port: int, tls: "Tls") -> Endpoint:
    """`host`, `host:port`, `[v6]:port` or `http(s)://host:port/prefix`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "http", url
    if scheme.lower() not in ("http", "https"):
        raise UsageError(
            f"the address '{url}' has the scheme '{scheme}'",
            remedy="use host:port, http://host:port or https://host:port",
        )
    secure = scheme.lower() == "https"
    authority, slash, path = rest.partition("/")
    host, port = split_authority(authority, url)
    if port is None:
        port = 443 if secure else default_port
    return Endpoint(host=host, port=port, prefix=(slash + path).rstrip("/"), tls=tls if secure else None)


def split_authority(authority: str, url: str) -> tuple[str, int | None]:
    """Host and port, if one is given; the whole address stands in the sentence that refuses it."""
    if authority.startswith("["):
        host, _, tail = authority[1:].partition("]")
        port_text = tail.removeprefix(":")
    else:
        host, _, port_text = authority.partition(":")
    if not _is_name(host) or not (is_digits(port_text) or port_text == ""):
        raise UsageError(f"the address '{url}' is not host:port", remedy="write it like localhost:8000")
    port = int(port_text) if port_text else None
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"the address '{url}' has port {port}", remedy="use a port from 1 to 65535")
    return host, port


def _is_name(host: str) -> bool:
    """Whether it can be looked up: Python does so by its IDNA form, which not every text has."""
    try:
        return bool(host.encode("idna")) and host.isprintable()
    except UnicodeError:
        return False


def tls_context(tls: "Tls") -> ssl.SSLContext:
    """The client context for these settings; a file that cannot be used is named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_host and tls.verify_peer
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify_peer else ssl.CERT_NONE
    _load_authorities(context, tls)
    _load_identity(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: "Tls") -> None:
    if tls.ca_file is None:
        if tls.verify_peer:  # it takes as long as a hundred requests
            context.load_default_certs()
        return
    try:
        context.load_verify_locations(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the CA certificates file '{tls.ca_file}' cannot be used: {error}",
            remedy="give a PEM file of certificates",
        ) from error


def _load_identity(context: ssl.SSLContext, tls: "Tls") -> None:
    if tls.certificate_file is None:
        return
    try:
        with ExitStack() as opened:
            certificate = tls.certificate_file
            if tls.certificate_type == DER:
                certificate = opened.enter_context(_in_memory(_pem(certificate, "CERTIFICATE")))
            key = tls.key_file
            if key is not None and tls.key_type == DER:
                key = opened.enter_context(_in_memory(_pem(key, _key_label(Path(key).read_bytes()))))
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the client certificate '{tls.certificate_file}' ({tls.certificate_type}) with key '{tls.key_file}' "
            f"({tls.key_type}) cannot be used: {error}",
            remedy="give files that belong together, and say which are DER",
        ) from error


# --- DER, which Python's TLS does not read


def _pem(name: str, label: str) -> bytes:
    """A DER file as PEM: base64 between lines that say what it is."""
    text = base64.encodebytes(Path(name).read_bytes()).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


def _key_label(key: bytes) -> str:
    """What kind of key it is: told by the element behind the version (RFC 5958, RFC 8017 A.1.2, RFC 5915)."""
    start = 2 + (key[1] & 0x7F if key[1:2] > b"\x7f" else 0)  # behind tag and length of the outer sequence
    behind_version = key[start + 3 : start + 4]
    return {b"\x02": "RSA PRIVATE KEY", b"\x04": "EC PRIVATE KEY"}.get(behind_version, "PRIVATE KEY")


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path that leads to the data for as long as it is needed; nothing of a key gets to a disk."""
    with os.fdopen(os.memfd_create("identity"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
