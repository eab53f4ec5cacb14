"""The installed scripts, from their first line to the command."""

import signal
import subprocess
import sys

import pytest

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
