"""Mutation testing: `python -m tools.mutate [--count N] [--seed N] [--jobs N] [--only FILE]`, or `make mutate`.

Plants small faults, one at a time, into a copy of the modules below: `<` for `<=`, `+` for `-`, another constant, an
inverted condition. Then it runs the tests of `make test` that reach the line, as coverage.py records them once. A fault
that no test notices has survived, and the long tests and the full samples, which `make test` leaves out, get their
turn. Survivors that do not change the behaviour are explained in tools/mutants.toml. Tests that fail without a fault
prove nothing here: they are listed and left out.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src/inferometer")
EXPLAINED = Path(__file__).with_name("mutants.toml")
SAMPLES_DEADLINE_S = 600
SUITE = ("-m", "not long")
FOLDER = ROOT / "dist" / "mutate"  # on the file system of the checkout, so that files can be linked

# Coverage of the suite, with the test that reached each line.
RECORDING = """\
[run]
dynamic_context = test_function
parallel = true
patch = subprocess
source_pkgs = inferometer
data_file = {data}
disable_warnings = module-not-imported, no-data-collected
"""

NOTICED = "noticed"
SURVIVED = "SURVIVED"
LATE = "SURVIVED make test; noticed by the long tests or the full samples"

FAILURE = re.compile(r"(?:FAILED|ERROR) (\S+)")

# By pattern of modules: the tests to run, the most specific first.
TESTS = {
    "stats/*.py": ("tests/unit/stats", "tests/sim"),
    "load/plan.py": ("tests/unit/load", "tests/sim"),
    "records/*.py": ("tests/unit/records", "tests/unit/load", "tests/sim"),
    "wire/http1.py": ("tests/unit/wire", "tests/fuzz/test_http1_fuzz.py"),
    "diagnose/queueing.py": ("tests/unit/diagnose",),
    "diagnose/simulation.py": ("tests/unit/diagnose",),
    "tune/scoring.py": ("tests/unit/tune", "tests/sim/tune"),
}

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "due_ns": "sent_ns", "sent_ns": "due_ns"}


@dataclass(frozen=True, slots=True)
class Place:
    """A place where a fault can be planted."""

    module: Path  # below src/inferometer
    node: int  # index in the order of ast.walk
    way: int
    tests: tuple[str, ...]

    def mutant(self) -> "Mutant":
        tree = ast.parse((ROOT / SOURCE / self.module).read_text())
        node = list(ast.walk(tree))[self.node]
        before, lines = ast.unparse(node), _lines(tree, node)
        _break(node, self.way)
        return Mutant(
            self.module, lines, _first_line(before), _first_line(ast.unparse(node)), ast.unparse(tree)
        )


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one planted fault."""

    module: Path
    lines: range  # from the start of the statement to the end of the changed expression
    before: str
    after: str
    source: str  # of the whole module

    def __str__(self) -> str:
        return f"{self.module}:{self.lines[-1]}: {self.before}  ->  {self.after}"


def _lines(tree: ast.AST, node: ast.AST) -> range:
    spans = [
        (statement.lineno, statement.end_lineno or statement.lineno)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.stmt)
    ]
    line = getattr(node, "lineno", 1)
    start = max((first for first, last in spans if first <= line <= last), default=line)
    end = line if isinstance(node, ast.stmt) else getattr(node, "end_lineno", line)
    return range(start, end + 1)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def places(module: Path, tests: tuple[str, ...]) -> list[Place]:
    tree = ast.parse((ROOT / SOURCE / module).read_text())
    decorators = [row for node in ast.walk(tree) for row in getattr(node, "decorator_list", ())]
    shown = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "repr"]
    # `frozen=True` and the like do not affect behaviour.
    harmless = {id(part) for row in (*decorators, *shown) for part in ast.walk(row)}
    return [
        Place(module, number, way, tests)
        for number, node in enumerate(ast.walk(tree))
        if id(node) not in harmless
        for way in range(_ways(node))
    ]


def _ways(node: ast.AST) -> int:
    """Number of faults that can be planted at a node."""
    match node:
        case ast.Compare():
            return sum(type(op) in COMPARISONS for op in node.ops)
        case ast.BinOp():
            return int(type(node.op) in ARITHMETIC)
        case ast.Constant(value=bool()):
            return 1
        case ast.Constant(value=int() | float()):
            return 1
        case ast.BoolOp() | ast.If() | ast.IfExp() | ast.While():
            return 1
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            return int(name in NAMES)
    return 0


def _break(node: ast.AST, way: int) -> None:
    match node:
        case ast.Compare():
            places = [place for place, op in enumerate(node.ops) if type(op) in COMPARISONS]
            node.ops[places[way]] = COMPARISONS[type(node.ops[places[way]])]()
        case ast.BinOp():
            node.op = ARITHMETIC[type(node.op)]()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.BoolOp():
            node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Name():
            node.id = NAMES[node.id]
        case ast.Attribute():
            node.attr = NAMES[node.attr]


