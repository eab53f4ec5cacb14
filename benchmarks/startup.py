"""CPU time of a command and its worker until their first inference request.

A relay in front of the server stops the command's processes at that moment, so that wall time does not matter.
"""

import contextlib
import os
import selectors
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import ROOT, end_group
from benchmarks.nginx import LOOPBACK
from benchmarks.parts import our_script

MODEL = "simple"
COMMANDS: dict[str, tuple[str, ...]] = {
    "measure-http": ("inferometer", "measure", "-m", MODEL, "-u"),
    "measure-grpc": ("inferometer", "measure", "--grpc", "-m", MODEL, "-u"),
    "perf-analyzer": ("perf_analyzer", "-m", MODEL, "-u"),
    "find": ("inferometer", "find", "-m", MODEL, "--slo", "p99<50ms", "-u"),
}
DEADLINE_S = 60.0
NS_PER_S = 1e9
_INFERENCE = (b"/infer ", b"ModelInfer")  # end of the request's path over HTTP and gRPC
_CHUNK = 65536
_NOT_INHERITED = ("OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")


def startup_cpu(name: str) -> Callable[[Setting], AbstractContextManager[Contest]]:
    """CPU time before the first request of our command to Triton's `simple`."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        from inferometer.server.embedded import EmbeddedTriton

        with EmbeddedTriton(load_models=(MODEL,)) as server, tempfile.TemporaryDirectory() as folder:
            script, *words = COMMANDS[name]
            server_address = server.grpc_address if "--grpc" in words else server.http_address

            def ours() -> Sample:
                with _Relay(server_address) as relay:
                    command = [our_script(script), *words, relay.address]
                    return _spent(command, relay, _environment(Path(folder), keeps=not setting.is_smoke))

            if not setting.is_smoke:
                ours()  # the first start compiles the imported modules
            yield Contest(ours)

    return opened


def _environment(folder: Path, *, keeps: bool) -> dict[str, str]:
    """Environment of an installed program: no limit on threads, and bytecode is cached in the folder."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    bytecode = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")} if keeps else {}
    return {**inherited, "INFEROMETER_STORE": str(folder / "store"), **bytecode}


def _spent(command: list[str], relay: "_Relay", environment: dict[str, str]) -> Sample:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        relay.watched = psutil.Process(child.pid)
        if not relay.has_inferred.wait(DEADLINE_S):
            raise BenchError(f"'{' '.join(command[1:])}' sent no inference request within {DEADLINE_S:g} s")
        own_s, *others_s = (_cpu_s(process) for process in relay.stopped)
        return Sample(own_s + sum(others_s), {"command s": own_s, "workers s": sum(others_s)})
    finally:
        end_group(child.pid)
        child.wait()


def _cpu_s(process: psutil.Process) -> float:
    """CPU time of all its threads, in nanosecond resolution, and of the processes that it has waited for."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    own_ns = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    times = process.cpu_times()
    return own_ns / NS_PER_S + times.children_user + times.children_system


class _Relay:
    """Forwards bytes in both directions until an inference request arrives, then stops its sender."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server((LOOPBACK, 0))
        self._port = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._pass_on)
        self._is_over = False
        self.watched: psutil.Process | None = None
        self.stopped: list[psutil.Process] = []
        self.has_inferred = threading.Event()

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def __enter__(self) -> "_Relay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        with contextlib.suppress(OSError):  # the thread may already have noticed
            socket.create_connection((LOOPBACK, self._port)).close()
        self._thread.join()

    def _pass_on(self) -> None:
        with self._listener, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._is_over:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peers:
                        self._read(selector, key.fileobj)
            for sock in self._peers:
                sock.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client = self._listener.accept()[0]
        server = socket.create_connection(self._server)
        self._peers |= {client: server, server: client}
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(sock, selectors.EVENT_READ)

    def _read(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        peer = self._peers[sock]
        with contextlib.suppress(OSError):
            data = sock.recv(_CHUNK)
            if any(path in data for path in _INFERENCE) and not self.has_inferred.is_set():
                self._stop()
            if data:
                peer.sendall(data)
                return
        for ended in (sock, peer):
            del self._peers[ended]
            selector.unregister(ended)
            ended.close()

    def _stop(self) -> None:
        assert self.watched is not None
        self.stopped = [self.watched, *self.watched.children(recursive=True)]
        for process in self.stopped:
            process.suspend()
        self.has_inferred.set()
