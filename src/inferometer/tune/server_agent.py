"""The agent of one of several servers: starts the model server on its node and measures trials on request."""

import contextlib
import os
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inferometer.base.deadline import End, ending
from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.system import usable_cores
from inferometer.base.units import monotonic_ns
from inferometer.observe.host import Nvml, open_nvml, processor
from inferometer.options.options import Options
from inferometer.server.repository import example_repository
from inferometer.stats.watcher import completed
from inferometer.tune.attempt import Attempt, attempted
from inferometer.tune.deployment import Deployment, open_deployment
from inferometer.tune.meter import EngineMeter
from inferometer.tune.model_config import Fields
from inferometer.tune.search.search import Proposal
from inferometer.tune.settings import Effort, LaunchSettings, Prompts

_LIMITS = ("OMP_NUM_THREADS",)  # set by Ray in its workers; a model server uses all its cores


@frozen
class DescribeServer:
    """Requests `ServerFacts`."""


@frozen
class ServerFacts:
    """The machine that the model server runs on."""

    processor: str
    cores: tuple[int, ...]  # available cores
    memory_bytes: int
    gpus: Mapping[str, Any]  # name and memory by UUID


@frozen
class OpenServer:
    """Starts the model server on these cores."""

    cores: tuple[int, ...]


@frozen
class ReadConfig:
    """Requests the server's view of a model's own configuration."""

    model: str


@frozen
class MeasureTrial:
    """Requests an `Attempt`."""

    proposal: Proposal


@frozen
class InterruptTrial:
    """Asks the running trial to end soon."""


@frozen
class CloseServer:
    """Closes all connections, and stops the model server."""


@frozen
class ServerDid:
    """Confirms a request."""


@frozen
class ServerFailed:
    """Reports a failed request: an error for the user, or a bug with its traceback."""

    error: InferometerError | None
    text: str


ServerQuestion = DescribeServer | OpenServer | ReadConfig | MeasureTrial | InterruptTrial | CloseServer
ServerAnswer = ServerFacts | Attempt | Fields | ServerDid | ServerFailed


@frozen
class ServerJob:
    """The server to start and the requests to send to it."""

    launch: LaunchSettings
    options: Mapping[str, Options]
    effort: Effort
    prompts: Mapping[str, Prompts | None]
    has_examples: bool = False  # the models are those of the package, at its own location

    def opened(self) -> "ServerAgent":
        return ServerAgent(self)


class ServerAgent:
    """Answers requests. An interruption may arrive while a trial is measured."""

    def __init__(self, job: ServerJob) -> None:
        self._launch = job.launch
        if job.has_examples:
            self._launch = replace(job.launch, repositories=(example_repository(),))
        self._interrupt = End("the search was stopped")
        self._deployment: Deployment | None = None
        watcher = completed(SimpleNamespace(is_interrupted=self._interrupt.is_over))
        self._meter = EngineMeter(job.options, job.effort, job.prompts, watcher)
        self._cores: tuple[int, ...] = ()

    def handle(self, message: ServerQuestion) -> ServerAnswer:
        try:
            return self._answer(message)
        except InferometerError as error:
            return ServerFailed(error, str(error))
        except Exception:  # noqa: BLE001 - the outermost frame; the caller reports it
            return ServerFailed(None, traceback.format_exc())

    def _answer(self, message: ServerQuestion) -> ServerAnswer:
        match message:
            case DescribeServer():
                return facts()
            case OpenServer(cores):
                self._open(cores)
            case ReadConfig(model):
                return self._opened.base_config(model)
            case MeasureTrial(proposal):
                keep_to(self._cores)
                with ending(self._interrupt):
                    return attempted(proposal, self._opened, self._meter)
            case InterruptTrial():
                self._interrupt.at_ns = monotonic_ns()
            case CloseServer():
                self._meter.close()
                if self._deployment is not None:
                    with ending(self._interrupt):
                        self._deployment.close()
        return ServerDid()

    @property
    def _opened(self) -> Deployment:
        assert self._deployment is not None, "used before it was opened"
        return self._deployment

    def _open(self, cores: tuple[int, ...]) -> None:
        for folder in self._launch.repositories:
            if not folder.is_dir():
                raise UsageError(
                    f"the model repository '{folder}' is not on the node of this server",
                    remedy="put it at the same path on a file system shared by all nodes",
                )
        self._cores = cores
        keep_to(cores)
        for name in _LIMITS:
            os.environ.pop(name, None)
        self._deployment = open_deployment(self._launch)
        self._deployment.__enter__()


def keep_to(cores: tuple[int, ...]) -> None:
    """Pin this process with all its threads, and every process that it starts from now on, if the system supports
    it."""
    if not hasattr(os, "sched_setaffinity"):
        return
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            os.sched_setaffinity(int(thread.name), cores)


def facts() -> ServerFacts:
    import psutil

    cores = tuple(sorted(usable_cores()))
    return ServerFacts(processor(), cores, int(psutil.virtual_memory().total), _visible_gpus(open_nvml()))


def _visible_gpus(nvml: Nvml | None) -> Mapping[str, Any]:
    """Return the GPUs that this process may use: Ray assigns each server its own."""
    if nvml is None:
        return {}
    names, gpus = nvml.names(), nvml.read()
    found = {
        uuid: {"name": names[uuid], "total_memory": gpu.memory_total_bytes or 0} for uuid, gpu in gpus.items()
    }
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    words = [word.strip() for word in visible.split(",") if word.strip()]
    return {
        uuid: gpu
        for number, (uuid, gpu) in enumerate(found.items())
        if str(number) in words or any(uuid.startswith(word) for word in words if not word.isdigit())
    }
