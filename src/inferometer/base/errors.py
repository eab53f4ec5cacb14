"""Every error a user can meet. Two questions: whose fault is it, and what can be done.

Also what a lack of memory, files or processes is called.
"""

import errno

from inferometer.base.secrets import redacted
from inferometer.base.text import printable


class InferometerError(Exception):
    """Says what went wrong in one sentence, and in a second what to do about it."""

    exit_code = 70

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """As it may be printed: a server's words may be in it, or an address with a password."""
        return printable(redacted(f"{self.message}; {self.remedy}" if self.remedy else self.message))


class UsageError(InferometerError):
    """The user can mend it: an option, a file, a model name."""

    exit_code = 2


class PeerError(InferometerError):
    """A fault of the server: it is unreachable, refuses, or sends invalid replies."""

    exit_code = 3


class MissingError(PeerError):
    """The server does not know this call."""


class UnlikeError(InferometerError):
    """Two results that must not be compared as if they were alike."""

    exit_code = 3


class LocalError(InferometerError):
    """Ours or this machine's: a bug, a full disk, a killed worker."""

    exit_code = 70


_REMEDIES = {
    errno.ENOMEM: ("memory", "raise its limit (ulimit -v), end other programs, or ask for fewer --workers"),
    errno.EMFILE: ("open files", "raise their limit with ulimit -n, or ask for fewer --workers"),
    errno.ENFILE: ("open files", "end other programs: the whole system has too many"),
    errno.EAGAIN: ("processes", "raise their limit with ulimit -u, or ask for fewer --workers"),
}  # fmt: skip
"""By what the system says is wrong: what there is too little of, and what helps."""


def maybe_shortage(error: BaseException) -> LocalError | None:
    """The sentence for too little memory, open files or processes; None where something else is wrong."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    if number not in _REMEDIES:
        return None
    what, remedy = _REMEDIES[number]
    return LocalError(f"this machine has not enough {what} for that", remedy=remedy)
