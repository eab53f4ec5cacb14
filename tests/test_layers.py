"""Imports go down only."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "inferometer"

RANK = {
    "base": 0,
    "options": 1,
    "wire": 1,
    "model": 1,
    "records": 1,
    "services": 2,
    "dataset": 2,
    "load": 3,
    "observe": 3,
    "server": 3,
    "stats": 4,
    "measure": 5,
    "find": 6,
    "compare": 6,
    "diagnose": 6,
    "report": 7,
    "tune": 8,
    "api": 9,
    "selftest": 9,
    "cli": 10,
    "dialects": 11,
}
MODELS = (("server", "models"), ("server", "vocoder"))  # of the embedded server, which runs them itself
NEVER = {("stats", lower) for lower in ("load", "services", "wire")} | {
    ("report", lower) for lower in ("load", "services", "wire", "measure")
}


def imported(path: Path) -> set[str]:
    """Packages of ours that a module imports, wherever in it; the bare package itself is only a version."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "inferometer" and len(part) > 1 and part[1] in RANK}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        if len(relative.parts) > 1 and relative.parts[:2] not in MODELS:
            yield relative.parts[0], path


def test_every_package_has_a_rank():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set(RANK)


def test_imports_go_down_only():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {lower}"
        for package, path in modules()
        for lower in imported(path)
        if lower != package and (RANK[lower] >= RANK[package] or (package, lower) in NEVER)
    ]
    assert wrong == []
