"""What two perf_analyzers print, read and compared."""

import pytest

from benchmarks.classic_output import csv_figures, duration_s, printed_figures
from benchmarks.side_by_side import LOADS, MODELS, Cell, Run, cells, judge

PRINTED = """\
Request concurrency: 2
  Client: 
    Request count: 30
    Sequence count: 3 (1.5 seq/sec)
    Throughput: 60.5 infer/sec
    Avg latency: 434 usec (standard deviation 1042 usec)
    p50 latency: 286 usec
    Avg gRPC time: 427 usec ((un)marshal request/response 4 usec + response wait 423 usec)
    Failed request count: 1 (0.50 %)
  Server: 
    Inference count: 60
    Successful request count: 30
    Avg request latency: 270 usec (overhead 1 usec + queue 97 usec + compute 172 usec)

  Composing models: 
  addsub, version: 1
      Inference count: 61
      Avg request latency: 100 usec (overhead 0 usec + queue 10 usec + compute input 20 usec)

Inferences/Second vs. Client Average Batch Latency
Concurrency: 2, throughput: 60.5 infer/sec, latency 434 usec
"""  # noqa: W291
PLAIN = Cell(MODELS[0], "http", next(iter(LOADS)))


def test_every_figure_is_read_under_its_name() -> None:
    figures = printed_figures(PRINTED)
    assert figures["Client: Sequence count, seq/sec"] == 1.5
    assert figures["Client: Avg latency, standard deviation"] == 1042
    assert figures["Client: Avg gRPC time, (un)marshal request/response"] == 4
    assert figures["Client: Avg gRPC time, response wait"] == 423
    assert figures["Server: Avg request latency, compute"] == 172
    assert figures["Server: Inference count"] == 60
    assert figures["Server addsub: Inference count"] == 61
    assert figures["Server addsub: Avg request latency, compute input"] == 20
    assert duration_s(figures, batch=2) == pytest.approx(0.99, abs=0.01)
    assert csv_figures("Concurrency,Client Send,GPU\n1,7,\n2,8,a:1;\n") == {
        "CSV: Concurrency": 2,
        "CSV: Client Send": 8,
    }


def run(code: int = 0, **changed: float) -> Run:
    figures = {
        "Client: Request count": 100.0,
        "Client: Throughput": 100.0,
        "Client: Avg latency": 10_000.0,
        "Server: Successful request count": 101.0,
    }
    return Run(
        code,
        {**figures, **{f"Client: {name.replace('_', ' ')}": value for name, value in changed.items()}},
        "",
    )


def verdicts(ours: Run, theirs: Run) -> dict[str, str]:
    return {row.figure: row.verdict for row in judge(PLAIN, [ours], [theirs])}


def test_differences_are_reported_and_noise_is_not() -> None:
    assert set(verdicts(run(), run(Throughput=110.0)).values()) == {"agrees"}
    assert verdicts(run(), run(Throughput=50.0))["Client: Throughput"] == "differs"
    assert verdicts(run(code=2), run()) == {"exit code": "differs"}


def test_requests_that_only_one_side_counted_are_at_most_those_under_way() -> None:
    name = "requests counted by client or server only"
    assert verdicts(run(), run())[name] == "agrees"
    assert verdicts(run(Request_count=90.0), run())[name] == "differs"


def test_there_are_ten_models_two_protocols_and_three_loads() -> None:
    assert len(list(cells((), ("http", "grpc")))) == 60
