"""What reaches a run from outside: Ctrl-C and SIGTERM, a reader of our output that goes away, a full disk or memory."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from inferometer.base.errors import LocalError, maybe_shortage
from inferometer.base.writing import FULL, unwritten

INTERRUPTED = 128 + signal.SIGINT  # the exit code, as a shell has it
UNREAD = 128 + signal.SIGPIPE  # the same where the reader of stdout has gone
WHILE_IMPORTING_S = 0.02  # between two tries to end a command


def drop_output() -> int:
    """The reader of stdout has gone (`| head`): write no more, and say so as the shell would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return UNREAD


def _shortage(error: OSError | MemoryError) -> LocalError:
    """What to say when memory, files or room for the screen or a temporary file are missing.

    Any other error is raised again: the reader of our output has gone, or it is a bug.
    """
    found = maybe_shortage(error)
    if found is not None:
        return found
    if not isinstance(error, OSError) or error.errno not in FULL:
        raise error
    drop_output()
    return unwritten(error.filename or "what is printed, or a temporary file", error)


class Interrupts:
    """Whether the user wants to end: the first signal lets the run end in order, the second ends it at once.

    What it says goes straight to the file: a signal may come in the middle of a print, which cannot be entered twice.
    """

    def __init__(self, fd: int = 2, *, is_silent: bool = False, exit_code: int = INTERRUPTED) -> None:
        self._fd = fd
        self._exit_code = exit_code  # after the second
        self._is_silent = is_silent  # about the first: somebody else says so, or nothing is to be said
        self.asked = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        is_again, self.asked = self.asked, True
        consequence = (
            "Exiting immediately..." if is_again else "Waiting for in-flight inferences to complete."
        )
        lead = "\n" if os.isatty(self._fd) else ""  # the terminal shows ^C
        with suppress(OSError):
            if is_again or not self._is_silent:
                os.write(self._fd, f"{lead}{received(number)}\n{consequence}\n".encode())
        if is_again:
            os._exit(self._exit_code)

    def is_asked(self) -> bool:
        return self.asked

    @contextmanager
    def caught(self) -> Iterator["Interrupts"]:
        with handled_by(self._receive):
            yield self


def received(number: int) -> str:
    return f"Interrupt signal ({number}) received."


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM alike raise KeyboardInterrupt with their number, wherever no run catches them.

    Ctrl-C does so also in a command that a script started in the background, where shells have it ignored. Once the
    command is over and has only its last sentence to say, a signal ends the process without a traceback. A lack of
    memory, files or room becomes the error that says so.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame):
            raise KeyboardInterrupt(number)
        again = threading.Timer(WHILE_IMPORTING_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with handled_by(end):
            yield
            sys.stdout.flush()  # what is still to be printed may not be lost to a later signal
    except (OSError, MemoryError) as error:
        raise _shortage(error) from error


def _is_importing(frame: FrameType | None) -> bool:
    """Modules written in C take an exception in the middle of their import for a fault of theirs."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM go to this handler, and after it to the one of before."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
