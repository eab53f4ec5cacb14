"""The tuner against model-analyzer's exhaustive search: both tune one model on the same real Triton.

The model occupies an instance for 10 ms plus 1 ms per row (a sleep, so that the number of cores does not matter). The
space has 16 variants and the default, each at seven loads: 119 configurations. model-analyzer measures all of them with
NVIDIA's perf_analyzer, both with default settings; our tuner chooses what to measure. The bar judges the wall time of
the whole commands, and shows the throughput of the two answers, measured again in turns.
"""

import contextlib
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import run
from benchmarks.parts import PARTS, RealPerfAnalyzer, real_perf_analyzer

VERSION = "1.58.0"
LIMIT_MS = 60.0
LOADS = (1, 2, 4, 8, 16, 32, 64)
INSTANCES = (1, 2, 3, 4)
BATCHES = (1, 2, 4, 8)
_INSTALL_S = 600
_TIMEOUT_S = 3600.0
_CHECKS = 3
_CHECK_S = 3.0
_MODEL = """\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        time.sleep(0.010 + 0.001 * sum(row.shape[0] for row in rows))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", row)]) for row in rows]
"""
_CONFIG = """\
name: "W"
backend: "python"
max_batch_size: 4
dynamic_batching { }
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 64 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommendation of a tuner."""

    config: Any
    concurrency: int
    wall_s: float
    measurements: int


@contextlib.contextmanager
def tuner(setting: Setting) -> Iterator[Contest]:
    """Wall time to a recommendation, ours against model-analyzer's brute-force search."""
    from inferometer.server.embedded import EmbeddedTriton

    answers: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory(prefix="inferometer-tuner-") as name:
        folder = Path(name)
        models = _models(folder)
        with EmbeddedTriton(models, load_models=(), extra_args=("--disable-auto-complete-config",)) as server:

            def ours() -> Sample:
                answers["ours"] = found = _ours(folder, server.http_address, setting)
                return Sample(found.wall_s, {"measurements": found.measurements})

            def theirs() -> Sample:
                found = _theirs(folder, server, _model_analyzer(), real_perf_analyzer())
                quality = _quality(server.http_address, answers.get("ours"), found)
                return Sample(found.wall_s, {"measurements": found.measurements, **quality})

            yield Contest(ours, theirs)


def _models(folder: Path) -> Path:
    version = folder / "models" / "W" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_MODEL)
    (version.parent / "config.pbtxt").write_text(_CONFIG)
    return folder / "models"


def our_words(address: str) -> list[str]:
    """Arguments of our command for the same space as model-analyzer."""
    return [
        *("tune", "-m", "W", "-u", address, "--slo", f"p99<{LIMIT_MS:g}ms"),
        *("--instances", f"{INSTANCES[0]}:{INSTANCES[-1]}", "--max-batch", f"{BATCHES[0]}:{BATCHES[-1]}"),
        *("--load", f"{LOADS[0]}:{LOADS[-1]}"),
    ]


def _ours(folder: Path, address: str, setting: Setting) -> Answer:
    study = folder / "study.json"
    budget = ("--budget", "4s") if setting.is_smoke else ()
    words = [
        *our_words(address),
        *budget,
        "--fresh",
        "--journal",
        str(folder / "journal"),
        "--json",
        str(study),
    ]
    ended = run([sys.executable, "-m", "inferometer.cli.main", *words], timeout_s=_TIMEOUT_S)
    from inferometer.base.answer_file import from_json
    from inferometer.tune.study import Study, recommend

    found = from_json(study.read_text(), str(study), Study)
    best = recommend(found)
    if best is None:
        raise BenchError("our tuner measured nothing")
    return Answer(
        found.variant(best.best.name).config,
        best.best.best.load.concurrency or 1,
        ended.wall_s,
        len(found.measured),
    )


def _theirs(folder: Path, server: Any, analyzer: Path, real: RealPerfAnalyzer) -> Answer:
    config = folder / "brute.yaml"
    config.write_text(_yaml())
    ended = run(
        [
            *(str(analyzer), "profile", "-f", str(config), "--triton-launch-mode", "remote"),
            *("--client-protocol", "http", "--triton-http-endpoint", server.http_address),
            *("--triton-grpc-endpoint", server.grpc_address),
            *("--triton-metrics-url", f"http://{server.metrics_address}/metrics", "--dcgm-disable"),
            *("--perf-analyzer-path", str(real.executable), "--skip-detailed-reports"),
            *(
                "--output-model-repository-path",
                str(folder / "variants"),
                "--override-output-model-repository",
            ),
            *("--export-path", str(folder / "export"), "--checkpoint-directory", str(folder / "checkpoints")),
        ],
        timeout_s=_TIMEOUT_S,
        environment=real.environment,
    )
    table = folder / "export" / "results" / "metrics-model-inference.csv"
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("Throughput (infer/sec)")]
    good = [row for row in rows if float(row["p99 Latency (ms)"]) <= LIMIT_MS] or rows
    best = max(good, key=lambda row: float(row["Throughput (infer/sec)"]))
    from inferometer.tune import model_config

    variant = folder / "variants" / best["Model Config Path"] / "config.pbtxt"
    return Answer(model_config.read_file(variant), int(best["Concurrency"]), ended.wall_s, len(rows))


def _yaml() -> str:
    document = {
        "profile_models": {
            "W": {
                "cpu_only": True,
                "parameters": {"concurrency": list(LOADS)},
                "constraints": {"perf_latency_p99": {"max": int(LIMIT_MS)}},
                "model_config_parameters": {
                    "max_batch_size": list(BATCHES),
                    "dynamic_batching": {},
                    "instance_group": [{"kind": "KIND_CPU", "count": list(INSTANCES)}],
                },
            }
        },
    }
    return json.dumps(document)  # JSON is YAML


def _quality(address: str, ours: Answer | None, theirs: Answer) -> dict[str, float]:
    """Ratio of our answer's throughput to theirs, both measured again by our engine, in turns."""
    if ours is None:
        return {}
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(_CHECKS):
        for name, answer in (("ours", ours), ("theirs", theirs)):
            rates[name].append(_rate(address, answer))
    return {"of their best %": 100 * median(rates["ours"]) / median(rates["theirs"])}


def _rate(address: str, answer: Answer) -> float:
    from inferometer import api
    from inferometer.options.options import Tls
    from inferometer.services.endpoint import Connection, parse_endpoint
    from inferometer.services.triton_http import TritonHttp

    TritonHttp(Connection(parse_endpoint(address, default_port=8000, tls=Tls()))).load_model(
        "W", {**answer.config, "name": "W"}
    )
    result = api.measure("W", concurrency=answer.concurrency, url=address, duration_s=_CHECK_S)
    found = result.levels[0].measurement
    if found is None:
        raise BenchError("a recommended configuration gave no answers")
    return found.infer_per_s.value


def _model_analyzer() -> Path:
    """Install model-analyzer into its own environment, since its dependencies conflict with ours."""
    home = PARTS / f"model-analyzer-{VERSION}"
    program = home / "bin" / "model-analyzer"
    if program.exists():
        return program
    PARTS.mkdir(exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "pip"), "install", "--quiet", f"triton-model-analyzer=={VERSION}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise BenchError(f"model-analyzer cannot be installed: {reason}")
    return program
