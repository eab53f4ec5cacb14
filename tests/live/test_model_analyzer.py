"""The tutorial's commands, as written, with an example model in place of `text_recognition`."""

import csv
import json
import shlex
import shutil

import pytest

from inferometer.server.ports import Ports, choose_ports
from inferometer.server.repository import example_repository
from tests.support.commands import call

# Says as many words as it is asked for: the first after 20 ms, the others 5 ms apart.
TALKER = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy().ravel()[0])
            assert pb_utils.get_input_tensor_by_name(request, "stream").as_numpy().all()
            for number in range(count):
                time.sleep(0.005 if number else 0.02)
                word = pb_utils.Tensor("text_output", np.array([b"word"], dtype=np.object_))
                sender.send(pb_utils.InferenceResponse([word]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
TALKER_CONFIG = """
name: "talker" backend: "python" max_batch_size: 0
model_transaction_policy { decoupled: true }
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "stream" data_type: TYPE_BOOL dims: [ 1 ] optional: true },
  { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] }
]
output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
TALKER_YAML = """
model_type: LLM
genai_perf_flags: {{backend: tensorrtllm, streaming: true, expected-output-tokens: 6, input-tokens-mean: 12}}
objectives: [output_token_throughput]
constraints: {{inter_token_latency_p99: {{max: 10000}}}}
triton_http_endpoint: localhost:{http}
triton_grpc_endpoint: localhost:{grpc}
triton_metrics_url: http://localhost:{metrics}/metrics
run_config_search_max_instance_count: 2
concurrency: 1,2
"""

pytestmark = pytest.mark.live

PROFILE = (
    "model-analyzer profile --model-repository /workspace/model_repository --profile-models text_recognition "
    "--triton-launch-mode=local --output-model-repository-path /workspace/output/ -f perf.yaml "
    "--override-output-model-repository --latency-budget 10"
)
REPORT = (
    "model-analyzer report --report-model-configs "
    "text_recognition_config_4,text_recognition_config_5,text_recognition_config_6 --export-path /workspace "
    "--config-file perf.yaml"
)
# The shape as in the tutorial; the rest makes the search small and its ports free.
YAML = """
perf_analyzer_flags: {{shape: ["INPUT0:100"], measurement-interval: 150, max-trials: 3, stability-percentage: 999999}}
triton_http_endpoint: localhost:{http}
triton_grpc_endpoint: localhost:{grpc}
triton_metrics_url: http://localhost:{metrics}/metrics
run_config_search_max_instance_count: 4
run_config_search_max_model_batch_size: 2
concurrency: 2
skip_detailed_reports: true
"""


@pytest.mark.machine(
    reason="a latency budget of 10 ms is met only where other processes leave the server a core"
)
def test_the_tutorial_works_as_written(tmp_path):
    shutil.copytree(
        example_repository() / "identity_fp32", tmp_path / "model_repository" / "text_recognition"
    )
    ports = choose_ports(Ports())
    (tmp_path / "perf.yaml").write_text(YAML.format(http=ports.http, grpc=ports.grpc, metrics=ports.metrics))

    def run(command):
        words = shlex.split(command.replace("/workspace", str(tmp_path)))
        done = call(*words, folder=tmp_path, timeout_s=300)
        assert done.code == 0, done.stdout + done.stderr
        return done.stdout

    out = run(PROFILE)
    assert "Profile complete. Profiled 9 configurations for models: ['text_recognition']" in out
    text = (tmp_path / "results/metrics-model-inference.csv").read_text().strip()
    assert len(list(csv.DictReader(text.splitlines()))) == 9
    assert (
        "Max p99 Latency: 10 ms"
        in (tmp_path / "reports/summaries/text_recognition/result_summary.md").read_text()
    )
    assert (
        (tmp_path / "reports/summaries/text_recognition/result_summary.pdf").read_bytes().startswith(b"%PDF")
    )
    picture = tmp_path / "plots/simple/text_recognition/throughput_v_latency.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    run(REPORT)
    for number in (4, 5, 6):
        folder = tmp_path / "reports/detailed" / f"text_recognition_config_{number}"
        assert (folder / "detailed_report.pdf").read_bytes().startswith(b"%PDF")


OWN_DATA = {"data": [{"text_input": ["tell me"], "stream": [True], "max_tokens": [6]}]}


@pytest.mark.parametrize("has_data", [pytest.param(False, marks=pytest.mark.only_sampled), True])
def test_a_model_that_makes_text_has_figures_of_tokens(tmp_path, has_data):
    model = tmp_path / "models" / "talker"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.py").write_text(TALKER)
    (model / "config.pbtxt").write_text(TALKER_CONFIG)
    ports = choose_ports(Ports())
    yaml = TALKER_YAML.format(http=ports.http, grpc=ports.grpc, metrics=ports.metrics)
    flags: dict[str, int | str] = {
        "measurement-interval": 300,
        "max-trials": 3,
        "stability-percentage": 999999,
    }
    if has_data:
        (tmp_path / "own.json").write_text(json.dumps(OWN_DATA))
        flags["input-data"] = "own.json"
    yaml += f"perf_analyzer_flags: {json.dumps(flags)}\n"
    (tmp_path / "llm.yaml").write_text(yaml)
    words = (
        "profile",
        "-m",
        "models",
        "--profile-models",
        "talker",
        "-f",
        "llm.yaml",
        "--skip-detailed-reports",
    )
    done = call("model-analyzer", *words, folder=tmp_path, timeout_s=300)
    assert done.code == 0, done.stdout + done.stderr
    text = (tmp_path / "results/metrics-model-inference.csv").read_text().strip()
    rows = list(csv.DictReader(text.splitlines()))
    assert list(rows[0])[-3:] == [
        "p99 Inter Token Latency (ms)",
        "p99 Time To First Token (ms)",
        "Output Token Throughput (infer/sec)",
    ]
    assert len(rows) == 6
    for row in rows:
        assert float(row["p99 Inter Token Latency (ms)"]) >= 5
        assert float(row["p99 Time To First Token (ms)"]) >= 20
        tokens = float(row["Output Token Throughput (infer/sec)"])
        assert tokens == pytest.approx(6 * float(row["Throughput (infer/sec)"]), abs=0.6)
    summary = (tmp_path / "reports/summaries/talker/result_summary.md").read_text()
    assert "Max p99 Inter Token Latency: 10,000 ms" in summary
