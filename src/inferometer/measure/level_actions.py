"""Actions before and after each level: shell commands of the user, and named calls to an LLM server."""

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from inferometer.base.confined import check_command
from inferometer.base.deadline import UNDO_LAST_S, Deadline
from inferometer.base.errors import Name, PeerError, UsageError
from inferometer.base.secrets import redacted
from inferometer.base.text import printable
from inferometer.base.threads import users_environment
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number
from inferometer.load.plan import Closed
from inferometer.measure.address import connection_to
from inferometer.measure.instrument import Instrument
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Endpoint
from inferometer.services.http_control import HttpControl, reason_of
from inferometer.stats.measurement import ActionTaken

CALLS: Mapping[str, tuple[str, ...]] = {
    "reset-prefix-cache": ("/reset_prefix_cache", "/flush_cache"),  # vLLM, SGLang
    "start-profile": ("/start_profile",),
    "stop-profile": ("/stop_profile",),
}
"""Paths of each named action; the first that the server has is called."""

PRIME = "prime-prefixes"
"""Named action that sends every shared prefix of the prompts once."""

NAMED = (*CALLS, PRIME)
KINDS = ("openai", "http")
"""Kinds of servers with named actions."""

TIMEOUT = "--before-level-timeout"
STEP_S = 0.05  # interval of checks for the end of a command, and for interruptions
STEP_NS = round(STEP_S * NS_PER_S)
END_S = 2.0  # grace period after SIGTERM
TAIL = 4096  # bytes of output that are kept
LONGEST_LINE = 300  # characters
MISSING = (404, 405, 501)
_NEEDS: Mapping[str, str] = {
    "reset-prefix-cache": "vLLM supports it with VLLM_SERVER_DEV_MODE=1",
    "start-profile": "vLLM supports it if a profiler is configured",
    "stop-profile": "vLLM supports it if a profiler is configured",
}


class Moment(NamedTuple):
    """The time of actions, by its field of `Options` and its option."""

    field: str
    option: Name

    def actions(self, options: Options) -> tuple[str, ...]:
        return options.before_level if self is BEFORE else options.after_level


BEFORE = Moment("before_level", Name("--before-level", "before_level"))
AFTER = Moment("after_level", Name("--after-level", "after_level"))


def check_actions(options: Options) -> None:
    """Reject actions that cannot be taken here, before the first level."""
    for moment in (BEFORE, AFTER):
        _check_actions(moment, moment.actions(options), options)


def _check_actions(moment: Moment, actions: Sequence[str], options: Options) -> None:
    if isinstance(actions, str):  # from Python
        raise UsageError(
            f"{moment.field} is '{redacted(actions)}', but must be a tuple of actions",
            remedy="put it into a tuple",
        )
    for action in actions:
        if not action.strip():
            raise UsageError(
                f"{moment.option} is empty", remedy=f"give a shell command, or one of {', '.join(NAMED)}"
            )
        if action not in NAMED:
            check_command(moment.option)
        elif action == PRIME and (options.service_kind != "openai" or options.data.prefix_tokens is None):
            raise UsageError(
                f"{moment.option} {PRIME} sends the shared prefixes of generated prompts, but there are none",
                remedy=f"add {option_name('--prefix-tokens')}, or remove it",
            )
        elif options.service_kind not in KINDS:
            raise UsageError(
                f"{moment.option} {action} is an HTTP call to an LLM server, but the kind is {options.service_kind}",
                remedy="remove it, or give a shell command",
            )


def take_actions(
    moment: Moment,
    instrument: Instrument,
    options: Options,
    endpoints: Sequence[Endpoint],
    primers: Callable[[], Sequence[bytes]] = tuple,
) -> tuple[ActionTaken, ...]:
    """Wait until no request is in flight and take the actions in order; an InferometerError if one of them fails.

    An interrupt ends a command before a level, and the remaining actions are not taken. Actions after a level are taken
    even then, since they may undo the actions before it. `primers` returns requests with the shared prefixes.
    """

    def is_interrupted() -> bool:
        return moment is BEFORE and instrument.watcher.is_interrupted()

    actions, limit_s = moment.actions(options), options.before_level_timeout_s
    if actions:
        _drain(moment, instrument, limit_s)
    taken = []
    for action in actions:
        if is_interrupted():
            break
        if action == PRIME:
            taken += [_primed(moment, primers(), options, endpoint, is_interrupted) for endpoint in endpoints]
        elif action in CALLS:
            taken += [_called(moment, action, options, endpoint) for endpoint in endpoints]
        elif (done := _maybe_run(moment, action, limit_s, is_interrupted)) is not None:
            taken.append(done)
    return tuple(taken)


