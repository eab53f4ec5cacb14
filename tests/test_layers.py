"""Imports go down only, and never in a circle; a class name stands for one thing."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
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
    "cluster": 5,
    "measure": 6,
    "find": 7,
    "scenario": 7,
    "compare": 7,
    "diagnose": 7,
    "tune": 7,
    "capacity": 8,
    "twin": 8,
    "report": 9,
    "store": 10,
    "api": 11,
    "selftest": 11,
    "ui": 12,
    "dialects": 12,
    "cli": 13,
}
MODELS = (("server", "models"), ("server", "vocoder"))  # of the embedded server, which runs them itself
NEVER = {("stats", lower) for lower in ("load", "services", "wire")} | {
    ("report", lower) for lower in ("load", "services", "wire", "cluster", "measure")
}

# Circles and doubles that are still there: these may only get fewer.
KNOWN_CIRCLES: set[tuple[str, str]] = set()
KNOWN_DOUBLES: set[str] = set()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def named(path: Path) -> set[str]:
    """Modules that a module imports by a name in a string, or by the part of it that is known beforehand."""
    found = set()
    for node in nodes(path):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
            found.add(str(first.value))
    return found


def imported(path: Path) -> set[str]:
    """Packages of ours that a module imports, wherever in it; the bare package itself is only a version."""
    names = named(path)
    for node in nodes(path):
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
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(RANK)


def test_imports_go_down_only():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {lower}"
        for package, path in modules()
        for lower in imported(path)
        if lower != package and (RANK[lower] >= RANK[package] or (package, lower) in NEVER)
    ]
    assert wrong == []


def test_an_import_by_name_counts_as_well(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'import_module("inferometer.report.notebook").fragment\n'
        'importlib.import_module(f"inferometer.cli.{name}")\n'
        "import_module(name)\n"
    )
    assert imported(module) == {"report", "cli"}
    assert imported_modules(module, ["inferometer.report.notebook"]) == {"inferometer.report.notebook"}


def imported_modules(path: Path, known: Iterable[str]) -> set[str]:
    """Modules of ours that a module imports: also inside functions, and for type checks only. Both kinds are
    counted, since neither of two modules can then be understood, or moved, without the other."""
    names = named(path)
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (inner & set(known)) or {str(node.module)}
    return names & set(known)


def circle(graph: Mapping[str, set[str]]) -> tuple[str, ...]:
    """One circle, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return tuple(sorted(set(error.args[1])))
    return ()


def test_no_module_imports_one_that_imports_it():
    paths = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for _, path in modules()
    }
    graph = {name: imported_modules(path, paths) - {name} for name, path in paths.items()}
    for first, second in KNOWN_CIRCLES:
        graph.get(f"inferometer.{first}", set()).discard(f"inferometer.{second}")
    assert circle(graph) == ()


def test_a_class_name_is_used_once():
    places = defaultdict(list)
    for _, path in modules():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    doubles = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in doubles.items() if name not in KNOWN_DOUBLES} == {}
