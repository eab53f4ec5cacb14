"""An nginx with one worker process on one core that answers every request with a short text."""

import contextlib
import http.client
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import BenchError
from benchmarks.children import end_group, pinned
from benchmarks.parts import program

LOOPBACK = "127.0.0.1"
_ATTEMPTS = 3
_READY_S = 10
_END_S = 5
_CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address}:{port};
        location / {{ return 200 "hello world, this is a reply of nginx\\n"; }}
    }}
}}
"""


@contextlib.contextmanager
def nginx(cores: frozenset[int]) -> Iterator[int]:
    """Run nginx while the context lasts; yield its port."""
    executable = program("nginx", "nginx")
    with tempfile.TemporaryDirectory(prefix="inferometer-nginx-") as folder:
        child, port = _start(executable, Path(folder), cores)
        try:
            yield port
        finally:
            _end(child)


def _start(executable: str, folder: Path, cores: frozenset[int]) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(_ATTEMPTS):  # another process may take the free port before nginx does
        port = _free_port()
        configuration = folder / "nginx.conf"
        configuration.write_text(_CONFIGURATION.format(folder=folder, address=LOOPBACK, port=port))
        with pinned(cores):
            child = subprocess.Popen(
                [executable, "-p", str(folder), "-e", str(folder / "start.log"), "-c", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        if _is_ready(child, port):
            return child, port
        _end(child)
    said = [log.read_text(errors="replace").strip() for log in sorted(folder.glob("*.log"))]
    raise BenchError(f"nginx does not start: {' '.join(said)[-300:] or 'it wrote nothing'}")


def _is_ready(child: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and child.poll() is None:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
    end_group(child.pid)
    child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
