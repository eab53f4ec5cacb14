"""numpy starts no threads in our programs, and other programs are not affected."""

import os
import subprocess
import sys

import pytest

from inferometer.base.threads import limit_threads, users_environment

THREADS = "OPENBLAS_NUM_THREADS"
MAINS = ("cli.main", "dialects.perf_analyzer.main", "dialects.model_analyzer.main")
HELD_TRITON = ("load.worker", "load.in_process", "services.in_process")
COUNT = """
import os
from inferometer.{module} import main
main(["--version"])
import numpy
print("threads", len(os.listdir("/proc/self/task")))
"""


def printed(program: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != THREADS}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("module", MAINS)
def test_a_command_that_computes_has_one_thread(module):
    program = COUNT.format(module=module)
    if module == "dialects.model_analyzer.main":
        program = program.replace('main(["--version"])', "main([])")
    assert printed(program).splitlines()[-1] == "threads 1"


def test_the_users_number_of_threads_is_kept():
    program = f"import os; from inferometer.cli.main import main; main(['--version']); print(os.environ['{THREADS}'])"
    assert printed(program, **{THREADS: "7"}).splitlines()[-1] == "7"


@pytest.mark.parametrize("module", [*MAINS, *HELD_TRITON])
def test_nothing_computes_before_the_threads_are_limited(module):
    """Nor in a process that holds a Triton: its models get the threads that the user chose."""
    assert printed(f"import sys, inferometer.{module}; print('numpy' in sys.modules)") == "False\n"


def test_a_server_gets_the_users_environment(monkeypatch):
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.delenv("INFEROMETER_SET_THREADS", raising=False)
    before = dict(os.environ)
    limit_threads()
    assert os.environ[THREADS] == "1"
    assert users_environment() == before
    monkeypatch.delenv("INFEROMETER_SET_THREADS")
    limit_threads()
    assert users_environment() == {**before, THREADS: "1"}
