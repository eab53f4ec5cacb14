"""The reach of options: what a value can affect on this machine and on others.

Every option has a reach. An options file that was found in the working directory, and not named by the user, may only
set options that reach nothing; all others require the user's trust (`cli/trusted.py`).
"""

from enum import Flag, auto


class Reach(Flag):
    """What a value can affect. `NOTHING`: a number, a name or a choice that only changes the measurement."""

    NOTHING = 0
    READS_FILES = auto()
    WRITES_FILES = auto()
    RUNS_CODE = auto()
    NAMES_HOSTS = auto()
    SENDS_SECRETS = auto()
    CHOOSES_CALLS = auto()
    WEAKENS_TLS = auto()
    CHANGES_SERVER = auto()
    LISTENS = auto()


EVERYTHING = ~Reach.NOTHING
"""The reach of an option that declares none."""

_REASONS = {
    Reach.RUNS_CODE: "runs code",
    Reach.READS_FILES: "reads files",
    Reach.WRITES_FILES: "writes files",
    Reach.NAMES_HOSTS: "names a host",
    Reach.SENDS_SECRETS: "sends credentials or headers",
    Reach.CHOOSES_CALLS: "chooses the call to send",
    Reach.WEAKENS_TLS: "weakens TLS checks",
    Reach.CHANGES_SERVER: "changes the server",
    Reach.LISTENS: "opens a port",
}


def reasons(reach: Reach) -> str:
    """Describe the reach in words: "runs code, reads files"."""
    return ", ".join(text for part, text in _REASONS.items() if part in reach)


def referenced(word: str) -> Reach:
    """Return the reach of a word that refers to a file or host: `@FILE`, `NAME=@FILE`, `MODEL@HOST`."""
    if word.lstrip().startswith("@") or "=@" in word:
        return Reach.READS_FILES
    return Reach.NAMES_HOSTS if "@" in word else Reach.NOTHING
