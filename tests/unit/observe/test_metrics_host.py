"""This host: its GPUs through NVML, and how busy it is."""

import sys
from types import SimpleNamespace

import pytest

from inferometer.observe.host import Gpu, HostMeter, is_this_host, open_nvml


class FakeNvml:
    """The package nvidia-ml-py, as far as it is used; GPU 1 tells nothing but its name."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

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

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> object:
        assert kind == self.NVML_CLOCK_SM
        return self._told(handle, 1980)


def test_gpus_are_read_in_our_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    library = open_nvml()
    assert library is not None
    assert library.read() == {"GPU-a": Gpu(0.37, 55.3, 1000, 5000, 0.05, 1980.0), "GPU-b": Gpu()}


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(has_driver=False))
    assert open_nvml() is None
    assert HostMeter().read().gpus == {}


def test_without_the_package_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_nvml() is None


def test_the_hosts_counters_only_grow() -> None:
    meter = HostMeter()
    before, after = meter.read(), meter.read()
    assert 0 < before.busy_s <= before.total_s
    assert after.total_s >= before.total_s
    assert before.memory_used_bytes > 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.0.1", "::1"])
def test_this_host_is(host: str) -> None:
    assert is_this_host(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "triton", "localhost.example.org", "0:1", ""])
def test_this_host_is_not(host: str) -> None:
    assert not is_this_host(host)
