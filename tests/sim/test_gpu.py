"""The whole diagnosis against a simulated GPU server with a planted limit: verdict, predictions and lessons."""

import random
from dataclasses import dataclass, replace

import pytest

from inferometer.diagnose import queueing
from inferometer.diagnose.diagnosis import (
    DYNAMIC_BATCHING,
    FEED,
    GPU,
    GPU_MEMORY,
    INSTANCES,
    LAUNCH,
    Verdict,
)
from inferometer.diagnose.investigation import Investigation, probe_batches
from inferometer.diagnose.suggest import Circumstances
from tests.support.gpu_server import GIB, GpuServer, OutOfMemory, SimulatedModel
from tests.support.samples import sample

pytestmark = pytest.mark.sampled

MS = 1e-3
SEEDS = range(1, sample(2, 4))
LEVELS = sample((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64))
CLOSE, EACH = 0.2, 0.35  # relative error: the median over the seeds, and each one
WORSE = -0.05


@pytest.fixture(autouse=True)
def short_predictions(monkeypatch):
    """Half of the simulated requests per prediction are enough here, where limits are far apart."""
    monkeypatch.setattr(queueing, "REQUESTS", sample(150, queueing.REQUESTS))
    monkeypatch.setattr(queueing, "_ROUNDS", sample(6, queueing._ROUNDS))


@dataclass
class Diagnosed:
    first: Verdict
    case: Investigation
    server: GpuServer

    @property
    def off(self):
        """The error of the first suggestion's prediction."""
        return abs(1 / self.case.trials[0].ratio - 1) if self.case.trials else 0.0

    @property
    def worse(self):
        return sum(trial.gain < WORSE for trial in self.case.trials)


def diagnose(server, *, levels=LEVELS, trials=3):
    rows = []
    for level in levels:
        rows.append(server.observe(level))
        if level >= 8 and rows[-1].throughput < 1.1 * rows[-2].throughput:
            break
    most = min(model.max_batch for model in server.models)
    extra = [server.observe(1, size) for size in probe_batches(rows, most)]
    case = Investigation(rows, Circumstances("top", most, cores=server.cores, is_local=True), extra)
    first = case.found.verdict
    while len(case.trials) < trials and (suggestion := case.next()) is not None:
        try:
            other = server.changed(suggestion.change)
        except OutOfMemory as error:
            case.refused(suggestion, str(error))
            continue
        if case.learn(suggestion, other.observe(suggestion.concurrency)).is_kept:
            server = other
    return Diagnosed(first, case, server)


# --- planted limits, with parameters drawn at random


def compute_bound(draw):
    model = SimulatedModel(
        "heavy",
        draw(0.1, 0.5) * MS,
        gpu_item_s=draw(3, 20) * MS,
        request_s=draw(0.02, 0.1) * MS,
        max_batch=16,
        instances=round(draw(1, 4)),
    )
    return GpuServer((model,))


def launch_bound(draw):
    core_s = draw(1, 6) * MS
    model = SimulatedModel(
        "small",
        core_s,
        core_s * draw(0.1, 0.4),
        gpu_item_s=core_s * draw(0.005, 0.02),
        request_s=draw(0.02, 0.1) * MS,
        max_batch=32,
    )
    return GpuServer((model,))


def launch_bound_without_batches(draw):
    core_s = draw(1, 6) * MS
    return GpuServer((SimulatedModel("small", core_s, core_s * draw(0.1, 0.5), kernels=round(draw(2, 8))),))


def bandwidth_bound(draw):
    return replace(compute_bound(draw), memory_share=0.9)


def preprocessed(draw):
    core_s = draw(4, 20) * MS
    decode = SimulatedModel("decode", 0.05 * MS, core_item_s=core_s, max_batch=8)
    network = SimulatedModel("network", 0.2 * MS, 0.1 * MS, gpu_item_s=core_s * draw(0.05, 0.2), max_batch=8)
    return GpuServer((decode, network))


def two_on_one(draw):
    gpu_s = draw(2, 10) * MS
    lighter = SimulatedModel("lighter", 0.2 * MS, gpu_item_s=gpu_s * draw(0.2, 0.4), max_batch=8)
    heavier = SimulatedModel("heavier", 0.2 * MS, gpu_item_s=gpu_s, max_batch=8)
    return GpuServer((lighter, heavier))


def full_memory(draw):
    core_s = draw(1, 6) * MS
    memory = round(draw(41, 75) * GIB)
    return GpuServer((SimulatedModel("big", core_s, core_s * draw(0.1, 0.5), memory_bytes=memory),))


