"""The git commit of the working directory, read in the background during the run."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 0.5
_ASKED = """\
git rev-parse HEAD || exit
names=$(git config --show-scope --name-only --list) || exit
runs='filter\\.|core\\.fsmonitor|remote\\..*\\.promisor|extensions\\.partialclone'
printf '%s\\n' "$names" | grep -qiE "^(local|worktree)[[:space:]]+($runs)" && exit
nice git -c core.fsmonitor=false status --porcelain --untracked-files=no --ignore-submodules=all | head -n 1
"""
"""`git status` runs the filters and monitors in the repository's configuration, and fetches missing objects of a
partial clone with the programs it names. That configuration may come with a folder from elsewhere, so in such a
repository only the commit is read."""

_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Write nothing, so that no hook runs, and fetch nothing."""


class CommitReader:
    """Starts reading when it is created; does nothing without a repository or without git."""

    def __init__(self, folder: Path) -> None:
        self._process: subprocess.Popen[str] | None = None
        if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
            return
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["sh", "-c", _ASKED],
                cwd=folder,
                env={**os.environ, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def result(self) -> str:
        """The commit, with a "+" at the end if files were changed; empty if there is none."""
        if self._process is None:
            return ""
        try:
            said = self._process.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            self._process.kill()
            said = self._process.communicate()[0]
        commit, *changed = said.splitlines() or [""]
        return f"{commit}+" if changed else commit
