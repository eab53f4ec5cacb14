"""A deployment whose configurations are command lines: the server is started again for each of them."""

import time
from collections.abc import Callable, Mapping, Sequence

from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.observe.host import Gpu
from inferometer.server.guard import GRACE_S
from inferometer.server.launcher import LaunchedServer, ServerCommand, new_log
from inferometer.tune.deployment import Deployment
from inferometer.tune.knobs import knobs_of
from inferometer.tune.model_config import Fields
from inferometer.tune.settings import Addresses
from inferometer.tune.variant import ModelVariant

FREED = 0.02  # share of a GPU's memory that may remain in use by other programs after a stop
FREEING_S = 10.0  # for the driver to release the memory of a stopped server
_POLL_S = 0.05

ReadGpus = Callable[[], Mapping[str, Gpu]]


class LaunchedDeployment(Deployment):
    """Runs one server at a time. A start that fails is the result of a trial, not of the search."""

    most_failures = 6
    warms_by_load = True

    def __init__(
        self, command: ServerCommand, read_gpus: ReadGpus | None = None, *, grace_s: float = GRACE_S
    ) -> None:
        self._server = LaunchedServer(command, grace_s=grace_s)
        self._read_gpus = read_gpus
        self._used_before = _used(read_gpus)  # GPU memory of other programs
        self._key = ""  # of the variant that is running

    @property
    def addresses(self) -> Addresses:
        return Addresses(self._server.address, self._server.address, "")

    @property
    def pid(self) -> int | None:
        return self._server.pid

    def close(self) -> None:
        self._server.stop()
        self._key = ""

    def is_running(self) -> bool:
        """Return whether the server has not died, which includes one that was never started."""
        return not self._key or self._server.is_running()

    def end_words(self) -> str:
        return self._server.end_words()

    def revive(self) -> bool:
        """Forget a server that died; `apply` starts the next one."""
        if self.is_running():
            return False
        self.close()
        return True

    def base_config(self, model: str) -> Fields:
        raise LookupError("the settings of a search have the configurations of a launched server")

    def restarts_for(self, variants: Sequence[ModelVariant]) -> bool:
        (variant,) = variants
        is_same = self._key == variant.key or self._server.can_set(knobs_of(variant.config) or {})
        return bool(self._key) and not is_same

    def apply(self, variants: Sequence[ModelVariant]) -> bool:
        (variant,) = variants
        values = knobs_of(variant.config) or {}
        if self._key == variant.key:
            return False
        if self._key and self._server.can_set(values):
            self._key, self.ready_s = variant.key, 0.0
            self._server.set(values)
            return True
        self.close()
        self._await_gpus()
        log = new_log(self._server.command.logs, variant.name.rpartition("_config_")[2])
        begun_ns = monotonic_ns()
        self._server.start(values, log)
        self.ready_s = (monotonic_ns() - begun_ns) / NS_PER_S
        self._key = variant.key
        return True

    def _await_gpus(self) -> None:
        """Wait until the memory of the previous server is free again, up to a time limit."""
        deadline_ns = monotonic_ns() + round(FREEING_S * NS_PER_S)
        while self._is_held() and monotonic_ns() < deadline_ns:
            time.sleep(_POLL_S)

    def _is_held(self) -> bool:
        gpus = {} if self._read_gpus is None else self._read_gpus()
        return any(
            (gpu.memory_used_bytes or 0)
            > self._used_before.get(uuid, 0) + FREED * (gpu.memory_total_bytes or 0)
            for uuid, gpu in gpus.items()
        )


def _used(read: ReadGpus | None) -> dict[str, int]:
    gpus = {} if read is None else read()
    return {uuid: gpu.memory_used_bytes for uuid, gpu in gpus.items() if gpu.memory_used_bytes is not None}
