"""The Python surface at the real server, as far as no command's test goes through it."""

from pathlib import Path

import pytest

from inferometer import api
from inferometer.options.options import DataOptions
from inferometer.server.embedded import EmbeddedTriton
from inferometer.tune.study import recommend

pytestmark = pytest.mark.live


@pytest.mark.machine(
    reason="a search of one second decides nothing where other processes keep every core busy"
)
def test_api_find_gives_a_result_with_a_finding(triton: EmbeddedTriton) -> None:
    result = api.find(
        "delay",
        url=triton.http_address,
        slo="p50<1s",
        by="concurrency",
        duration_s=1.0,
        data=DataOptions(files=(("INPUT0", "0.05"),)),
    )
    assert result.finding is not None
    assert result.finding.mode == "concurrency"
    assert result.finding.judged
    assert result.finding.judged[0].load == 1


@pytest.mark.machine(reason="an SLO of 1 s is met only where other processes leave the server a core")
def test_api_tune_gives_a_study(tmp_path: Path) -> None:
    study = api.tune(
        "simple",
        slo="p99<1s",
        journal=str(tmp_path / "journal.sqlite"),
        search="brute",
        instances=(1, 1),
        batches=(1, 2),
        loads=(1, 2),
        measurement_interval_ms=150,
        stability_percentage=999_999.0,
    )
    assert {trial.parts[0].variant for trial in study.trials if trial.is_measured} == {
        "simple_config_default",
        "simple_config_0",
        "simple_config_1",
    }
    assert recommend(study) is not None
