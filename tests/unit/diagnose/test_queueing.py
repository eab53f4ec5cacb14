"""The queueing model against theory: bounds, exact formulas where available, and effects of batching."""

from dataclasses import replace

import pytest

from inferometer.diagnose.queueing import Cores, Pipeline, Station, predict

SLOW = Station("slow", 0.010)
QUICK = Station("quick", 0.002)
STEADY = Pipeline((SLOW, QUICK), outside_s=0.003, variation=0.0)


def exact_closed_throughput(demands_s, think_s, customers):
    """Mean value analysis: exact for exponential service, one server each."""
    queues = [0.0] * len(demands_s)
    throughput = 0.0
    for number in range(1, customers + 1):
        times = [demand * (1 + queue) for demand, queue in zip(demands_s, queues, strict=True)]
        throughput = number / (think_s + sum(times))
        queues = [throughput * time for time in times]
    return throughput


def test_one_request_alone_takes_the_sum_of_its_steps():
    found = predict(STEADY, 1)
    assert found.latency_s == pytest.approx(0.015)
    assert found.throughput == pytest.approx(1 / 0.015)


@pytest.mark.parametrize("concurrency", [2, 5, 40])
def test_many_requests_reach_the_bound_of_the_slowest_step(concurrency):
    found = predict(STEADY, concurrency)
    assert found.throughput == pytest.approx(100, rel=0.02)
    assert found.latency_s == pytest.approx(concurrency / found.throughput, rel=0.02)


@pytest.mark.parametrize("customers", [2, 4, 8])
def test_exponential_service_agrees_with_mean_value_analysis(customers):
    stations = (Station("a", 0.010), Station("b", 0.008), Station("c", 0.005))
    pipeline = Pipeline(stations, variation=1.0, cores=Cores())
    exact = exact_closed_throughput([0.010, 0.008, 0.005], 0.0, customers)
    assert predict(pipeline, customers).throughput == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize(("instances", "expected"), [(1, 100), (2, 200), (4, 400)])
def test_instances_multiply_the_bound(instances, expected):
    pipeline = Pipeline((replace(SLOW, instances=instances),), variation=0.0)
    assert predict(pipeline, 16).throughput == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (Cores(), 400),
        (Cores(2), 200),
        (Cores(0.5), 50),
        (Cores(0.5, scaling=0.5), 50),
        (Cores(scaling=0.5), 200),
        (Cores(1), 100),
    ],
)
def test_busy_instances_share_the_cores(cores, expected):
    pipeline = Pipeline((replace(SLOW, instances=4),), variation=0.0, cores=cores)
    found = predict(pipeline, 8)
    assert found.throughput == pytest.approx(expected, rel=0.03)


def test_a_sleeping_step_needs_no_core():
    pipeline = Pipeline((replace(SLOW, instances=4, cpu=0.0),), variation=0.0, cores=Cores(1))
    assert predict(pipeline, 8).throughput == pytest.approx(400, rel=0.02)


def test_a_step_that_sleeps_and_computes_takes_as_long_as_both():
    pipeline = Pipeline((replace(SLOW, cpu=0.4),), variation=0.0, cores=Cores(1))
    assert predict(pipeline, 1).latency_s == pytest.approx(0.010, rel=1e-3)


def test_work_outside_the_steps_uses_cores_as_well():
    pipeline = Pipeline((QUICK,), outside_s=0.008, outside_cpu_s=0.008, cores=Cores(1), variation=0.0)
    assert predict(pipeline, 8).throughput == pytest.approx(100, rel=0.02)


def test_batches_form_from_waiting_requests():
    station = Station("batched", 0.010, max_batch=8)
    off = predict(Pipeline((station,)), 16)
    on = predict(Pipeline((replace(station, is_batching=True),)), 16)
    assert off.batches["batched"] == 1
    assert on.batches["batched"] == pytest.approx(8, rel=0.05)
    assert on.throughput == pytest.approx(8 * off.throughput, rel=0.08)


def test_a_batch_is_full_when_its_requests_have_enough_items():
    station = Station("batched", 0.010, max_batch=8, is_batching=True)
    found = predict(Pipeline((station,), items=4, variation=0.0), 16)
    assert found.batches["batched"] == pytest.approx(8, rel=0.02)  # two requests of four


