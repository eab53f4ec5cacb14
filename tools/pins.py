"""`make pins`: resolve everything that `make test` installs, and write the exact versions to constraints.txt.

Resolves the extra `dev` for every supported Python on both supported machines, from wheels only. Packages whose version
differs between them get one line for each, with a marker.
"""

import json
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.pythons import claimed_versions, find_python

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
MACHINES = ("aarch64", "x86_64")
GLIBC_MINORS = range(17, 37)  # manylinux_2_17 to manylinux_2_36 (Debian 12)
WANTED = ("pip", "flit_core", ".[dev]")
DEADLINE_S = 1200
HEADER = """\
# Exact versions of everything `make test` installs. Written by `make pins`; do not edit.
"""


class Target(NamedTuple):
    """A Python on a machine."""

    python: str  # 3.11
    machine: str  # x86_64


Resolved = Mapping[Target, Mapping[str, str]]  # version by package


def main() -> None:
    resolved = {
        Target(version, machine): resolve(Target(version, machine))
        for version in claimed_versions()
        for machine in MACHINES
    }
    CONSTRAINTS.write_text(HEADER + render(resolved))
    print(f"{CONSTRAINTS.name}: {len({name for row in resolved.values() for name in row})} packages")


def resolve(target: Target) -> dict[str, str]:
    """Ask pip, run by that Python, what it would install."""
    python = find_python(target.python)
    if python is None:
        raise SystemExit(
            f"make pins needs Python {target.python}: install it, for example with pyenv, and run again"
        )
    print(f"Python {target.python} on {target.machine}", flush=True)
    words = [sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--ignore-installed"]
    words += ["--quiet", "--only-binary", ":all:", "--report", "-"]
    if target.machine != platform.machine():
        for minor in GLIBC_MINORS:
            words += ["--platform", f"manylinux_2_{minor}_{target.machine}"]
        words += ["--platform", f"manylinux2014_{target.machine}"]
    done = subprocess.run(
        [*words, *WANTED], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"pip cannot resolve {' '.join(WANTED)}:\n{done.stderr[-2000:]}")
    return versions(json.loads(done.stdout))


def versions(report: Mapping[str, list[Mapping[str, Mapping[str, str]]]]) -> dict[str, str]:
    """Read an installation report of pip: the version of each package, without this project."""
    found = {_normal(row["metadata"]["name"]): row["metadata"]["version"] for row in report["install"]}
    return {name: version for name, version in found.items() if name != "inferometer"}


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def render(resolved: Resolved) -> str:
    """Write the lines, with markers only where targets differ."""
    by_name: dict[str, dict[Target, str]] = defaultdict(dict)
    for target, packages in resolved.items():
        for name, version in packages.items():
            by_name[name][target] = version
    return "".join(f"{line}\n" for name in sorted(by_name) for line in _lines(name, by_name[name]))


def _lines(name: str, found: Mapping[Target, str]) -> list[str]:
    if len(set(found.values())) == 1:
        return [f"{name}=={next(iter(found.values()))}"]
    lines = []
    for python in dict.fromkeys(target.python for target in found):
        here = {target: version for target, version in found.items() if target.python == python}
        marker = f'python_version == "{python}"'
        if len(set(here.values())) == 1:
            lines.append(f"{name}=={next(iter(here.values()))} ; {marker}")
        else:
            lines += [
                f'{name}=={version} ; {marker} and platform_machine == "{target.machine}"'
                for target, version in here.items()
            ]
    return lines


if __name__ == "__main__":
    main()
