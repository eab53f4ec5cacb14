"""External events: Ctrl-C, SIGTERM and SIGHUP, a closed stdout, a full disk, a lack of memory.

SIGHUP, which a closing terminal sends, ends a run like SIGTERM; under nohup it stays ignored. The same signal twice
within half a second counts once: a terminal, a shell and a wrapper may each forward it.
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
from inferometer.base.errors import LocalError, PeerError, maybe_shortage
from inferometer.base.units import NS_PER_MS, monotonic_ns
from inferometer.base.writing import FULL, unwritten

INTERRUPTED = 128 + signal.SIGINT  # exit code, following the shell's convention
HUNG_UP = 128 + signal.SIGHUP
UNREAD = 128 + signal.SIGPIPE  # exit code after the reader of stdout has gone
WHILE_IMPORTING_S = 0.02  # between two attempts to end a command
ECHO_NS = 500 * NS_PER_MS  # a repetition of the same signal within this time is ignored
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command in an orderly way."""


@dataclass(slots=True)
class _Received:
    """Signals received by this process."""

    first: int = 0
    at_ns: dict[int, int] = field(default_factory=dict)  # last counted arrival, by signal number


_RECEIVED = _Received()


def note_signal(number: int, *, is_patient: bool = False) -> bool:
    """Make every call of this process end soon; return False for a repeated signal.

    A patient process, such as a classic script, lets calls finish and counts every signal.
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
    """Return the exit code of a command that a signal ended in an orderly way."""
    return HUNG_UP if was_hung_up() else INTERRUPTED


def was_hung_up() -> bool:
    """Return whether the signal was SIGHUP: the classic scripts report all other signals as a normal end."""
    return _RECEIVED.first == signal.SIGHUP


def _forget_signals() -> None:
    INTERRUPT.at_ns, _RECEIVED.first = None, 0
    _RECEIVED.at_ns.clear()


def _leave_closed_terminal() -> None:
    """Redirect output from a closed terminal, where writes fail: the files of the run still have to be written."""
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
    """Discard further output, because the reader of stdout has gone (`| head`); return the shell's exit code for
    that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return UNREAD


def _shortage(error: OSError | MemoryError) -> LocalError:
    """Return the error for a lack of memory, files, or disk space for the screen or a temporary file.

    Re-raise any other error: the reader of our output has gone, or it is a bug.
    """
    found = maybe_shortage(error)
    if found is not None:
        return found
    if not isinstance(error, OSError) or error.errno not in FULL:
        raise error
    drop_output()
    return unwritten(error.filename or "standard output or a temporary file", error)


class Interrupts:
    """Signal handler of a run: the first signal ends it in an orderly way, the second at once.

    Messages are written directly to the file descriptor: a signal may arrive during a print, which is not reentrant.
    """

    def __init__(
        self, fd: int = 2, *, is_silent: bool = False, exit_code: int = INTERRUPTED, is_patient: bool = False
    ) -> None:
        self._fd = fd
        self._is_patient = is_patient  # the first Ctrl-C lets calls and windows finish
        self._exit_code = exit_code  # after the second signal
        self._is_silent = is_silent  # no message about the first signal
        self.asked = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not note_signal(number, is_patient=self._is_patient and number == signal.SIGINT):
            return
        is_again, self.asked = self.asked, True
        consequence = (
            "Exiting immediately..." if is_again else "Waiting for in-flight inferences to complete."
        )
        lead = "\n" if os.isatty(self._fd) else ""  # the terminal has echoed ^C
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
    """Raise KeyboardInterrupt with the signal's number on Ctrl-C, SIGTERM and SIGHUP when no run catches them.

    This includes Ctrl-C in a command that a script started in the background, where shells ignore it. Once the command
    is over and only its last message is left, a signal ends the process without a traceback. A server call that the
    signal cut off counts as interrupted. A lack of memory, files or disk space becomes an error that says so.
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
            sys.stdout.flush()  # a later signal must not lose buffered output
    except PeerError as error:
        if INTERRUPT.is_over():
            raise KeyboardInterrupt from error
        raise
    except (OSError, MemoryError) as error:
        raise _shortage(error) from error
    finally:
        INTERRUPT.at_ns = None


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether an import is in progress: modules written in C mistake an exception during import for their own
    fault."""
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
