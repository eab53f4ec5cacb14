"""Each planted limit on a real GPU: the verdict names it, and what is tried is as predicted."""

from pathlib import Path

import pytest

from gpu_tests.planted import PLANTED, PlantedLimit, embedded, plant
from inferometer import api
from inferometer.observe.host import open_nvml

pytestmark = pytest.mark.skipif(
    open_nvml() is None, reason="there is no GPU here, or nvidia-ml-py is missing"
)

EACH, WORSE = 0.35, -0.05


@pytest.mark.parametrize("limit", PLANTED, ids=lambda limit: limit.name)
def test_a_planted_limit_is_named_and_its_cure_predicted(limit: PlantedLimit, tmp_path: Path) -> None:
    with embedded(plant(tmp_path, (limit,))) as server:
        found = api.diagnose(limit.name, url=server.http_address, duration_s=1, apply=True, budget_s=20)
    assert found.verdict.kind in limit.kinds, found.verdict.sentence
    assert found.verdict.step == limit.culprit
    assert all(step.bound is None or step.bound >= found.throughput for step in found.steps)
    if found.trials and not found.trials[0].failure:
        assert 1 - EACH < 1 / found.trials[0].ratio < 1 + EACH
    assert sum(trial.gain < WORSE for trial in found.trials) < 2
