"""What reaches a run from outside: Ctrl-C, SIGTERM and SIGHUP, a closed stdout, a full disk or lack of memory.

SIGHUP, which a terminal sends when it closes, ends a run as SIGTERM does; under nohup it stays ignored. The same signal
twice within half a second is one: a terminal, a shell and a wrapper may each pass it on.
"""

import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

from inferometer.base.deadline import INTERRUPT
from inferometer.base.errors import LocalError, maybe_shortage
from inferometer.base.units import NS_PER_MS, monotonic_ns
from inferometer.base.writing import FULL, unwritten

INTERRUPTED = 128 + signal.SIGINT  # the exit code, as a shell has it
HUNG_UP = 128 + signal.SIGHUP
UNREAD = 128 + signal.SIGPIPE  # the same where the reader of stdout has gone
WHILE_IMPORTING_S = 0.02  # between two tries to end a command
ECHO_NS = 500 * NS_PER_MS  # the same signal again within this time is the same request to end
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a command in order."""


@dataclass(slots=True)
class _Received:
    """The signals of this process."""

    first: int = 0
    at_ns: dict[int, int] = field(default_factory=dict)  # by number, the last that counted


_RECEIVED = _Received()


def note_signal(number: int, *, is_patient: bool = False) -> bool:
    """Have every call of this process end soon; False for a signal that repeats the last one.

    A patient process, as the classic scripts are, lets calls end by themselves and counts every signal.
    """
    now_ns = monotonic_ns()
    if not is_patient and now_ns - _RECEIVED.at_ns.get(number, -ECHO_NS) < ECHO_NS:
        return False
    _RECEIVED.at_ns[number] = now_ns
    if INTERRUPT.at_ns is None and not is_patient:
        INTERRUPT.at_ns, _RECEIVED.first = now_ns, number
    if number == signal.SIGHUP:
        _leave_closed_terminal()
    return True


def interrupted_code() -> int:
    """The exit code of a command that a signal ended in order."""
    return HUNG_UP if was_hung_up() else INTERRUPTED


def was_hung_up() -> bool:
    """Whether the signal was SIGHUP: the classic scripts report the others as a normal end."""
    return _RECEIVED.first == signal.SIGHUP


def _forget_signals() -> None:
    INTERRUPT.at_ns, _RECEIVED.first = None, 0
    _RECEIVED.at_ns.clear()


def _leave_closed_terminal() -> None:
    """A write to a terminal that was closed fails; the files of the run are still to be written."""
    for fd in (1, 2):
        with suppress(OSError):
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            is_closed = any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
            if is_closed and stat.S_ISCHR(os.fstat(fd).st_mode):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, fd)
                os.close(nowhere)


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

    def __init__(
        self, fd: int = 2, *, is_silent: bool = False, exit_code: int = INTERRUPTED, is_patient: bool = False
    ) -> None:
        self._fd = fd
        self._is_patient = is_patient  # the first Ctrl-C lets calls and windows end by themselves
        self._exit_code = exit_code  # after the second
        self._is_silent = is_silent  # about the first: somebody else says so, or nothing is to be said
        self.asked = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not note_signal(number, is_patient=self._is_patient and number == signal.SIGINT):
            return
        is_again, self.asked = self.asked, True
        consequence = (
            "Exiting immediately..." if is_again else "Waiting for in-flight inferences to complete."
        )
        lead = "\n" if os.isatty(self._fd) else ""  # the terminal shows ^C
        with suppress(OSError):
            if is_again or not self._is_silent:
                os.write(self._fd, f"{lead}{received(number)}\n{consequence}\n".encode())
        if is_again:
            os._exit(HUNG_UP if number == signal.SIGHUP else self._exit_code)

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
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt with their number, wherever no run catches them.

    Ctrl-C does so also in a command that a script started in the background, where shells have it ignored. Once the
    command is over and has only its last sentence to say, a signal ends the process without a traceback. A lack of
    memory, files or room becomes the error that says so.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame):
            if note_signal(number):
                raise KeyboardInterrupt(number)
            return
        again = threading.Timer(WHILE_IMPORTING_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    _forget_signals()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with handled_by(end):
            yield
            sys.stdout.flush()  # what is still to be printed may not be lost to a later signal
    except (OSError, MemoryError) as error:
        raise _shortage(error) from error
    finally:
        INTERRUPT.at_ns = None


def _is_importing(frame: FrameType | None) -> bool:
    """Modules written in C take an exception in the middle of their import for a fault of theirs."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Send Ctrl-C, SIGTERM and SIGHUP to this handler inside the block. Under nohup SIGHUP stays ignored."""
    numbers = [n for n in ENDING if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
