"""Launch mode `c_api`: the tuner without a server, on the real library."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.server.wheel import backends_folder, find_wheel, make_backends
from inferometer.stats.watcher import Watcher
from inferometer.tune import model_config
from inferometer.tune.scoring import Goal
from inferometer.tune.session import profile
from inferometer.tune.settings import Effort, LaunchSettings, ModelSettings, SearchSettings, TuneSettings
from inferometer.tune.space import SearchBounds
from tests.support.commands import call

pytestmark = pytest.mark.live

CALLERS = Path(__file__).parent / "models"
DEADLINE_S = 120
# The process that starts a python model is the worker itself.
MODEL = """
import json
import os
import signal
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        given = json.loads(args["model_config"])["parameters"]
        self.left = int(given.get("deadly", {"string_value": "1000000"})["string_value"])
        if "poison" in given:
            raise RuntimeError("poisoned")

    def execute(self, requests):
        self.left -= len(requests)
        if self.left < 0:
            os.kill(os.getppid(), signal.SIGKILL)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
"""


def settings(tmp_path, repository: Path, *models: ModelSettings, **launch) -> TuneSettings:
    return TuneSettings(
        models=models,
        launch=LaunchSettings(mode="c_api", repositories=(repository,), **launch),
        search=SearchSettings(
            "brute", SearchBounds(instances=(1, 1), batch=(2, 2), concurrency=(2, 2)), sweep_after=False
        ),
        together=len(models) > 1,
        effort=Effort(0.3, 0.2),
        journal=tmp_path / "journal",
    )


def swept(parameter: str, *values: str) -> ModelSettings:
    choices = [None, *({"string_value": value} for value in values)]
    return ModelSettings(
        Goal("W"), swept={"parameters": {parameter: choices}, "max_batch_size": [2]}, loads=(2,)
    )


def traces(pid: int) -> list[str]:
    """What a tool left in the usual places."""
    names = [name for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder)]
    return [name for name in names if name.startswith((f"inferometer-triton-{pid}_", f"inferometer_{pid}_"))]


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.02)


def test_profile_measures_variants_without_a_server(tmp_path, models):
    words = (
        *("profile", "--model-repository", str(models), "--profile-models", "W"),
        *("--triton-launch-mode", "c_api", "--triton-output-path", "server.log"),
        *("--run-config-search-mode", "brute", "--concurrency", "1,2"),
        *("--run-config-search-max-instance-count", "1", "--run-config-search-max-model-batch-size", "1"),
        *("--inference-output-fields", "model_config_path,perf_throughput,perf_server_queue,cpu_used_ram"),
        *("--skip-detailed-reports", "-i", "0.1", "-f", "perf.yaml"),
    )
    flags = {"measurement-interval": 150, "max-trials": 3, "stability-percentage": 999999}
    (tmp_path / "perf.yaml").write_text(json.dumps({"perf_analyzer_flags": flags}))
    done = call("inferometer", *words, folder=tmp_path)
    out = done.stdout + done.stderr
    assert done.code == 0, out
    assert "--triton-output-path (triton_output_path) has no effect in launch mode c_api" in out
    assert "Profile complete. Profiled 2 configurations for models: ['W']" in out
    text = (tmp_path / "results/metrics-model-inference.csv").read_text().strip()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 4
    assert all(float(row["Throughput (infer/sec)"]) > 0 for row in rows)
    assert all(float(row["RAM Usage (MB)"]) > 10 for row in rows)
    assert all(row["Server Queue time (ms)"] for row in rows)
    written = model_config.read_file(tmp_path / "output_model_repository/W_config_0/config.pbtxt")
    assert (written["name"], written["max_batch_size"]) == ("W_config_0", 1)
    assert not (tmp_path / "server.log").exists()
    assert not traces(done.pid)


def test_a_variant_that_cannot_be_loaded_costs_only_itself(tmp_path, models):
    (study,) = profile(settings(tmp_path, models, swept("poison", "a", "b")), Watcher())
    assert len(study.measured) == 2
    assert [trial.reason.count("poisoned") for trial in study.not_done] == [1, 1]


def test_a_worker_that_dies_is_recorded_and_the_search_goes_on(tmp_path, models):
    at_once, later = "0", "30"
    (study,) = profile(settings(tmp_path, models, swept("deadly", at_once, later)), Watcher())
    assert len(study.measured) == 2
    assert len(study.not_done) == 4  # each of the two was tried again
    assert all("a worker process was killed" in trial.reason for trial in study.not_done)
    assert all("it was killed by SIGKILL" in trial.reason for trial in study.not_done)


@pytest.mark.parametrize(
    "model",
    [
        ModelSettings(Goal("ens")),
        ModelSettings(Goal("bls"), members=(ModelSettings(Goal("addsub")),), is_bls=True),
    ],
    ids=["ensemble", "bls"],
)
def test_models_that_call_others_are_loaded_with_them(tmp_path, model):
    (study,) = profile(settings(tmp_path, CALLERS, model), Watcher())
    assert not study.not_done
    assert [trial.name for trial in study.measured] == [
        f"{model.name}_config_default",
        f"{model.name}_config_0",
    ]
    assert all(part.config["max_batch_size"] == 2 for part in study.variants[-1].composing)


def test_models_together_have_a_worker_each(tmp_path):
    pair = (ModelSettings(Goal("addsub", weight=3)), ModelSettings(Goal("addsub_b")))
    (study,) = profile(settings(tmp_path, CALLERS, *pair), Watcher())
    assert not study.not_done
    first = study.measured[0]
    assert first.name == "addsub_config_default,addsub_b_config_default"
    assert all(part.figures.get("perf_throughput") for part in first.parts)
    assert all(part.figures.get("cpu_used_ram") for part in first.parts)


def test_an_installation_and_variables_of_ones_own_are_used(tmp_path, models):
    wheel, place = find_wheel(), tmp_path / "triton"
    make_backends(wheel, tmp_path)
    (place / "lib").mkdir(parents=True)
    (place / "lib" / "libtritonserver.so").symlink_to(next(wheel.libraries.glob("libtritonserver*.so")))
    (place / "backends").symlink_to(backends_folder(tmp_path))
    path = models / "W" / "1" / "model.py"
    path.write_text(path.read_text().replace('"poison" in given', 'os.environ["COLOUR"] != "blue"'))
    asked = settings(
        tmp_path,
        models,
        ModelSettings(Goal("W"), swept={"max_batch_size": [2]}, loads=(1,)),
        install_path=str(place),
        environment={"COLOUR": "blue"},
    )
    (study,) = profile(asked, Watcher())
    assert len(study.measured) == 2


@pytest.mark.parametrize("text", [None, 'backend: "python"'], ids=["none", "without inputs"])
def test_a_model_without_a_whole_configuration_is_named(tmp_path, models, text):
    path = models / "W" / "config.pbtxt"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=r"'W' has no config\.pbtxt with its inputs and outputs"):
        list(profile(settings(tmp_path, models, ModelSettings(Goal("W"))), Watcher()))


def test_a_tool_that_is_killed_leaves_nothing(tmp_path, models):
    words = ("tune", "-m", "W", "--model-repository", str(models), "--triton-launch-mode", "c_api")
    bounds = (
        "--instances",
        "1:1",
        "--max-batch",
        "1:2",
        "--load",
        "1:2",
        "--journal",
        str(tmp_path / "journal"),
    )
    command = [sys.executable, "-m", "inferometer.cli.main", *words, *bounds]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as tool:
        assert tool.stderr is not None
        assert "W_config_default" in tool.stderr.readline()
        wait_until(lambda: traces(tool.pid), "a worker is there")
        tool.send_signal(signal.SIGKILL)
        tool.wait()
    wait_until(lambda: not traces(tool.pid), "nothing is left behind")
