"""Kinds of failures in foreign files, as our status codes."""

from inferometer.base import status

_WORDS = (
    ("timeout", status.TIMEOUT),
    ("timed out", status.TIMEOUT),
    ("cancel", status.CANCELLED),
    ("ssl", status.TLS),
    ("certificate", status.TLS),
    ("reset", status.RESET),
    ("disconnected", status.RESET),
    ("connect", status.CONNECT),
    ("decode", status.MALFORMED),
)


def status_of(code: int | None, words: str) -> int:
    """Return the status for an HTTP code, or for a tool's words about a failure."""
    lowered = words.lower()
    if code is not None and 100 <= code < 600 and not (code == 499 and "cancel" in lowered):
        return status.HTTP + code
    return next((found for word, found in _WORDS if word in lowered), status.OTHER)
