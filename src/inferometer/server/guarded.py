"""A process that never outlives its owner (guard.py): its start, its end, and its log."""

import contextlib
import os
import re
import secrets
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from inferometer.base.deadline import STOP_LAST_S, Deadline, DeadlineError, has_to_end
from inferometer.base.errors import LocalError, UsageError
from inferometer.server.guard import (
    GO,
    GRACE_S,
    MARK,
    ServerFiles,
    descendants,
    end_session,
    end_strays,
    guard_command,
)

_LOGGED = re.compile(r"[EF]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] +(?P<text>.*)")
_PORT = re.compile(r"failed to start (?P<service>\w+) service: .*?:(?P<port>\d+)' already in use")
_BARE = re.compile(
    r"error: |.*: unrecognized option|Unexpected argument|.*error while loading shared libraries|\[libprotobuf ERROR"
)
_HARMLESS = ("CudaDriverHelper", "NVML", "DCGM", "failed to load all models")
_MODEL = re.compile(r"[Ff]ailed to (load|poll)|Poll failed")
_MOST_LINES = 6
MEMORY_WORDS = (
    "out of memory",
    "out_of_memory",
    "outofmemory",
    "bad_alloc",
    "cannot allocate memory",
    "unable to allocate",
    "failed to allocate",
    "not enough memory",
    "no available memory",
)
"""Words of messages about missing memory, in lower case."""

HURRIED_GRACE_S = 0.5  # for a process whose owner has to end
_POLL_S = 0.02
_TAIL_BYTES = 16384
_LONGEST_LINE = 400


class GuardedProcess:
    """A command with a guard, a runtime folder, a prefix for its shared memory, and a log; nothing is left behind.

    The guard starts first, so that files can be created under it; then the command runs.
    """

    def __init__(self, name: str, log: Path | None = None, *, runtime: Path | None = None) -> None:
        """Without `log`, use a temporary log that is removed at the end; the folder is always removed."""
        token = f"{os.getpid()}_{secrets.token_hex(8)}"
        if runtime is None:
            runtime = Path(tempfile.gettempdir()) / f"inferometer-{name}-{token}"
        self.log = runtime.with_suffix(".log") if log is None else log
        self.files = ServerFiles(f"inferometer_{token}_", runtime, self.log if log is None else None)
        self._log_start = 0  # bytes that earlier servers wrote to the same log
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: int | None = None  # reaches its end when the guard is done

    @property
    def runtime(self) -> Path:
        return self.files.runtime

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The command's own process, not its guard."""
        if self._process is None:
            raise LocalError("the process is not started")
        return self._process

    @contextlib.contextmanager
    def starting(
        self, command: list[str], environment: Mapping[str, str], fds: tuple[int, ...] = ()
    ) -> Iterator[None]:
        """Context for creating the files that the command needs; the command runs on exit."""
        self._start(command, environment, fds)
        try:
            yield
            self._release()
        except BaseException:
            self.end()
            raise

    def _start(self, command: list[str], environment: Mapping[str, str], fds: tuple[int, ...]) -> None:
        done, alive = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*guard_command(self.files, log=self.log, alive=alive), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**environment, MARK: self.files.prefix},
                pass_fds=(*fds, alive),
                start_new_session=True,
            )
        except BaseException:
            os.close(done)
            raise
        finally:
            os.close(alive)
        self._guard = done

    def _release(self) -> None:
        """Let the command run; a command that exits at once is detected when it is waited for."""
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError), stdin:
            stdin.write(GO.encode())

    def open_log(self) -> None:
        """Create the log, or continue the one that earlier servers of this session wrote."""
        with _opened(self.log, "ab" if self.files.scratch_log is None else "xb") as file:
            self._log_start = file.tell()

    def log_text(self) -> str:
        """Return the log of this process, without the lines of earlier processes."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode("utf-8", "replace")

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> str:
        """Wait until the process is ready; return an empty string, or the reason why it is not."""
        deadline = Deadline.after(timeout_s)
        while not is_ready():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return f"{ending(self.process.wait(_POLL_S))} instead of starting"
            try:
                deadline.left_s()
            except DeadlineError as late:
                return f"was not ready {late}"
        return ""

    def end_words(self) -> str:
        """Describe how the command exited by itself, with the last line of its log."""
        return end_words(self.process.wait(), self.log)

    def end(self, *, keep_log: bool = False, grace_s: float = GRACE_S, is_group: bool = False) -> bool:
        """Terminate the command (with `is_group`, its process group), then kill everything that it leaves behind.
        Return whether it exited within `grace_s`."""
        process = self.process
        if process.stdin is not None:
            process.stdin.close()
        family = descendants(process.pid)
        if is_group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        grace_s = min(grace_s, HURRIED_GRACE_S) if has_to_end() else grace_s
        has_exited = ends(process, Deadline.after(grace_s, last_s=STOP_LAST_S))
        if not has_exited:
            end_session(process.pid)
            process.wait()
        self.wait_for_guard()
        # The guard has already done all this, unless it was killed.
        end_session(process.pid)
        end_strays(self.files.prefix, family)
        self.files.remove()
        if not keep_log:
            self.files.remove_log()
        return has_exited

    def wait_for_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        waiting = select.poll()
        waiting.register(guard, select.POLLIN)
        waiting.poll(GRACE_S * 1000)
        os.close(guard)


def ends(process: "subprocess.Popen[bytes]", deadline: Deadline) -> bool:
    """Wait for the process; return whether it exits by the deadline."""
    while True:
        try:
            process.wait(deadline.wait_s())
        except DeadlineError:
            return False
        except subprocess.TimeoutExpired:
            continue
        return True


def empty_log(log: Path | None) -> None:
    """Empty a user's log; every server of the session then appends to it."""
    if log is not None:
        _opened(log, "wb").close()


