"""The GPUs of this host, read through NVML; without a driver or without nvidia-ml-py there are none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

MILLIWATTS_PER_WATT = 1000


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is known of one GPU at one moment; None is not known."""

    utilization: float | None = None  # share of the time, 0 to 1
    power_w: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class Nvml:
    """The open library. It is closed with the process: it holds nothing that others would miss."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlInit()
        handles = [library.nvmlDeviceGetHandleByIndex(n) for n in range(library.nvmlDeviceGetCount())]
        self._handles = {_text(library.nvmlDeviceGetUUID(handle)): handle for handle in handles}

    def read(self) -> Mapping[str, Gpu]:
        """By UUID."""
        return {uuid: self._gpu(handle) for uuid, handle in self._handles.items()}

    def names(self) -> Mapping[str, str]:
        """What each GPU is, by UUID."""
        return {
            uuid: _text(self._maybe(self._library.nvmlDeviceGetName, handle) or "GPU")
            for uuid, handle in self._handles.items()
        }

    def _gpu(self, handle: object) -> Gpu:
        library = self._library
        utilization = self._maybe(library.nvmlDeviceGetUtilizationRates, handle)
        power = self._maybe(library.nvmlDeviceGetPowerUsage, handle)
        memory = self._maybe(library.nvmlDeviceGetMemoryInfo, handle)
        return Gpu(
            utilization=None if utilization is None else utilization.gpu / 100,
            power_w=None if power is None else power / MILLIWATTS_PER_WATT,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
        )

    def _maybe(self, read: Callable[[object], Any], handle: object) -> Any:
        try:
            return read(handle)
        except self._library.NVMLError:  # not every GPU tells everything
            return None


def open_nvml() -> Nvml | None:
    """None on a host without GPUs, or without the package nvidia-ml-py."""
    try:
        library = import_module("pynvml")
    except ImportError:
        return None
    try:
        return Nvml(library)
    except library.NVMLError:
        return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name  # old versions of the package give bytes
