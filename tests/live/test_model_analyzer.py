"""The tutorial's commands, as written, with an example model in place of `text_recognition`."""

import csv
import shlex
import shutil

import pytest

from inferometer.server.ports import Ports, choose_ports
from inferometer.server.repository import example_repository
from inferometer.testing.commands import call

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
