"""A walkthrough: an image ensemble with one instance of each step, and later two and four of the first."""

from dataclasses import replace

import pytest

from inferometer.diagnose.bottleneck import conclude
from inferometer.diagnose.diagnosis import COMPUTE, INSTANCES
from inferometer.diagnose.fit import Measured, calibrate, fit
from inferometer.diagnose.observation import Observation, Step, StepSetup
from inferometer.diagnose.queueing import Cores, predict, with_station
from inferometer.diagnose.suggest import Circumstances

# Concurrency 1 to 8: throughput, latency in ms, and queueing and execution time of preprocessing in ms.
ONE = (
    (16.6, 59.984, 0.020, 56.698),
    (17.2, 117.130, 55.109, 58.121),
    (17.2, 174.654, 113.238, 57.871),
    (17.8, 223.871, 165.035, 55.743),
    (17.6, 284.336, 224.213, 56.545),
    (17.6, 341.010, 281.251, 56.496),
    (17.4, 400.005, 339.150, 56.692),
    (17.6, 453.741, 394.213, 56.406),
)
TWO = (13.8, 23.6, 24.6, 24.4, 24.2, 24.8, 24.4, 23.8)
FOUR = (15.2, 24.2, 31.4, 36.6, 37.2, 35.2, 37.2, 37.6)
FIRST = "preprocessing"


def seen(concurrency, throughput, latency_ms, waited_ms, worked_ms):
    steps = (
        Step(FIRST, 1.0, worked_ms / 1e3, worked_ms / 1e3, waited_ms / 1e3),
        Step("resnet50_trt", 1.0, 0.0015, 0.0015, 0.00005, setup=StepSetup(device="gpu")),
        Step("postprocessing", 1.0, 0.0002, 0.0002, 0.00003),
    )
    server_s = (latency_ms - 0.7) / 1e3
    return Observation(concurrency, 1, throughput, latency_ms / 1e3, steps, server_s)


SWEEP = tuple(seen(number, *row) for number, row in enumerate(ONE, start=1))
CIRCUMSTANCES = Circumstances("ensemble_python_resnet50", max_batch=0, cores=None)


def test_preprocessing_is_named_with_its_share_and_its_bound():
    found = conclude(SWEEP, CIRCUMSTANCES)
    assert (found.verdict.kind, found.verdict.step) == (COMPUTE, FIRST)
    first = found.table[0]
    assert round(first.light_share, 2) == 0.95
    assert first.bound == 17.8, "as was measured once, and no less"
    assert first.utilisation == pytest.approx(1.0, abs=0.02)
    assert "preprocessing limits the throughput" in found.verdict.sentence
    assert "95 %" in found.verdict.sentence
    assert "17.8 infer/s" in found.verdict.sentence


def test_more_instances_of_preprocessing_are_the_first_suggestion():
    best = conclude(SWEEP, CIRCUMSTANCES).suggestions[0]
    assert (best.change.kind, best.change.model) == (INSTANCES, FIRST)
    assert best.change.settings["instance_group"][0]["kind"] == "KIND_CPU"
    assert best.gain > 1


def test_the_bound_of_the_first_row_is_exact():
    row = conclude(SWEEP[:1], CIRCUMSTANCES).table[0]
    assert row.bound == pytest.approx(1 / 0.056698)
    assert row.bound == pytest.approx(17.6, abs=0.05)


def test_curves_of_two_and_four_instances_match_with_known_cores():
    pipeline = fit(SWEEP, Cores())
    rows = [
        Measured(with_station(pipeline, FIRST, instances=2), number, value)
        for number, value in enumerate(TWO, start=1)
    ]
    known = calibrate(rows, pipeline)
    assert known.cores.work(2) < 2
    for instances, measured in ((2, TWO), (4, FOUR)):
        changed = with_station(known, FIRST, instances=instances)
        predicted = [predict(changed, number).throughput for number in range(1, 9)]
        assert predicted == pytest.approx(list(measured), rel=0.2)


def test_without_known_cores_the_prediction_is_too_high():
    changed = with_station(fit(SWEEP, Cores()), FIRST, instances=4)
    assert predict(changed, 8).throughput > 1.5 * FOUR[-1]


def test_uninformative_rows_do_not_change_the_cores():
    pipeline = fit(SWEEP, Cores())
    rows = [Measured(pipeline, row.concurrency, row.throughput) for row in SWEEP]
    assert calibrate(rows, pipeline) == pipeline
    assert calibrate([replace(rows[0], throughput=0.0)], pipeline) == pipeline