def test_batches_without_a_shared_cost_do_not_help():
    station = Station("batched", 0.0, 0.010, max_batch=8)
    off = predict(Pipeline((station,)), 16)
    on = predict(Pipeline((replace(station, is_batching=True),)), 16)
    assert on.throughput == pytest.approx(off.throughput, rel=0.03)


def test_a_delay_fills_batches_at_the_cost_of_latency():
    station = Station("batched", 0.001, cpu=0.0, max_batch=4, is_batching=True)
    pipeline = Pipeline((station,), outside_s=0.002)
    eager, patient = (
        predict(pipeline, 4),
        predict(replace(pipeline, stations=(replace(station, delay_s=0.005),)), 4),
    )
    assert patient.batches["batched"] > eager.batches["batched"]
    assert patient.batches["batched"] == pytest.approx(4, rel=0.1)
    alone = predict(replace(pipeline, stations=(replace(station, delay_s=0.005),)), 1)
    assert alone.latency_s == pytest.approx(0.008, rel=0.05)


@pytest.mark.parametrize(
    ("delay_s", "together"),
    [
        pytest.param(0.006, True, id="a batcher that waits for longer than an execution takes"),
        pytest.param(0.002, False, id="one that waits for less"),
    ],
)
def test_separated_requests_rejoin_only_if_the_delay_is_long_enough(delay_s, together):
    station = Station("batched", 0.004, max_batch=8, is_batching=True, preferred=(8,), delay_s=delay_s)
    pipeline = Pipeline((station,), outside_s=0.0003)
    assert predict(pipeline, 8).batches["batched"] == pytest.approx(8, rel=0.02)
    apart = predict(pipeline, 8, is_in_step=False).batches["batched"]
    assert apart == pytest.approx(8 if together else 4, rel=0.02)


def test_a_preferred_size_is_executed_without_waiting_for_the_largest():
    station = Station("batched", 0.001, cpu=0.0, max_batch=16, is_batching=True, preferred=(4,), delay_s=1.0)
    found = predict(Pipeline((station,), outside_s=0.002), 12)
    assert found.batches["batched"] == pytest.approx(4, rel=0.1)


def test_a_client_batch_fills_the_executions():
    station = Station("batched", 0.010, 0.001, max_batch=8)
    found = predict(Pipeline((station,), items=4, variation=0.0), 2)
    assert found.throughput == pytest.approx(4 / 0.014, rel=0.02)
    assert found.batches["batched"] == 4


def test_calls_multiply_the_demand():
    thrice = Pipeline((replace(SLOW, calls=3.0),), variation=0.0)
    assert predict(thrice, 4).throughput == pytest.approx(100 / 3, rel=0.02)
    half = Pipeline((replace(SLOW, calls=0.5),), variation=0.0)
    assert predict(half, 4).throughput == pytest.approx(200, rel=0.08)


def test_a_step_that_calls_others_holds_its_instance():
    caller = Station("caller", 0.002, members=(replace(SLOW, instances=4),), calls=1.0)
    found = predict(Pipeline((caller,), variation=0.0), 8)
    assert found.throughput == pytest.approx(1 / 0.012, rel=0.02)
    more = predict(Pipeline((replace(caller, instances=3),), variation=0.0), 8)
    assert more.throughput == pytest.approx(3 / 0.012, rel=0.02)


def test_steps_without_duration_are_allowed():
    assert predict(Pipeline((Station("nothing", 0.0),)), 4).throughput > 1e6


def test_the_same_pipeline_gives_the_same_figures():
    assert predict(STEADY, 3) == predict(STEADY, 3)


def test_zero_load_is_rejected():
    with pytest.raises(ValueError, match="must be"):
        predict(STEADY, 0)


def test_the_start_of_the_load_is_not_part_of_the_prediction():
    found = predict(Pipeline((SLOW,), outside_s=0.0, variation=0.0), 64)
    assert found.latency_s == pytest.approx(0.64, rel=1e-6)
    assert found.throughput == pytest.approx(100, rel=1e-6)


def test_a_preferred_batch_size_counts_inferences():
    batcher = Station("batcher", 0.010, max_batch=16, is_batching=True, preferred=(8,))
    found = predict(Pipeline((batcher,), outside_s=0.0, variation=0.0, items=4), 8)
    assert found.batches["batcher"] == pytest.approx(8)
