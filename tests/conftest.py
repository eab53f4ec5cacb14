"""What holds for all tests."""

import gc
import os
from collections.abc import Generator
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from inferometer.load import workers
from tests.support.commands import SHARED, fork_server_address
from tests.support.fork_client import fork_worker

# A busy machine makes any case slow: time is no reason to fail. The suite draws the same cases every time, so that a
# failure is of the change; `make fuzz` draws others.
settings.register_profile(
    "no clock",
    deadline=None,
    max_examples=20,
    derandomize="INFEROMETER_FUZZ" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("no clock"), max_examples=5)
settings.load_profile("quick" if "INFEROMETER_QUICK" in os.environ else "no clock")

# Commands keep no runs, unless a test gives them a store of its own.
os.environ["INFEROMETER_STORE"] = ""

# Workers that begin at once. Those of commands that are processes of their own start as everywhere.
workers.start_process = lambda command, fds: fork_worker(fork_server_address(), command, fds)

# Files with tests that take long, longest first.
LONG = (
    *("live/test_docs.py", "live/test_tune.py", "live/test_tune_in_process.py", "live/test_contract.py"),
    *("live/test_ray.py", "live/test_tune_ray.py", "live/test_originals.py"),
    *("unit/cli/test_walk.py", "live/test_ui.py", "sim/test_find.py", "e2e/test_ui_kills.py"),
    *("sim/tune/test_smart.py", "live/test_tune_composed.py", "live/test_model_analyzer.py"),
    *("live/test_diagnose.py", "live/test_foreign_tools.py", "live/test_grpc.py", "live/test_in_process.py"),
    *("live/test_export.py", "live/test_compare.py", "live/test_server.py", "live/test_commands.py"),
    *("sim/test_gpu.py", "sim/twin/test_known.py", "sim/test_compare.py", "live/test_mixed.py"),
)

# Tests of real servers and processes, where a busy machine can be the reason for a failure: only these are tried again.
# What runs on a simulated clock or on bytes alone fails for good.
DEPEND_ON_THE_MACHINE = ("tests/live/", "tests/peers/", "tests/e2e/", "tests/torture/")
# What `make quick` leaves out: each takes a second or more.
SLOW = (
    *(
        "tests/unit/base/test_answer_file.py",
        "tests/unit/dataset/test_json_file.py",
        "tests/unit/dataset/test_json_reader.py",
    ),
    *(
        "tests/unit/diagnose/test_seed.py",
        "tests/unit/dialects/model_analyzer/",
        "tests/unit/report/documents/test_any_result.py",
    ),
    *("tests/unit/report/test_nasty_texts.py", "tests/unit/server/", "tests/unit/stats/test_coverage.py"),
    *("tests/unit/stats/test_intervals.py", "tests/unit/test_earlier_files.py", "tests/unit/tune/report/"),
    *(
        "tests/unit/wire/test_http2_h2.py",
        "tests/unit/wire/test_http2_headers.py",
        "tests/unit/wire/test_http2_windows.py",
    ),
)
AGAIN = pytest.mark.flaky(reruns=2, reruns_delay=2)


def pytest_configure_node(node: Any) -> None:
    """One fork server for all processes of a run."""
    node.workerinput[SHARED] = fork_server_address()


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", {}).get(SHARED)
    if shared is not None:
        os.environ[SHARED] = shared


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end: to look through them for what is not needed any more takes time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(DEPEND_ON_THE_MACHINE):
            item.add_marker("machine")
            item.add_marker(AGAIN)
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
    _deal(items)


def _deal(items: list[pytest.Item]) -> None:
    """Several processes each get an equal part, in order: let every part begin with something that takes long."""
    parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    files = {
        name: list(group) for name, group in groupby(items, key=lambda item: item.nodeid.partition("::")[0])
    }
    if parts == 1 or sum(map(len, files.values())) < len(items):
        return
    long = [files.pop(f"tests/{name}") for name in LONG if f"tests/{name}" in files]
    rest = [item for group in files.values() for item in group]
    total, dealt = len(items), list[pytest.Item]()
    for part in range(parts):
        first = [item for group in long[part::parts] for item in group]
        room = max(0, (total - len(dealt)) // (parts - part) - len(first))
        dealt += first + rest[:room]
        del rest[:room]
    items[:] = dealt + rest
