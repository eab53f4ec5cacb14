"""Limits on GPU memory and power: their syntax, and limits that cannot be checked."""

from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.options.tuning import TuneOptions
from inferometer.stats.estimate import Estimate
from inferometer.tune.goals import maybe_slo
from inferometer.tune.prepare import with_gpu_figures
from inferometer.tune.request import settings_of
from inferometer.tune.scoring import Constraint, Goal, passes
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart

WRITTEN = (
    ("gpu memory<8GB", ("gpu_used_memory", 8000.0)),
    ("GPU_memory <= 500MiB", ("gpu_used_memory", 524.288)),
    ("gpu power<300W", ("gpu_power_usage", 300.0)),
)


def constraints(slo: str) -> tuple[Constraint, ...]:
    return settings_of(TuneOptions(slo=slo), changed(Options(), model="m")).models[0].goal.constraints


@pytest.mark.parametrize(("slo", "limit"), WRITTEN)
def test_a_gpu_limit_is_a_constraint(slo, limit):
    (found,) = constraints(slo)
    assert (found.tag, found.high) == limit


def test_gpu_limits_and_latency_limits_can_be_combined():
    found = {row.tag for row in constraints("p99<10ms, gpu power<300W")}
    assert found == {"perf_latency_p99", "perf_error_rate", "gpu_power_usage"}


@pytest.mark.parametrize(
    ("slo", "others"), [("gpu memory<8GB", None), ("p99<10ms, gpu power<300W", "p99<10ms")]
)
def test_the_live_page_gets_the_limits_that_are_not_about_gpus(slo, others):
    found = maybe_slo(slo)
    assert (None if found is None else found.text) == others


def test_metrics_are_collected_only_for_gpu_goals():
    asked = settings_of(TuneOptions(slo="gpu power<300W"), changed(Options(), model="m"))
    assert asked.must_know_gpus
    assert asked.models[0].options.collect_metrics
    plain = settings_of(TuneOptions(slo="p99<1s"), changed(Options(), model="m"))
    assert not plain.must_know_gpus
    assert not plain.models[0].options.collect_metrics


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        (None, {"perf_throughput": 1.0}),
        ("p99", {"perf_latency_p99": 1.0}),
        ("throughput:3, GPU power:1", {"perf_throughput": 0.75, "gpu_power_usage": 0.25}),
        ("throughput, gpu_memory", {"perf_throughput": 0.5, "gpu_used_memory": 0.5}),
    ],
)
def test_an_objective_may_be_a_gpu_figure(text, shares):
    found = settings_of(TuneOptions(objective=text), changed(Options(), model="m"))
    assert dict(found.models[0].goal.shares) == shares
    assert found.must_know_gpus == any(tag.startswith("gpu") for tag in shares)
    assert found.models[0].options.collect_metrics == found.must_know_gpus


@pytest.mark.parametrize("text", ["", "speed", "p99:0", "p99:-1", "p99:much", "p99, p99", "throughput;p99"])
def test_an_invalid_objective_is_rejected(text):
    with pytest.raises(UsageError, match="--objective") as refused:
        settings_of(TuneOptions(objective=text), changed(Options(), model="m"))
    assert "gpu power" in refused.value.remedy


@pytest.mark.parametrize("slo", ["gpu memory<8", "gpu memory>8GB", "gpu<8GB", "gpu power<5GB"])
def test_an_invalid_limit_is_rejected(slo):
    with pytest.raises(UsageError, match="is not a GPU limit"):
        constraints(slo)


def trial(status=Status.MEASURED, **gpu: float) -> Trial:
    part = TrialPart(
        "m", "m_config_0", ClientLoad(concurrency=1), Figures((("perf_throughput", Estimate(9.0)),))
    )
    rows = tuple((tag, Estimate(value)) for tag, value in gpu.items())
    return Trial(0, (part,), status, gpus=(("GPU-1", Figures(rows)),) if gpu else ())


GOAL = Goal("m", constraints=(Constraint("gpu_used_memory", high=100.0),))


def search():
    yield "a proposal"
    yield "another"
    return "done"


def test_a_search_continues_with_known_figures_or_without_measurements():
    steps: Any = with_gpu_figures(search(), [GOAL])
    assert steps.send(None) == "a proposal"
    assert steps.send(trial(Status.FAILED)) == "another"
    with pytest.raises(StopIteration) as stop:
        steps.send(trial(gpu_used_memory=50.0))
    assert stop.value.value == "done"


def test_a_search_ends_if_a_limited_figure_is_unknown():
    steps = with_gpu_figures(search(), [GOAL])
    steps.send(None)
    with pytest.raises(UsageError, match="GPU Memory Usage cannot be limited") as refused:
        steps.send(trial(gpu_power_usage=70.0))
    assert "inferometer[gpu]" in refused.value.remedy


def test_exceeding_the_memory_limit_violates_it():
    assert passes([GOAL], trial(gpu_used_memory=100.0))
    assert not passes([GOAL], trial(gpu_used_memory=101.0))
