"""Which devices count towards the energy of a level."""

import pytest

from inferometer.measure.host import _PowerLog
from inferometer.observe.host import Gpu, HostSample

SERVER, STRANGER = 7, 99


def gpu(watts: float, *users: int, busy: float = 0.5, active: frozenset[int] | None = None) -> Gpu:
    return Gpu(utilization=busy, power_w=watts, held_bytes=dict.fromkeys(users, 1), active=active)


def log(*looks: dict[str, Gpu], packages: dict[str, float] | None = None) -> _PowerLog:
    found = _PowerLog()
    for at_ns, gpus in enumerate(looks):
        found.add(at_ns, HostSample(0.0, 1.0, 0, gpus, packages or {}))
    return found


@pytest.mark.parametrize(
    ("gpus", "used"),
    [
        ({"a": gpu(400, SERVER), "b": gpu(400, STRANGER)}, ["a"]),
        ({"a": gpu(400, 4711), "b": gpu(90, busy=0.0)}, ["a"]),
        ({"a": gpu(90, busy=0.0)}, []),
    ],
    ids=["of another program", "unknown processes", "idle"],
)
def test_the_gpus_that_the_server_uses_count(gpus: dict[str, Gpu], used: list[str]) -> None:
    devices = log(gpus, gpus).devices(frozenset({SERVER}))
    assert [device.name for device in devices if device.is_used] == used


@pytest.mark.parametrize(
    ("seen", "strangers"),
    [
        (gpu(400, SERVER, STRANGER, active=frozenset({SERVER})), ()),
        (gpu(400, SERVER, STRANGER, active=frozenset({SERVER, STRANGER})), (STRANGER,)),
        (gpu(400, SERVER, STRANGER), (STRANGER,)),
        (gpu(400, 4711), ()),
    ],
    ids=["holds memory only", "active", "activity unknown", "unknown processes"],
)
def test_other_programs_on_the_gpu_are_named(seen: Gpu, strangers: tuple[int, ...]) -> None:
    (device,) = log({"a": seen}, {"a": seen}).devices(frozenset({SERVER}))
    assert device.strangers == strangers


def test_processors_count_if_no_gpu_does() -> None:
    packages = {"processor 0": 5.0}
    (only,) = log({}, {}, packages=packages).devices(frozenset())
    assert only.is_used
    assert [row.energy_j for row in only.readings] == [5.0, 5.0]
    both = log({"a": gpu(400, SERVER)}, packages=packages).devices(frozenset({SERVER}))
    assert [device.is_used for device in both] == [True, False]


def test_idle_power_is_that_of_the_first_reading_of_the_run() -> None:
    found = log({"a": gpu(80, SERVER)})
    found.begin()
    found.add(1, HostSample(0.0, 1.0, 0, {"a": gpu(600, SERVER)}))
    assert found.devices(frozenset({SERVER}))[0].idle_w == 80