class Reach:
    """Which tests of the suite reach a line, which fail without a fault, and how long all may take."""

    def __init__(self, parts: Iterable[str], jobs: int) -> None:
        settings, data = FOLDER / "coveragerc", FOLDER / "data"
        settings.write_text(RECORDING.format(data=data))
        coverage = (sys.executable, "-m", "coverage")
        rc = f"--rcfile={settings}"
        processes = max(2, jobs)
        suite = ("-m", "pytest", "-q", "-rfE", *SUITE, "-n", str(processes), "--dist", "loadscope")
        subprocess.run([*coverage, "erase", rc], cwd=ROOT, check=True)
        start = time.monotonic()
        done = subprocess.run(
            [*coverage, "run", rc, *suite, *parts], cwd=ROOT, check=False, capture_output=True, text=True
        )
        self.deadline_s = (time.monotonic() - start) * processes
        if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(f"The tests cannot run here:\n{done.stdout}{done.stderr}")
        self.failing = tuple(
            sorted({found[1] for found in map(FAILURE.match, done.stdout.splitlines()) if found})
        )
        subprocess.run([*coverage, "combine", "--quiet", rc], cwd=ROOT, check=True)
        self._data = CoverageData(str(data))
        self._data.read()

    def tests(self, mutant: Mutant, parts: Sequence[str]) -> tuple[str, ...]:
        """Return the tests that reach the mutant, if all that reach it are known: no import or worker process does.

        They are in the order of the parts, so that a fault meets the most specific tests first.
        """
        by_line: Mapping[int, list[str]] = self._data.contexts_by_lineno(str(ROOT / SOURCE / mutant.module))
        names = {name for line in mutant.lines for name in by_line.get(line, ())}
        if "" in names:
            return ()
        found = sorted(filter(None, map(_node_id, names)))
        order = [*parts, ""]
        return tuple(sorted(found, key=lambda test: [test.startswith(part) for part in order].index(True)))


def _node_id(context: str) -> str | None:
    """Return pytest's name of a test, given its qualified name."""
    module, _, test = context.rpartition(".")
    path = f"{module.replace('.', '/')}.py"
    return f"{path}::{test}" if (ROOT / path).exists() else None


@contextmanager
def planted(mutant: Mutant) -> Iterator[Path]:
    """Copy the package with the fault, its compiled modules included, while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=FOLDER) as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, copy_function=os.link)
        changed = source / "inferometer" / mutant.module
        changed.unlink()
        changed.write_text(mutant.source)
        yield source


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs tests against one fault after the other."""

    reach: Reach
    known: Mapping[str, str]  # why a survivor does not change the behaviour

    def verdict(self, place: Place) -> tuple[Mutant, str]:
        mutant = place.mutant()
        name = f"{mutant.module}: {mutant.before}  ->  {mutant.after}"
        with planted(mutant) as source:
            tests = self.reach.tests(mutant, place.tests) or place.tests
            if not self._pass(source, self.reach.deadline_s, *SUITE, *tests):
                return mutant, NOTICED
            if name in self.known:
                return mutant, f"survived: {self.known[name]}"
            if not self._pass(source, SAMPLES_DEADLINE_S, *place.tests, INFEROMETER_SAMPLES="1"):
                return mutant, LATE
        return mutant, SURVIVED

    def _pass(self, source: Path, deadline_s: float, *words: str, **variables: str) -> bool:
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"} | variables
        left_out = [word for test in self.reach.failing for word in ("--deselect", test)]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *left_out, *words]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=deadline_s, check=False
            )
        except subprocess.TimeoutExpired:
            return False  # an endless loop counts as noticed
        return done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutate")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="faults to plant (default 60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which ones (default 1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="faults to test at once (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only modules whose path contains this")
    parser.add_argument("--list", action="store_true", help="list the faults without planting them")
    options = parser.parse_args()
    known = {row["mutant"]: row["why"] for row in tomllib.loads(EXPLAINED.read_text()).get("explained", ())}
    chosen = sample(options.count, options.seed, options.only)
    if options.list:
        print("\n".join(str(place.mutant()) for place in chosen))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    reach = Reach(sorted({test for place in chosen for test in place.tests}), options.jobs)
    for test in reach.failing:
        print(f"Left out, since it fails without a fault: {test}", flush=True)
    verdicts = list[str]()
    with ThreadPoolExecutor(options.jobs) as pool:
        trial = Trial(reach, known)
        for ended in as_completed(pool.submit(trial.verdict, place) for place in chosen):
            mutant, verdict = ended.result()
            verdicts.append(verdict)
            print(f"{len(verdicts)}/{len(chosen)} {mutant}: {verdict}", flush=True)
    left = verdicts.count(SURVIVED)
    survived = left + verdicts.count(LATE)
    explained = len(verdicts) - survived - verdicts.count(NOTICED)
    print(
        f"{len(chosen)} planted, {survived} survived make test, {left} of them also the long tests and the full "
        f"samples; {explained} more are explained"
    )
    sys.exit(1 if survived > len(chosen) / 10 else 0)


def sample(count: int, seed: int, only: str) -> list[Place]:
    """Draw the same number from each pattern of modules, so that large packages do not crowd out small ones."""
    chance = random.Random(seed)
    piles = []
    for pattern, tests in TESTS.items():
        modules = [path.relative_to(ROOT / SOURCE) for path in sorted((ROOT / SOURCE).glob(pattern))]
        pile = [place for module in modules if only in str(module) for place in places(module, tests)]
        chance.shuffle(pile)
        piles.append(pile)
    chosen = list[Place]()
    while len(chosen) < count and any(piles):
        chosen += [pile.pop() for pile in piles if pile]
    return chosen[:count]


if __name__ == "__main__":
    main()
