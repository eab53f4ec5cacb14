"""Every message to and from the server, for users who ask to see them (`-v -v`): a logger that is silent by default."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ALOUD = 2  # times -v

MESSAGES = logging.getLogger("inferometer.messages")
MESSAGES.propagate = False


@contextmanager
def messages_shown(verbose: int) -> Iterator[None]:
    """Write them to stderr meanwhile, if -v was given twice."""
    if verbose < ALOUD:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    MESSAGES.addHandler(handler)
    MESSAGES.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        MESSAGES.removeHandler(handler)
        MESSAGES.setLevel(logging.NOTSET)
