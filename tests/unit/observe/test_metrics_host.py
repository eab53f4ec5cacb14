"""This host: its GPUs through NVML, and its load."""

import sys
import threading
from pathlib import Path

import pytest

from inferometer.observe.host import Gpu, HostMeter, _Package, is_this_host, open_nvml
from tests.support.nvml import FakeNvml


def test_gpus_are_read_in_our_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    library = open_nvml()
    assert library is not None
    known = Gpu(0.37, 55.3, 1000, 5000, 0.05, 1980.0, {7: 600}, 9123.4, frozenset())
    assert library.read() == {"GPU-a": known, "GPU-b": Gpu()}
    assert library.read()["GPU-a"].active == {7}, "the first reading does not know since when"


def test_the_energy_of_a_processor_continues_where_its_counter_starts_again(tmp_path: Path) -> None:
    package = tmp_path / "intel-rapl:0"
    package.mkdir()
    (package / "max_energy_range_uj").write_text("5000000")
    counter = _Package(package)
    seen = []
    for value in ("4000000", "4900000", "100000"):
        (package / "energy_uj").write_text(value)
        seen.append(counter.read())
    assert (counter.name, seen) == ("processor 0", [4.0, 4.9, 5.1])
    (package / "energy_uj").unlink()
    assert counter.read() is None


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
