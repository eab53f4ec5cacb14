"""The text of errors, and errors for a shortage of machine resources."""

import errno

import pytest

from inferometer.base.errors import UsageError, maybe_shortage


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


@pytest.mark.parametrize(
    ("message", "remedy", "text"),
    [
        ("no such file", "check the path", "no such file; check the path"),
        ("no such file", "", "no such file"),
        ("ids may collide.", "give 4 ids", "ids may collide. Give 4 ids"),
        ("ids may collide.", "", "ids may collide."),
    ],
)
def test_a_remedy_follows_the_message(message, remedy, text):
    assert str(UsageError(message, remedy=remedy)) == text
