"""A fork server for commands: a process that has imported everything forks one process per command.

A command is still a process with arguments, descriptors, a folder, an environment and an exit code. Only its imports
are already done, which take longer than most commands of a test. `fork_client.ask` is the other side: it sends one
line of JSON with the descriptors, and reads the process id and then the exit code. Workers of such a command are forked
from the fork server too. The fork server ends with its standard input.
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
# Imported lazily by commands.
_LATE = ("encodings.idna", "hpack", "jinja2", "psutil", "rich.live", "rich.table")


@contextmanager
def fork_server() -> Iterator[str]:
    """Run a fork server while the block lasts; yield its address."""
    folder = tempfile.mkdtemp(prefix="inferometer-fork-server-")
    address = os.path.join(folder, "socket")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listener.fileno())],
                cwd=Path(__file__).parents[2],  # so that tests can be imported
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
    """Run the fork server, or the command in a forked process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the owner of this process
    signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)  # until a command can handle them
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
    # Capacity plans in the documentation take seconds; their content is tested elsewhere.
    keeping.ALL_REQUESTS, keeping.THOROUGH = 1_000, 2_000
    keeping.MOST_REQUESTS, keeping.BEYOND = 500, 5


def _serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for every request. Return the request with its descriptors in the forked process, and None at the end.

    The caller moves the descriptors to their numbers: here, the server's own descriptors are still open and could
    have the same numbers.
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
                    os.kill(pid, signal.SIGKILL)  # nothing else would ever end it
                selector.register(end, selectors.EVENT_READ, partial(_tell_end, pid, end, connection))


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive a request with its descriptors; None if the client was killed while sending."""
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
    """Move each descriptor to its number and close all others."""
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
        with suppress(PermissionError):  # in another session
            os.setpgid(0, request["group"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["command"], *request["words"]]
    for kind, limit in request["limits"]:
        resource.setrlimit(kind, (limit, limit))
    command = importlib.import_module(COMMANDS[request["command"]])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command installs its own handlers
    if request["command"] != WORKER:  # which starts with them blocked
        signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # as `interruptible` does first: until then there is nothing to report
    code: int | None = command.main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the exit code already reports unwritten output
            stream.flush()
    os._exit(code or 0)  # finalizing all modules would take longer than most commands


if __name__ == "__main__":
    main()
