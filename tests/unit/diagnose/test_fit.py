"""From what was seen to stations: services without what others took, batches on a line, time outside the steps."""

import pytest

from inferometer.diagnose.fit import fit, knows_batches
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.queueing import Cores
from inferometer.stats.measurement import CoreUse, HostUse


def row(concurrency, throughput, step, *, items=1, latency_s=0.1, host=None, client_core_s=0.0):
    return Observation(
        concurrency, items, throughput, latency_s, (step,), client_core_s=client_core_s, host=host
    )


def step(own_s, batch=1.0, **setup):
    return Step("step", 1.0, own_s, own_s, 0.0, batch, StepSetup(**setup))


def only(*rows, cores=None):
    (station,) = fit(rows, Cores() if cores is None else cores).stations
    return station


def test_the_lightest_load_gives_the_service_time_and_the_last_the_setup():
    station = only(row(1, 10, step(0.05)), row(8, 20, step(0.09, instances=3)))
    assert station.service_s(1) == pytest.approx(0.05)
    assert station.instances == 3


def test_two_sizes_of_batches_give_a_line():
    rows = (row(1, 80, step(0.080, batch=8.0), items=8), row(1, 20, step(0.045)), row(8, 20, step(0.045)))
    station = only(*rows)
    assert (station.fixed_s, station.item_s) == (pytest.approx(0.040), pytest.approx(0.005))
    assert knows_batches("step", rows)


def test_batches_formed_under_load_teach_the_same():
    rows = (row(1, 20, step(0.045)), row(8, 90, step(0.060, batch=4.0)))
    assert only(*rows).item_s == pytest.approx(0.005)


def test_a_single_size_is_halved_by_guess():
    rows = (row(1, 20, step(0.040)), row(8, 25, step(0.040)))
    station = only(*rows)
    assert (station.fixed_s, station.item_s) == (pytest.approx(0.020), pytest.approx(0.020))
    assert not knows_batches("step", rows)


@pytest.mark.parametrize("far_s", [0.030, 0.5])
def test_a_line_never_goes_below_nothing(far_s):
    station = only(row(1, 80, step(far_s, batch=8.0), items=8), row(1, 20, step(0.040)))
    assert station.fixed_s >= 0
    assert station.item_s >= 0
    assert station.service_s(1) == pytest.approx(0.040)


def test_what_others_took_is_no_service():
    """Of 100 ms an execution had a core for 26 and waited for one 70: alone it takes 30."""
    host = HostUse(2, 2.0, 0.3, {"step": CoreUse(0.26, 0.70)})
    station = only(row(1, 10, step(0.100), host=host), cores=Cores(0.5))
    assert station.service_s(1) == pytest.approx(0.030)
    assert station.cpu == pytest.approx(26 / 30)


@pytest.mark.parametrize(
    ("cores", "expected"), [(0.002, 0.0), (0.05, 0.5), (0.098, 1.0)], ids=["asleep", "half", "busy"]
)
def test_the_share_on_a_core_is_seen(cores, expected):
    host = HostUse(2, 0.2, cores, {"step": CoreUse(cores)})
    assert only(row(1, 1, step(0.1), host=host)).cpu == pytest.approx(expected)


def test_a_server_in_one_process_shares_its_cores_out():
    host = HostUse(2, 0.5, 0.4)
    assert only(row(1, 10, step(0.05), host=host)).cpu == pytest.approx(0.8)


def test_unseen_steps_want_a_core_unless_they_run_on_a_gpu_or_prove_otherwise():
    assert only(row(1, 10, step(0.05))).cpu == 1.0
    assert only(row(1, 10, step(0.05, device="gpu"))).cpu == 0.0
    rows = (row(1, 10, step(0.1, instances=8)), row(8, 70, step(0.1, instances=8)))
    assert only(*rows, cores=Cores(2)).cpu == 0.0


def test_time_outside_the_steps_and_its_core_time():
    host = HostUse(2, 0.4, 0.3, {"step": CoreUse(0.2)})
    pipeline = fit((row(1, 10, step(0.02), latency_s=0.1, host=host, client_core_s=0.001),), Cores())
    assert pipeline.outside_s == pytest.approx(0.08)
    assert pipeline.outside_cpu_s == pytest.approx(0.001 + 0.01)
