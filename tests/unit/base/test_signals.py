import signal
import subprocess
import sys

TOO_LATE = """
import os, signal
from inferometer.base.signals import interruptible
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell, whatever started the tests
with interruptible():
    print("the answer")
os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_signal_after_the_command_neither_loses_the_answer_nor_shows_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "the answer\n", "")
