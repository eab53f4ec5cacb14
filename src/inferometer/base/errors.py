"""Every error that a user can meet, classified by its cause: the user, the server, or this program.

This module also makes the errors for a shortage of memory, files or processes.
"""

import errno
import re
from collections.abc import Callable
from typing import TypeVar

from inferometer.base.secrets import redacted
from inferometer.base.text import printable


class Name(str):
    """An option named in a message or in advice, which each interface spells in its own way: `--timeout`, `timeout_s`.

    Formatted into an f-string, it keeps the field and the value; its text is the default spelling."""

    field: str
    value: str

    def __new__(cls, spelled: str, field: str, value: str = "") -> "Name":
        name = super().__new__(cls, spelled)
        name.field, name.value = field, value
        return name

    def __format__(self, _: str) -> str:
        return f"\0{self!s}\1{self.field}\1{self.value}\0"


Spell = Callable[[Name], str]
E = TypeVar("E", bound="InferometerError")
_NAME = re.compile("\0([^\0\1]*)\1([^\0\1]*)\1([^\0\1]*)\0")


def spelled(text: str, spell: Spell = str) -> str:
    """Return a text in which each option is spelled by `spell`."""
    return _NAME.sub(lambda found: spell(Name(*found.groups())), text)


class InferometerError(Exception):
    """An error with a message that states the cause, and a remedy; `classic` and `classic_remedy` replace them in the
    classic scripts."""

    exit_code = 70

    def __init__(
        self, message: str, *, remedy: str = "", classic: str = "", classic_remedy: str | None = None
    ) -> None:
        self._message, self._remedy, self._classic = message, remedy, classic
        self._classic_remedy = classic_remedy
        super().__init__(self.message)

    @property
    def message(self) -> str:
        return spelled(self._message)

    @message.setter
    def message(self, text: str) -> None:
        self._message = text

    @property
    def remedy(self) -> str:
        return spelled(self._remedy)

    @remedy.setter
    def remedy(self, text: str) -> None:
        self._remedy = text

    @property
    def about(self) -> tuple[Name, ...]:
        """The options that the message names, in order."""
        return tuple(Name(*found) for found in _NAME.findall(f"{self._message} {self._remedy}"))

    def spell(self, spell: Spell) -> None:
        """Fix the spelling of the options in the message, for an interface that has no spelling."""
        self._message, self._remedy = spelled(self._message, spell), spelled(self._remedy, spell)

    def use_classic_words(self) -> None:
        """Replace the message by the classic scripts' sentence, if they have one."""
        self._message = self._classic or self._message
        self.use_classic_remedy()

    def use_classic_remedy(self) -> None:
        """Replace the remedy if it names an option that the classic scripts lack."""
        self._remedy = self._remedy if self._classic_remedy is None else self._classic_remedy

    def at(self, place: str) -> None:
        """Prefix the message with the place where the error occurred."""
        self._message = f"{place}: {self._message}"
        self._classic = self._classic and f"{place}: {self._classic}"

    def wrapped(self, before: str, kind: type[E]) -> E:
        """Return an error of another kind, with a text before the message; the options keep their fields."""
        return kind(
            before + self._message,
            remedy=self._remedy,
            classic=self._classic and before + self._classic,
            classic_remedy=self._classic_remedy,
        )

    def spelled(self, spell: Spell) -> str:
        """Return the text for printing, with each option spelled by `spell`."""
        message, remedy = self._message, self._remedy
        if message.endswith("."):
            text = f"{message} {remedy[:1].upper()}{remedy[1:]}".rstrip()
        else:
            text = f"{message}; {remedy}" if remedy else message
        return printable(redacted(spelled(text, spell)))

    def __str__(self) -> str:
        """Return the text for printing: it may contain a server's words, or an address with a password."""
        return self.spelled(str)


class UsageError(InferometerError):
    """An error that the user can fix: an option, a file, a model name."""

    exit_code = 2


class PeerError(InferometerError):
    """A fault of the server: it cannot be reached, refuses requests, or sends invalid replies."""

    exit_code = 3


class MetricsError(PeerError):
    """The metrics endpoint cannot be read: it does not answer, or `has_answered` with an error status."""

    def __init__(self, message: str, *, remedy: str = "", has_answered: bool) -> None:
        super().__init__(message, remedy=remedy)
        self.has_answered = has_answered


class MissingError(PeerError):
    """The server does not support this call."""


class UnknownModelError(PeerError):
    """The server answers, but not about this model, which it may not have."""


class UnlikeError(InferometerError):
    """Two results are not comparable."""

    exit_code = 3


class LocalError(InferometerError):
    """A fault of this program or machine: a bug, a full disk, a killed worker."""

    exit_code = 70


_WORKERS = Name("--workers", "workers")
_REMEDIES = {
    errno.ENOMEM: ("memory", f"raise its limit (ulimit -v), stop other programs, or lower {_WORKERS}"),
    errno.EMFILE: ("file descriptors", f"raise their limit with ulimit -n, or lower {_WORKERS}"),
    errno.ENFILE: ("file descriptors", "stop other programs: the limit of the whole system is reached"),
    errno.EAGAIN: ("processes", f"raise their limit with ulimit -u, or lower {_WORKERS}"),
}  # fmt: skip
"""Scarce resource and remedy, by errno."""


def maybe_shortage(error: BaseException) -> LocalError | None:
    """Return the error for a shortage of memory, open files or processes; None for any other cause."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    if number not in _REMEDIES:
        return None
    what, remedy = _REMEDIES[number]
    return LocalError(f"this machine does not have enough {what}", remedy=remedy)