def _opened(log: Path, mode: str) -> IO[bytes]:
    try:
        return open(log, mode)
    except OSError as error:
        raise UsageError(
            f"the log file '{log}' cannot be written: {error.strerror}",
            remedy="give a file in a writable folder",
        ) from None


# --- reports on a process that exited by itself


def end_words(code: int, log: Path | None) -> str:
    """Describe how a process exited, with the last line of its log and the path of the log."""
    line = "" if log is None else last_line(log)
    return f"{ending(code)}; its last line: {line}; see its log {log}" if line else ending(code)


def ending(code: int) -> str:
    """Describe an exit status; a negative one is a signal, as in `subprocess`."""
    if code >= 0:
        return f"exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def last_line(log: Path) -> str:
    """Return the last non-blank line of a log, shortened; empty if there is none."""
    return next(iter(last_lines(log, 1)), "")


def last_lines(log: Path, count: int) -> tuple[str, ...]:
    """Return the last non-blank lines of a log, shortened."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            tail = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [line.strip()[:_LONGEST_LINE] for line in tail.splitlines() if line.strip()]
    return tuple(lines[-count:])


# --- reasons for a failed start in a tritonserver log


def ports_in_use(log: str) -> tuple[int, ...]:
    """Return the ports that the server could not use because another process holds them."""
    return tuple(int(match["port"]) for match in _PORT.finditer(log))


def is_about_models(log: str) -> bool:
    """Return whether the server failed because of its models."""
    return any(_MODEL.search(line) for line in _errors(log))


def explaining_lines(log: str) -> tuple[str, ...]:
    """Return the few lines that explain the failure; the last ones if none is marked as an error."""
    errors = tuple(dict.fromkeys(_errors(log)))
    if errors:
        return errors[:_MOST_LINES]
    return tuple(line.strip() for line in log.splitlines() if line.strip())[-_MOST_LINES:]


def _errors(log: str) -> Iterator[str]:
    for line in log.splitlines():
        if any(word in line for word in _HARMLESS):
            continue
        logged = _LOGGED.match(line)
        if logged is not None:
            yield _plain(logged["text"])
        elif _BARE.match(line):
            yield line.rpartition("] ")[2].strip()


def _plain(text: str) -> str:
    # Triton logs a python traceback as one quoted line: the reason, then "At:" and the frames.
    lines = [part.strip() for part in text.strip('"').split("\\n") if part.strip()]
    if len(lines) > 2 and lines[1] == "At:":
        return f"{lines[0]} at {lines[2]}"
    return " ".join(lines[:2])
