"""Energy in comparisons of saved results: intervals, verdicts and invalid figures."""

from dataclasses import replace

import pytest

from inferometer.base.units import NS_PER_S
from inferometer.compare.comparison import INCONCLUSIVE, INVALID, LESS, MORE, NO_DIFFERENCE
from inferometer.compare.gates import Terms
from inferometer.compare.saved import compare_saved
from inferometer.report.document import Table
from inferometer.report.documents.comparison import comparison_document
from inferometer.stats.energy import PoweredDevice, PowerReading, energy_figures
from inferometer.stats.estimate import Estimate


def power_log(watts, *, noise=0.0, counter_factor=1.0, seconds=12, **more):
    """A GPU read twice a second, with power that alternates around its mean."""
    rows, joules = [], 0.0
    for number in range(2 * seconds + 1):
        power = watts * (1 + noise * (-1) ** (number // 2))
        rows.append(PowerReading(number * NS_PER_S // 2, power, joules * counter_factor))
        joules += power / 2
    return PoweredDevice("GPU-1", tuple(rows), **more)


def with_energy(level, device, *, rate=100.0, width=0.01, tokens=None, seconds=10):
    rates = Estimate(rate, rate * (1 - width), rate * (1 + width))
    figures = energy_figures(
        (device,), NS_PER_S, (1 + seconds) * NS_PER_S, requests=rates, batch=1, tokens=tokens
    )
    return replace(level, measurement=replace(level.measurement, energy=figures))


@pytest.fixture
def compared(make_level, make_result):
    def compare(base, other, **more):
        levels = [with_energy(make_level(), device, **more) for device in (base, other)]
        found = compare_saved(
            [("a", make_result(levels[0])), ("b", make_result(levels[1]))], Terms(), is_forced=False
        )
        return found, found.contrasts[0].energy

    return compare


@pytest.mark.parametrize(
    ("watts", "noise", "width", "verdict"),
    [
        (300.0, 0.0, 0.01, LESS),
        (500.0, 0.0, 0.01, MORE),
        (401.0, 0.0, 0.01, NO_DIFFERENCE),
        (401.0, 0.0, 0.2, INCONCLUSIVE),
    ],
)
def test_verdicts_follow_from_the_intervals(compared, watts, noise, width, verdict):
    _, (row,) = compared(power_log(400.0), power_log(watts, noise=noise), width=width)
    assert (row.metric, row.verdict, row.reason) == ("energy per request", verdict, "")
    assert row.percent.value == pytest.approx((watts / 400 - 1) * 100)
    assert row.percent.low < row.percent.value < row.percent.high


def test_servers_of_text_are_compared_per_token_too(compared):
    _, rows = compared(power_log(400.0), power_log(200.0), tokens=Estimate(1000.0, 990.0, 1010.0))
    assert [row.metric for row in rows] == ["energy per request", "energy per token"]
    assert rows[1].base.value == pytest.approx(0.4)
    assert rows[1].other.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (power_log(300.0, counter_factor=1.1), "b: the energy counter of GPU-1 says"),
        (power_log(300.0, strangers=(7,)), "b: other programs used GPU-1 (process 7)"),
    ],
)
def test_invalid_figures_are_not_compared(compared, other, reason):
    found, (row,) = compared(power_log(400.0), other)
    assert row.verdict == INVALID
    assert row.reason.startswith(reason)
    assert row.percent is None
    (section,) = (row for row in comparison_document(found).sections if row.name == "energy")
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert table.rows[0][-1] == f"invalid: {row.reason}"


def test_a_result_without_energy_is_named(compared, make_level, make_result):
    levels = with_energy(make_level(), power_log(400.0)), make_level()
    found = compare_saved(
        [("a", make_result(levels[0])), ("b", make_result(levels[1]))], Terms(), is_forced=False
    )
    (row,) = found.contrasts[0].energy
    assert (row.verdict, row.reason) == (INVALID, "b has no such figure")


def test_results_without_energy_have_no_section(make_result):
    found = compare_saved([("a", make_result()), ("b", make_result())], Terms(), is_forced=False)
    assert found.contrasts[0].energy == ()
    assert "energy" not in {section.name for section in comparison_document(found).sections}


def test_the_table_of_variants_has_a_column(compared):
    found, _ = compared(power_log(400.0), power_log(200.0))
    table = comparison_document(found).sections[0].blocks[0]
    assert isinstance(table, Table)
    column = [row.name for row in table.columns].index("J/request")
    assert [row[column].partition(" ")[0] for row in table.rows] == ["4.00", "2.00"]
