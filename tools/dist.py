"""`make dist`: build and test the wheel and the sdist (see `python -m tools.dist --help` for partial runs).

The wheel must contain every file of the package. Both are installed into empty environments of every available
supported Python; the demo is run from the wheel, outside the checkout and without a network. Then every extra is
installed by itself, timed and measured; a full run writes these figures to docs/install.md.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import inferometer
from inferometer.server.wheel import SERVER_PYTHONS
from tools.pythons import claimed_versions, find_python

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PAGE = ROOT / "docs" / "install.md"
MARKS = ("<!-- extras -->\n", "<!-- /extras -->")
SCRIPTS = ("inferometer", "perf_analyzer", "model-analyzer")
DEADLINE_S = 600
LONGEST_INSTALL_S = 90.0  # with a warm cache
SEARCHING = "looking at multiple versions"  # what pip prints when it backtracks
NOT_FOR_USERS = {"docs", "test", "dev"}

# Brings up the loopback interface of a new network namespace (SIOCSIFFLAGS, IFF_UP), then executes the command.
OFFLINE = """\
import fcntl, os, socket, struct, sys
with socket.socket() as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.argv[1], sys.argv[1:])
"""


class Installed(NamedTuple):
    """An extra installed in an empty environment."""

    extra: str  # empty: the package alone
    python: str
    seconds: float
    megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.dist")
    parser.add_argument("--python", action="append", help="only this version; may be given several times")
    parser.add_argument("--extra", action="append", help="only this extra; may be given several times")
    parser.add_argument("--without-demo", action="store_true", help="only install, and start the scripts")
    options = parser.parse_args()
    wheel, sdist = build()
    check_contents(wheel, sdist)
    pythons = _pythons(options.python or claimed_versions())
    for version, python in pythons.items():
        try_out(python, sdist, runs_demo=False)
        try_out(python, wheel, runs_demo=not options.without_demo and version in SERVER_PYTHONS)
    figures = [
        weigh(extra, version, python, wheel)
        for extra in options.extra or user_extras()
        for version, python in pythons.items()
    ]
    print(table(figures))
    if not (options.python or options.extra):
        write_table(table(figures))
    slow = [figure for figure in figures if figure.seconds > LONGEST_INSTALL_S]
    if slow:
        raise SystemExit(f"took longer than {LONGEST_INSTALL_S:.0f} s: {slow}")
    print(f"built and tried: {wheel.name}, {sdist.name}")


def build() -> tuple[Path, Path]:
    """Build into dist/; the wheel is built from the sdist, as a distributor would."""
    for old in DIST.glob("inferometer-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


# --- contents


def check_contents(wheel: Path, sdist: Path) -> None:
    """Reject archives that lack a tracked file of the package or contain others."""
    tracked = [name.removeprefix("src/") for name in _run("git", "ls-files", "src/inferometer").splitlines()]
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = [name for name in opened.namelist() if name.startswith("inferometer/")]
    with tarfile.open(sdist) as opened_sdist:
        in_sdist = [
            name.partition("/src/")[2]
            for name in opened_sdist.getnames()
            if "/src/inferometer/" in name and opened_sdist.getmember(name).isfile()
        ]
    for archive, names in ((wheel, in_wheel), (sdist, in_sdist)):
        problem = difference(tracked, names)
        if problem:
            raise SystemExit(f"{archive.name}: {problem}")
    print(f"{wheel.name}: {len(in_wheel)} files of the package, as in git")


def difference(tracked: Iterable[str], packed: Iterable[str]) -> str | None:
    """Describe missing and surplus files; None if there are none."""
    wanted, found = set(tracked), set(packed)
    if wanted - found:
        return f"lacks {', '.join(sorted(wanted - found))}"
    if found - wanted:
        return f"has files that are not in git: {', '.join(sorted(found - wanted))}"
    return None


# --- installing


def _pythons(versions: Iterable[str]) -> dict[str, str]:
    found = {version: find_python(version) for version in versions}
    for version, python in found.items():
        if python is None:
            print(f"Python {version} is not on this machine: not tried")
    return {version: python for version, python in found.items() if python is not None}


def try_out(python: str, package: Path, *, runs_demo: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="inferometer-dist-") as folder:
        print(f"{package.name} with {Path(python).name}", flush=True)
        place = Path(folder)
        environment = _environment(python, place)
        _install(environment, f"{package}[triton]" if runs_demo else str(package))
        for script in SCRIPTS:
            said = _run(str(environment / "bin" / script), "--version", folder=place)
            if script == "inferometer" and inferometer.__version__ not in said:
                raise SystemExit(f"{script} --version says '{said.strip()}', not {inferometer.__version__}")
        if runs_demo:
            _run(*_without_network(environment), str(environment / "bin/inferometer"), "demo", folder=place)


def _without_network(environment: Path) -> tuple[str, ...]:
    """Return a command prefix that leaves only the loopback network, if this machine allows it."""
    try:
        _run("unshare", "-rn", "true")
    except (SystemExit, FileNotFoundError):
        print("this machine does not support unshare -rn: the demo runs with a network")
        return ()
    return ("unshare", "-rn", str(environment / "bin/python"), "-c", OFFLINE)


def user_extras() -> tuple[str, ...]:
    """Return the extras to install: none (the package alone), every extra for users, and `all`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ("", *(extra for extra in project["optional-dependencies"] if extra not in NOT_FOR_USERS))


