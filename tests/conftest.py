"""Settings of all tests."""

import gc
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from inferometer.base import secrets
from inferometer.load import workers
from tests.support.commands import SHARED, fork_server_address
from tests.support.fork_client import fork_worker
from tests.support.retries import allow_retries, retried
from tests.support.samples import IS_WHOLE
from tests.support.scheduling import UnitScheduling, is_long, start_order

# A busy machine makes any case slow, so there is no deadline. The suite draws the same cases every time, so that a
# failure is caused by the change; `make fuzz` draws others.
settings.register_profile(
    "no clock",
    deadline=None,
    max_examples=10,
    derandomize="INFEROMETER_FUZZ" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("no clock"), max_examples=5)
settings.load_profile("quick" if "INFEROMETER_QUICK" in os.environ else "no clock")

# Commands store no runs, unless a test gives them a store.
os.environ["INFEROMETER_STORE"] = ""

# Tests do not change what the user trusts. Processes of a parallel run inherit the folder of the main process.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _STATE = tempfile.TemporaryDirectory(prefix="inferometer-state-")
    os.environ["XDG_STATE_HOME"] = _STATE.name

# Fork workers, which start at once. Workers of commands in separate processes start as usual.
workers.start_process = lambda command, fds: fork_worker(fork_server_address(), command, fds)

# Allocations between garbage collections: with the usual 700, tests spend a tenth of their time in it.
RARE_COLLECTION = 50000

# Tests that `make quick` leaves out: each takes a second or more.
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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Share one fork server among all processes of a run."""
    node.workerinput[SHARED] = fork_server_address()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    return UnitScheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", {}).get(SHARED)
    if shared is not None:
        os.environ[SHARED] = shared


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules and tests from garbage collection, since scanning them takes time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(RARE_COLLECTION)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect files that `make test` leaves out: each process would import them and build their tests."""
    is_left_out = config.option.markexpr == "not long" and is_long(
        str(collection_path.relative_to(config.rootpath))
    )
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not IS_WHOLE:
        config.hook.pytest_deselected(
            items=[item for item in items if item.get_closest_marker("only_sampled")]
        )
        items[:] = [item for item in items if not item.get_closest_marker("only_sampled")]
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
        if is_long(item.nodeid):
            item.add_marker("long")
        allow_retries(item)
    items.sort(key=lambda item: start_order(item.nodeid))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lines = list(retried(terminalreporter.stats.get("rerun", ())))
    if lines:
        terminalreporter.section("retried")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets.GIVEN, "values", ())
    monkeypatch.setattr(secrets.GIVEN, "bodies", frozenset())
