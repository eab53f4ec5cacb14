"""The GPUs of a server without models."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.commands import check_gpus
from inferometer.observe.host import Gpu
from inferometer.tune.trial_figures import watch_idle


def test_memory_is_the_maximum_and_other_figures_are_means():
    samples = iter([Gpu(0.1, 50.0, 1_000_000, 9_000_000), Gpu(0.3, 70.0, 3_000_000, 9_000_000), Gpu()])
    waits: list[float] = []
    trial = watch_idle(lambda: {"GPU-a": next(samples)}, 2.0, 1.0, waits.append)
    ((uuid, figures),) = trial.gpus
    assert (uuid, waits) == ("GPU-a", [1.0, 1.0])
    assert figures.get("gpu_used_memory") == 3.0
    assert figures.get("gpu_free_memory") == 6.0
    assert figures.get("gpu_utilization") == pytest.approx(20.0)
    assert figures.get("gpu_power_usage") == pytest.approx(60.0)


def test_a_checkpoint_of_other_gpus_is_rejected():
    check_gpus(None, ["a"], "checkpoints")
    check_gpus(["a"], ["a"], "checkpoints")
    with pytest.raises(UsageError, match="remove the checkpoint"):
        check_gpus(["a"], ["b"], "checkpoints")