def weigh(extra: str, version: str, python: str, wheel: Path) -> Installed:
    """Install an extra into an empty environment; fail if pip has to backtrack."""
    with tempfile.TemporaryDirectory(prefix="inferometer-dist-") as folder:
        environment = _environment(python, Path(folder))
        before = _megabytes(environment)
        started = time.monotonic()
        said = _install(environment, f"{wheel}[{extra}]" if extra else str(wheel))
        took = time.monotonic() - started
        if SEARCHING in said:
            raise SystemExit(f"the extra '{extra}' makes pip search with Python {version}:\n{said[-2000:]}")
        figure = Installed(extra, version, took, _megabytes(environment) - before)
        print(f"[{extra}] with Python {version}: {took:.0f} s, {figure.megabytes:.0f} MB", flush=True)
        return figure


def _environment(python: str, place: Path) -> Path:
    """Create an environment with a recent pip: the one that comes with Python 3.11 needs twice the time to resolve."""
    environment = place / "env"
    _run(python, "-m", "venv", str(environment))
    _install(environment, "--upgrade", "--constraint", str(ROOT / "constraints.txt"), "pip")
    return environment


def _install(environment: Path, *words: str) -> str:
    return _run(str(environment / "bin/python"), "-m", "pip", "install", "--progress-bar", "off", *words)


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_symlink()) / 1e6


# --- the table in the docs


def table(figures: Iterable[Installed]) -> str:
    """Return a Markdown table of seconds and megabytes by extra and Python."""
    rows: dict[str, dict[str, Installed]] = {}
    for figure in figures:
        rows.setdefault(figure.extra, {})[figure.python] = figure
    versions = sorted({version for row in rows.values() for version in row}, key=_number)
    lines = [
        f"| extra | {' | '.join(f'Python {version}' for version in versions)} |",
        f"|---|{'---|' * len(versions)}",
    ]
    for extra, row in rows.items():
        cells = (_cell(row.get(version)) for version in versions)
        lines.append(f"| {f'`{extra}`' if extra else 'none'} | {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _cell(figure: Installed | None) -> str:
    return "" if figure is None else f"{figure.seconds:.0f} s, {figure.megabytes:.0f} MB"


def write_table(text: str) -> None:
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(before + MARKS[0] + text + MARKS[1] + after)
    print(f"written to {PAGE.relative_to(ROOT)}")


def _run(*words: str, folder: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    main()
