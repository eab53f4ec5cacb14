"""Log of all messages to and from the server, shown with `-v -v` and silent by default.

`logging` would also work, but takes as long to import as all the code that a worker needs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALOUD = 2  # number of -v options that turn the log on
LONGEST = 4000  # characters of a message


class MessageLog:
    """Log that writes lines to stderr while it is enabled."""

    def __init__(self) -> None:
        self.is_shown = False

    def debug(self, text: str, *values: object) -> None:
        if self.is_shown:
            print(text % values if values else text, file=sys.stderr, flush=True)


MESSAGES = MessageLog()


def body_text(body: bytes | bytearray | memoryview, json_length: int | None = None) -> str:
    """Return a body for display: its JSON or text without secrets, and the size of the binary part."""
    from inferometer.base.secrets import redacted
    from inferometer.base.text import printable

    length = len(body) if json_length is None else min(json_length, len(body))
    try:
        text = bytes(body[:length]).decode()
    except UnicodeDecodeError:
        text, length = "", 0
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}... ({len(text) - LONGEST} more characters)"
    rest = len(body) - length
    return printable(redacted(text)) + (f" + {rest} bytes of binary data" if rest else "")


@contextmanager
def messages_shown(verbose: int) -> Iterator[None]:
    """Show messages on stderr inside the block if -v was given twice."""
    if verbose < ALOUD:
        yield
        return
    MESSAGES.is_shown = True
    try:
        yield
    finally:
        MESSAGES.is_shown = False
