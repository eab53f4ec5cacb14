"""docs/architecture.md lists every package and every kind of answer, and everything it names exists."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer.report.kinds import KINDS
from tests.test_layers import RANK

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/inferometer"
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("architecture.md", "predictors.md")}
PAGE = PAGES["architecture.md"]
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROOTS = {*PACKAGES, "tests", "tools"}
# Directory listings in prose name a package without a path; only tokens with a dot or a slash are resolved.
TOKEN = re.compile(r"`([a-z_]\w*(?:[./]\w+)+|[a-z_]+/)`")


def table(heading: str) -> list[str]:
    """Rows of the first table below a heading, without its head."""
    lines = PAGE.partition(f"{heading}\n")[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    end = next(number for number, line in enumerate(lines[start:], start) if not line.startswith("|"))
    return lines[start + 2 : end]


def names() -> list[tuple[str, str]]:
    """Files, modules and classes that the pages name in backticks."""
    found = {(page, name) for page, text in PAGES.items() for name in TOKEN.findall(text)}
    return sorted((page, name) for page, name in found if re.split("[./]", name)[0] in ROOTS)


def exists(name: str) -> bool:
    """Whether a path below the repository or src/inferometer exists, or a dotted name can be imported."""
    if "/" in name:
        return (ROOT / name).exists() or (SOURCE / name).exists()
    prefix = "" if name.startswith("tests.") else "inferometer."
    *parents, last = name.split(".")
    module = _source(prefix + name)
    return module is not None or last in _defined(_source(prefix + ".".join(parents)))


def _source(name: str) -> Path | None:
    """The file of a module, without importing the module itself."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(found.origin) if found and found.origin else None


def _defined(path: Path | None) -> set[str]:
    return set(_top_level(ast.parse(path.read_text()))) if path else set()


def _top_level(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_every_package_has_a_row():
    rows = [name for row in table("## Ranks") for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(rows) == PACKAGES


def test_the_ranks_are_those_of_the_test():
    lines = re.findall(
        r"^    ((?:\w+|[>, ])+)$", PAGE.partition("## Ranks")[2].partition("| package")[0], re.M
    )
    groups = [set(re.split(r",\s*", group.strip())) for group in " ".join(lines).split(">") if group.strip()]
    by_rank: dict[int, set[str]] = {}
    for package, rank in RANK.items():
        by_rank.setdefault(rank, set()).add(package)
    assert groups == [by_rank[rank] for rank in sorted(by_rank, reverse=True)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type.__name__)
def test_every_kind_of_answer_has_a_row(kind):
    name = f"`{kind.type.__module__.removeprefix('inferometer.')}.{kind.type.__name__}`"
    assert [row for row in table("# Architecture") if name in row.split("|")[2]]


@pytest.mark.parametrize(("page", "name"), names())
def test_everything_that_the_page_names_exists(page, name):
    assert exists(name), f"docs/{page} names {name}"


def test_a_name_that_does_not_exist_is_noticed():
    assert not exists("load/no_such_file.py")
    assert not exists("load.plan.NoSuchPlan")
    assert not exists("load.no_such_module.Plan")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_states_its_rank(package):
    """Ranks are in tests/test_layers.py, so that a docstring cannot disagree with them."""
    described = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text()))
    assert described
    assert not re.search(r"\bRank \d", described)
