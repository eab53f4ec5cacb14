"""A tritonserver as a context manager: ready on entry, removed completely on exit."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from inferometer.base.errors import InferometerError, LocalError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import Remark
from inferometer.server.guard import ServerFiles
from inferometer.server.guarded import GuardedProcess, explaining_lines, is_about_models, ports_in_use
from inferometer.server.ports import LOOPBACK, Ports, choose_ports, listens_on, port_in_use
from inferometer.server.repository import example_repository
from inferometer.server.wheel import (
    Wheel,
    backends_folder,
    find_wheel,
    numpy_remarks,
    prepare,
    server_environment,
)
from inferometer.services.endpoint import Connection, Endpoint

_ATTEMPTS = 5
_PROBE_TIMEOUT_S = 1.0
_CACHE_BYTES = 64 * 1024 * 1024
_EXIT_TIMEOUT_S = 3


class EmbeddedTriton:
    """The tritonserver of the nvidia-pytriton wheel, on loopback, serving the given model repositories.

    A port of 0 means any free one. `extra_args` end the server's command line; its three services must stay enabled.
    `environment` is added to the current one.
    """

    def __init__(
        self,
        model_repository: Path | tuple[Path, ...] | None = None,
        *,
        http_port: int = 0,
        grpc_port: int = 0,
        metrics_port: int = 0,
        load_models: tuple[str, ...] | None = None,
        log_file: Path | None = None,
        extra_args: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        startup_timeout_s: float = 60.0,
    ) -> None:
        given = example_repository() if model_repository is None else model_repository
        self.repositories = given if isinstance(given, tuple) else (given,)
        self.load_models = ("*",) if load_models is None else load_models
        self.log_file = log_file
        self.extra_args = extra_args
        self.environment = environment or {}
        self.startup_timeout_s = startup_timeout_s
        self._requested = Ports(http_port, grpc_port, metrics_port)
        self._running: _Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on the reliability of its models' answers."""
        return numpy_remarks()

    @property
    def http_address(self) -> str:
        return f"{LOOPBACK}:{self._now.ports.http}"

    @property
    def grpc_address(self) -> str:
        return f"{LOOPBACK}:{self._now.ports.grpc}"

    @property
    def metrics_address(self) -> str:
        return f"{LOOPBACK}:{self._now.ports.metrics}"

    @property
    def log_path(self) -> Path:
        return self._now.guarded.log

    @property
    def pid(self) -> int:
        """The process ID of the tritonserver itself."""
        return self._now.guarded.process.pid

    @property
    def _now(self) -> "_Running":
        if self._running is None:
            raise LocalError(
                "the embedded Triton is not started", remedy="call start(), or use it in a with statement"
            )
        return self._running

    def start(self) -> None:
        """Start the server and return when it and every model are ready."""
        if self._running is not None:
            raise LocalError("the embedded Triton is already started", remedy="call stop() first")
        for folder in self.repositories:
            _check_repository(folder)
        wheel = find_wheel()
        try:
            self._running = self._launched(wheel)
        except _CrashError:  # its python backend occasionally aborts because of a race, rarely twice
            self._running = self._launched(wheel)

    def _launched(self, wheel: Wheel) -> "_Running":
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_PortLostError):
                return self._attempt(wheel)
        raise LocalError(
            f"the ports picked for the embedded Triton were taken by other processes {_ATTEMPTS} times in a row",
            remedy="choose the ports yourself",
        )

    def _attempt(self, wheel: Wheel) -> "_Running":
        running = _launch(wheel, self, choose_ports(self._requested))
        try:
            problem = running.guarded.wait_until(lambda: _is_ready(running), self.startup_timeout_s)
            if problem:
                raise _start_failure(running, problem)
        except BaseException as error:
            running.guarded.end(keep_log=isinstance(error, InferometerError))
            lost = error.ports if isinstance(error, _PortLostError) else ()
            for service, port in self._requested.named():
                if port in lost:
                    raise port_in_use(service, port) from None
            raise
        return running

    def stop(self) -> None:
        """Stop the server and remove everything it created; do nothing if it is not running."""
        if self._running is None:
            return
        running, self._running = self._running, None
        # Keep the log of a server that exited by itself: it contains the reason.
        running.guarded.end(keep_log=running.guarded.process.poll() is not None)

    def is_running(self) -> bool:
        return self._running is not None and self._running.guarded.process.poll() is None

    def end_words(self) -> str:
        """Describe how the server exited by itself, with the last line of its log."""
        return self._now.guarded.end_words()

    def wait(self) -> int:
        """Block until the server exits or is killed; return its exit status."""
        return self._now.guarded.process.wait()


