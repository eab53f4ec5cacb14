"""Fit of stations: service times without the effect of other programs, batches on a line, time outside the steps."""

from dataclasses import replace

import pytest

from inferometer.diagnose.fit import fit, fitted, knows_batches
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.queueing import Cores
from inferometer.observe.statistics import Executions
from inferometer.stats.machine_figures import CoreUse, GpuFigures, HostUse


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


def test_batches_formed_under_load_give_the_same_line():
    rows = (row(1, 20, step(0.045)), row(8, 90, step(0.060, batch=4.0)))
    assert only(*rows).item_s == pytest.approx(0.005)


def test_with_a_single_size_half_the_cost_is_assumed_per_inference():
    rows = (row(1, 20, step(0.040)), row(8, 25, step(0.040)))
    station = only(*rows)
    assert (station.fixed_s, station.item_s) == (pytest.approx(0.020), pytest.approx(0.020))
    assert not knows_batches("step", rows)


@pytest.mark.parametrize("far_s", [0.030, 0.5])
def test_the_fitted_costs_are_never_negative(far_s):
    station = only(row(1, 80, step(far_s, batch=8.0), items=8), row(1, 20, step(0.040)))
    assert station.fixed_s >= 0
    assert station.item_s >= 0
    assert station.service_s(1) == pytest.approx(0.040)


def test_waiting_caused_by_other_programs_is_not_service_time():
    """Of 100 ms, an execution had a core for 26 ms and waited for one for 70 ms: alone it takes 30 ms."""
    host = HostUse(2, 2.0, 0.3, {"step": CoreUse(0.26, 0.70)})
    station = only(row(1, 10, step(0.100), host=host), cores=Cores(0.5))
    assert station.service_s(1) == pytest.approx(0.030)
    assert station.cpu == pytest.approx(26 / 30)


@pytest.mark.parametrize(
    ("cores", "expected"), [(0.002, 0.0), (0.05, 0.5), (0.098, 1.0)], ids=["asleep", "half", "busy"]
)
def test_the_share_on_a_core_is_observed(cores, expected):
    host = HostUse(2, 0.2, cores, {"step": CoreUse(cores)})
    assert only(row(1, 1, step(0.1), host=host)).cpu == pytest.approx(expected)


def test_the_core_time_of_a_single_process_is_split_among_its_steps():
    host = HostUse(2, 0.5, 0.4)
    assert only(row(1, 10, step(0.05), host=host)).cpu == pytest.approx(0.8)


def test_unobserved_steps_use_a_core_unless_on_a_gpu_or_disproved():
    assert only(row(1, 10, step(0.05))).cpu == 1.0
    assert only(row(1, 10, step(0.05, device="gpu"))).cpu == 0.0
    rows = (row(1, 10, step(0.1, instances=8)), row(8, 70, step(0.1, instances=8)))
    assert only(*rows, cores=Cores(2)).cpu == 0.0


def test_time_outside_the_steps_and_its_core_time():
    host = HostUse(2, 0.4, 0.3, {"step": CoreUse(0.2)})
    pipeline = fit((row(1, 10, step(0.02), latency_s=0.1, host=host, client_core_s=0.001),), Cores())
    assert pipeline.outside_s == pytest.approx(0.08)
    assert pipeline.outside_cpu_s == pytest.approx(0.001 + 0.01)


def test_a_pinned_server_has_all_its_cores_without_our_work():
    """Four executions wanted a core each, and two were available; the other eight cores of the machine do not
    matter."""
    busy = HostUse(10, 8.0, 2.0, {"step": CoreUse(2.0, 2.0)}, server_cores=2)
    light = HostUse(10, 7.0, 0.9, {"step": CoreUse(0.9)}, server_cores=2)
    rows = (
        row(1, 10, step(0.09), host=light, client_core_s=0.005),
        row(4, 22, step(0.18, instances=4), latency_s=0.18, host=busy, client_core_s=0.005),
    )
    pipeline = fitted(rows, 2.0)
    assert pipeline.cores.count == pytest.approx(2.0)
    assert pipeline.outside_cpu_s == pytest.approx(0.0)


# --- on a GPU


def on_gpu(concurrency, own_s, share, *, items=1, batch=None, throughput=None, **setup):
    """An instance that is always busy, and a GPU that is busy for this share of the time."""
    batch = items if batch is None else batch
    rate = batch / own_s if throughput is None else throughput
    found = row(
        concurrency, rate, step(own_s, float(batch), device="gpu", max_batch=64, **setup), items=items
    )
    return replace(found, latency_s=own_s, gpus=(GpuFigures("g", share, None, None, None),))


def test_gpu_time_is_split_into_fixed_and_per_inference_parts():
    """4 ms outside the GPU; 1 ms on it, and 0.1 ms more per inference."""
    rows = [
        on_gpu(1, (5 + size / 10) / 1e3, (1 + size / 10) / (5 + size / 10), items=size) for size in (8, 32, 1)
    ]
    station = only(*rows)
    assert (station.fixed_s, station.item_s) == (pytest.approx(0.005), pytest.approx(0.0001))
    assert (station.gpu_fixed_s, station.gpu_item_s) == (pytest.approx(0.001), pytest.approx(0.0001))


def test_with_server_side_batches_a_request_costs_more_than_an_inference():
    """Eight inferences in one request take 5.8 ms, eight requests 7.2 ms: 0.2 ms for each additional request."""
    formed = on_gpu(8, 0.0072, 0.2, batch=8, is_batching=True)
    rows = (on_gpu(1, 0.0058, 0.2, items=8), on_gpu(1, 0.0051, 0.2), formed)
    station = only(*rows)
    assert station.item_s == pytest.approx(0.0001)
    assert station.request_s == pytest.approx(0.0002)
    assert station.service_s(8, 8) == pytest.approx(0.0072)


def test_batches_of_concurrent_instances_do_not_show_the_cost_of_a_batch():
    """Four concurrent instances stretch each other: eight take eight times as long, which is not an effect of the
    batch."""
    shared = on_gpu(32, 0.040, 0.9, batch=8, instances=4, is_batching=True)
    assert not knows_batches("step", (on_gpu(1, 0.005, 0.2, instances=4), shared))


def test_batch_sizes_in_one_row_are_separate_points():
    sizes = (
        Executions(1, 50, 0.0, 5.1e6, 0.0),
        Executions(9, 50, 0.0, 5.9e6, 0.0),
        Executions(64, 1, 0.0, 9e9, 0.0),
    )
    formed = on_gpu(16, 0.0055, 0.2, batch=5, is_batching=True)
    formed = replace(formed, steps=(replace(formed.steps[0], sizes=sizes),))
    station = only(on_gpu(1, 0.0051, 0.2, is_batching=True), formed)
    assert station.item_s == pytest.approx(0.0001), "a single execution of 64 tells nothing"


def test_with_unknown_utilisation_a_step_keeps_the_gpu_busy():
    station = only(row(1, 200, step(0.005, device="gpu")))
    assert station.gpu_s(1) == pytest.approx(station.service_s(1)) == pytest.approx(0.005)


def test_the_cost_of_switching_is_learned_from_concurrent_instances():
    rows = [
        on_gpu(1, 0.002, 0.5, instances=4),
        on_gpu(8, 0.008, 1.0, throughput=500.0, instances=4),
    ]
    pipeline = fitted([replace(found, variation=0.05) for found in rows], 16.0)
    assert pipeline.devices.turn > 0.5, "1000 per second would fit into its time if turns cost nothing"
