"""What runs on the nodes of a Ray cluster: a client in an actor, and a look at what a node has."""

import contextlib
import os
import pickle
import traceback
from pathlib import Path
from typing import Any

import inferometer
from inferometer.base.errors import InferometerError, maybe_shortage
from inferometer.cluster.agent import Agent
from inferometer.cluster.messages import ClientFailed


class RayClient:
    """A client as an actor: questions and answers are bytes, so that whoever passes them on need not know them."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        # Ray gives way to other programs with its workers; load must be sent in time.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        # The package may be here for this actor alone, and worker processes need it too.
        paths = (str(Path(inferometer.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

    def begin(self, job: bytes) -> tuple[str, int, bytes]:
        """The address of the node, the niceness of this process, and what went wrong, if anything did."""
        import ray

        failed = b""
        try:
            self._agent = Agent(pickle.loads(job))
            self._agent.__enter__()
        except Exception as error:  # the outermost frame: the controller shows it
            failed = pickle.dumps(_failed(error))
        address = ray.util.get_node_ip_address()
        return str(address), os.getpriority(os.PRIO_PROCESS, 0), failed

    def handle(self, message: bytes) -> bytes:
        assert self._agent is not None, "asked before it began"
        return pickle.dumps(self._agent.handle(pickle.loads(message)))


def _failed(error: Exception) -> ClientFailed:
    if isinstance(error, InferometerError):
        return ClientFailed(error, str(error))
    return ClientFailed(maybe_shortage(error), traceback.format_exc())


def make_probe() -> Any:
    """A function that tells what a node has of us: the version and the state of the files, or why it cannot be used.

    It is made here, not found by name, because nodes without the package must be able to run it.
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
