"""The tritonserver in the nvidia-pytriton wheel: its location, and a private folder to run it from."""

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.threads import users_environment

INSTALL = "pip install 'inferometer[triton]'"
STUB = "triton_python_backend_stub"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SERVER_PYTHONS = ("3.11", "3.12")  # for which the extra `triton` installs the server
NUMPY_LIMIT = 2  # the python backend of Triton 2.51 was built for numpy 1
_VENV = "venv"
BUSY_S = 5.0
_START = "inferometer_start"
_SITE = """\
import site, sys
sys.dont_write_bytecode = True
for path in {paths!r}:
    site.addsitedir(path)
"""


@frozen
class Wheel:
    """The installed files of nvidia-pytriton; read, never written."""

    site: Path

    @property
    def server(self) -> Path:
        return self.site / "pytriton" / "tritonserver"

    @property
    def executable(self) -> Path:
        return self.server / "bin" / "tritonserver"

    @property
    def caches(self) -> Path:
        return self.server / "caches"

    @property
    def libraries(self) -> Path:
        return self.site / "nvidia_pytriton.libs"

    def stub(self, python: str) -> Path:
        return self.server / "python_backend_stubs" / python / STUB


def find_wheel() -> Wheel:
    """Find the wheel on this interpreter's path without importing it, since the import has side effects."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the embedded Triton needs the package nvidia-pytriton, which is not installed for "
            f"{sys.executable}",
            remedy=INSTALL
            if _PYTHON in SERVER_PYTHONS
            else f"it requires Python {' or '.join(SERVER_PYTHONS)}, but this is {_PYTHON}: {INSTALL} with one of them",
        )
    wheel = Wheel(Path(next(iter(spec.submodule_search_locations))).parent)
    for needed in (wheel.executable, wheel.libraries):
        if not needed.exists():
            raise UsageError(
                f"the installed nvidia-pytriton has no {needed}",
                remedy=f"reinstall it: pip install --force-reinstall nvidia-pytriton, or {INSTALL}",
            )
    return wheel


def prepare(wheel: Wheel, runtime: Path, environment: Mapping[str, str]) -> None:
    """Create everything that the wheel's server needs under `runtime`."""
    make_backends(wheel, runtime)
    make_interpreter(runtime)
    check_stub(runtime, environment)


def backends_folder(runtime: Path) -> Path:
    """Return the folder in which `make_backends` puts the backends."""
    return runtime / "pytriton" / "tritonserver" / "backends"


def make_backends(wheel: Wheel, runtime: Path) -> None:
    """Create a backend folder under `runtime` whose python backend runs models with this interpreter's version.

    The layout is that of the wheel, because the copied stub finds its libraries by a path relative to itself.
    """
    stub = wheel.stub(_PYTHON)
    if not stub.exists():
        known = [found.parent.name for found in wheel.stub("*").parents[1].glob(f"*/{STUB}")]
        known.sort(key=lambda version: tuple(map(int, version.split("."))))
        raise UsageError(
            f"nvidia-pytriton has no python backend for Python {_PYTHON}, only for {', '.join(known) or 'none'}",
            remedy="run inferometer with one of these versions",
        )
    backend = backends_folder(runtime) / "python"
    backend.mkdir(parents=True)
    (runtime / wheel.libraries.name).symlink_to(wheel.libraries)
    for source in (wheel.server / "backends" / "python").iterdir():
        if source.is_file() and source.name != STUB:
            (backend / source.name).symlink_to(source)
    shutil.copy(stub, backend / STUB)


def make_interpreter(runtime: Path) -> None:
    """Create a virtual environment under `runtime` in which the stubs find this interpreter and its packages.

    A stub takes its prefix from the first python3 on PATH and ignores every PYTHON... variable. So a start-up
    file repeats the search path, and disables bytecode files: model folders are often part of an installation
    or under version control.
    """
    import venv

    venv.EnvBuilder(symlinks=True).create(runtime / _VENV)
    packages = next((runtime / _VENV / "lib").glob("python*/site-packages"))
    paths = [str(Path(path).resolve()) for path in sys.path if path]
    # Not sitecustomize.py: Debian's and Ubuntu's Python have their own, which is found first.
    (packages / f"{_START}.py").write_text(_SITE.format(paths=paths), encoding="utf-8")
    (packages / f"{_START}.pth").write_text(f"import {_START}\n", encoding="utf-8")


def server_environment(runtime: Path, added: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment and `added`, extended so that the stubs find their interpreter and its shared
    library."""
    variables = {**users_environment(), **added}
    variables["PATH"] = _joined(str(runtime / _VENV / "bin"), variables.get("PATH"))
    library = sysconfig.get_config_var("LIBDIR")
    if library and (Path(library) / str(sysconfig.get_config_var("INSTSONAME"))).exists():
        variables["LD_LIBRARY_PATH"] = _joined(library, variables.get("LD_LIBRARY_PATH"))
    return variables


def _try_stub(stub: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[bytes]":
    """Run the stub once, and again while it is busy: a process that another thread forked during the copy holds the
    file open for writing until it has started its own program."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            return subprocess.run(
                [stub],
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=30,
                check=False,
            )
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def check_stub(runtime: Path, environment: Mapping[str, str]) -> None:
    """Raise a LocalError if the python backend cannot be started at all."""
    # Without arguments the stub only reports that they are missing; the loader returns 127 for a missing library.
    # Triton itself would wait half a minute for such a stub and then give no reason.
    stub = backends_folder(runtime) / "python" / STUB
    trial = _try_stub(stub, environment)
    if trial.returncode == 127:
        reason = trial.stderr.decode(errors="replace").strip().rpartition("libraries: ")[2]
        raise UsageError(
            f"the python backend of nvidia-pytriton cannot start with Python {_PYTHON}: {reason}",
            remedy=f"install Python's shared library (Debian, Ubuntu: apt-get install libpython{_PYTHON})",
        )


def numpy_remarks() -> tuple[Remark, ...]:
    """Return remarks on the numpy that python models will import, without importing it."""
    try:
        version = metadata.version("numpy")
    except metadata.PackageNotFoundError:  # the models will not find it either
        return ()
    if int(version.partition(".")[0]) < NUMPY_LIMIT:
        return ()
    text = (
        f"python models of the embedded Triton will run with numpy {version}, under which its python backend returns "
        "empty outputs for numeric arrays"
    )
    return (Remark(Note.NUMPY_TOO_NEW, text),)


def _joined(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
