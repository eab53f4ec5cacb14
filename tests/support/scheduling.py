"""Assignment of tests to the processes of a parallel run.

The tests of a file stay together, since they share fixtures, except in files whose tests are long and share nothing.
Tests on the session's real server run in two lanes, each in one process: two servers serve the whole run, with any
number of processes. The longest units start first, so that none is left for the end.
"""

from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

LIVE = "tests/live/"
# Files of tests/live whose tests start the servers that they need.
OWN_SERVERS = (
    *("test_benchmarks.py", "test_compare.py", "test_diagnose.py", "test_in_process.py"),
    *("test_model_analyzer.py", "test_originals.py", "test_planted.py", "test_ray.py", "test_tune.py"),
    *("test_tune_composed.py", "test_tune_in_process.py", "test_tune_ray.py"),
)
# Tests on the session's server in the first lane; the second lane has all others.
FIRST_LANE = (
    *(
        "test_docs.py::test_commands",
        "test_recognize.py",
        "test_api.py",
        "test_rates.py",
        "test_sequences.py",
    ),
)
LANES = ("the first server", "the second server")

# Files whose tests are long and share no fixture.
SPREAD = ("tests/unit/cli/test_walk.py", "tests/torture/test_torture.py")

# Files that `make test-long` runs and `make test` leaves out, longest first.
LONG = (
    *("live/test_benchmarks.py", "live/test_diagnose.py", "live/test_tune.py", "live/test_docs.py"),
    *("live/test_ray.py", "live/test_tune_in_process.py", "live/test_compare.py"),
    *(
        "live/test_tune_ray.py",
        "live/test_tune_composed.py",
        "live/test_model_analyzer.py",
        "live/test_ui.py",
    ),
    *(
        "live/test_planted.py",
        "live/test_originals.py",
        "live/test_in_process.py",
        "live/test_advice.py",
        "e2e/test_ui_kills.py",
    ),
    *(
        "torture/test_torture.py",
        "e2e/cluster/test_lost_clients.py",
        "e2e/test_signals.py",
        "e2e/test_pages.py",
    ),
    *("e2e/test_terminal.py", "unit/dialects/model_analyzer/test_profile.py", "sim/tune/test_smart.py"),
    *("e2e/tune/test_served_search.py", "e2e/test_diagnose_served.py"),
    *("sim/test_gpu.py", "sim/test_find.py", "sim/capacity/test_replicas.py", "sim/twin/test_known.py"),
    *("sim/twin/test_text.py", "sim/twin/test_machine.py", "sim/test_compare.py", "sim/tune/test_knobs.py"),
    *(
        "sim/tune/test_parallel_search.py",
        "e2e/test_selftest.py",
        "e2e/test_interfere.py",
        "e2e/test_laptop.py",
    ),
)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit of work that a test belongs to."""
    file = nodeid.partition("::")[0]
    if file.startswith(LIVE):
        name = nodeid.removeprefix(LIVE)
        return file if name.startswith(OWN_SERVERS) else LANES[not name.startswith(FIRST_LANE)]
    return nodeid if file in SPREAD else file


def is_long(nodeid: str) -> bool:
    return nodeid.partition("::")[0].removeprefix("tests/") in LONG


def start_order(nodeid: str) -> int:
    """Return the start position of a test's unit; equal numbers keep the order of collection."""
    unit = unit_of(nodeid)
    if unit in LANES:
        return LANES.index(unit)
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return len(LANES) + (LONG.index(file) if file in LONG else len(LONG))


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Assigns the next unit, in the order of collection, to a process that has finished its last one."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget finished units, since pending tests are counted after every test."""
        unit = unit_of(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        assigned = self.assigned_work[node]
        if unit in assigned and all(assigned[unit].values()):
            del assigned[unit]
