"""Worker processes: their imports at start, and errors for lost workers."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from inferometer.base.errors import LocalError
from inferometer.load.channel import Channel
from inferometer.load.workers import Workers
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring

TRAFFIC = Traffic(Wiring(Endpoint("127.0.0.1", 1)), (b"GET / HTTP/1.1\r\n\r\n",))


class FakeProcess:
    """Process that takes its job, closes its connection, and exits with this code; None: does not exit."""

    pid = 0

    def __init__(self, code: int | None, fds: tuple[int, ...]) -> None:
        self._code = code
        control = Channel(os.dup(fds[0]))
        threading.Thread(target=self._close, args=(control,)).start()

    def _close(self, control: Channel) -> None:
        control.recv()
        control.close()

    def kill(self) -> None:
        self._code = -signal.SIGKILL

    def wait(self, timeout_s: float | None = None, /) -> int:
        if self._code is None:
            raise subprocess.TimeoutExpired("worker", timeout_s or 0)
        return self._code


def error_after(code: int | None) -> str:
    workers = Workers(TRAFFIC, start=lambda command, fds: FakeProcess(code, fds))
    with pytest.raises(LocalError) as raised:
        workers.__enter__()
    return str(raised.value)


def test_a_worker_that_is_still_exiting_is_not_reported_as_killed() -> None:
    found = error_after(7)
    assert "a worker process exited with code 7" in found
    assert "out-of-memory" not in found


def test_a_worker_that_the_system_killed_points_to_its_memory() -> None:
    found = error_after(-signal.SIGKILL)
    assert "a worker process was killed by SIGKILL" in found
    assert "out-of-memory" in found


def test_a_worker_that_dies_before_it_has_its_job_is_a_lost_worker() -> None:
    class Stillborn(FakeProcess):
        def __init__(self, fds: tuple[int, ...]) -> None:
            self._code = -signal.SIGKILL

    with pytest.raises(LocalError, match="was killed by SIGKILL"):
        Workers(TRAFFIC, start=lambda command, fds: Stillborn(fds)).__enter__()


def test_a_worker_that_does_not_exit_is_reported_as_such() -> None:
    found = error_after(None)
    assert "did not exit" in found
    assert "out-of-memory" not in found


def test_a_worker_does_not_import_what_only_commands_need() -> None:
    unwanted = (
        *(
            "numpy",
            "json",
            "argparse",
            "rich",
            "pydantic",
            "dataclasses",
            "logging",
            "multiprocessing",
            "pathlib",
        ),
        *("ssl", "subprocess", "tempfile", "urllib.parse", "inferometer.model.spec", "inferometer.options"),
    )
    code = (
        "import sys; before = {*sys.modules}; "  # `make cover` loads some
        "import inferometer.load.worker, inferometer.load.grpc; "
        f"print(*(name for name in {unwanted} if name in sys.modules and name not in before))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
