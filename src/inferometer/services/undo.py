"""Changes to a server that must be undone, even if the run that made them is killed.

    owner ---- starts, sends what to undo ---> guard ---- reads until the owner is gone ----> undoes it

The owner holds the only other end of the guard's standard input, which closes when the owner ends for any reason. A run
that ends normally undoes its changes itself and ends its guard. Changes that the server does not let it undo at once,
such as a memory region that a request is still using, are left to the guard, which has more time.
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
from inferometer.options.names import option_name

if TYPE_CHECKING:
    from inferometer.options.options import Options

OWNER_TIMEOUT_S = 2.0
GONE_NS = 500_000_000
TRACE_TIMEOUT_S = 60.0
_PAUSE_S = 0.05
_MARGIN_S = 0.5


class Undo(NamedTuple):
    """A call that restores the previous state. It is sent to the guard, so it must pickle."""

    call: Callable[[], None]  # PeerError: try again
    timeout_s: float  # time for the guard's attempts

    def is_done(self, timeout_s: float) -> bool:
        """Try until the server accepts; return whether it did. Never raises, because the original error matters more.

        A server that refuses connections for a while is gone, and the change with it.
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
    """Process that undoes changes if their owner cannot; it starts with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, undo: Undo, keep_open: tuple[int, ...] = ()) -> None:
        """Add a change to undo; the first call may pass files to keep open."""
        message = pickle.dumps(undo)
        if self._process is None:
            self._process = subprocess.Popen(
                module_command(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=keep_open,
                start_new_session=True,  # a signal to the owner's process group must not end the guard
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the guard was killed; continue without it
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def close(self, *, is_needed: bool) -> None:
        """End the guard, or let it undo the changes now."""
        process, self._process = self._process, None
        if process is None:
            return
        if is_needed:
            process.returncode = 0  # it outlives this process on purpose: no ResourceWarning
        else:
            process.kill()
            process.wait()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


@contextlib.contextmanager
def guarded(undo: Undo) -> Iterator[Callable[[], None]]:
    """Yield a function that undoes the change; a guard runs as long as the context is open, and longer if undoing
    fails."""
    guard, is_needed = Guard(), False

    def attempt() -> None:
        nonlocal is_needed
        with within(OWNER_TIMEOUT_S + _MARGIN_S):  # even if a single call hangs
            is_needed = not undo.is_done(OWNER_TIMEOUT_S)

    guard.add(undo)
    try:
        yield attempt
    finally:
        guard.close(is_needed=is_needed)


# --- the server's trace settings: changed for a run, and restored however the run ends


TRACE_OPTIONS = ("trace_level", "trace_rate", "trace_count", "log_frequency")

TraceSettings = Mapping[str, tuple[str, ...]]
"""Values by name, in the server's spelling; only the level may have several."""


@runtime_checkable
class Tracer(Protocol):
    """Calls of a server to read and change the global trace settings."""

    def trace_settings(self) -> TraceSettings: ...

    def change_trace_settings(self, settings: TraceSettings) -> None: ...


def asked_settings(options: "Options") -> TraceSettings:
    """Return the requested trace settings; options and settings have the same names."""
    given = {name: getattr(options, name) for name in TRACE_OPTIONS}
    return {name: (str(value),) for name, value in given.items() if value is not None}


@contextlib.contextmanager
def traced(tracer: Tracer, wanted: TraceSettings) -> Iterator[None]:
    """Apply these settings to the server; restore the previous ones on exit."""
    try:
        before = tracer.trace_settings()
    except MissingError as error:
        raise UsageError(
            f"the server has no trace settings: {error.message}",
            remedy=f"leave out {option_name('--trace-level')}, {option_name('--trace-rate')}, "
            f"{option_name('--trace-count')} and {option_name('--log-frequency')}",
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
        # Triton cannot trace if it was started without a trace file.
        has_place = before.get("trace_mode", ("triton",)) != ("triton",) or any(before.get("trace_file", ()))
        start = "start Triton with --trace-config triton,file=trace.json"
        raise PeerError(
            f"the server refuses the trace settings {asked}: {error.message}",
            remedy="give values that the server accepts" if has_place else start,
        ) from error


def _put_back(tracer: Tracer, old: TraceSettings) -> None:
    now = tracer.trace_settings()
    if old.items() - now.items():  # otherwise the server had refused to change them
        tracer.change_trace_settings(old)


# --- the guard's process


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pending = io.BytesIO(sys.stdin.buffer.read())  # until the owner is gone
    undos: list[Undo] = []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the last one may be incomplete
        while True:
            undos.append(pickle.load(pending))
    for undo in reversed(undos):
        undo.is_done(undo.timeout_s)


if __name__ == "__main__":
    main()
