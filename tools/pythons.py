"""The supported Python versions, and their interpreters on this machine."""

import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_CLASSIFIER = "Programming Language :: Python :: 3."


def claimed_versions() -> tuple[str, ...]:
    """Return the versions that pyproject.toml names, such as 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return tuple(line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(_CLASSIFIER))


def find_python(version: str) -> str | None:
    """Return an interpreter of this version, from pyenv or the PATH."""
    name = f"python{version}"
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
    return next(filter(_works, map(str, (*pyenv, shutil.which(name) or ""))), None)


def _works(python: str) -> bool:
    return (
        bool(python)
        and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    )
