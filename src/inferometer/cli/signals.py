"""What reaches a run from outside: Ctrl-C and SIGTERM, a reader of our output that goes away, a full disk."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from inferometer.base.errors import LocalError
from inferometer.base.writing import FULL, unwritten


def drop_output() -> int:
    """The reader of stdout has gone (`| head`): write no more, and say so as the shell would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + signal.SIGPIPE


def full_disk(error: OSError) -> LocalError:
    """What to say when the screen or a temporary file has no room; any other error is a bug, and raised again."""
    if error.errno not in FULL:
        raise error
    drop_output()
    return unwritten(error.filename or "what is printed, or a temporary file", error)


class Interrupts:
    """Whether the user wants to end: the first signal lets the run end in order, the second ends it at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.asked = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._say("Exiting immediately...")
            os._exit(0)
        self.asked = True
        self._say(f"\nInterrupt signal ({number}) received.\nWaiting for in-flight inferences to complete.")

    @contextmanager
    def caught(self) -> Iterator["Interrupts"]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._receive) for number in numbers]
        try:
            yield self
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
