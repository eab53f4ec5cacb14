"""Which found files of options the user trusts: by path and content, in a file that only the user can write.

The content of a file is its own and that of every file it leads to: scenarios, visits written in Python and the modules
beside them, data files, the scripts that commands call, model repositories. A change in any of them withdraws the
trust. As with direnv, trust says that the user has read the file, and nothing about who wrote it.
"""

import grp
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.reading import MIB, read_regular
from inferometer.base.writing import replacing, writing
from inferometer.cli.led_to import MOST_FILES, TooManyError, led_to
from inferometer.options.config_file import read_options

STATE = "XDG_STATE_HOME"
_LARGEST_STATE = 4 * MIB
_HASHED = 16 * MIB  # a larger file is known by its size and time


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of options, read once: what was judged is what is used."""

    path: Path  # as it was found
    text: bytes
    status: os.stat_result

    @property
    def folder(self) -> Path:
        """Where it was found, and where the paths in it start."""
        return self.path.absolute().parent.resolve()

    @property
    def place(self) -> Path:
        """Links resolved: trust belongs to the file, not to a name of it."""
        return self.path.resolve()


def read_found(path: Path) -> FoundFile:
    return FoundFile(path, *read_options(path))


def is_trusted(found: FoundFile) -> bool:
    """Whether the user has trusted the file as it is now, and nobody else can change it."""
    recorded = trusted_files().get(str(found.place))
    return recorded is not None and not exposure(found) and recorded == digest(found)


def exposure(found: FoundFile) -> str:
    """Why others could change the file; empty where they cannot."""
    folders = dict.fromkeys((found.folder, found.place.parent))
    seen = ((str(found.path), found.status), *((f"the folder '{one}'", os.stat(one)) for one in folders))
    for what, status in seen:
        if status.st_uid not in (os.geteuid(), 0):
            return f"{what} belongs to another user"
        if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status)):
            return f"{what} can be written by other users"
    return ""


def _is_own_group(status: os.stat_result) -> bool:
    """Whether the group is that of the user alone, as many systems make one for each user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


# --- content


def digest(found: FoundFile) -> str:
    """SHA-256 of the file and of everything it leads to."""
    whole = hashlib.sha256(hashlib.sha256(found.text).digest())
    try:
        paths = led_to(found.text, found.folder) - {found.place}
    except TooManyError:
        raise UsageError(
            f"{found.path} leads to more than {MOST_FILES} files, which is too many to trust",
            remedy=f"name it in each run: --config {found.path}",
        ) from None
    for path in sorted(paths):
        whole.update(f"{path}\0".encode("utf-8", "surrogateescape") + _fingerprint(path))
    return whole.hexdigest()


def _fingerprint(path: Path) -> bytes:
    try:
        data, _ = read_regular(path, _HASHED, "the file")
        return hashlib.sha256(data).digest()
    except UsageError:  # too large, or not to be read at all
        with suppress(OSError):
            status = path.stat()
            return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}".encode()
        return b""


# --- files that were made here


def remember_made(path: Path) -> None:
    """Record a file as this command wrote it; a state that cannot be written is no reason to fail."""
    with suppress(InferometerError, OSError):
        _write({**trusted_files(), str(path.resolve()): _made_digest(path)})


def is_made_here(path: Path) -> bool:
    """Whether the file is still as a command of this user wrote it."""
    return trusted_files().get(str(path.resolve())) == _made_digest(path)


def _made_digest(path: Path) -> str:
    return f"made {_fingerprint(path).hex()}"


# --- state


def state_path() -> Path:
    """`$XDG_STATE_HOME/inferometer/trusted.json`; a relative variable is ignored, as its specification requires."""
    named = os.environ.get(STATE, "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return base / "inferometer" / "trusted.json"


def trusted_files() -> Mapping[str, str]:
    """The digests of the trusted files by path; none where the state could have been written by others."""
    path = state_path()
    if not path.exists():
        return {}
    try:
        data, status = read_regular(path, _LARGEST_STATE, "the file")
        recorded = json.loads(data)["trusted"]
    except (UsageError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return {}
    if not isinstance(recorded, dict):
        return {}
    return {str(name): str(value) for name, value in recorded.items()}


def trust(found: FoundFile) -> None:
    """Record the file as it is now. UsageError where others could change it."""
    if reason := exposure(found):
        raise UsageError(
            f"{found.path} cannot be trusted: {reason}",
            remedy=f"take the right to write away from others with chmod, or name the file: --config {found.path}",
        )
    _write({**trusted_files(), str(found.place): digest(found)})


def revoke(path: Path) -> bool:
    """Forget the file; whether it was trusted."""
    recorded = dict(trusted_files())
    was_trusted = recorded.pop(str(path.resolve()), None) is not None
    if was_trusted:
        _write(recorded)
    return was_trusted


def _write(recorded: Mapping[str, str]) -> None:
    path = state_path()
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
    text = json.dumps({"trusted": dict(sorted(recorded.items()))}, indent=1) + "\n"
    with replacing(path) as place:
        place.touch(mode=0o600)
        place.write_text(text, encoding="utf-8", errors="surrogateescape")
