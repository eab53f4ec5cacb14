"""A level with its statistics -> steps: ensembles are flattened, callers contain the steps they call."""

from dataclasses import replace

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.diagnose.observation import observation, step_setup
from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.machine_figures import HostUse
from inferometer.stats.measurement import ClientCost, Level, Measurement

MS = 1_000_000


def counters(count, infer_ms, *, queue_ms=0, batch=1, cached=0):
    return Counters(
        inference_count=count,
        execution_count=count // batch,
        success_count=count + cached,
        success_ns=count * (infer_ms + queue_ms) * MS,
        queue_count=count,
        queue_ns=count * queue_ms * MS,
        compute_infer_count=count,
        compute_infer_ns=count * infer_ms * MS,
    )


def model(name, *composing, **config):
    is_ensemble = "steps" in config
    if is_ensemble:
        config = {"ensemble_scheduling": {"step": [{"model_name": step} for step in config["steps"]]}}
    return ModelSpec(
        name, "", (), (), is_ensemble=is_ensemble, composing=tuple(sorted(composing, key=lambda row: row.name)),
        config=config,
    )  # fmt: skip


def stats(name, found, *members):
    return ModelStatistics(name, "1", found, members=tuple(sorted(members, key=lambda row: row.name)))


def level(server, batch=1):
    latency = Distribution(100, 50 * MS, 0, 0, 0, ((50.0, 50 * MS),))
    found = Measurement(
        batch=batch, duration_ns=10**9, request_count=100, failed_count=0, delayed_count=0,
        infer_per_s=Estimate(100.0 * batch), send_per_s=100.0, latency=latency, latency_intervals=(), service=latency,
        send_ns=0, receive_ns=0, received_bytes=0, client=ClientCost(1, 0.25, 200.0, 0, 0), server=server, failures=(),
    )  # fmt: skip
    return Level("concurrency", 4.0, found, (), True, False)


def test_an_ensemble_is_flattened_in_the_order_of_its_steps():
    spec = model("top", model("b"), model("a"), steps=["b", "a"])
    seen = observation(
        level(stats("top", counters(100, 0), stats("a", counters(120, 5)), stats("b", counters(90, 20, queue_ms=3)))),
        spec,
    )  # fmt: skip
    assert [step.name for step in seen.steps] == ["b", "a"]
    assert [step.calls for step in seen.steps] == [1, 1], "the plan is exact, counts of a short time are not"
    assert [step.service_s for step in seen.steps] == pytest.approx([0.020, 0.005])
    assert seen.steps[0].wait_s == pytest.approx(0.003)
    assert (seen.concurrency, seen.items, seen.throughput, seen.client_share) == (4, 1, 100.0, 0.25)
    assert seen.client_core_s == pytest.approx(0.0002)


def test_the_limit_of_the_client_is_observed():
    found = level(stats("top", counters(100, 0)))
    found = replace(found, remarks=(Remark(Note.CLIENT_STARVED, "client-limited: it waited"),))
    assert observation(found, model("top")).client_limit == "client-limited: it waited"


def test_a_step_used_twice_is_called_twice():
    spec = model("top", model("a"), steps=["a", "a"])
    seen = observation(level(stats("top", counters(100, 0), stats("a", counters(200, 5)))), spec)
    assert [(step.name, step.calls) for step in seen.steps] == [("a", 2)]


def test_nested_ensembles_are_flattened():
    inner = model("inner", model("a"), steps=["a"])
    spec = model("top", inner, model("b"), steps=["inner", "b"])
    below = stats("inner", counters(100, 0), stats("a", counters(100, 5)))
    server = stats("top", counters(100, 0), below, stats("b", counters(100, 7)))
    assert [step.name for step in observation(level(server), spec).steps] == ["a", "b"]


def test_a_caller_contains_the_steps_it_calls():
    spec = model("caller", model("called"))
    server = stats("caller", counters(100, 50), stats("called", counters(250, 10, queue_ms=2)))
    (caller,) = observation(level(server), spec).steps
    assert caller.service_s == pytest.approx(0.050)
    assert caller.own_s == pytest.approx(0.050 - 2.5 * 0.012)
    assert [(step.name, step.calls) for step in caller.members] == [("called", 2.5)]
    assert [(step.name, calls, depth) for step, calls, depth in observation(level(server), spec).walk()] == [
        ("caller", 1, 0),
        ("called", 2.5, 1),
    ]


def test_batches_are_counted_and_cached_answers_are_not_executions():
    (step,) = observation(level(stats("m", counters(80, 10, batch=4, cached=20))), model("m")).steps
    assert step.batch == 4
    assert step.calls == pytest.approx(0.8)


def test_without_statistics_there_are_no_steps():
    host = HostUse(2, 1.0)
    seen = observation(replace(level(None), host=host), model("m"))
    assert (seen.steps, seen.server_s, seen.host) == ((), None, host)


def test_a_level_without_answers_has_no_observation():
    assert observation(Level("concurrency", 1.0, None, (), False, False), model("m")) is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (1, "cpu", 0, False, (), 0.0)),
        ({"instance_group": [{"kind": "KIND_CPU", "count": 3}]}, (3, "cpu", 0, False, (), 0.0)),
        (
            {"instance_group": [{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}]},
            (4, "gpu", 0, False, (), 0.0),
        ),
        (
            {"instance_group": [{"kind": "KIND_CPU"}, {"kind": "KIND_CPU", "count": 2}]},
            (3, "cpu", 0, False, (), 0.0),
        ),
        (
            {
                "max_batch_size": 8,
                "dynamic_batching": {"preferred_batch_size": [4], "max_queue_delay_microseconds": "500"},
            },
            (1, "cpu", 8, True, (4,), 0.0005),
        ),
        ({"max_batch_size": 8, "dynamic_batching": {}}, (1, "cpu", 8, True, (), 0.0)),
    ],
)
def test_a_configuration_is_read(config, expected):
    found = step_setup(config)
    assert (
        found.instances, found.device, found.max_batch, found.is_batching, found.preferred, found.delay_s,
    ) == expected  # fmt: skip


def test_saved_batch_sizes_give_the_execution_time():
    """Of eight requests, one took 42 ms alone and seven took 54 ms together: the mean execution time is 48 ms."""
    sizes = ((7, 1, 0, 54 * MS, 0), (1, 1, 0, 42 * MS, 0))
    found = replace(counters(8, 0, batch=4), sizes=sizes, compute_infer_ns=(42 + 7 * 54) * MS)
    (step,) = observation(level(stats("m", found)), model("m")).steps
    assert step.service_s == pytest.approx(0.048)
    assert step.batch == 4
    assert [(row.size, row.count) for row in step.sizes] == [(1, 1), (7, 1)]
