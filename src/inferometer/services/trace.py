"""The server's trace settings: changed for a run, and put back however the run ends."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol, runtime_checkable

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.services.undo import Undo, guarded

GUARD_TIMEOUT_S = 60.0

TraceSettings = Mapping[str, tuple[str, ...]]
"""Values by name as the server spells them; only the level may have more than one."""


@runtime_checkable
class Tracer(Protocol):
    """A server's calls to read and change what holds for all its models."""

    def trace_settings(self) -> TraceSettings: ...

    def change_trace_settings(self, settings: TraceSettings) -> None: ...


def settings(
    *, level: str | None, rate: str | None, count: int | None, log_frequency: int | None
) -> dict[str, tuple[str, ...]]:
    """What was asked for, as the server takes it."""
    given = {"trace_level": level, "trace_rate": rate, "trace_count": count, "log_frequency": log_frequency}
    return {name: (str(value),) for name, value in given.items() if value is not None}


@contextmanager
def traced(tracer: Tracer, wanted: TraceSettings) -> Iterator[None]:
    """The server with these settings; afterwards they are as they were."""
    before = _read(tracer)
    old = {name: before[name] for name in wanted if name in before}
    with guarded(Undo(partial(_put_back, tracer, old), GUARD_TIMEOUT_S)) as put_back:
        try:
            _change(tracer, wanted, before)
            yield
        finally:
            put_back()


def _read(tracer: Tracer) -> TraceSettings:
    try:
        return tracer.trace_settings()
    except MissingError as error:
        raise UsageError(
            f"the server has no trace settings: {error.message}",
            remedy="leave out --trace-level, --trace-rate, --trace-count and --log-frequency",
        ) from error


def _change(tracer: Tracer, wanted: TraceSettings, before: TraceSettings) -> None:
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


def _put_back(tracer: Tracer, old: TraceSettings) -> None:
    now = tracer.trace_settings()
    if any(
        now.get(name) != values for name, values in old.items()
    ):  # else the server had refused to change them
        tracer.change_trace_settings(old)
