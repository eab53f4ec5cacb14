"""The options files that the user trusts, by path and content, recorded in a file that only the user can write.

The content includes that of every file it refers to: scenarios, visits written in Python and the modules next to
them, data files, the scripts that commands call, model repositories. A change to any of them revokes the trust. As
with direnv, trust means that the user has reviewed the file, no matter who wrote it.
"""

import grp
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import MIB, read_regular
from inferometer.base.writing import replacing, writing
from inferometer.cli.led_to import MOST_FILES, TooManyError, led_to
from inferometer.options.config_file import read_options

STATE = "XDG_STATE_HOME"
_LARGEST_STATE = 4 * MIB
_HASHED = 16 * MIB  # larger files are identified by size and time


@frozen
class FoundFile:
    """An options file, read once, so that the text that is checked is the text that is used."""

    path: Path  # as found
    text: bytes
    status: os.stat_result

    @property
    def folder(self) -> Path:
        """The folder it was found in, to which its paths are relative."""
        return self.path.absolute().parent.resolve()

    @property
    def place(self) -> Path:
        """The path with links resolved: trust belongs to the file, not to a name."""
        return self.path.resolve()


def read_found(path: Path) -> FoundFile:
    return FoundFile(path, *read_options(path))


def is_trusted(found: FoundFile) -> bool:
    """Whether the user trusts the file in its current form and nobody else can change it."""
    recorded = trusted_files().get(str(found.place))
    return recorded is not None and not exposure(found) and recorded == digest(found)


def exposure(found: FoundFile) -> str:
    """Return why others could change the file; empty if they cannot."""
    folders = dict.fromkeys((found.folder, found.place.parent))
    seen = ((str(found.path), found.status), *((f"the folder '{one}'", os.stat(one)) for one in folders))
    for what, status in seen:
        if status.st_uid not in (os.geteuid(), 0):
            return f"{what} belongs to another user"
        if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status)):
            return f"{what} can be written by other users"
    return ""


def _is_own_group(status: os.stat_result) -> bool:
    """Whether the group is the user's private group."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


# --- content


def digest(found: FoundFile) -> str:
    """Return the SHA-256 of the file and of all files it refers to."""
    whole = hashlib.sha256(hashlib.sha256(found.text).digest())
    try:
        paths = led_to(found.text, found.folder) - {found.place}
    except TooManyError:
        raise UsageError(
            f"{found.path} refers to more than {MOST_FILES} files, which is too many to trust",
            remedy=f"name it for each run: --config {found.path}",
        ) from None
    for path in sorted(paths):
        whole.update(f"{path}\0".encode("utf-8", "surrogateescape") + _fingerprint(path))
    return whole.hexdigest()


def _fingerprint(path: Path) -> bytes:
    try:
        data, _ = read_regular(path, _HASHED, "the file")
        return hashlib.sha256(data).digest()
    except UsageError:  # too large or unreadable
        with suppress(OSError):
            status = path.stat()
            return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}".encode()
        return b""


# --- files written by our commands


def remember_made(path: Path) -> None:
    """Record a file that this command wrote; failing to record it is not an error."""
    with suppress(InferometerError, OSError):
        _write({**trusted_files(), str(path.resolve()): _made_digest(path)})


def is_made_here(path: Path) -> bool:
    """Whether the file is unchanged since a command of this user wrote it."""
    return trusted_files().get(str(path.resolve())) == _made_digest(path)


def _made_digest(path: Path) -> str:
    return f"made {_fingerprint(path).hex()}"


# --- state


def state_path() -> Path:
    """Return `$XDG_STATE_HOME/inferometer/trusted.json`; the XDG specification requires ignoring a relative path."""
    named = os.environ.get(STATE, "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
    return base / "inferometer" / "trusted.json"


def trusted_files() -> Mapping[str, str]:
    """Return the digests of the trusted files by path; empty if others could have written the record."""
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
    """Record the file in its current form. UsageError if others could change it."""
    if reason := exposure(found):
        raise UsageError(
            f"{found.path} cannot be trusted: {reason}",
            remedy=f"remove write permission for others with chmod, or name the file: --config {found.path}",
        )
    _write({**trusted_files(), str(found.place): digest(found)})


def revoke(path: Path) -> bool:
    """Stop trusting the file; return whether it was trusted."""
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
