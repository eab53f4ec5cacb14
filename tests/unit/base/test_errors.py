"""Errors for a shortage of machine resources."""

import errno

import pytest

from inferometer.base.errors import maybe_shortage


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (OSError(errno.EMFILE, "Too many open files"), "file descriptors"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "processes"),
    ],
)
def test_names_the_scarce_resource_and_a_remedy(error: BaseException, what: str) -> None:
    found = maybe_shortage(error)
    assert found is not None
    assert found.exit_code == 70
    assert f"does not have enough {what}" in found.message
    assert found.remedy


@pytest.mark.parametrize(
    "error", [OSError(errno.ECONNRESET, "reset"), ValueError("17"), OSError("no number")]
)
def test_other_errors_are_ignored(error: BaseException) -> None:
    assert maybe_shortage(error) is None
