"""NVML without a GPU."""

from types import SimpleNamespace


class FakeNvml:
    """The used part of the package nvidia-ml-py; GPU 1 reports only its name."""

    NVML_CLOCK_SM = 1
    NVML_ERROR_NOT_FOUND = 6

    class NVMLError(Exception):
        value = 3

    def __init__(self, *, has_driver: bool = True) -> None:
        self._has_driver = has_driver

    def nvmlInit(self) -> None:
        if not self._has_driver:
            raise self.NVMLError("driver not loaded")

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:
        return "GPU-a" if handle == 0 else b"GPU-b"

    def _told(self, handle: int, value: object) -> object:
        if handle == 1:
            raise self.NVMLError("not supported")
        return value

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> object:
        return self._told(handle, SimpleNamespace(gpu=37, memory=5))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> object:
        return self._told(handle, 55_300)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:
        return self._told(handle, SimpleNamespace(used=1000, total=5000, free=4000))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> object:
        rows = [SimpleNamespace(pid=7, usedGpuMemory=600), SimpleNamespace(pid=8, usedGpuMemory=None)]
        return self._told(handle, rows)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> object:
        assert kind == self.NVML_CLOCK_SM
        return self._told(handle, 1980)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> object:
        return self._told(handle, 9_123_400)

    def nvmlDeviceGetProcessUtilization(self, handle: int, after_us: int) -> object:
        rows = [
            SimpleNamespace(pid=7, smUtil=90, timeStamp=after_us + 5),
            SimpleNamespace(pid=8, smUtil=0, timeStamp=after_us + 6),
        ]
        return self._told(handle, rows)
