"""Tests of a parallel run: which of them stay together, and which start first."""

from pathlib import Path

import pytest

from tests.support.scheduling import FIRST_LANE, LANES, LIVE, LONG, OWN_SERVERS, SPREAD, start_order, unit_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/unit/a/test_it.py::test_one[1]", "tests/unit/a/test_it.py"),
        ("tests/unit/cli/test_walk.py::test_one[find]", "tests/unit/cli/test_walk.py::test_one[find]"),
        ("tests/live/test_tune.py::test_one", "tests/live/test_tune.py"),
        ("tests/live/test_tune_in_process.py::test_one", "tests/live/test_tune_in_process.py"),
        ("tests/live/test_ui.py::test_one", LANES[1]),
        ("tests/live/test_docs.py::test_commands_of_the_document_run[a.md]", LANES[0]),
        ("tests/live/test_docs.py::test_the_site", LANES[1]),
        ("tests/live/test_new.py::test_one", LANES[1]),
    ],
)
def test_what_shares_a_fixture_stays_together(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_servers_start_first_then_what_takes_long() -> None:
    order = [
        *("tests/live/test_docs.py::test_commands[a]", "tests/live/test_grpc.py::test_a"),
        *(f"tests/{LONG[0]}::test_a", f"tests/{LONG[1]}::test_a", "tests/unit/base/test_a.py::test_a"),
    ]
    ranks = [start_order(nodeid) for nodeid in order]
    assert ranks == sorted(set(ranks))


def test_every_file_that_is_named_exists() -> None:
    live = [LIVE + name.partition("::")[0] for name in (*OWN_SERVERS, *FIRST_LANE)]
    assert [
        name for name in (*live, *SPREAD, *(f"tests/{name}" for name in LONG)) if not (ROOT / name).exists()
    ] == []


def test_files_with_servers_of_their_own_do_not_use_the_shared_one() -> None:
    """Each would start one more."""
    for name in OWN_SERVERS:
        assert "triton: EmbeddedTriton" not in (ROOT / LIVE / name).read_text(), name