@pytest.mark.parametrize(
    ("plant", "kind", "culprit", "remedy"),
    [
        pytest.param(compute_bound, GPU, "heavy", None, id="arithmetic"),
        pytest.param(bandwidth_bound, GPU, "heavy", None, id="memory bandwidth"),
        pytest.param(launch_bound, LAUNCH, "small", DYNAMIC_BATCHING, id="launches, with batches to be had"),
        pytest.param(launch_bound_without_batches, LAUNCH, "small", INSTANCES, id="launches, without"),
        pytest.param(preprocessed, FEED, "decode", INSTANCES, id="work on the CPU before"),
        pytest.param(two_on_one, GPU, "heavier", None, id="two models on one GPU"),
        pytest.param(full_memory, GPU_MEMORY, "big", None, id="a model that fills the memory"),
    ],
)
def test_a_planted_limit_is_found_and_its_remedy_predicted(plant, kind, culprit, remedy):
    found = [
        diagnose(replace(plant(random.Random(seed).uniform), seed=seed), trials=sample(1, 3))
        for seed in SEEDS
    ]
    assert [(row.first.kind, row.first.step) for row in found] == [(kind, culprit)] * len(SEEDS)
    if remedy is not None:
        assert [row.case.trials[0].suggestion.change.kind for row in found] == [remedy] * len(SEEDS)
        assert all(row.case.trials[0].is_kept for row in found)
    off = sorted(row.off for row in found)
    assert off[len(off) // 2] < CLOSE
    assert off[-1] < EACH
    assert max(row.worse for row in found) <= 1


@pytest.mark.parametrize("late_ms", [0, 8])
def test_predicted_batches_form_again_after_a_late_request(late_ms):
    server = replace(launch_bound(random.Random(2).uniform), late_s=late_ms * MS)
    found = diagnose(server, trials=1)
    assert found.case.trials[0].suggestion.change.kind == DYNAMIC_BATCHING
    assert found.off < CLOSE


def test_bandwidth_is_distinguished_from_arithmetic():
    words = {
        plant.__name__: diagnose(plant(random.Random(1).uniform), trials=0).first.sentence
        for plant in (compute_bound, bandwidth_bound)
    }
    assert "bandwidth" in words["bandwidth_bound"]
    assert "bandwidth" not in words["compute_bound"]


def test_with_unknown_utilisation_batches_are_found_but_instances_not_suggested():
    server = replace(launch_bound(random.Random(1).uniform), has_gpu_figures=False)
    found = diagnose(server, trials=1)
    assert found.first.kind == LAUNCH
    assert "unknown" in found.first.sentence
    assert found.case.trials[0].suggestion.change.kind == DYNAMIC_BATCHING
    without = replace(server, models=(replace(server.models[0], max_batch=0),))
    assert diagnose(without).case.trials == ()


# --- instances that compete


def mlp(**setup):
    """Small layers: launches, a cost per request, and a GPU with expensive switches."""
    model = SimulatedModel(
        "mlp",
        0.30 * MS,
        0.10 * MS,
        gpu_item_s=0.004 * MS,
        core_item_s=0.01 * MS,
        request_s=0.08 * MS,
        max_batch=64,
        **setup,
    )
    return GpuServer((model,), switch_s=0.10 * MS)


def test_more_instances_than_the_gpu_can_serve_are_not_suggested():
    """Four instances already compete for the GPU: the throughput of one GPU each is not available."""
    found = diagnose(mlp(instances=4, is_batching=True))
    assert all(
        int(row.suggestion.change.after) < 8
        for row in found.case.trials
        if row.suggestion.change.kind == INSTANCES
    )
    assert found.worse <= 1
    assert found.off < CLOSE


def test_a_wrong_prediction_is_learned_from_and_not_repeated():
    """One instance does not show the cost of switching."""
    server = GpuServer(
        (SimulatedModel("small", 1.0 * MS, 0.5 * MS, kernels=16, max_batch=0),), switch_s=0.12 * MS
    )
    found = diagnose(server, trials=5)
    first, *later = found.case.trials
    assert first.suggestion.change.kind == INSTANCES
    assert first.ratio < 0.85
    assert "less than predicted" in first.lesson
    assert "concurrent executions on the GPU do the work of 0" in first.lesson
    assert all(trial.gain > WORSE for trial in later)
    assert found.worse <= 1
    after = [(trial.suggestion.change.kind, trial.suggestion.change.after) for trial in found.case.trials]
    assert len(set(after)) == len(after)


def test_running_out_of_memory_is_a_result_and_smaller_changes_continue():
    server = GpuServer(
        (SimulatedModel("small", 4 * MS, 0.4 * MS, memory_bytes=10 * GIB),), memory_bytes=35 * GIB
    )
    found = diagnose(server)
    assert found.server.models[0].instances == 3
    assert not any(trial.failure for trial in found.case.trials), "the memory was known"


def test_memory_of_other_programs_is_not_attributed_to_an_instance():
    """They hold 40 of 80 GiB, and an instance 10: three more fit, although 50 are in use with one."""
    server = GpuServer(
        (SimulatedModel("small", 4 * MS, 0.4 * MS, memory_bytes=10 * GIB),), other_bytes=40 * GIB
    )
    found = diagnose(server)
    assert found.first.kind == LAUNCH
    assert found.server.models[0].instances == 4
