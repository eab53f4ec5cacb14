"""Energy of planned replicas, from planted power logs."""

from dataclasses import replace

import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from inferometer.capacity.energy import energy_use
from inferometer.capacity.plan import EnergyUse
from inferometer.capacity.replica import replica_of
from inferometer.capacity.traffic import read_traffic
from inferometer.report.documents.capacity import capacity_document
from inferometer.report.markdown import markdown
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import IDLE_W, W_PER_REQUEST, powered_result, sample_result

MOST = max(row.measurement.infer_per_s.value / row.measurement.batch for row in sample_result().levels)


def use(result, traffic, count, **more):
    return energy_use(result, replica_of(result, "a"), read_traffic(traffic), count, **more)


@pytest.mark.parametrize(("per_replica", "count"), [(0.5, 3), (0.9, 1), (0.75, 40)])
def test_energy_is_that_of_the_planted_server(per_replica, count):
    rate = per_replica * MOST * count
    energy = use(powered_result(), f"{rate}/s", count)
    kw = (count * IDLE_W + rate * W_PER_REQUEST) / 1000
    assert energy.kwh_per_h.value == pytest.approx(kw, rel=1e-3)
    assert energy.kwh_per_day.value == pytest.approx(24 * kw, rel=1e-3)
    assert energy.kwh_per_million.value == pytest.approx(kw / (rate * 3600) * 1e6, rel=1e-3)
    assert energy.carbon_g_per_million is None


def test_energy_follows_the_traffic(tmp_path):
    curve = tmp_path / "day.csv"
    curve.write_text("time,rate\n0:00,2\n12:00,6\n")
    kw = (3 * IDLE_W + 4 * W_PER_REQUEST) / 1000
    assert use(powered_result(), str(curve), 3).kwh_per_h.value == pytest.approx(kw, rel=1e-3)


@pytest.mark.parametrize(
    ("per_replica", "idle_w", "basis"),
    [
        (1.0, IDLE_W, "measured"),
        (0.05, IDLE_W, "interpolated"),
        (0.05, None, "extrapolated"),
        (1.5, IDLE_W, "extrapolated"),
    ],
)
def test_the_basis_says_whether_the_power_was_measured(per_replica, idle_w, basis):
    assert use(powered_result(idle_w=idle_w), f"{per_replica * MOST}/s", 1).basis == basis


def test_tokens_are_counted_where_there_are_any():
    whole = use(powered_result(), "100/s", 4)
    energy = use(powered_result(), "100/s", 4, output_tokens=50.0, carbon=400.0)
    assert (whole.million_of, energy.million_of) == ("requests", "output tokens")
    assert energy.kwh_per_million.value == pytest.approx(whole.kwh_per_million.value / 50)
    assert energy.carbon_g_per_million.value == pytest.approx(400 * energy.kwh_per_million.value)


def test_invalid_energy_gives_its_reason():
    energy = use(powered_result(strangers=(12,)), "100/s", 4)
    assert energy == EnergyUse(invalid="other programs used GPU-1 (process 12)")


def test_results_without_energy_have_none():
    assert use(sample_result(), "100/s", 4) is None


def document_with(*uses, carbon=400.0):
    plan = sample_capacity()
    options = tuple(replace(row, energy=use) for row, use in zip(plan.options, uses, strict=False))
    return markdown(capacity_document(replace(plan, options=options, carbon=carbon)))


def test_the_report_has_a_table():
    text = document_with(
        use(powered_result(), "100/s", 4, carbon=400.0),
        EnergyUse(invalid="other programs used GPU-1 (process 12)"),
    )
    assert "gCO2 per million requests" in text
    assert "400 g of CO2" in text
    assert "invalid: other programs used GPU-1 (process 12)" in text
    assert "kWh" not in document_with(None, None)


def test_carbon_needs_energy():
    with pytest.raises(UsageError, match="needs results with energy figures, and none of these has any"):
        api.capacity(sample_result(), traffic="100/s", slo="p99<200ms", carbon=400.0)


def test_plans_include_the_energy():
    energy = api.capacity(powered_result(), traffic="5/s", slo="p99<1s", carbon=400.0).chosen.energy
    assert energy.kwh_per_h.value > 0
    assert energy.carbon_g_per_million.value == pytest.approx(400 * energy.kwh_per_million.value)
