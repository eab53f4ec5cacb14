"""The installed scripts, from their first line to the command."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import inferometer

INTERRUPTED_IMPORT = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have ignored in the background

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name.endswith(".main"):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from inferometer import scripts
scripts.{}()
"""


@pytest.mark.parametrize("script", ["inferometer", "perf_analyzer", "model_analyzer"])
def test_an_interrupt_during_the_imports_ends_the_script_without_a_traceback(script: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(script)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_python_m_runs_the_command_without_modules_of_the_working_directory(tmp_path: Path) -> None:
    for name in ("json", "numpy", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    ended = subprocess.run(
        [sys.executable, "-m", "inferometer", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, f"inferometer {inferometer.__version__}\n")
