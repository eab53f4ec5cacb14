"""`make dist`: wheel and sdist, and whether they work: `python -m tools.dist [--without-demo]`.

Each is installed into an empty environment of every Python we claim that is on this machine. From the wheel the demo is
run too, outside of the checkout, so nothing can come from there.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import inferometer

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SCRIPTS = ("inferometer", "perf_analyzer", "model-analyzer")
DEADLINE_S = 600


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.dist")
    parser.add_argument("--without-demo", action="store_true", help="only install, and start the scripts")
    options = parser.parse_args()
    wheel, sdist = build()
    for python in pythons():
        try_out(python, sdist, runs_demo=False)
        try_out(python, wheel, runs_demo=not options.without_demo)
    print(f"built and tried: {wheel.name}, {sdist.name}")


def build() -> tuple[Path, Path]:
    """Into an emptied place for them; the wheel is made out of the sdist, as others would make it."""
    for old in DIST.glob("inferometer-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def pythons() -> Iterator[str]:
    """Programs of the versions that pyproject.toml claims; the others are named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    for version in claimed:
        name = f"python{version}"
        pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
        found = next(filter(_works, map(str, (*pyenv, shutil.which(name) or ""))), None)
        if found is not None:
            yield found
        else:
            print(f"Python {version} is not on this machine: not tried")


def _works(python: str) -> bool:
    return (
        bool(python)
        and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    )


def try_out(python: str, package: Path, *, runs_demo: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="inferometer-dist-") as folder:
        print(f"{package.name} with {Path(python).name}", flush=True)
        place = Path(folder)
        _run(python, "-m", "venv", str(place / "env"))
        install = (str(place / "env/bin/python"), "-m", "pip", "install", "--quiet")
        _run(*install, str(package))
        for script in SCRIPTS:
            said = _run(str(place / "env/bin" / script), "--version", folder=place)
            if script == "inferometer" and inferometer.__version__ not in said:
                raise SystemExit(f"{script} --version says '{said.strip()}', not {inferometer.__version__}")
        if not runs_demo:
            return
        try:  # the server's wheel needs numpy below 2, which later Pythons would have to compile
            _run(*install, "--only-binary", "numpy", f"{package}[triton]")
        except SystemExit as error:
            if "numpy" not in str(error):
                raise
            print("the embedded server needs a numpy that is not built for this Python: no demo", flush=True)
        else:
            _run(str(place / "env/bin/inferometer"), "demo", folder=place)


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
