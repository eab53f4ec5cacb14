"""Processes that a test started, found by a token in their command lines."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def marked() -> Iterator[str]:
    """Yield a token; processes that are left at the end, after a failure, are killed."""
    token = f"planted-{secrets.token_hex(8)}"
    try:
        yield token
    finally:
        for process in left(token):
            process.kill()


def left(token: str) -> list[psutil.Process]:
    """Return the processes with this token that are still running."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if token in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
