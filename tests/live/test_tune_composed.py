"""Ensembles, BLS models and models together, profiled by the command on the real server."""

import csv
import json
import os
from pathlib import Path

import pytest

from inferometer.tune import model_config
from tests.support.commands import call

pytestmark = pytest.mark.live

MODELS = Path(__file__).parent / "models"
YAML = {
    "perf_analyzer_flags": {"measurement-interval": 150, "max-trials": 3, "stability-percentage": 999999},
    "run_config_search_max_instance_count": 1,
    "run_config_search_min_model_batch_size": 2,
    "run_config_search_max_model_batch_size": 2,
    "run_config_search_max_concurrency": 2,
    "num_configs_per_model": 1,
    "run_config_search_mode": "quick",
    "skip_detailed_reports": True,
}


@pytest.fixture(autouse=True)
def no_browser(monkeypatch, tmp_path):
    """Reports without pictures, which are another test's matter."""
    broken = tmp_path / "bin" / "chromium"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")


def profile(folder: Path, **keys) -> list[dict[str, str]]:
    """The rows of the table of measurements."""
    (folder / "perf.yaml").write_text(json.dumps({**YAML, **keys}))
    words = ("profile", "--model-repository", str(MODELS), "-f", "perf.yaml")
    done = call("inferometer", *words, folder=folder, timeout_s=300)
    assert done.code == 0, done.stdout + done.stderr
    assert "gave no measurement" not in done.stdout
    text = (folder / "results/metrics-model-inference.csv").read_text().strip()
    return list(csv.DictReader(text.splitlines()))


def configurations(rows: list[dict[str, str]]) -> set[str]:
    return {row["Model Config Path"] for row in rows}


def test_an_ensemble_is_profiled_with_its_members(tmp_path):
    rows = profile(tmp_path, profile_models="ens")
    assert configurations(rows) == {
        "ens_config_default: addsub_config_default, addsub_b_config_default",
        "ens_config_0: addsub_config_0, addsub_b_config_0",
    }
    assert all(float(row["Throughput (infer/sec)"]) > 0 for row in rows)
    best = tmp_path / "reports/summaries/ens"
    assert {path.parent.name for path in best.glob("*/config.pbtxt")} == {"ens", "addsub", "addsub_b"}
    written = model_config.read_file(tmp_path / "output_model_repository/ens_config_0/config.pbtxt")
    assert (written["name"], written["max_batch_size"]) == ("ens", 2)


def test_a_bls_model_is_profiled_with_the_models_it_calls(tmp_path):
    rows = profile(tmp_path, profile_models="bls", bls_composing_models="addsub")
    assert configurations(rows) == {"bls_config_default", "bls_config_0"}
    assert all(float(row["Throughput (infer/sec)"]) > 0 for row in rows)
    study = json.loads((tmp_path / "reports/summaries/bls/study.json").read_text())
    members = {row["name"]: [part["name"] for part in row["composing"]] for row in study["variants"]}
    assert members == {"bls_config_default": ["addsub_config_default"], "bls_config_0": ["addsub_config_0"]}


@pytest.mark.machine(
    reason="a budget of eight seconds measures something only where other processes leave a core"
)
def test_models_together_are_weighed(tmp_path):
    rows = profile(
        tmp_path,
        profile_models={"addsub": {"weighting": 3}, "addsub_b": {"weighting": 1}},
        run_config_profile_models_concurrently_enable=True,
        run_config_search_mode="smart",
        budget="8s",
    )
    assert "addsub_config_default,addsub_b_config_default" in configurations(rows)
    study = json.loads((tmp_path / "reports/summaries/addsub,addsub_b/study.json").read_text())
    assert [goal["weight"] for goal in study["goals"]] == [3, 1]
    best = tmp_path / "reports/summaries/addsub,addsub_b"
    assert {path.parent.name for path in best.glob("*/config.pbtxt")} == {"addsub", "addsub_b"}
