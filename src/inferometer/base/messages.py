"""Every message to and from the server, for users who ask to see them (`-v -v`): silent by default.

`logging` would do as well, and takes as long to import as all of our own code that a worker needs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALOUD = 2  # times -v
LONGEST = 4000  # characters of a message


class MessageLog:
    """Writes lines to stderr while it is asked to."""

    def __init__(self) -> None:
        self.is_shown = False

    def debug(self, text: str, *values: object) -> None:
        if self.is_shown:
            print(text % values if values else text, file=sys.stderr, flush=True)


MESSAGES = MessageLog()


def body_text(body: bytes | bytearray | memoryview, json_length: int | None = None) -> str:
    """A body as it is shown: its JSON or text without secrets, and the size of the binary part behind it."""
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
    """Write them to stderr meanwhile, if -v was given twice."""
    if verbose < ALOUD:
        yield
        return
    MESSAGES.is_shown = True
    try:
        yield
    finally:
        MESSAGES.is_shown = False
