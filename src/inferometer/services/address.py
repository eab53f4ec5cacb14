"""Parsing of addresses as users write them, without contacting the server."""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits
from inferometer.options.words import split_addresses
from inferometer.services.endpoint import split_authority

SCHEMES = {"http": 80, "https": 443, "grpc": None, "grpcs": None}
"""Schemes with their default ports; that of gRPC depends on the server."""

LOCAL = "localhost"
_ASCII = "".join(map(chr, range(0x21, 0x7F)))  # left unescaped in a path

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)"
_NO_SLASHES = rf"(?i)({'|'.join(SCHEMES)}):([^/\d].*|\d+[.:].*)"
_PARTS = r"(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?P<fragment>#.*)?"


class Address(NamedTuple):
    """A parsed address."""

    host: str
    port: int | None = None
    scheme: str = ""
    path: str = ""
    query: str = ""  # including the question mark

    @property
    def is_grpc(self) -> bool:
        return self.scheme in ("grpc", "grpcs")

    def url(self, default_port: int, path: str = "") -> str:
        """Return the address in the form of `endpoint.parse_endpoint`, with another path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = f"http{'s' if self.scheme in ('https', 'grpcs') else ''}://" if self.scheme else ""
        port = self.port or SCHEMES.get(self.scheme) or default_port
        return f"{scheme}{host}:{port}{path}"


def read_address(text: str) -> Address:
    """Parse `host`, `host:port`, `:port` or `[v6]:port`, optionally with a scheme, a path and a query."""
    url = text.strip()
    if any(char.isspace() or not char.isprintable() for char in url):
        raise UsageError(f"the address '{url}' contains a space", remedy="write it like localhost:8000")
    known = re.fullmatch(_SCHEME, url)
    scheme, rest = (known[1].lower(), known[2]) if known is not None else ("", url)
    parts = re.fullmatch(_PARTS, rest)
    assert parts is not None  # any text matches
    authority, path, query = parts["authority"], parts["path"] or "", parts["query"] or ""
    if "@" in authority:
        raise _with_user(*authority.rpartition("@")[::2])
    if scheme and scheme not in SCHEMES:
        raise UsageError(
            f"the address '{url}' has the unsupported scheme '{scheme}'",
            remedy="write host:port, or one of http://, https://, grpc:// and grpcs:// before it",
        )
    if parts["fragment"]:
        raise UsageError(
            f"the address '{url}' ends with '{parts['fragment']}', but clients do not send fragments",
            remedy=f"write {url.partition('#')[0]}",
        )
    if is_digits(authority) or (authority.startswith(":") and is_digits(authority[1:])):
        authority = f"{LOCAL}:{authority.lstrip(':')}"
    if "," in authority:
        raise UsageError(
            f"the address '{url}' names several servers, but only one is supported here",
            remedy="give one address; `inferometer measure` and `find` take several, except for MLPerf's rules",
        )
    if not scheme and (known := re.fullmatch(_NO_SLASHES, url)) is not None:
        raise UsageError(
            f"the address '{url}' has no // after the scheme", remedy=f"write {known[1].lower()}://{known[2]}"
        )
    if authority.startswith("[") != ("]" in authority) or (authority.count(":") > 1 and authority[0] != "["):
        raise UsageError(f"the address '{url}' is not host:port", remedy=_with_fewer_colons(authority))
    host, port = split_authority(authority, url)
    if host.lower() in SCHEMES and port is None and path:
        raise UsageError(
            f"the address '{url}' has no host", remedy=f"write {host.lower()}://{path.lstrip('/')}"
        )
    return Address(host, port, scheme, *(quote(part, safe=_ASCII) for part in (path, query)))


def read_addresses(text: str) -> tuple[Address, ...]:
    """Parse one address, or several separated by commas."""
    return tuple(map(read_address, split_addresses(text)))


def _with_fewer_colons(authority: str) -> str:
    """Return how to write an authority with several colons: an IPv6 address, or a model after the port."""
    host, _, last = authority.rpartition(":")
    if _is_ipv6(host) and re.fullmatch(r"[0-9]{4,5}", last):
        return f"write an IPv6 address in brackets: [{host}]:{last}"
    if _is_ipv6(authority):
        return f"write an IPv6 address in brackets, and the port after it: [{authority}]:8000"
    found = re.fullmatch(r"([^:]+:[0-9]+):([A-Za-z].*)", authority)
    if found is not None:
        return f"write {found[1]}, and a model after a space: {found[1]} {found[2]}"
    return "write host:port, and an IPv6 address in brackets: [::1]:8000"


def _is_ipv6(host: str) -> bool:
    import ipaddress

    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False


def _with_user(user: str, host: str) -> UsageError:
    """Return the error for an address with user information, which may be secret and is not shown; a single word may be
    the model."""
    shown = host or "a server"
    header = '-H "Authorization: Basic $(printf USER:PASSWORD | base64)"'
    model = "" if ":" in user else f"; or, if the part before the @ is the model: {shown} MODEL"
    return UsageError(
        f"the address of {shown} contains a user name or a password",
        remedy=f"write {shown}, and send them in a header: {header}{model}",
    )


# --- known paths


class ServerPath(NamedTuple):
    """Meaning of a path: the kinds of servers that have it, and its parts."""

    kinds: tuple[str, ...]
    prefix: str  # path before it, for example of a proxy
    model: str = ""
    version: str = ""
    endpoint: str = ""  # of an OpenAI-style server
    is_measured: bool = True  # whether it is, or contains, a path for inference


_MODEL = r"(?P<model>[^/:]+)"
_VERSION = r"(?:/versions/(?P<version>[^/:]+))?"

_TEXT = (
    r"v1/(?:chat/completions|completions|embeddings|responses|rerank|audio/transcriptions|messages)"
    r"|api/(?:chat|generate|embed)|v2/(?:embed|rerank)|embed|generate_stream"
    r"|v2/models/(?P<model>[^/:]+)(?:/versions/[^/:]+)?/generate(?:_stream)?"
)
"""Endpoints of text servers."""

_ASIDE = (
    (("triton",), rf"/v2/models/{_MODEL}{_VERSION}/(?:ready|stats|config)"),
    (("triton",), r"/v2/(?:health/(?:live|ready)|repository/index|models/stats)"),
    (("tfserving",), rf"/v1/models/{_MODEL}{_VERSION}/metadata"),
)
"""Paths of such a server other than those for inference, or not measured here."""

_PATHS = tuple(
    (kinds, rf"(?P<prefix>.*?){pattern}", (kinds, pattern) not in _ASIDE)
    for kinds, pattern in (
        *_ASIDE,
        (("triton",), rf"/v2(?:/models(?:/{_MODEL}{_VERSION}(?:/infer)?)?)?"),
        (("openai",), rf"/(?P<endpoint>{_TEXT})"),
        (("openai", "tfserving"), r"/v1(?:/models)?"),
        (("tfserving", "openai"), rf"/v1/models/{_MODEL}"),
        (("tfserving",), rf"/v1/models/{_MODEL}{_VERSION}(?::predict)?"),
        (("torchserve",), rf"/predictions/{_MODEL}(?:/(?P<version>[^/]+))?"),
    )
)


def maybe_server_path(path: str) -> ServerPath | None:
    """Return the meaning of a path judged by its form; None if it is not a known path."""
    if not path.strip("/"):
        return None
    for kinds, pattern, is_measured in _PATHS:
        if (found := re.fullmatch(pattern, path)) is not None:
            parts = {name: unquote(value) for name, value in found.groupdict(default="").items()}
            return ServerPath(kinds, **{**parts, "prefix": found["prefix"]}, is_measured=is_measured)
    return None


def model_in(url: str | None, kind: str) -> str:
    """Return the model named in the path of an address, if a server of this kind has such paths."""
    path = "" if url is None else read_address(split_addresses(url)[0]).path
    known = maybe_server_path(path.rstrip("/"))
    return known.model if known is not None and kind in known.kinds else ""
