"""This host: its GPUs through NVML, and its load."""

import sys
import threading

import pytest

from inferometer.observe.host import Gpu, HostMeter, is_this_host, open_nvml
from tests.support.nvml import FakeNvml


def test_gpus_are_read_in_our_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    library = open_nvml()
    assert library is not None
    assert library.read() == {"GPU-a": Gpu(0.37, 55.3, 1000, 5000, 0.05, 1980.0, {7: 600}), "GPU-b": Gpu()}


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(has_driver=False))
    assert open_nvml() is None
    assert HostMeter().read(waits=True).gpus == {}


def test_gpus_that_open_slowly_cause_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    may_open = threading.Event()
    library = FakeNvml()
    library.nvmlInit = may_open.wait  # type: ignore[method-assign, assignment]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    meter = HostMeter()
    assert meter.read().gpus == {}
    may_open.set()
    assert set(meter.read(waits=True).gpus) == {"GPU-a", "GPU-b"}


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
