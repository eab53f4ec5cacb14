"""What wrk prints."""

import pytest

from benchmarks.bar import BenchError
from benchmarks.wrk import parse_duration_us, parse_report

PRINTED = """\
Running 2s test @ http://127.0.0.1:18080/
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    63.11us   21.04us   1.41ms   91.29%
    Req/Sec   104.82k     3.57k  109.50k    80.95%
  Latency Distribution
     50%   61.00us
     75%   68.00us
     90%   77.00us
     99%  123.00us
  218888 requests in 2.10s, 40.50MB read
Requests/sec: 104231.51
Transfer/sec:     19.28MB
"""


def test_the_three_figures_are_read():
    report = parse_report(PRINTED)
    assert (report.requests, report.rate, report.p50_us) == (218_888, 104_231.51, 61.0)


@pytest.mark.parametrize(
    ("text", "expected"), [("17.00us", 17.0), ("1.02ms", 1020.0), ("1.50s", 1.5e6), ("2.00m", 120e6)]
)
def test_durations_come_in_any_unit(text: str, expected: float):
    assert parse_duration_us(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "line",
    ["  Socket errors: connect 0, read 3, write 0, timeout 0", "  Non-2xx or 3xx responses: 12"],
)
def test_failures_spoil_a_run(line: str):
    with pytest.raises(BenchError, match=line.split(":", maxsplit=1)[0].strip()):
        parse_report(PRINTED.replace("Requests/sec", f"{line}\nRequests/sec"))


@pytest.mark.parametrize("text", ["", "unable to connect to 127.0.0.1:1 Connection refused\n"])
def test_anything_else_is_quoted(text: str):
    with pytest.raises(BenchError, match="no figures"):
        parse_report(text)


def test_a_time_without_unit_is_refused():
    with pytest.raises(BenchError, match="17"):
        parse_duration_us("17")