def _drain(moment: Moment, instrument: Instrument, limit_s: float) -> None:
    """Stop the load; servers do not reset a cache that requests are using."""
    load, clock = instrument.load, instrument.clock
    load.apply(Closed(0))
    end_ns = clock() + round(limit_s * NS_PER_S)
    while load.collect(clock()).outstanding and not instrument.watcher.is_interrupted():
        if clock() >= end_ns:
            raise PeerError(
                f"requests of the previous level were still in flight {plain_number(limit_s)} s after its end, "
                f"and {moment.option} waits for them",
                remedy=f"raise {option_name(TIMEOUT)}, or set {option_name('--timeout')}",
            )
        load.collect(clock() + STEP_NS)


# --- named calls


def _called(moment: Moment, action: str, options: Options, endpoint: Endpoint) -> ActionTaken:
    """Call the server's own origin, with its headers."""
    control = HttpControl(connection_to(options, endpoint._replace(prefix="")))
    begun_ns = monotonic_ns()
    for path in CALLS[action]:
        status, answer = control.exchange("POST", path, b"", timeout_s=options.before_level_timeout_s)
        if status not in MISSING:
            break
    reason = _shown(reason_of(answer))
    if status in MISSING:
        raise PeerError(
            f"{moment.option} {action}: the server does not support POST {' or POST '.join(CALLS[action])}",
            remedy=f"{_NEEDS[action]}; otherwise remove it, or give a shell command",
        )
    if not 200 <= status < 300:
        raise PeerError(
            f"{moment.option} {action}: the server answered POST {path} with status {status}"
            + (f": {reason}" if reason else ""),
            remedy="check the server's log",
        )
    return ActionTaken(
        action, monotonic_ns() - begun_ns, call=f"POST {path}", status=status, last_line=reason
    )


def _primed(
    moment: Moment,
    requests: Sequence[bytes],
    options: Options,
    endpoint: Endpoint,
    is_interrupted: Callable[[], bool],
) -> ActionTaken:
    """Send the prefixes to a server, one after the other."""
    control = HttpControl(connection_to(options, endpoint))
    begun_ns, sent, status = monotonic_ns(), 0, 200
    for request in requests:
        if is_interrupted():
            break
        status, answer = control.send(request, timeout_s=options.before_level_timeout_s)
        if not 200 <= status < 300:
            raise PeerError(
                f"{moment.option} {PRIME}: the server answered with status {status}: {_shown(reason_of(answer))}",
                remedy="check the model's name and the server's log",
            )
        sent += 1
    call = " ".join(requests[0].partition(b"\r\n")[0].decode().split()[:2])
    words = f"{sent:,} prefixes" if sent != 1 else "1 prefix"
    return ActionTaken(PRIME, monotonic_ns() - begun_ns, call=call, status=status, last_line=words)


# --- shell commands


def _maybe_run(
    moment: Moment, command: str, limit_s: float, is_interrupted: Callable[[], bool]
) -> ActionTaken | None:
    """Run the command until it exits; None if it was interrupted."""
    begun_ns = monotonic_ns()
    tail = bytearray()
    child = subprocess.Popen(
        command,
        shell=True,
        env=users_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert child.stdout is not None
    with child.stdout as output, selectors.DefaultSelector() as selector:
        os.set_blocking(output.fileno(), False)
        selector.register(output, selectors.EVENT_READ)
        try:
            # A process that the command leaves behind may keep its output open: only the end of the shell counts.
            while child.poll() is None:
                if is_interrupted():
                    return None
                if monotonic_ns() - begun_ns > limit_s * NS_PER_S:
                    raise UsageError(
                        f"the command '{redacted(command)}' of {moment.option} did not end within "
                        f"{plain_number(limit_s)} s{_said(_last_line(tail))}",
                        remedy=f"raise {option_name(TIMEOUT)}, or run the command by "
                        "itself to see what it waits for",
                    )
                if selector.select(STEP_S) and not _read(output.fileno(), tail):
                    selector.unregister(output)
            while _read(output.fileno(), tail):
                pass
        finally:
            _end(child)
    line = _last_line(tail)
    if child.returncode:
        raise UsageError(
            f"the command '{redacted(command)}' of {moment.option} ended with exit code {child.returncode}"
            f"{_said(line)}",
            remedy="run the command by itself to see its error",
        )
    took_ns = monotonic_ns() - begun_ns
    return ActionTaken(redacted(command), took_ns, exit_code=child.returncode, last_line=line)


def _read(descriptor: int, tail: bytearray) -> bool:
    """Append the available output, keeping its end; return whether there was any."""
    try:
        data = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return False
    tail += data
    del tail[:-TAIL]
    return bool(data)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the shell and its children, unless the shell has ended by itself."""
    from inferometer.server.guarded import ends

    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        ends(child, Deadline.after(END_S, last_s=UNDO_LAST_S))


def _last_line(tail: bytes | bytearray) -> str:
    lines = tail.decode("utf-8", "replace").strip().splitlines()
    return _shown(lines[-1]) if lines else ""


def _shown(line: str) -> str:
    return printable(redacted(line.strip()))[:LONGEST_LINE]


def _said(line: str) -> str:
    return f"; its last line was: {line}" if line else ""
