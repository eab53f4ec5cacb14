"""Prometheus text -> samples."""

import pytest

from inferometer.observe.host import Gpu
from inferometer.observe.metrics import Queue, missing, sample
from inferometer.observe.poller import warnings_about
from inferometer.wire.prometheus import metric_lines

TWO_GPUS = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="simple",version="1"} 1200
nv_inference_request_failure{model="simple",reason="OTHER",version="1"} 3
nv_inference_queue_duration_us{model="simple",version="1"} 54321
nv_inference_pending_request_count{model="simple",version="1"} 7
# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-bbb"} 0.25
nv_gpu_utilization{gpu_uuid="GPU-aaa"} 0.19
nv_gpu_memory_total_bytes{gpu_uuid="GPU-bbb"} 50000000000
nv_gpu_memory_total_bytes{gpu_uuid="GPU-aaa"} 50000000000.000000
nv_gpu_memory_used_bytes{gpu_uuid="GPU-bbb"} 2.097152e+06
nv_gpu_memory_used_bytes{gpu_uuid="GPU-aaa"} 1000000026
nv_gpu_power_usage{gpu_uuid="GPU-aaa"} 55.3
nv_gpu_power_usage{gpu_uuid="GPU-bbb"} NaN
nv_cpu_utilization 0.5
nv_cpu_memory_total_bytes 16000000000
nv_cpu_memory_used_bytes 4000000000
"""
NO_GPU = "\n".join(line for line in TWO_GPUS.splitlines() if "gpu" not in line)

LINES: tuple[tuple[str, str, tuple[str, dict[str, str], float] | None], ...] = (
    ("a bare name", "up 1", ("up", {}, 1.0)),
    ("labels", 'a{b="c",d="e"} 2', ("a", {"b": "c", "d": "e"}, 2.0)),
    ("a comma after the last label", 'a{b="c",} 2', ("a", {"b": "c"}, 2.0)),
    ("no label between the braces", "a{} 2", ("a", {}, 2.0)),
    ("no blank after the braces", 'a{b="c"}2', ("a", {"b": "c"}, 2.0)),
    ("blanks all over", ' a { b = "c" }  2  ', None),
    ("an exponent", "a 1.5e+09", ("a", {}, 1.5e9)),
    ("a negative number", "a -3", ("a", {}, -3.0)),
    ("a time stamp", "a 2 1700000000000", ("a", {}, 2.0)),
    ("a carriage return", "a 2\r", ("a", {}, 2.0)),
    ("an escaped quote", r'a{b="say \"x\""} 2', ("a", {"b": 'say "x"'}, 2.0)),
    ("an escaped backslash and line break", r'a{b="\\n\n"} 2', ("a", {"b": "\\n\n"}, 2.0)),
    ("a brace in a label", 'a{b="{x} 5"} 2', ("a", {"b": "{x} 5"}, 2.0)),
    ("a comment", "# TYPE a gauge", None),
    ("an empty line", "", None),
    ("no number", 'a{b="c"} many', None),
    ("nothing after the name", "a", None),
    ("no closing brace", 'a{b="c" 2', None),
    ("not a number", "a NaN", None),
    ("an infinity", "a +Inf", None),
    ("two names", "a b 2", None),
    ("HTML", "<html><body>404</body></html>", None),
)


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_line_with(line: str, expected) -> None:
    found = [(row.name, dict(row.labels), row.value) for row in metric_lines(f"first 1\n{line}\nlast 2")]
    assert found == [("first", {}, 1.0), *([expected] if expected else []), ("last", {}, 2.0)]


def test_every_gpu_and_queue_is_in_the_sample() -> None:
    found = sample(TWO_GPUS, at_ns=5)
    assert found.at_ns == 5
    assert found.gpus == {
        "GPU-aaa": Gpu(0.19, 55.3, 1_000_000_026, 50_000_000_000),
        "GPU-bbb": Gpu(0.25, None, 2_097_152, 50_000_000_000),
    }
    assert found.queues == {("simple", "1"): Queue(pending=7, queue_us=54321, requests=1200)}
    assert (found.cpu_share, found.memory_used_bytes, found.memory_total_bytes) == (
        0.5,
        4 * 10**9,
        16 * 10**9,
    )
    assert missing(found) == ()


def test_without_gpus_all_four_are_missing() -> None:
    found = sample(NO_GPU, at_ns=0)
    assert found.gpus == {}
    assert missing(found) == (
        "nv_gpu_utilization",
        "nv_gpu_power_usage",
        "nv_gpu_memory_used_bytes",
        "nv_gpu_memory_total_bytes",
    )


def test_a_metric_is_missing_only_if_no_gpu_has_it() -> None:
    lines = [line for line in TWO_GPUS.splitlines() if "power" not in line]
    assert missing(sample("\n".join(lines), at_ns=0)) == ("nv_gpu_power_usage",)


def test_many_gpus_are_all_kept() -> None:
    text = "\n".join(f'nv_gpu_utilization{{gpu_uuid="GPU-{number:03}"}} 0.5' for number in range(64))
    assert len(sample(text, at_ns=0).gpus) == 64


def test_a_gpu_without_a_uuid_is_ignored() -> None:
    assert sample('nv_gpu_utilization{gpu="0"} 0.5\nnv_gpu_utilization 0.5', at_ns=0).gpus == {}


def test_a_server_that_has_not_read_its_host_reports_nothing_about_it() -> None:
    text = "nv_cpu_utilization 0\nnv_cpu_memory_total_bytes 0\nnv_cpu_memory_used_bytes 0\n"
    found = sample(text, at_ns=0)
    assert (found.cpu_share, found.memory_used_bytes, found.memory_total_bytes) == (None, None, None)


@pytest.mark.parametrize("text", ["", "<html></html>", "\x00\xff{{{}}}", 'python_info{version="3"} 1'])
def test_an_unrelated_text_is_an_empty_sample(text: str) -> None:
    assert warnings_about(sample(text, at_ns=0))


def test_a_truncated_text_is_still_read() -> None:
    for cut in range(len(TWO_GPUS)):
        sample(TWO_GPUS[:cut], at_ns=0)
