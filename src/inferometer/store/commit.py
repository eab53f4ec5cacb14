"""The git commit of the working directory, read beside the run."""

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
"""`git status` runs what the repository's own configuration names as a filter or a monitor, and fetches objects that a
partial clone lacks with the programs it names. That configuration may come with a folder from elsewhere, so such a
repository is only asked for its commit."""

_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Write nothing, so that no hook runs, and fetch nothing."""


class CommitReader:
    """Starts to read when it is made; where there is no repository, or no git, there is nothing to wait for."""

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
        """The commit, with "+" at its end where files were changed; empty where there is none."""
        if self._process is None:
            return ""
        try:
            said = self._process.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            self._process.kill()
            said = self._process.communicate()[0]
        commit, *changed = said.splitlines() or [""]
        return f"{commit}+" if changed else commit
