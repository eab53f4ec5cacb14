"""Redaction of secrets: passwords in addresses, keys in queries, and request bodies."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MASK = "***"

_NAMES = (
    r"(?:[\w.-]{0,64}(?:[_.-]|(?-i:(?<=[a-z0-9])(?=[A-Z]))))?(?:api[_-]?key|apikey|access[_-]?key|subscription[_-]?key"
    r"|private[_-]?key|secret[_-]?key|token|secret|password|passwd|passphrase|pwd|credentials?|signature|authorization"
    r"|bearer|session[_-]?id|jwt)|x-functions-key"
)
"""Names of values that are always secrets; their last word may also start with a capital letter."""

_QUERY_NAMES = rf"{_NAMES}|key|sig|sas|auth|code|pass|pw|creds|session|sid|hapikey|x-amz-[\w-]*|x-goog-[\w-]*"
"""Names of query parameters that are secrets."""

_HEADERS = (
    r"(?:[\w-]{1,64}-)?(?:authorization|api-key|auth-token|access-token)|(?:set-)?cookie"
    r"|x-[\w-]{0,64}(?:key|token|secret|auth)"
)
"""Headers whose values are secrets."""

_HINT = r"(?i)@|[?&;=:]|bearer|basic|--"
_FIELD = r"([A-Za-z_][\w.-]*)=(-?[\d.]+(?:[eE][+-]?\d+)?|true|false|null)"
_PORT_WORD = r"(?i:\{?port\}?)(?:[/?#,;\s'\")]|\.?$|\.\s)"  # as in messages about addresses
_NO_PORT = (
    # A port may also end a sentence; any other text after the colon is part of a password.
    rf"(?![0-9]*(?:[/?#,\s'\"]|$)|[0-9]+[.,:;!)\]]+(?:\s|$)|{_PORT_WORD})"
)
_VALUE = r"(?:[^&;#\s'\"]|['\"](?=[\w%]))"  # a quote before a letter does not end the value


def _decoded(found: re.Match[str]) -> str:
    """Redact a query parameter whose name is percent-encoded."""
    from urllib.parse import unquote

    mark, name, value = found.groups()
    is_secret = re.fullmatch(rf"(?i)(?:{_QUERY_NAMES})(?:\[\])?", unquote(name)) is not None
    return f"{mark}{name}={MASK if is_secret else value}"


_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(?<=://)[^/?#\s'\"]*@", f"{MASK}@"),
    (rf"(?<=://)[^/?#\s'\"@:\[]{{1,64}}:{_NO_PORT}[^\n]{{0,256}}@", f"{MASK}@"),
    (
        rf"(?i)\b((?:https?|grpcs?|ray)://[^/?#\s'\"@:\[]{{1,64}}):{_NO_PORT}(?!\*\*\*)[^\s'\"@/,]+",
        rf"\1:{MASK}",
    ),
    (
        rf"(?:(?<=//)|(?<=:/)|(?<![\w/@]))([\w.+%-]{{1,64}}):{_NO_PORT}[^\s'\"]{{1,256}}@(?=[\w\[])",
        rf"\1:{MASK}@",
    ),
    (rf"(?i)([?&;](?:{_QUERY_NAMES})(?:\[\])?=){_VALUE}*", rf"\1{MASK}"),
    (rf"([?&;])([\w.%-]{{1,64}}%[\w.%-]{{1,64}})=({_VALUE}+)", _decoded),
    (rf"(?i)(?<![\w.?&;-])((?:{_NAMES})=)(?!\*\*\*)[^&;\s'\",]+", rf"\1{MASK}"),
    (rf"(?i)(([\"'])(?:{_NAMES})\2\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,}}\]]+)", rf'\1"{MASK}"'),
    (rf"(?i)(?<![\w-])((?:{_HEADERS})\s*:\s*)(?!(?:Bearer|Basic)\b|\*\*\*)[^\s'\"][^'\"\n]*", rf"\1{MASK}"),
    (rf"(?i)(?<![\w.-])((?:{_NAMES}):)(?!\s|//|\*\*\*)[^\s'\",]+", rf"\1{MASK}"),
    (rf"(?i)(?<![\w-])(--(?:{_NAMES})\s+)(?!-|\*\*\*|\d+\b)[^\s'\"]+", rf"\1{MASK}"),
    (r"(?i)\b(Bearer|Basic)\s+[\w.~+/-]{6,}=*", rf"\1 {MASK}"),
)
"""Patterns and their replacements, compiled on first use: most programs never need them."""


class GivenSecrets:
    """Secret values given to this process, longest first. Servers may repeat them in their answers."""

    def __init__(self) -> None:
        self.values: tuple[str, ...] = ()
        self.bodies: frozenset[str] = frozenset()  # the values that are request bodies

    def add(self, values: Iterable[str], bodies: Iterable[str] = ()) -> None:
        """Mask these values from now on, verbatim and as JSON strings, except short ones, which occur in ordinary
        words."""
        own = _spellings(bodies)
        self.bodies |= own
        known = {*self.values, *_spellings(values), *own}
        self.values = tuple(sorted(known, key=lambda value: (-len(value), value)))

    def masked(self, text: str, *, shows_bodies: bool = False) -> str:
        """Return the text with these values masked; also mask a value that is cut off at the end of the text."""
        for value in self.values:
            if shows_bodies and value in self.bodies:
                continue
            text = text.replace(value, MASK)
            at = text.find(value[:_SHORTEST])
            while at >= 0:
                rest = text[at:].removesuffix("...").removesuffix("\u2026")
                if value.startswith(rest):
                    text = text[:at] + MASK
                at = text.find(value[:_SHORTEST], at + 1)
        return text


GIVEN = GivenSecrets()
_SHORTEST = 6
_PUBLIC_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "cache-control", "connection"),
        *("content-encoding", "content-length", "content-type", "host", "user-agent"),
    )
)


def _spellings(values: Iterable[str]) -> set[str]:
    import json

    known = {value for value in values if len(value) >= _SHORTEST}
    return known | {json.dumps(value, ensure_ascii=False)[1:-1] for value in known}


def header_secrets(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield header values that may be secrets: whole, without their scheme, and each cookie."""
    for name, value in headers:
        if name.lower() in _PUBLIC_HEADERS:
            continue
        yield value.strip()
        yield from value.split()[-1:]
        if name.lower() == "cookie":
            yield from (cookie.partition("=")[2].strip() for cookie in value.split(";"))


