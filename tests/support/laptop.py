"""Tests that cannot pass without the calls of Linux, with the reasons; `make laptop` leaves them out."""

from typing import Any

import pytest

ABSENT = {
    "tests/e2e/test_first_guesses.py::test_an_unquoted_limit_is_distinguished_from_a_redirection": "the name "
    "of the file behind standard output is in /proc only",
    "tests/e2e/test_startup.py::test_a_command_begins_without_what_it_does_not_need": "psutil replaces /proc, so every "
    "command imports it",
    "tests/e2e/test_startup.py::test_so_does_one_over_grpc": "likewise",
    "tests/e2e/test_laptop.py": "runs tests in this way itself",
}
"""Reasons by test, or by the start of its name."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    absent = [item for item in items if item.nodeid.startswith(tuple(ABSENT))]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("not possible without the calls of Linux")
    for name, reason in ABSENT.items():
        terminalreporter.write_line(f"{name}: {reason}")
