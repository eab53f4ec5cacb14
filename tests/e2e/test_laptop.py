"""A few end-to-end tests without the calls of Linux (tests/laptop). `make laptop` runs all that are possible."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.commands import SHARED

ROOT = Path(__file__).parents[2]
E2E = "tests/e2e"
CHOSEN = (
    f"{E2E}/test_counts.py::test_request_count_is_exact[7-3-1]",
    f"{E2E}/test_counts.py::test_a_batch_takes_consecutive_steps",
    f"{E2E}/test_connections.py::test_large_bodies_go_both_ways",
    f"{E2E}/test_connections.py::test_our_own_certificate_and_key_may_be_der[(True, True)-elliptic curve]",
    f"{E2E}/test_export.py::test_the_python_surface_writes_it_too",
    f"{E2E}/test_grpc_connections.py::test_requests_share_connections[16-words2-4]",
)


def test_a_few_tests_pass_without_the_calls_of_linux() -> None:
    laptop = str(ROOT / "tests/laptop")
    # Its own fork server: that of this run has the calls.
    environment = {
        name: value for name, value in os.environ.items() if name not in (SHARED, "PYTEST_XDIST_WORKER")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.laptop", "-n", "0", *CHOSEN],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": laptop},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout or "[100%]" in done.stdout
