"""`make cover`: branch coverage of the unit and simulation tests, by package.

`python -m tools.cover tests/unit/stats` measures the coverage of these tests, including worker processes and commands
that they start (`patch = subprocess` in pyproject.toml). dist/coverage/index.html shows the lines that are not covered.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "dist" / "coverage"
TESTS = ("tests/unit", "tests/sim", "-n", "2", "--dist", "worksteal")
PACKAGE = "src/inferometer/"


class Reached(NamedTuple):
    """Coverage of a package."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def plus(self, summary: Mapping[str, int]) -> "Reached":
        return Reached(
            self.lines + summary["num_statements"],
            self.lines_reached + summary["covered_lines"],
            self.branches + summary["num_branches"],
            self.branches_reached + summary["covered_branches"],
        )

    @property
    def share(self) -> float:
        """Covered share of lines and branches together, as in coverage.py."""
        every = self.lines + self.branches
        return (self.lines_reached + self.branches_reached) / every if every else 1.0


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    _coverage("erase")
    code = _coverage("run", "-m", "pytest", *(sys.argv[1:] or TESTS), check=False)
    _coverage("combine", "--quiet")
    _coverage("json", "--quiet", "-o", str(FOLDER / "coverage.json"))
    _coverage("html", "--quiet", "-d", str(FOLDER))
    print(table(json.loads((FOLDER / "coverage.json").read_text())), end="")
    raise SystemExit(code)


def table(report: Mapping[str, Any]) -> str:
    """Return a table of the coverage by package, the lowest first, and in total."""
    by_package: dict[str, Reached] = defaultdict(Reached)
    for name, found in report["files"].items():
        package = name.removeprefix(PACKAGE).partition("/")[0]
        by_package[package] = by_package[package].plus(found["summary"])
        by_package["all"] = by_package["all"].plus(found["summary"])
    every = by_package.pop("all", Reached())
    rows = sorted(by_package.items(), key=lambda row: row[1].share)
    lines = [f"{'package':<12} {'lines':>14} {'branches':>14} {'together':>9}"]
    return "".join(f"{line}\n" for line in (*lines, *(_row(*row) for row in rows), _row("all", every)))


def _row(name: str, reached: Reached) -> str:
    lines = f"{reached.lines_reached}/{reached.lines}"
    branches = f"{reached.branches_reached}/{reached.branches}"
    return f"{name:<12} {lines:>14} {branches:>14} {100 * reached.share:>7.1f} %"


def _coverage(*words: str, check: bool = True) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *words], cwd=ROOT, check=check).returncode


if __name__ == "__main__":
    main()
