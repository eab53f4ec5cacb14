"""All options that model-analyzer 1.58 and genai-perf 0.0.16 pass on are accepted."""

import shlex
import sys

import pytest

from inferometer.dialects.perf_analyzer.options import parse_classic
from inferometer.options.options import Options
from inferometer.options.values import Range

FILE = sys.executable  # any existing file

ALL = f"""
-m m -x 2 -b 4 -u h:1 -i grpc -f r.csv -H a:b -v -v --verbose-csv --async --streaming
--measurement-interval 900 --concurrency-range 4 --request-distribution poisson --binary-search
--num-of-sequences 3 --latency-threshold 9 --max-threads 8 --stability-percentage 10 --max-trials 5
--percentile 95 --input-data zero --shared-memory system --output-shared-memory-size 99
--shape a:1 --shape b:2 --sequence-length 5 --sequence-id-range 1:9 --string-length 3 --string-data x
--measurement-mode time_windows --measurement-request-count 70 --grpc-compression-algorithm gzip
--ssl-grpc-use-ssl --ssl-grpc-root-certifications-file {FILE} --ssl-grpc-private-key-file {FILE}
--ssl-grpc-certificate-chain-file {FILE} --ssl-https-verify-peer 1 --ssl-https-verify-host 2
--ssl-https-ca-certificates-file {FILE} --ssl-https-client-certificate-type PEM
--ssl-https-client-certificate-file {FILE} --ssl-https-private-key-type PEM --ssl-https-private-key-file {FILE}
--collect-metrics --metrics-url h:2/metrics --metrics-interval 1000 --bls-composing-models a,b
--service-kind triton --warmup-request-count 3
"""


def parsed(line: str) -> Options:
    options = parse_classic(shlex.split(line))
    assert isinstance(options, Options)
    return options


def test_all_foreign_options_at_once() -> None:
    options = parsed(
        ALL.replace("--concurrency-range 4", "--concurrency-range 4:8").replace("poisson", "constant")
    )
    assert options.concurrency == Range(4, 8, 1)
    assert options.collect_metrics
    assert options.profile_export is None


@pytest.mark.parametrize(
    "line",
    [
        "--concurrency-range 2 --measurement-mode count_windows --measurement-request-count 100",
        "--request-rate-range 50 --measurement-mode count_windows",
        "--async --stability-percentage 999 --request-count 20 --concurrency-range 2 --profile-export-file no.json",
        "--async --stability-percentage 999 --measurement-interval 4000 --request-rate-range 20.0",
        "--async -i grpc --streaming --shape max_tokens:1 --shape text_input:1 --concurrency-range 1",
    ],
)
def test_command_lines_seen_in_practice(line: str) -> None:
    assert parsed(f"-m m {line}").model == "m"
