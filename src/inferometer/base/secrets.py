"""Texts as they may be shown and kept: without passwords in addresses, keys in queries, and bodies of requests."""

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

_HINT = r"(?i)@|[?&;=]|[\"']\s*:|bearer|basic"
_FIELD = r"([A-Za-z_][\w.-]*)=(-?[\d.]+(?:[eE][+-]?\d+)?|true|false|null)"
_RULES = (
    (r"(?<=://)[^/?#\s'\"]*@", f"{MASK}@"),
    (r"(?<![\w/@])([\w.+%-]{1,128}):[^\s/@'\"?#]{1,256}@(?=[\w\[])", rf"\1:{MASK}@"),
    (rf"(?i)([?&;]({_QUERY_NAMES})=)[^&;#\s'\"]*", rf"\1{MASK}"),
    (rf"(?i)(?<![\w.?&;-])(({_NAMES})=)(?!\*\*\*)[^&;\s'\",]+", rf"\1{MASK}"),
    (rf"(?i)(([\"'])({_NAMES})\2\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,}}\]]+)", rf'\1"{MASK}"'),
    (r"(?i)\b(Bearer|Basic)\s+[\w.~+/-]{6,}=*", rf"\1 {MASK}"),
)
"""Patterns, and what is left of them. They are compiled when a text may need them: most programs never do."""


def redacted(text: str) -> str:
    """The text without passwords of addresses and without the values of what is called a key, token or password."""
    if re.search(_HINT, text) is None:
        return text
    for pattern, left in _RULES:
        text = re.sub(pattern, left, text)
    return text


def _is_secret_name(name: str) -> bool:
    return re.fullmatch(f"(?i)(?:{_NAMES})", name) is not None


def redacted_body(text: str) -> str:
    """What stands for a body that was given as text: its length and the start of its digest, so that equal bodies
    look equal. The name of a file stays, and so does a field that is set to a number or a truth value."""
    if text.startswith("@"):
        return text
    field = re.fullmatch(_FIELD, text)
    if field is not None and not _is_secret_name(field[1]):
        return text
    import hashlib

    data = text.encode("utf-8", "surrogateescape")
    return f"{MASK} ({len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]})"


def redacted_parameter(name: str, value: str) -> str:
    """The value of a parameter of requests, unless its name says that it is a secret."""
    return MASK if _is_secret_name(name) else redacted(value)


def redacted_document(value: Any, name: str = "") -> Any:
    """A document of JSON values without secrets; of headers only their names are left."""
    if isinstance(value, Mapping):
        return {key: redacted_document(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_document(part, name) for part in value]
    if not isinstance(value, str):
        return MASK if value is not None and _is_secret_name(name) else value
    if name.lower().lstrip("-") in ("h", "header", "headers"):
        return f"{value.partition(':')[0]}:{MASK}"
    return MASK if _is_secret_name(name) else redacted(value)
