"""The server's trace settings: changed for a run, and put back on every way out of it.

    owner ---- starts, tells what was set before ----> guard ---- reads until the owner is gone ----> puts it back

A run that ends in order puts the settings back by itself and ends its guard, which holds the other end of a pipe
that closes with the owner, however it ends.
"""

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.units import NS_PER_S

OWNER_PATIENCE_S = 2.0
GUARD_PATIENCE_S = 60.0
_PAUSE_S = 0.1

Settings = Mapping[str, tuple[str, ...]]
"""Values by name as the server spells them; only the level may have more than one."""


@runtime_checkable
class Tracer(Protocol):
    """A server's calls to read and change what holds for all its models."""

    def trace_settings(self) -> Settings: ...

    def change_trace_settings(self, settings: Settings) -> None: ...


def settings(
    *, level: str | None, rate: str | None, count: int | None, log_frequency: int | None
) -> dict[str, tuple[str, ...]]:
    """What was asked for, as the server takes it."""
    given = {"trace_level": level, "trace_rate": rate, "trace_count": count, "log_frequency": log_frequency}
    return {name: (str(value),) for name, value in given.items() if value is not None}


@contextmanager
def traced(tracer: Tracer, wanted: Settings) -> Iterator[None]:
    """The server with these settings; afterwards they are as they were."""
    before = _read(tracer)
    old = {name: before[name] for name in wanted if name in before}
    with _Guard(tracer, old) as guard:
        try:
            _change(tracer, wanted, before)
            yield
        finally:
            guard.put_back()


def _read(tracer: Tracer) -> Settings:
    try:
        return tracer.trace_settings()
    except MissingError as error:
        raise UsageError(
            f"the server has no trace settings: {error.message}",
            remedy="leave out --trace-level, --trace-rate, --trace-count and --log-frequency",
        ) from error


def _change(tracer: Tracer, wanted: Settings, before: Settings) -> None:
    try:
        tracer.change_trace_settings(wanted)
    except PeerError as error:
        if isinstance(error.__cause__, OSError):
            raise
        asked = ", ".join(f"{name}={','.join(values)}" for name, values in wanted.items())
        # A Triton that was not told where to put traces cannot be made to trace.
        has_place = before.get("trace_mode", ("triton",)) != ("triton",) or any(before.get("trace_file", ()))
        remedy = (
            "give values it takes" if has_place else "start Triton with --trace-config triton,file=trace.json"
        )
        raise PeerError(
            f"the server refuses the trace settings {asked}: {error.message}", remedy=remedy
        ) from error


class _Guard:
    """While this is open, somebody else would put the settings back."""

    def __init__(self, tracer: Tracer, old: Settings) -> None:
        self._told = (tracer, old)
        self._is_needed = False

    def __enter__(self) -> "_Guard":
        told = pickle.dumps(self._told)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends our whole group must not end the guard
        )
        assert self._process.stdin is not None
        self._process.stdin.write(told)
        self._process.stdin.flush()
        return self

    def put_back(self) -> None:
        """Change the settings back, or leave that to the guard."""
        self._is_needed = not _is_put_back(*self._told, OWNER_PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        if self._is_needed:
            self._process.returncode = 0  # it outlives us, and nobody need be warned of that
        else:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def _is_put_back(tracer: Tracer, old: Settings, patience_s: float) -> bool:
    """Tries until the server agrees. Never raises: the error that brought us here matters more."""
    end_ns = monotonic_ns() + round(patience_s * NS_PER_S)
    while True:
        try:
            if not _is_as_before(tracer, old):  # else the server has refused to change them
                tracer.change_trace_settings(old)
        except PeerError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):  # a server that is gone has no settings
                return True
            if monotonic_ns() >= end_ns:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _is_as_before(tracer: Tracer, old: Settings) -> bool:
    now = tracer.trace_settings()
    return all(now.get(name) == values for name, values in old.items())


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = sys.stdin.buffer.read()  # ends when the owner is gone
    tracer, old = pickle.loads(told)
    _is_put_back(tracer, old, GUARD_PATIENCE_S)


if __name__ == "__main__":
    main()
