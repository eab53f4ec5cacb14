"""Every message to and from the server, for users who ask to see them (`-v -v`): silent by default.

`logging` would do as well, and takes as long to import as all of our own code that a worker needs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALOUD = 2  # times -v


class MessageLog:
    """Writes lines to stderr while it is asked to."""

    def __init__(self) -> None:
        self.is_shown = False

    def debug(self, text: str, *values: object) -> None:
        if self.is_shown:
            print(text % values if values else text, file=sys.stderr, flush=True)


MESSAGES = MessageLog()


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
