"""Processes with an embedded Triton library and its backends, guarded like a separate server.

The library comes from a folder with the layout of Triton's installation (lib/libtritonserver.so and backends/), or
from the nvidia-pytriton wheel. However such a process ends, its guard ends the stubs of python models and removes
their files (guard.py).
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.interpreter import module_command
from inferometer.options.names import option_name
from inferometer.server.guard import GRACE_S, ServerFiles
from inferometer.server.guarded import GuardedProcess, ending, explaining_lines, last_line
from inferometer.server.ports import is_free
from inferometer.server.wheel import backends_folder, find_wheel, prepare, server_environment
from inferometer.services.tritonserver import InProcessSettings

_START_S = 120.0
_LAST_S = 1.0  # for a process that is about to exit
_LIBRARIES = ("lib/libtritonserver.so", "lib64/libtritonserver.so")
USUAL_DIRECTORY = Path("/opt/tritonserver")


@frozen
class ModelFolder:
    """A model with a configuration that differs from that of its folder."""

    name: str
    source: Path  # folder of its files
    config: str  # config.pbtxt


@dataclass(slots=True)
class Host:
    """Starter of processes with a Triton's settings in their environment."""

    models: tuple[str, ...]
    repository: Path | None = None
    directory: Path | None = None  # Triton's installation; None: the wheel
    folders: tuple[ModelFolder, ...] = ()  # used without a repository: each process gets one built from these
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = _START_S
    _started: list[GuardedProcess] = field(default_factory=list)
    _has_answered: bool = False

    def start(self, command: list[str], fds: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        """Start a process and return it, not its guard; kill it to end it."""
        guarded = GuardedProcess("triton")
        environment = server_environment(guarded.runtime, self.environment)
        settings = self._settings(guarded.files)
        with guarded.starting(command, environment | settings.to_environment(), fds):
            guarded.log.open("xb").close()
            guarded.runtime.mkdir(mode=0o700)
            if self.directory is None:
                prepare(find_wheel(), guarded.runtime, environment)
            if self.repository is None:
                make_repository(_repository(guarded.files), self.folders)
        self._started.append(guarded)
        return guarded.process

    def _settings(self, files: ServerFiles) -> InProcessSettings:
        """Return the settings of the process, whose files are created under its guard."""
        if self.directory is None:
            wheel = find_wheel()
            library = next(wheel.libraries.glob("libtritonserver*.so"))
            backends, caches = backends_folder(files.runtime), wheel.caches
        else:
            library = installed_library(self.directory)
            backends, caches = self.directory / "backends", self.directory / "caches"
        return InProcessSettings(
            library=str(library),
            backends=str(backends),
            caches=str(caches) if caches.is_dir() else "",
            repository=str(self.repository or _repository(files)),
            models=self.models,
            shared_memory_prefix=files.prefix,
        )

    def wait_until_answering(self, port: int) -> None:
        """Wait until the process started last answers control calls on this port."""
        problem = self._started[-1].wait_until(lambda: not is_free(port), self.timeout_s)
        if problem:
            raise LocalError(
                f"the Triton process {problem}: {self._last_words()}",
                remedy=f"check {option_name('--model-repository')} and the model's configuration",
            )
        self._has_answered = True

    @property
    def _last(self) -> "subprocess.Popen[bytes]":
        return self._started[-1].process

    @property
    def pid(self) -> int | None:
        """Process ID of the process that answers; None if none does yet."""
        return self._last.pid if self._has_answered else None

    def has_died(self) -> bool:
        """Return whether the process that answered has exited by itself."""
        return self._has_answered and self._last.poll() is not None

    def end(self) -> str:
        """Wait for the process to exit, or kill it; return a description of how it ended."""
        child = self._last
        try:
            code = child.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(GRACE_S)
            return "it did not exit and was killed"
        line = last_line(self._started[-1].log)
        return f"it {ending(code)}; its last line: {line}" if line else f"it {ending(code)}"

    def _last_words(self) -> str:
        """Return the log lines of the last process that may explain its end."""
        text = self._started[-1].log.read_text(errors="replace")
        own = [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]
        return "; ".join(own or explaining_lines(text)) or "it wrote nothing"

    def close(self) -> None:
        """Wait until the processes, which must have ended, are cleaned up."""
        started, self._started = self._started, []
        for guarded in started:
            guarded.wait_for_guard()
            guarded.files.remove_log()
        self._has_answered = False


def _repository(files: ServerFiles) -> Path:
    return files.runtime / "models"


def make_repository(repository: Path, folders: tuple[ModelFolder, ...]) -> None:
    """Create a repository of links to the models' files, and their configurations."""
    for row in folders:
        folder = repository / row.name
        folder.mkdir(parents=True)
        for entry in row.source.iterdir():
            if entry.name != "config.pbtxt":
                (folder / entry.name).symlink_to(entry.resolve())
        (folder / "config.pbtxt").write_text(row.config, encoding="utf-8")


def installation(given: str | None, option: str) -> Path | None:
    """Return Triton's installation: the given one, or one in the usual place; None means the wheel."""
    if given is not None:
        installed_library(Path(given), option)
        return Path(given)
    return USUAL_DIRECTORY if USUAL_DIRECTORY.is_dir() else None


def installed_library(directory: Path, option: str = "--triton-server-directory") -> Path:
    """Return the path of the library of an installation."""
    for name in _LIBRARIES:
        if (directory / name).exists():
            return directory / name
    raise UsageError(
        f"the folder '{directory}' has no {_LIBRARIES[0]}",
        remedy=f"give Triton's installation with {option}, or leave it out to use nvidia-pytriton",
    )


def check_repository(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(
            f"the model repository '{folder}' is not a folder",
            remedy=f"give a folder with {option_name('--model-repository')}",
        )
    return folder.resolve()


@contextmanager
def asked_host(host: Host, port: int) -> Iterator[None]:
    """Run a process that sends no load and only answers control calls on the port."""
    command = module_command("inferometer.services.in_process", str(port))
    child = host.start(command, ())
    try:
        host.wait_until_answering(port)
        yield
    finally:
        child.kill()
        child.wait(GRACE_S)
        host.close()
