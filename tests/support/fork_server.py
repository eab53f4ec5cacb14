"""Commands as processes that begin at once: a process that has imported everything forks one for each.

What a command is to its user stays: a process with arguments, descriptors, a folder, an environment and an exit code.
Only its imports are done already, which take longer than most commands that a test runs. `fork_client.ask` is the other
side: it sends one line of JSON along with descriptors, and reads the process id and then the exit code. The workers of
a command out of the fork server come out of the fork server too. The fork server ends when its standard input does.
"""

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import inferometer
from inferometer.capacity import keeping
from inferometer.load import workers
from inferometer.load.worker import GROUP_SIGNALS
from tests.support.fork_client import WORKER, fork_worker

COMMANDS = {
    "inferometer": "inferometer.cli.main",
    "perf_analyzer": "inferometer.dialects.perf_analyzer.main",
    "model-analyzer": "inferometer.dialects.model_analyzer.main",
    WORKER: "inferometer.load.worker",
    "agent": "tests.support.agent_process",
}
_OTHERS = ("tests.support", "inferometer.server.models", "inferometer.server.vocoder")
# Imported by commands as they run.
_LATE = ("encodings.idna", "hpack", "jinja2", "psutil", "rich.live", "rich.table")


@contextmanager
def fork_server() -> Iterator[str]:
    """The address of a fork server that lives as long as the block."""
    folder = tempfile.mkdtemp(prefix="inferometer-fork-server-")
    address = os.path.join(folder, "socket")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listener.fileno())],
                cwd=Path(__file__).parents[2],  # from where the tests are packages
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(listener.fileno(),),
            )
        try:
            yield address
        finally:
            process.communicate()
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """The fork server itself, and in a forked process the command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever owns this process
    signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)  # until a command is ready for them
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        _import_all()
        gc.collect()
        gc.freeze()
        address = listener.getsockname()
        forked = _serve(listener)
    if forked is not None:
        request, fds = forked
        _put(fds, request["places"])
        workers.start_process = partial(fork_worker, address)
        _run(request)


def _import_all() -> None:
    for module in pkgutil.walk_packages(inferometer.__path__, "inferometer."):
        if not module.name.startswith(_OTHERS):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    # A plan of the documentation takes seconds; what it says is tested elsewhere.
    keeping.ALL_REQUESTS, keeping.THOROUGH = 1_000, 2_000
    keeping.MOST_REQUESTS, keeping.BEYOND = 500, 5


def _serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Forks for every request. Returns the request with its descriptors in the forked process, nothing at the end.

    Descriptors are put into their places by the caller: here, what others are waited for with is still to be closed,
    and would be closed in their stead.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ, listener)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return None
                if key.data is not listener:
                    selector.unregister(key.fd)
                    key.data()
                    continue
                connection, _ = listener.accept()
                received = _receive(connection)
                if received is None:
                    connection.close()
                    continue
                request, fds = received
                pid = os.fork()
                if pid == 0:
                    connection.close()
                    listener.close()
                    selector.close()
                    return request, fds
                for fd in fds:
                    os.close(fd)
                end = os.pidfd_open(pid)
                try:
                    socket.send_fds(connection, [b"%d" % pid], [end])
                except ConnectionError:
                    os.kill(pid, signal.SIGKILL)  # nobody would ever end it
                selector.register(end, selectors.EVENT_READ, partial(_tell_end, pid, end, connection))


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The request with its descriptors; None of a process that was killed while it asked."""
    text, fds, _, _ = socket.recv_fds(connection, 1 << 16, 16)
    while not text.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            for fd in fds:
                os.close(fd)
            return None
        text += more
    return json.loads(text), fds


def _put(fds: list[int], places: list[int]) -> None:
    """Each descriptor to its place; all others are closed."""
    beyond = max(places) + 1
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD, beyond) for fd in fds]
    os.closerange(0, beyond)
    for fd, place in zip(lifted, places, strict=True):
        os.dup2(fd, place)
    os.closerange(beyond, os.sysconf("SC_OPEN_MAX"))


def _tell_end(pid: int, end: int, connection: socket.socket) -> None:
    os.close(end)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with connection, suppress(ConnectionError):
        connection.sendall(b"%d" % code)


def _run(request: dict[str, Any]) -> NoReturn:
    if request["group"] is not None:
        with suppress(PermissionError):  # of another session
            os.setpgid(0, request["group"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["command"], *request["words"]]
    for kind, limit in request["limits"]:
        resource.setrlimit(kind, (limit, limit))
    command = importlib.import_module(COMMANDS[request["command"]])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has its own way with them
    if request["command"] != WORKER:  # which starts with them blocked
        signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int | None = command.main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # what could not be written it has said by its code
            stream.flush()
    os._exit(code or 0)  # tearing all modules down would take longer than most commands


if __name__ == "__main__":
    main()
