"""The tuner at the real server."""

import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from inferometer.measure.checks import changed
from inferometer.options.options import Options, Tls
from inferometer.server.embedded import EmbeddedTriton
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.triton_grpc import TritonGrpc
from inferometer.services.triton_http import TritonHttp
from inferometer.stats.watcher import Watcher
from inferometer.tune import model_config
from inferometer.tune.meter import EngineMeter
from inferometer.tune.scoring import Goal
from inferometer.tune.session import profile
from inferometer.tune.settings import (
    Addresses,
    Effort,
    LaunchSettings,
    ModelSettings,
    SearchSettings,
    ServerAccess,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds
from inferometer.tune.trial import Trial
from tests.support.commands import Ended, call
from tests.support.samples import sample

pytestmark = pytest.mark.live

QUICK = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
# The contract's model W: 3 ms and 0.25 ms per row.
MODEL = """
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        if '"poison"' in args["model_config"]:
            raise RuntimeError("poisoned")

        self.is_stuck = '"stuck"' in args["model_config"]

    def execute(self, requests):
        if self.is_stuck:
            time.sleep(3600)
        rows = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        time.sleep(0.003 + 0.00025 * sum(row.shape[0] for row in rows))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", row)]) for row in rows]
"""


class Trials(Watcher):
    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.warnings: list[str] = []
        self.details: list[str] = []

    def said(self, text, *, is_detail=False, is_warning=False) -> None:
        self.warnings += [text] if is_warning else []
        self.details += [text] if is_detail else []

    def tried(self, trial) -> None:
        self.trials.append(trial)


def tune(tmp_path, models, *words) -> Ended:
    return call(
        *("inferometer", "tune", "-m", "W", "--model-repository", str(models)),
        *(
            "--instances",
            "1:2",
            "--max-batch",
            "1:4",
            "--load",
            "1:8",
            "--journal",
            str(tmp_path / "journal"),
        ),
        *words,
        folder=tmp_path,
    )


@pytest.mark.machine(reason="the best of several configurations is found by their real throughput")
def test_tune_recommends_a_configuration_and_resumes_from_its_journal(tmp_path, models):
    words = (
        *("--slo", "p99<500ms", "--budget", "6s", "--json", "study.json", "--output", "best.pbtxt"),
        "--allow-inconclusive",  # so little time does not show a gain
    )
    done = tune(tmp_path, models, *words)
    assert done.code == 0, done.stderr
    assert re.search(r"\d+ measurements? of \d+ configurations?", " ".join(done.stdout.split()))
    assert "max_batch_size" in (tmp_path / "best.pbtxt").read_text()
    first = json.loads((tmp_path / "study.json").read_text())
    measured = [trial["number"] for trial in first["trials"] if trial["status"] == "measured"]
    assert measured[0] == 0
    assert first["trials"][0]["parts"][0]["variant"] == "W_config_default"
    again = tune(tmp_path, models, *words)
    second = json.loads((tmp_path / "study.json").read_text())
    assert again.code == 0
    assert [trial["number"] for trial in second["trials"][: len(measured)]] == measured


def settings(models, tmp_path, launch, **changed) -> TuneSettings:
    return TuneSettings(
        models=(ModelSettings(Goal("W"), **changed),),
        launch=launch,
        search=SearchSettings("brute", SearchBounds(instances=(1, 2), batch=(2, 2), concurrency=(2, 2))),
        effort=Effort(0.3, 0.2),
        journal=tmp_path / "journal",
    )


@pytest.mark.machine(
    reason="a load of a few hundred milliseconds is measured only where the server has a core"
)
def test_a_variant_that_fails_to_load_is_recorded_and_the_rest_is_measured(tmp_path, models):
    swept = {"parameters": {"poison": [None, {"string_value": "yes"}]}, "max_batch_size": [2, 4]}
    (study,) = profile(
        settings(models, tmp_path, LaunchSettings(repositories=(models,)), swept=swept, loads=(2,)), Trials()
    )
    assert len(study.measured) == 3
    assert all("poisoned" in trial.reason for trial in study.not_done)
    assert len(study.not_done) == 2


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 1 s counts as lost")
def test_a_variant_that_never_answers_is_recorded_and_the_rest_is_measured(tmp_path, models):
    swept = {"parameters": {"stuck": [{"string_value": "yes"}, None]}}
    blanks = models.rename(tmp_path / "models with blanks")
    launch = LaunchSettings(repositories=(blanks,))
    options = changed(Options(), model="W", asynchronous=True, request_timeout_s=1.0)
    (study,) = profile(settings(blanks, tmp_path, launch, swept=swept, loads=(2,), options=options), Trials())
    assert {trial.name for trial in study.measured} == {"W_config_default", "W_config_1"}
    assert [trial.reason for trial in study.not_done] == ["timed out: no request was answered within 1 s"]


def test_connections_are_closed_before_the_server_ends(tmp_path, models, monkeypatch):
    """It waits for those that are open, for longer than a search may take to end."""
    calls = []

    def record(owner, name):
        method = getattr(owner, name)

        def called(self):
            calls.append(name)
            method(self)

        monkeypatch.setattr(owner, name, called)

    record(EngineMeter, "forget")
    record(EmbeddedTriton, "stop")
    launch = LaunchSettings(repositories=(models,))
    tuple(profile(settings(models, tmp_path, launch, loads=(2,)), Trials()))
    assert calls.index("forget") < calls.index("stop")


@pytest.mark.sampled
@pytest.mark.parametrize("protocol", sample(["grpc"], ["http", "grpc"]))
def test_a_remote_server_is_tuned_without_its_disk_and_left_as_it_was(tmp_path, models, protocol):
    with EmbeddedTriton(models, extra_args=QUICK) as server:
        endpoint = parse_endpoint(server.http_address, default_port=8000, tls=Tls())
        control = TritonHttp(Connection(endpoint))
        control.load_model(
            "W", {**model_config.read_file(models / "W" / "config.pbtxt"), "max_batch_size": 6}
        )
        addresses = (
            Addresses(http=server.http_address, grpc="")
            if protocol == "http"
            else Addresses(http="", grpc=server.grpc_address)
        )
        launch = LaunchSettings(mode="remote", addresses=addresses, control=ServerAccess(protocol))
        from inferometer.options.options import Options

        asked = settings(models, tmp_path, launch, options=changed(Options(), model="W", protocol=protocol))
        (study,) = profile(asked, Trials())
        assert [trial.name for trial in study.measured] == ["W_config_default", "W_config_0", "W_config_1"]
        assert study.variant("W_config_default").config["max_batch_size"] == 6
        assert control.config("W")["max_batch_size"] == 6
        grpc = TritonGrpc(Connection(parse_endpoint(server.grpc_address, default_port=8001, tls=Tls())))
        assert grpc.is_ready()
        assert {row.name for row in grpc.index()} == {"W"}


@pytest.mark.sampled
@pytest.mark.parametrize("protocol", sample(["grpc"], ["http", "grpc"]))
def test_other_models_on_a_remote_server_are_warned_of(tmp_path, models, protocol):
    shutil.copytree(models / "W", models / "X")
    (models / "X" / "config.pbtxt").write_text(
        (models / "X" / "config.pbtxt").read_text().replace('name: "W"', 'name: "X"')
    )
    with EmbeddedTriton(models, extra_args=QUICK) as server:
        addresses = Addresses(http=server.http_address, grpc=server.grpc_address)
        launch = LaunchSettings(mode="remote", addresses=addresses, control=ServerAccess(protocol))
        watcher = Trials()
        tuple(profile(settings(models, tmp_path, launch, loads=(2,)), watcher))
    assert sum("'X'" in text for text in watcher.warnings) == 1
    assert any(addresses.http in text for text in watcher.details)
    assert "Loaded W_config_0" in watcher.details


@contextmanager
def started(words, **given):
    """The command as a process, which is killed at the end of the block."""
    command = [sys.executable, "-m", "inferometer.cli.main", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **given) as tool:
        try:
            yield tool
        finally:
            tool.kill()


@pytest.mark.machine(
    reason="a budget of nine seconds measures something only where other processes leave a core"
)
def test_a_tool_that_is_killed_leaves_no_server_and_goes_on_from_its_journal(tmp_path, models):
    command = [
        *("tune", "-m", "W", "--model-repository", str(models)),
        *("--instances", "1:2", "--max-batch", "1:4", "--load", "1:8", "--seed", "1"),
        *("--journal", str(tmp_path / "journal")),
    ]
    words = [*command, "--budget", "60s"]
    with started(words, stdout=subprocess.DEVNULL) as tool:
        trying, figures = (tool.stderr.readline().rstrip("\n") for _ in range(2))
        assert trying.startswith("trial 1: W_config_default (1 CPU instance")
    done = call("inferometer", *command, "--budget", "9s", "--allow-inconclusive")
    assert done.code == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"{figures} (from the journal, not measured again)"


def test_an_interrupted_search_answers_with_the_best_so_far(tmp_path, models):
    command = [
        *("tune", "W", "--model-repository", str(models), "--budget", "60s", "--load", "1:8"),
        *("--output", "best.pbtxt", "--json", "study.json"),
    ]
    with started(command, cwd=tmp_path, stdout=subprocess.PIPE) as tool:
        while not tool.stderr.readline().startswith("W_config_default"):
            assert tool.poll() is None
        tool.send_signal(signal.SIGINT)
        out, _ = tool.communicate(timeout=120)
    assert tool.returncode == 130
    assert "infer/s" in out
    assert "max_batch_size" in (tmp_path / "best.pbtxt").read_text()
    assert json.loads((tmp_path / "study.json").read_text())["ended"] == "interrupted"
