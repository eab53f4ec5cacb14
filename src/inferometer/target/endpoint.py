"""Where the server is and how to speak TLS to it."""

import ssl
from dataclasses import dataclass, field

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates and checks. The defaults verify everything against the system's authorities."""

    verify_peer: bool = True
    verify_host: bool = True
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    certificate_type: str = "PEM"
    key_type: str = "PEM"
    server_name: str | None = None  # to expect in the certificate instead of the host's


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host, port, path prefix and, for https, the TLS settings."""

    host: str
    port: int
    prefix: str = ""
    tls: Tls | None = None

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


def parse_endpoint(url: str, *, default_port: int, tls: Tls) -> Endpoint:
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
    host, port = _split_authority(authority, url, 443 if secure and separator else default_port)
    return Endpoint(host=host, port=port, prefix=(slash + path).rstrip("/"), tls=tls if secure else None)


def _split_authority(authority: str, url: str, default_port: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, _, tail = authority[1:].partition("]")
        port_text = tail.removeprefix(":")
    else:
        host, _, port_text = authority.partition(":")
    if not host or not (is_digits(port_text) or port_text == ""):
        raise UsageError(f"the address '{url}' is not host:port", remedy="write it like localhost:8000")
    port = int(port_text) if port_text else default_port
    if not 0 < port < 65536:
        raise UsageError(f"the address '{url}' has port {port}", remedy="use a port from 1 to 65535")
    return host, port


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The client context for these settings; a file that cannot be used is named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_host and tls.verify_peer
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify_peer else ssl.CERT_NONE
    _load_authorities(context, tls)
    _load_identity(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.ca_file is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the CA certificates file '{tls.ca_file}' cannot be used: {error}",
            remedy="give a PEM file of certificates",
        ) from error


def _load_identity(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.certificate_file is None:
        return
    for kind, name in ((tls.certificate_type, tls.certificate_file), (tls.key_type, tls.key_file)):
        if kind.upper() == "DER":
            raise UsageError(
                f"the file '{name}' is announced as DER, and only PEM is supported",
                remedy=f"convert it: openssl x509 -inform der -in {name} -out {name}.pem",
            )
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the client certificate '{tls.certificate_file}' with key '{tls.key_file}' cannot be used: {error}",
            remedy="give PEM files that belong together",
        ) from error
