"""A server in a container, through the `docker` command line."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from inferometer.base.errors import LocalError, UsageError
from inferometer.server.ports import choose_ports
from inferometer.tune.launch.local import LocalOptions, server_words
from inferometer.tune.launch.site import Addresses, Control, repository, wait_until_ready
from inferometer.tune.settings import LaunchSettings

STOP_S = 5


class Docker:
    """One container, removed when it is stopped. The client process runs as long as the container does."""

    pid: int | None = None  # the server is in another process space

    def __init__(self, options: LocalOptions, launch: LaunchSettings) -> None:
        self._options = options
        self._launch = launch
        found = shutil.which("docker")
        if found is None:
            raise UsageError(
                "the launch mode docker needs the program docker, which is not on the PATH",
                remedy="install it, or use --triton-launch-mode local",
            )
        if not launch.docker_image:
            raise UsageError("the launch mode docker needs an image", remedy="give --triton-docker-image")
        self._docker = found
        self._name = f"inferometer-{os.getpid()}-{secrets.token_hex(4)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = options.log
        self.addresses = Addresses()

    def start(self) -> None:
        self._check_engine()
        ports = choose_ports(self._options.ports)
        self.addresses = Addresses(
            f"127.0.0.1:{ports.http}",
            f"127.0.0.1:{ports.grpc}",
            f"http://127.0.0.1:{ports.metrics}/metrics",
        )
        sink = subprocess.DEVNULL if self._log is None else self._log.open("ab")
        try:
            self._process = subprocess.Popen(
                self.command(ports.numbers()),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            if not isinstance(sink, int):
                sink.close()
        try:
            wait_until_ready(repository(self.addresses, Control()), self, self._options.timeout_s)
        except LocalError as error:
            self.stop()
            raise LocalError(
                f"the container of '{self._launch.docker_image}' did not come up: {error.message}",
                remedy="give --triton-output-path to keep the server's log, and look at it",
            ) from error
        except BaseException:
            self.stop()
            raise

    def command(self, numbers: tuple[int, ...]) -> list[str]:
        """The words of `docker run`: every part its own word, so blanks in paths do no harm."""
        words = [self._docker, "run", "--rm", "--init", "--name", self._name]
        for number in numbers:
            words += ["--publish", f"127.0.0.1:{number}:{number}"]
        for folder in self._options.repositories:
            path = folder.resolve()
            words += ["--mount", f"type=bind,source={path},target={path},readonly"]
        for mount in self._launch.docker_mounts:
            words += ["--volume", mount]
        for name, value in self._options.environment.items():
            words += ["--env", f"{name}={value}"]
        if self._launch.gpus is None or self._launch.gpus:
            chosen = "all" if self._launch.gpus is None else f'"device={",".join(self._launch.gpus)}"'
            words += ["--gpus", chosen] if self._has_gpus() else []
        from inferometer.server.ports import Ports

        server = server_words(self._options, Ports(*numbers))
        return [*words, *self._launch.docker_words, self._launch.docker_image, "tritonserver", *server]

    def _has_gpus(self) -> bool:
        from inferometer.observe.gpu import open_nvml

        return open_nvml() is not None

    def _check_engine(self) -> None:
        done = subprocess.run(
            [self._docker, "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        if done.returncode:
            raise UsageError(
                f"docker cannot be used: {done.stderr.decode(errors='replace').strip()}",
                remedy="check that its service runs and that you may use it",
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        subprocess.run(
            [self._docker, "stop", "--time", str(STOP_S), self._name],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
