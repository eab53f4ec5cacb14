"""Code that runs on the nodes of a Ray cluster: the actor of a client, and a probe of the node."""

import atexit
import contextlib
import os
import pickle
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import inferometer
from inferometer.base.errors import InferometerError, maybe_shortage
from inferometer.base.system import has_proc, usable_cores
from inferometer.cluster.agent import Agent
from inferometer.cluster.messages import ClientFailed, ClientJob
from inferometer.cluster.ray_messages import BegunClient, machine


class OpenedJob(Protocol):
    """The receiver of requests: the agent of a client, or that of another kind of job."""

    def handle(self, message: Any) -> Any: ...


class RayClient:
    """A client as an actor: requests and answers are bytes, opaque to intermediaries."""

    def __init__(self) -> None:
        self._agent: OpenedJob | None = None
        # Ray lowers the priority of its workers, but load must be sent on time.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        # The package may be available only to this actor, but worker processes need it too.
        paths = (str(Path(inferometer.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

    def begin(self, job: bytes, files: dict[str, bytes]) -> tuple[BegunClient, bytes]:
        """Start the job with its files; return where this client runs, and the error if it failed."""
        import ray

        failed = b""
        try:
            wanted = pickle.loads(job)
            if isinstance(wanted, ClientJob):
                self._agent = Agent(with_files(wanted, files))
                self._agent.__enter__()
            else:
                self._agent = wanted.opened()
        except Exception as error:  # noqa: BLE001 - the outermost frame; the controller reports it
            failed = pickle.dumps(_failed(error))
        address_of_node: Any = ray.util.get_node_ip_address
        address, niceness = str(address_of_node()), os.getpriority(os.PRIO_PROCESS, 0)
        cores = len(usable_cores())
        return BegunClient(address, niceness, machine(), os.getpid(), cores), failed

    def handle(self, message: bytes) -> bytes:
        assert self._agent is not None, "asked before it began"
        return pickle.dumps(self._agent.handle(pickle.loads(message)))


def with_files(job: ClientJob, files: dict[str, bytes]) -> ClientJob:
    """Return the job with its TLS files in this process's memory."""
    endpoint = job.traffic.wiring.endpoint
    if endpoint.tls is None or not files:
        return job
    paths = {name: _in_memory(content) for name, content in files.items()}
    tls = replace(
        endpoint.tls,
        ca_file=paths.get(endpoint.tls.ca_file or ""),
        certificate_file=paths.get(endpoint.tls.certificate_file or ""),
        key_file=paths.get(endpoint.tls.key_file or ""),
    )
    wiring = job.traffic.wiring._replace(endpoint=endpoint._replace(tls=tls))
    return replace(job, traffic=job.traffic._replace(wiring=wiring))


def _in_memory(content: bytes) -> str:
    """Return the name of a file that worker processes can read while this process lives: in memory if possible."""
    if hasattr(os, "memfd_create") and has_proc():
        fd = os.memfd_create("inferometer-tls")
        os.write(fd, content)
        return f"/proc/{os.getpid()}/fd/{fd}"
    fd, path = tempfile.mkstemp(prefix="inferometer-tls-")
    atexit.register(os.unlink, path)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    return path


def _failed(error: Exception) -> ClientFailed:
    if isinstance(error, InferometerError):
        return ClientFailed(error, str(error))
    return ClientFailed(maybe_shortage(error), traceback.format_exc())


def make_probe() -> Any:
    """Return a function that reports a node's version and file digest of this package, or why it is unusable.

    It is a closure, not importable by name, because nodes without the package must be able to run it.
    """

    def probe() -> tuple[str, str, str]:
        import hashlib
        import importlib.util
        from pathlib import Path

        missing = [name for name in ("numpy", "psutil") if importlib.util.find_spec(name) is None]
        spec = importlib.util.find_spec("inferometer")
        if spec is None or spec.origin is None:
            return "", "", ", ".join(missing)
        digest = hashlib.sha256()
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
        import inferometer

        return inferometer.__version__, digest.hexdigest(), ", ".join(missing)

    return probe
