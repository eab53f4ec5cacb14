"""Every error a user can meet. Two questions: whose fault is it, and what can be done."""

from inferometer.base.text import printable


class InferometerError(Exception):
    """Says what went wrong in one sentence, and in a second what to do about it."""

    exit_code = 70

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """As it may be printed: a server's words may be in it."""
        return printable(f"{self.message}; {self.remedy}" if self.remedy else self.message)


class UsageError(InferometerError):
    """The user can mend it: an option, a file, a model name."""

    exit_code = 2


class PeerError(InferometerError):
    """The server's: unreachable, refused, or it spoke nonsense."""

    exit_code = 3


class MissingError(PeerError):
    """The server does not know this call."""


class UnlikeError(InferometerError):
    """Two results that must not be compared as if they were alike."""

    exit_code = 3


class LocalError(InferometerError):
    """Ours or this machine's: a bug, a full disk, a killed worker."""

    exit_code = 70
