"""Texts as they may be shown and kept: without passwords in addresses, keys in queries, and bodies of requests."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

_NAMES = (
    r"(?:[\w.-]*[_.-])?(?:api[_-]?key|apikey|access[_-]?key|subscription[_-]?key|private[_-]?key|token|secret|password"
    r"|passwd|passphrase|pwd|credentials?|signature|authorization|bearer|session[_-]?id|jwt)|x-functions-key"
)
"""Names of values that are secrets wherever they are."""

_QUERY_NAMES = rf"{_NAMES}|key|sig|auth|code|pass|client_secret|x-amz-[\w-]*|x-goog-[\w-]*"
"""Those that are secrets in a query."""

_IS_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/?#\s'\"]*@")
_BARE_USER = re.compile(r"(?<![\w/@])([\w.+%-]+):[^\s/@'\"?#]+@(?=[\w\[])")
_QUERY = re.compile(rf"([?&;]({_QUERY_NAMES})=)[^&;#\s'\"]*", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?<![\w.?&;-])(({_NAMES})=)(?!\*\*\*)[^&;\s'\",]+", re.IGNORECASE)
_MEMBER = re.compile(
    rf"(([\"'])({_NAMES})\2\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,}}\]]+)", re.IGNORECASE
)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic)\s+[\w.~+/-]{6,}=*")
_HINT = re.compile(r"@|[?&;=]|[\"']\s*:|bearer|basic", re.IGNORECASE)
_FIELD = re.compile(r"([A-Za-z_][\w.-]*)=(-?[\d.]+(?:[eE][+-]?\d+)?|true|false|null)")


def redacted(text: str) -> str:
    """The text without passwords of addresses and without the values of what is called a key, token or password."""
    if _HINT.search(text) is None:
        return text
    text = _USER.sub(f"{MASK}@", text)
    text = _BARE_USER.sub(rf"\1:{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _ASSIGNED.sub(rf"\1{MASK}", text)
    text = _MEMBER.sub(rf'\1"{MASK}"', text)
    return _BEARER.sub(rf"\1 {MASK}", text)


def redacted_body(text: str) -> str:
    """What stands for a body that was given as text: its length and the start of its digest, so that equal bodies
    look equal. The name of a file stays, and so does a field that is set to a number or a truth value."""
    if text.startswith("@"):
        return text
    field = _FIELD.fullmatch(text)
    if field is not None and _IS_SECRET_NAME.fullmatch(field[1]) is None:
        return text
    data = text.encode("utf-8", "surrogateescape")
    return f"{MASK} ({len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]})"


def redacted_parameter(name: str, value: str) -> str:
    """The value of a parameter of requests, unless its name says that it is a secret."""
    return MASK if _IS_SECRET_NAME.fullmatch(name) is not None else redacted(value)


def redacted_document(value: Any, name: str = "") -> Any:
    """A document of JSON values without secrets; of headers only their names are left."""
    if isinstance(value, Mapping):
        return {key: redacted_document(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_document(part, name) for part in value]
    if not isinstance(value, str):
        return MASK if value is not None and _IS_SECRET_NAME.fullmatch(name) else value
    if name.lower().lstrip("-") in ("h", "header", "headers"):
        return f"{value.partition(':')[0]}:{MASK}"
    return MASK if _IS_SECRET_NAME.fullmatch(name) is not None else redacted(value)
