"""`make unit-elsewhere`: run the fast tests on every other supported Python of this machine.

Each version has its own environment, such as `.venv-3.12`, with the extra `test`: no server, no browser, no Ray.
`INFEROMETER_PYTHONS="3.13"` chooses the versions, which must then be installed. The script needs only the standard
library, so that CI can run it for one version without a development environment.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.pythons import claimed_versions, find_python

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pyproject.toml", "constraints.txt")
TESTS = ("tests/unit", "-m", "not slow", "-n", "2", "--dist", "worksteal")


def main() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = os.environ.get("INFEROMETER_PYTHONS", "").split()
    missing = [version for version in asked if find_python(version) is None]
    if missing:
        raise SystemExit(f"Python {', '.join(missing)} is not on this machine: install it, or choose others")
    versions = asked or [version for version in claimed_versions() if version != here]
    failed = [version for version in versions if not passes(version)]
    if failed:
        raise SystemExit(f"the fast tests fail on Python {', '.join(failed)}")


def passes(version: str) -> bool:
    """Run the fast tests on this Python; report and skip a version that is not installed."""
    found = find_python(version)
    if found is None:
        print(f"Python {version} is not on this machine: not tested", flush=True)
        return True
    environment = ROOT / f".venv-{version}"
    started = time.monotonic()
    install(found, environment)
    installed = time.monotonic()
    python = environment / "bin" / "python"
    code = subprocess.run(
        [python, "-m", "pytest", *TESTS], cwd=ROOT, env=os.environ | {"INFEROMETER_QUICK": "1"}, check=False
    ).returncode
    print(
        f"Python {version}: installed in {installed - started:.0f} s, tested in {time.monotonic() - installed:.0f} s",
        flush=True,
    )
    return code == 0


def install(python: str, environment: Path) -> None:
    """Create the environment unless it is newer than the files that define it."""
    stamp = environment / ".installed"
    if is_current(stamp, [ROOT / name for name in SOURCES]):
        return
    inside = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        inside,
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "--constraint", "constraints.txt", "--editable", ".[test]"], cwd=ROOT, check=True)
    stamp.touch()


def is_current(stamp: Path, sources: Sequence[Path]) -> bool:
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


if __name__ == "__main__":
    main()
