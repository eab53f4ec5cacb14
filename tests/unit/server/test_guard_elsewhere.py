"""The guard on a system without /proc and pidfd_open: the end of the owner still ends everything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LAPTOP = Path(__file__).parents[2] / "laptop"
DEADLINE_S = 60.0

OWNER = """
import os, sys, time
from pathlib import Path
from inferometer.server import guard
from inferometer.server.guarded import GuardedProcess
folder = Path(sys.argv[2])
guard.__file__ = sys.argv[1]
guarded = GuardedProcess("test", runtime=folder / "runtime")
stray = f"setsid sleep 600 & echo $! > {folder}/stray; exec sleep 600"
with guarded.starting(["/bin/sh", "-c", stray], os.environ):
    guarded.runtime.mkdir()
    guarded.open_log()
print(guarded.process.pid, flush=True)
time.sleep(600)
"""


def until(is_true) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_end_of_the_owner_ends_the_server_and_its_strays(tmp_path: Path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(LAPTOP / "guard.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(LAPTOP)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        server = int(owner.stdout.readline())
        stray = tmp_path / "stray"
        until(lambda: stray.exists() and stray.read_text().strip())
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    until(lambda: is_gone(server) and is_gone(int(stray.read_text())))
    until(lambda: not (tmp_path / "runtime").exists())
