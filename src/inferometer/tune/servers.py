"""Model servers to tune on: the embedded one, an installed tritonserver, one in a container, or an existing one."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from inferometer.base.deadline import STOP_LAST_S, Deadline, DeadlineError
from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.threads import users_environment
from inferometer.base.units import plain_number
from inferometer.observe.host import open_nvml
from inferometer.options.names import option_name
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.guarded import GuardedProcess, end_words, ends, explaining_lines
from inferometer.server.ports import LOOPBACK, Ports, choose_ports
from inferometer.services.discovery import ModelControl
from inferometer.services.endpoint import Connection, Endpoint, parse_endpoint
from inferometer.tune.settings import Addresses, LaunchSettings, ServerAccess

STOP_S = 5  # grace period of a container
ENGINE_S = 10.0  # for docker to answer


class ModelServer(Protocol):
    """A server that we start and stop, or one that is already running."""

    @property
    def addresses(self) -> Addresses: ...

    @property
    def pid(self) -> int | None:
        """The process id of the server; None for a process that is not ours, or not on this machine."""

    def start(self) -> None:
        """Start the server; return when it answers."""

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...

    def end_words(self) -> str:
        """Describe how the server ended, with its last messages."""


def make_server(launch: LaunchSettings) -> ModelServer:
    """Create the server without starting it."""
    if launch.mode == "remote":
        return RemoteServer(launch.addresses, launch.control)
    if launch.mode == "docker":
        return DockerServer(launch)
    return EmbeddedServer(launch) if launch.executable is None else InstalledServer(launch)


def repository(addresses: Addresses, control: ServerAccess) -> ModelControl:
    """Return the control calls of a server, which load and unload models."""
    connection = Connection(control_endpoint(addresses, control), control.headers)
    if control.protocol == "grpc":
        from inferometer.services.triton_grpc import TritonGrpc

        return TritonGrpc(connection)
    from inferometer.services.triton_http import TritonHttp

    return TritonHttp(connection)


def control_endpoint(addresses: Addresses, control: ServerAccess) -> Endpoint:
    """Return the endpoint of the control calls."""
    if control.protocol != "grpc":
        return parse_endpoint(addresses.http, default_port=8000, tls=control.tls)
    endpoint = parse_endpoint(addresses.grpc, default_port=8001, tls=control.tls)
    return endpoint._replace(tls=control.tls) if control.grpc_tls else endpoint


def local_addresses(ports: Ports) -> Addresses:
    return Addresses(
        f"{LOOPBACK}:{ports.http}", f"{LOOPBACK}:{ports.grpc}", f"http://{LOOPBACK}:{ports.metrics}/metrics"
    )


def wait_until_ready(server: ModelServer, timeout_s: float, explained: Callable[[str], LocalError]) -> None:
    """Poll until the server is ready. An exit or the deadline is an error; on any error, the server is stopped."""
    known = repository(server.addresses, ServerAccess())
    deadline = Deadline.after(timeout_s)
    try:
        while not known.is_ready():
            if not server.is_running():
                raise explained("the server exited during startup")
            try:
                deadline.sleep(0.05)
            except DeadlineError as late:
                raise explained(f"the server was not ready {late}") from late
    except BaseException:
        server.stop()
        raise


# --- an existing server


class RemoteServer:
    """A server that is already running: never started, never stopped."""

    pid: int | None = None

    def __init__(self, addresses: Addresses, control: ServerAccess) -> None:
        self.addresses = addresses
        self._control = control

    def start(self) -> None:
        if not self.is_running():
            where = self.addresses.grpc if self._control.protocol == "grpc" else self.addresses.http
            raise PeerError(
                f"the server at {where} does not answer",
                remedy="check the address and that the server is up; it must run with --model-control-mode explicit",
            )

    def stop(self) -> None:
        pass

    def is_running(self) -> bool:
        """Return whether the server answers: Triton reports not ready while a model is loading, or cannot be loaded."""
        try:
            repository(self.addresses, self._control).index()
        except PeerError:
            return False
        return True

    def end_words(self) -> str:
        return "ended"


# --- on this machine


class EmbeddedServer:
    """The tritonserver of the wheel."""

    def __init__(self, launch: LaunchSettings) -> None:
        flags = [*users_words(launch), "--metrics-interval-ms", str(launch.metrics_interval_ms)]
        self._server = EmbeddedTriton(
            launch.repositories,
            http_port=launch.ports.http,
            grpc_port=launch.ports.grpc,
            metrics_port=launch.ports.metrics,
            load_models=(),
            log_file=launch.log,
            extra_args=tuple(flags),
            environment=launch.environment,
            startup_timeout_s=launch.timeout_s,
        )

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def is_running(self) -> bool:
        return self._server.is_running()

    def end_words(self) -> str:
        return self._server.end_words()

    @property
    def addresses(self) -> Addresses:
        return Addresses(
            self._server.http_address,
            self._server.grpc_address,
            f"http://{self._server.metrics_address}/metrics",
        )

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server.is_running() else None


class InstalledServer:
    """A tritonserver at a path, started under the same guard as the embedded one, so that it never outlives us."""

    def __init__(self, launch: LaunchSettings) -> None:
        self._launch = launch
        name = launch.executable or "tritonserver"
        found = shutil.which(name)
        if found is None:
            raise UsageError(
                f"the server '{name}' is not an executable program",
                remedy="give its path with --triton-server-path, or leave it out to use the embedded server",
            )
        self._executable = Path(found).resolve()
        self._guarded: GuardedProcess | None = None
        self.addresses = Addresses()

    @property
    def pid(self) -> int | None:
        return self._guarded.process.pid if self._guarded is not None and self.is_running() else None

    def start(self) -> None:
        ports = choose_ports(self._launch.ports)
        self.addresses = local_addresses(ports)
        guarded = GuardedProcess("server", self._launch.log)
        words = [str(self._executable), *server_words(self._launch, ports)]
        with guarded.starting(words, {**users_environment(), **self._launch.environment}):
            guarded.open_log()
        self._guarded = guarded

        def explained(what: str) -> LocalError:
            reason = "; ".join(explaining_lines(guarded.log_text()))
            return LocalError(f"'{self._executable}': {what}: {reason}")

        wait_until_ready(self, self._launch.timeout_s, explained)

    def is_running(self) -> bool:
        return self._guarded is not None and self._guarded.process.poll() is None

    def end_words(self) -> str:
        return "ended" if self._guarded is None else self._guarded.end_words()

    def stop(self) -> None:
        guarded, self._guarded = self._guarded, None
        if guarded is not None:
            guarded.end()


# --- in a container


class DockerServer:
    """A container, removed when stopped. The client process runs as long as the container does."""

    pid: int | None = None  # the server is in another PID namespace

    def __init__(self, launch: LaunchSettings) -> None:
        self._launch = launch
        found = shutil.which("docker")
        if found is None:
            raise UsageError(
                "the launch mode docker needs the docker command, which is not on the PATH",
                remedy=f"install it, or use {option_name('--triton-launch-mode', 'local')}",
            )
        if not launch.docker_image:
            raise UsageError("the launch mode docker needs an image", remedy="give --triton-docker-image")
        self._docker = found
        self._name = f"inferometer-{os.getpid()}-{secrets.token_hex(4)}"
        self._process: subprocess.Popen[bytes] | None = None
        self.addresses = Addresses()

    def start(self) -> None:
        self._check_engine()
        ports = choose_ports(self._launch.ports)
        self.addresses = local_addresses(ports)
        with (self._launch.log or Path(os.devnull)).open("ab") as sink:
            self._process = subprocess.Popen(
                self.command(ports),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        def explained(what: str) -> LocalError:
            return LocalError(
                f"the container of '{self._launch.docker_image}' did not start: {what}",
                remedy="save the server's log with --triton-output-path and check it",
            )

        wait_until_ready(self, self._launch.timeout_s, explained)

    def command(self, ports: Ports) -> list[str]:
        """Return the arguments of `docker run` as a list, so that paths may contain spaces."""
        launch = self._launch
        words = [self._docker, "run", "--rm", "--init", "--name", self._name]
        for number in ports:
            words += ["--publish", f"{LOOPBACK}:{number}:{number}"]
        for folder in launch.repositories:
            path = folder.resolve()
            words += ["--mount", f"type=bind,source={path},target={path},readonly"]
        for mount in launch.docker_mounts:
            words += ["--volume", mount]
        for name, value in launch.environment.items():
            words += ["--env", f"{name}={value}"]
        if launch.gpus is None or launch.gpus:
            chosen = "all" if launch.gpus is None else f'"device={",".join(launch.gpus)}"'
            words += ["--gpus", chosen] if open_nvml() is not None else []
        words += [*launch.docker_words, launch.docker_image]
        return [*words, "tritonserver", *server_words(launch, ports)]

    def _check_engine(self) -> None:
        try:
            done = self._run("version", "--format", "{{.Server.Version}}", timeout_s=ENGINE_S)
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"docker did not answer within {plain_number(ENGINE_S)} s",
                remedy="check the docker service",
            ) from None
        if done.returncode:
            raise UsageError(
                f"cannot use docker: {done.stderr.decode(errors='replace').strip()}",
                remedy="check that the docker service is running and that you have permission to use it",
            )

    def _run(self, *words: str, timeout_s: float) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [self._docker, *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end_words(self) -> str:
        code = None if self._process is None else self._process.poll()
        return "ended" if code is None else end_words(code, self._launch.log)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        deadline = Deadline.after(2 * STOP_S, last_s=STOP_LAST_S)
        try:
            grace_s = int(deadline.left_s() / 2)
            self._run("stop", "--time", str(grace_s), self._name, timeout_s=deadline.left_s())
        except (DeadlineError, subprocess.TimeoutExpired):  # remove it without waiting
            subprocess.Popen(
                [self._docker, "rm", "--force", self._name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ).returncode = 0  # it outlives us on purpose: no ResourceWarning
        if not ends(process, deadline):
            process.kill()
            process.wait()


# --- the command line of a tritonserver

# User values for these have no effect: the tool sets them itself.
_OWN = frozenset(
    {
        "model-repository", "http-port", "grpc-port", "metrics-port", "model-control-mode", "metrics-interval-ms",
        "strict-model-config",
    }
)  # fmt: skip


def users_words(launch: LaunchSettings) -> list[str]:
    """Return the user's flags, except those that the tool sets itself; an empty value is a switch."""
    words = []
    for name, value in launch.flags:
        dashed = name.replace("_", "-")
        if dashed not in _OWN:
            words += [f"--{dashed}", value] if value else [f"--{dashed}"]
    return words


def server_words(launch: LaunchSettings, ports: Ports) -> list[str]:
    """Return the whole command line."""
    words = [word for path in launch.repositories for word in ("--model-repository", str(path.resolve()))]
    return [
        *words,
        *users_words(launch),
        *("--http-port", str(ports.http)),
        *("--grpc-port", str(ports.grpc)),
        *("--metrics-port", str(ports.metrics)),
        *("--model-control-mode", "explicit"),
        *("--metrics-interval-ms", str(launch.metrics_interval_ms)),
        *("--strict-model-config", "false"),
    ]
