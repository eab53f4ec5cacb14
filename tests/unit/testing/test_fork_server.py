"""A command out of the fork server is a process as any other."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import fork_client
from tests.support.commands import call, fork_server_address
from tests.support.fork_client import fork_worker


def test_it_has_a_process_of_its_own_and_both_streams() -> None:
    one, other = call("inferometer", "--version"), call("inferometer", "nope")
    assert (one.code, one.stderr, other.code, other.stdout) == (0, "", 2, "")
    assert one.stdout.startswith("inferometer ")
    assert "unknown command 'nope'" in other.stderr
    assert len({os.getpid(), one.pid, other.pid}) == 3


def test_it_runs_in_the_folder_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    assert "result.json" in call("inferometer", "view", "result.json", folder=tmp_path).stderr
    assert "cannot be read" in call("inferometer", "view", "result.json").stderr


def test_asking_is_a_program_too() -> None:
    command = [sys.executable, "-IS", fork_client.__file__, fork_server_address(), "inferometer"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == call("inferometer", "--version").stdout
    refused = subprocess.run([*command, "nope"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_one_that_takes_too_long_is_killed() -> None:
    with pytest.raises(TimeoutError):
        call("inferometer", "selftest", timeout_s=0.01)


@pytest.mark.parametrize("said", [b"", b'{"command": "infero', b"whole"])
def test_one_that_is_killed_while_it_asks_harms_no_other(said: bytes) -> None:
    request = {
        "command": "inferometer",
        "words": ["--version"],
        "folder": "/",
        "environment": {},
        "limits": [],
        "group": None,
        "places": [0],
    }
    with socket.socket(socket.AF_UNIX) as asker, open(os.devnull) as nothing:
        asker.connect(fork_server_address())
        if said:
            text = json.dumps(request).encode() + b"\n" if said == b"whole" else said
            socket.send_fds(asker, [text], [nothing.fileno()])
    assert call("inferometer", "--version").code == 0


def open_ones(pid: int) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{pid}/fd")}


def test_a_worker_has_its_descriptors_and_no_other_and_ends_with_its_controller() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull) as other:
        fds = (other.fileno(), theirs.fileno())
        worker = fork_worker(fork_server_address(), ["python", "-m", "worker", str(theirs.fileno())], fds)
        theirs.close()
        end = time.monotonic() + 60
        while open_ones(worker.pid) != {0, 1, 2, *fds}:  # it may still be sorting them
            assert time.monotonic() < end
        ours.close()
        assert worker.wait() == 0


def test_a_worker_that_is_killed_is_gone_after_the_wait() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = fork_worker(fork_server_address(), [str(theirs.fileno())], (theirs.fileno(),))
        worker.kill()
        assert worker.wait() == -9
