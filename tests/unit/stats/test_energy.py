"""Energy of a level, by counters and by power."""

from types import SimpleNamespace

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_S
from inferometer.stats.energy import PoweredDevice, PowerReading, energies, energy_figures
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import EnergyFigures
from inferometer.stats.promises import NO_ENERGY, judge
from inferometer.stats.windows import WindowRules

RATE = Estimate(50.0, 49.0, 51.0)


def device(
    watts: float = 400.0, *, counter: float | None = 400.0, until_s: int = 12, **more: object
) -> PoweredDevice:
    """Return a GPU that is read twice a second, from 1 s before the measured time to 1 s after it."""
    readings = tuple(
        PowerReading(
            number * NS_PER_S // 2,
            watts,
            None if counter is None else 7_000_000 + counter * number / 2,
        )
        for number in range(2 * until_s + 1)
    )
    return PoweredDevice("GPU-1", readings, **more)  # type: ignore[arg-type]


def energy(*devices: PoweredDevice, seconds: float = 10.0, batch: int = 1) -> EnergyFigures:
    end_ns = round((1 + seconds) * NS_PER_S)
    found = energy_figures(
        devices, NS_PER_S, end_ns, requests=RATE, batch=batch, tokens=Estimate(1000.0, 990.0, 1010.0)
    )
    assert found is not None
    return found


def test_energy_is_counted_between_the_ends_of_the_measured_time() -> None:
    found = energy(device(idle_w=80.0), batch=4)
    assert found.joules == pytest.approx(4000)
    assert found.power_w.value == pytest.approx(400)
    assert found.idle_w == 80
    assert found.per_request is not None
    assert found.per_request.value == pytest.approx(8.0)
    assert found.per_request.limits == pytest.approx((7.84, 8.16))
    assert found.per_inference is not None
    assert found.per_inference.value == pytest.approx(2.0)
    assert found.per_token is not None
    assert found.per_token.value == pytest.approx(0.4)
    assert not found.invalid


def test_power_is_integrated_without_a_counter() -> None:
    assert energy(device(counter=None)).joules == pytest.approx(4000)


def test_a_restarted_counter_is_not_used() -> None:
    rows = device().readings
    restarted = tuple(
        PowerReading(row.at_ns, row.power_w, float(number)) for number, row in enumerate(reversed(rows))
    )
    again = PoweredDevice("GPU-1", tuple(sorted(restarted, key=lambda row: row.at_ns)))
    assert energy(again).devices[0].counted_j is None


def test_a_sensor_that_is_read_a_little_late_is_scaled_to_the_whole_time() -> None:
    late = PoweredDevice("GPU-1", device().readings[3:])
    assert energy(late).joules == pytest.approx(4000)
    assert not energy(late).invalid


def test_an_unused_gpu_is_listed_but_not_counted() -> None:
    found = energy(device(), device(100.0, counter=100.0, is_used=False))
    assert found.joules == pytest.approx(4000)
    assert [row.is_used for row in found.devices] == [True, False]


@pytest.mark.parametrize(
    ("devices", "seconds", "why"),
    [
        ((device(counter=384.0),), 10, "says 3840 J, but its power adds up to 4000 J, 4.2 % apart"),
        ((device(strangers=(12, 77)),), 10, "other programs used GPU-1 (processes 12, 77)"),
        ((device(),), 2, "2.0 s are too short for the sensors"),
        ((device(until_s=6),), 10, "GPU-1 was read for only 50 % of the time"),
    ],
)
def test_figures_are_invalid_with_a_reason(
    devices: tuple[PoweredDevice, ...], seconds: float, why: str
) -> None:
    assert why in energy(*devices, seconds=seconds).invalid


def test_three_percent_between_counter_and_power_is_accepted() -> None:
    assert not energy(device(counter=389.0)).invalid


def test_no_figures_without_a_sensor_or_a_device_in_use() -> None:
    empty = PoweredDevice("GPU-1", (PowerReading(0), PowerReading(NS_PER_S)))
    for devices in ((), (empty,), (device(is_used=False),)):
        assert energy_figures(devices, 0, NS_PER_S, requests=RATE, batch=1) is None


@pytest.mark.parametrize(
    ("slo", "verdict"),
    [
        ("energy<2J/token", "kept"),
        ("energy<2000mJ/token", "kept"),
        ("energy<7.9J/request", "broken"),
        ("energy<8J/request", "undecided"),
        ("energy<1kJ/inference", "kept"),
    ],
)
def test_an_slo_limits_the_energy_by_its_interval(slo: str, verdict: str) -> None:
    known = energies(SimpleNamespace(energy=energy(device())))  # type: ignore[arg-type]
    known["energy per request"] = Estimate(8.0, 7.95, 8.05)
    window = WindowRules().new_window(0)
    (term, *_) = judge(parse_slo(slo), window, known).terms
    assert term.verdict == verdict


def test_an_slo_is_undecided_without_valid_energy() -> None:
    invalid = energies(SimpleNamespace(energy=energy(device(), seconds=2)))  # type: ignore[arg-type]
    (term, *_) = judge(parse_slo("energy<2J/token"), WindowRules().new_window(0), invalid).terms
    assert (term.verdict, term.reason) == ("undecided", NO_ENERGY)


@pytest.mark.parametrize("slo", ["energy<2", "energy<2J", "energy<2W", "energy>2J/token"])
def test_a_limit_on_energy_needs_its_unit_and_direction(slo: str) -> None:
    with pytest.raises(UsageError, match="write"):
        parse_slo(slo)