@frozen
class _Running:
    guarded: GuardedProcess
    ports: Ports


class _CrashError(LocalError):
    """The server was killed by a signal that Inferometer did not send."""


class _PortLostError(Exception):
    def __init__(self, ports: tuple[int, ...]) -> None:
        super().__init__(ports)
        self.ports = ports


def _check_repository(folder: Path) -> None:
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(
            f"the model repository '{folder}' {problem}",
            remedy="give a folder that contains one folder per model, or none for the example models",
        )


def _launch(wheel: Wheel, server: EmbeddedTriton, ports: Ports) -> _Running:
    """Create all files that the server needs, under its guard, then start it."""
    guarded = GuardedProcess("triton", server.log_file)
    command = _server_command(wheel, server, ports, guarded.files)
    environment = server_environment(guarded.runtime, server.environment)
    with guarded.starting(command, environment):
        guarded.open_log()
        guarded.runtime.mkdir(mode=0o700)
        for number, folder in enumerate(server.repositories):
            link = _folder_for_server(folder, number, guarded.runtime)
            if link != folder.resolve():
                link.symlink_to(folder.resolve())
        prepare(wheel, guarded.runtime, environment)
    return _Running(guarded, ports)


def _server_command(wheel: Wheel, server: EmbeddedTriton, ports: Ports, files: ServerFiles) -> list[str]:
    command = [str(wheel.executable), "--model-control-mode", "explicit"]
    for number, folder in enumerate(server.repositories):
        command += ["--model-repository", str(_folder_for_server(folder, number, files.runtime))]
    for model in server.load_models:
        command += ["--load-model", model]
    for service, port in ports.named():
        command += [f"--{service.lower()}-address", LOOPBACK, f"--{service.lower()}-port", str(port)]
    if all(folder.resolve() == example_repository().resolve() for folder in server.repositories):
        # Its configurations are complete; auto-completion would start every model twice, for seconds.
        command.append("--disable-auto-complete-config")
    return [
        *command,
        *("--backend-directory", str(backends_folder(files.runtime))),
        *("--backend-config", f"python,shm-region-prefix-name={files.prefix}"),
        *("--cache-directory", str(wheel.caches)),
        *("--cache-config", f"local,size={_CACHE_BYTES}"),
        *("--exit-timeout-secs", str(_EXIT_TIMEOUT_S)),
        *server.extra_args,
    ]


def _folder_for_server(folder: Path, number: int, runtime: Path) -> Path:
    """Return the repository, or a link to it if its name contains blanks, on which the python backend hangs."""
    path = folder.resolve()
    return runtime / f"repository-{number}" if any(letter.isspace() for letter in str(path)) else path


def _is_ready(running: _Running) -> bool:
    from inferometer.services.http_control import HttpControl

    control = HttpControl(Connection(Endpoint(LOOPBACK, running.ports.http)))
    try:
        status, _ = control.exchange("GET", "/v2/health/ready", timeout_s=_PROBE_TIMEOUT_S)
        # Another process that took the port first may also be a ready server.
        return status == 200 and listens_on(running.guarded.process.pid, running.ports)
    except (PeerError, OSError):  # it does not answer yet, or has just exited
        return False


def _start_failure(running: _Running, what: str) -> Exception:
    log = running.guarded.log_text()
    lost = ports_in_use(log)
    if lost:
        return _PortLostError(lost)
    reason = "; ".join(explaining_lines(log)) or "it wrote nothing"
    if is_about_models(log):
        blame: type[InferometerError] = UsageError
    else:
        blame = _CrashError if (running.guarded.process.poll() or 0) < 0 else LocalError
    return blame(f"the embedded Triton {what}: {reason}", remedy=f"see its log {running.guarded.log}")