def query_secrets(address: str) -> Iterator[str]:
    """Yield the values of secret query parameters, as written and decoded."""
    from urllib.parse import unquote, unquote_plus

    for part in re.split("[&;]", address.partition("?")[2].partition("#")[0]):
        name, _, value = part.partition("=")
        if re.fullmatch(rf"(?i)(?:{_QUERY_NAMES})(?:\[\])?", unquote(name)) is not None:
            yield from (value, unquote(value), unquote_plus(value))


def body_secrets(text: str) -> Iterator[str]:
    """Yield an inline body, and the value of a field that it sets."""
    if redacted_body(text) == text:
        return
    yield text
    field = re.fullmatch(r"(?s)[A-Za-z_][\w.-]*=(.+)", text)
    if field is not None:
        yield from (field[1], field[1].strip('"'))


def redacted(text: str, *, shows_bodies: bool = False) -> str:
    """Return the text without given secrets, passwords in addresses, and values named as a key, token or password.

    A preview shows the body that it would send.
    """
    if GIVEN.values:
        text = GIVEN.masked(text, shows_bodies=shows_bodies)
    if re.search(_HINT, text) is None:
        return text
    for pattern, left in _RULES:
        text = re.sub(pattern, left, text)
    return text


def _is_secret_name(name: str) -> bool:
    return re.fullmatch(f"(?i)(?:{_NAMES})", name) is not None


def redacted_body(text: str) -> str:
    """Replace a body given as text by its length and the start of its digest, so that equal bodies look equal.

    File names are kept, and so are fields set to a number or a boolean.
    """
    if text.startswith("@"):
        return text
    field = re.fullmatch(_FIELD, text)
    if field is not None and not _is_secret_name(field[1]):
        return text
    import hashlib

    data = text.encode("utf-8", "surrogateescape")
    return f"{MASK} ({len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]})"


def redacted_parameter(name: str, value: str) -> str:
    """Return the value of a request parameter, masked if its name marks a secret."""
    return MASK if _is_secret_name(name) else redacted(value)


def redacted_document(value: Any, name: str = "") -> Any:
    """Return a JSON document without secrets; headers keep only their names."""
    if isinstance(value, Mapping):
        return {key: redacted_document(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_document(part, name) for part in value]
    if not isinstance(value, str):
        return MASK if value is not None and _is_secret_name(name) else value
    if name.lower().lstrip("-") in ("h", "header", "headers"):
        return f"{value.partition(':')[0]}:{MASK}"
    return MASK if _is_secret_name(name) else redacted(value)
