"""A server of our own: the embedded one, or a tritonserver at a given path. It never outlives us."""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError, UsageError
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.guard import GO, GRACE_S, Traces, end_group, guard_command
from inferometer.server.ports import Ports, choose_ports
from inferometer.server.startlog import telling_lines
from inferometer.tune.launch.site import Addresses, Control, repository, wait_until_ready

NO_MODELS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """`executable` None is the embedded server; a port of 0 is picked."""

    repositories: tuple[Path, ...]
    executable: str | None = None
    ports: Ports = field(default_factory=Ports)
    flags: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    timeout_s: float = 60.0
    metrics_interval_ms: int = 1000


class Embedded:
    """The tritonserver of the wheel."""

    def __init__(self, options: LocalOptions) -> None:
        flags = [*users_words(options), "--metrics-interval-ms", str(options.metrics_interval_ms)]
        self._server = EmbeddedTriton(
            options.repositories,
            http_port=options.ports.http,
            grpc_port=options.ports.grpc,
            metrics_port=options.ports.metrics,
            load_models=NO_MODELS,
            log_file=options.log,
            extra_args=tuple(flags),
            startup_timeout_s=options.timeout_s,
        )
        self._environment = options.environment

    def start(self) -> None:
        with _environment(self._environment):
            self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def is_running(self) -> bool:
        return self._server.is_running()

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


@contextlib.contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Given:
    """A tritonserver at a path, started under the same guard as the embedded one."""

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        self._executable = find_executable(options.executable or "tritonserver")
        self._process: subprocess.Popen[bytes] | None = None
        self._traces: Traces | None = None
        self._log: Path | None = None
        self.addresses = Addresses()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running() else None

    def start(self) -> None:
        ports = choose_ports(self._options.ports)
        self.addresses = Addresses(
            f"127.0.0.1:{ports.http}",
            f"127.0.0.1:{ports.grpc}",
            f"http://127.0.0.1:{ports.metrics}/metrics",
        )
        self._launch(ports)
        try:
            wait_until_ready(repository(self.addresses, Control()), self, timeout_s=self._options.timeout_s)
        except LocalError as error:
            reason = "; ".join(telling_lines(self._log.read_text(errors="replace"))) if self._log else ""
            self.stop()
            raise LocalError(f"'{self._executable}': {error.message}: {reason}") from error
        except BaseException:
            self.stop()
            raise

    def _launch(self, ports: Ports) -> None:
        token = f"{os.getpid()}_{secrets.token_hex(8)}"
        runtime = Path(tempfile.gettempdir()) / f"inferometer-server-{token}"
        given = self._options.log
        self._log = runtime.with_suffix(".log") if given is None else given
        self._log.touch()
        self._traces = Traces(f"inferometer_{token}_", runtime, self._log if given is None else None)
        done, alive = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*guard_command(self._traces, log=self._log, alive=alive), *self._command(ports)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **self._options.environment},
                pass_fds=(alive,),
                start_new_session=True,
            )
        finally:
            os.close(alive)
            os.close(done)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as word:
            word.write(GO.encode())

    def _command(self, ports: Ports) -> list[str]:
        return [str(self._executable), *server_words(self._options, ports)]

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or self._traces is None:
            return
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            end_group(process.pid)
            process.wait()
        end_group(process.pid)
        self._traces.remove()
        self._traces.remove_log()


def words_of(name: str, value: str) -> tuple[str, ...]:
    """One flag; an empty value is a switch."""
    dashed = f"--{name.replace('_', '-')}"
    return (dashed, value) if value else (dashed,)


# The tool's own business: a user's value for one of these has no effect.
_OWN = frozenset(
    {
        "model-repository", "http-port", "grpc-port", "metrics-port", "model-control-mode", "metrics-interval-ms",
        "strict-model-config",
    }
)  # fmt: skip


def users_words(options: LocalOptions) -> list[str]:
    """The user's flags as words, except those that are the tool's own."""
    return [
        word
        for name, value in options.flags
        if name.replace("_", "-") not in _OWN
        for word in words_of(name, value)
    ]


def server_words(options: LocalOptions, ports: Ports) -> list[str]:
    """A tritonserver's command line."""
    own = {
        "http-port": str(ports.http),
        "grpc-port": str(ports.grpc),
        "metrics-port": str(ports.metrics),
        "model-control-mode": "explicit",
        "metrics-interval-ms": str(options.metrics_interval_ms),
        "strict-model-config": "false",
    }
    words = [word for path in options.repositories for word in ("--model-repository", str(path.resolve()))]
    return (
        words + users_words(options) + [word for name, value in own.items() for word in (f"--{name}", value)]
    )


def find_executable(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"the server '{name}' is not an executable program",
            remedy="give its path with --triton-server-path, or leave it out to use the embedded server",
        )
    return Path(found).resolve()
