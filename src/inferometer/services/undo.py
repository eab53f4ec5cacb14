"""Changes to a server that must be undone, even if the run that made them is killed.

    owner ---- starts, says what to undo ----> guard ---- reads until the owner is gone ----> undoes it

The owner holds the only other end of the guard's standard input, which closes with the owner, however that ends. A run
that ends in order undoes its changes by itself and ends its guard. What the server does not let us undo at once, such
as a memory region that a request is still using, is left to the guard, which has more time.
"""

import contextlib
import io
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from inferometer.base.deadline import UNDO_LAST_S, Deadline, DeadlineError, ending, within
from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.interpreter import module_command
from inferometer.base.units import monotonic_ns

if TYPE_CHECKING:
    from inferometer.options.options import Options

OWNER_TIMEOUT_S = 2.0
GONE_NS = 500_000_000
TRACE_TIMEOUT_S = 60.0
_PAUSE_S = 0.05
_MARGIN_S = 0.5


class Undo(NamedTuple):
    """A call that restores what was there before. It goes to the guard, so it must pickle."""

    call: Callable[[], None]  # a PeerError means: try again
    timeout_s: float  # how long the guard tries

    def is_done(self, timeout_s: float) -> bool:
        """Tries until the server agrees. Never raises: the error that brought us here matters more.

        A server that refuses connections for a while is gone, and so is the change.
        """
        refused_ns = monotonic_ns()
        deadline = Deadline.after(timeout_s, last_s=UNDO_LAST_S)
        while True:
            try:
                with ending(last_s=UNDO_LAST_S):
                    self.call()
            except PeerError as error:
                now_ns = monotonic_ns()
                if not isinstance(error.__cause__, ConnectionRefusedError):
                    refused_ns = now_ns
                elif now_ns - refused_ns >= GONE_NS:
                    return True
            else:
                return True
            try:
                deadline.sleep(_PAUSE_S)
            except DeadlineError:
                return False


class Guard:
    """The process that undoes our changes if we cannot; it starts with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, undo: Undo, keep_open: tuple[int, ...] = ()) -> None:
        """The first call may give it files to hold open."""
        message = pickle.dumps(undo)
        if self._process is None:
            self._process = subprocess.Popen(
                module_command(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=keep_open,
                start_new_session=True,  # what ends our whole group must not end the guard
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody ended the guard; we go on without
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def close(self, *, is_needed: bool) -> None:
        """End the guard, or have it undo now what it was told."""
        process, self._process = self._process, None
        if process is None:
            return
        if is_needed:
            process.returncode = 0  # it outlives us on purpose: no ResourceWarning
        else:
            process.kill()
            process.wait()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


@contextlib.contextmanager
def guarded(undo: Undo) -> Iterator[Callable[[], None]]:
    """Gives the function that undoes; a guard stands by for as long as this is open, and later if that failed."""
    guard, is_needed = Guard(), False

    def attempt() -> None:
        nonlocal is_needed
        with within(OWNER_TIMEOUT_S + _MARGIN_S):  # a single call that hangs must not take longer either
            is_needed = not undo.is_done(OWNER_TIMEOUT_S)

    guard.add(undo)
    try:
        yield attempt
    finally:
        guard.close(is_needed=is_needed)


# --- the server's trace settings: changed for a run, and put back however the run ends


TRACE_OPTIONS = ("trace_level", "trace_rate", "trace_count", "log_frequency")

TraceSettings = Mapping[str, tuple[str, ...]]
"""Values by name as the server spells them; only the level may have more than one."""


@runtime_checkable
class Tracer(Protocol):
    """A server's calls to read and change what holds for all its models."""

    def trace_settings(self) -> TraceSettings: ...

    def change_trace_settings(self, settings: TraceSettings) -> None: ...


def asked_settings(options: "Options") -> TraceSettings:
    """What was asked for, as the server takes it; options and settings have the same names."""
    given = {name: getattr(options, name) for name in TRACE_OPTIONS}
    return {name: (str(value),) for name, value in given.items() if value is not None}


@contextlib.contextmanager
def traced(tracer: Tracer, wanted: TraceSettings) -> Iterator[None]:
    """The server with these settings; afterwards they are as they were."""
    try:
        before = tracer.trace_settings()
    except MissingError as error:
        raise UsageError(
            f"the server has no trace settings: {error.message}",
            remedy="leave out --trace-level, --trace-rate, --trace-count and --log-frequency",
        ) from error
    old = {name: before[name] for name in wanted if name in before}
    with guarded(Undo(partial(_put_back, tracer, old), TRACE_TIMEOUT_S)) as put_back:
        try:
            _change(tracer, wanted, before)
            yield
        finally:
            put_back()


def _change(tracer: Tracer, wanted: TraceSettings, before: TraceSettings) -> None:
    try:
        tracer.change_trace_settings(wanted)
    except PeerError as error:
        if isinstance(error.__cause__, OSError):
            raise
        asked = ", ".join(f"{name}={','.join(values)}" for name, values in wanted.items())
        # A Triton that was not told where to put traces cannot be made to trace.
        has_place = before.get("trace_mode", ("triton",)) != ("triton",) or any(before.get("trace_file", ()))
        start = "start Triton with --trace-config triton,file=trace.json"
        raise PeerError(
            f"the server refuses the trace settings {asked}: {error.message}",
            remedy="give values that the server accepts" if has_place else start,
        ) from error


def _put_back(tracer: Tracer, old: TraceSettings) -> None:
    now = tracer.trace_settings()
    if old.items() - now.items():  # else the server had refused to change them
        tracer.change_trace_settings(old)


# --- the guard's process


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = io.BytesIO(sys.stdin.buffer.read())  # ends when the owner is gone
    undos: list[Undo] = []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the last one may have been cut off
        while True:
            undos.append(pickle.load(told))
    for undo in reversed(undos):
        undo.is_done(undo.timeout_s)


if __name__ == "__main__":
    main()
