"""`-i grpc` against the real Triton: unary, asynchronous, streaming, decoupled; what the contract says of them.

The numbers in the tests' names are those of the contract's acceptance cases. Only the gRPC address is ever given.
"""

import json
import re
from collections.abc import Callable
from csv import DictReader
from pathlib import Path

import pytest

from inferometer import api
from inferometer.dialects.perf_analyzer import main as perf_analyzer
from inferometer.server.embedded import EmbeddedTriton
from tests.support.commands import Ended, call_here

pytestmark = pytest.mark.live

QUICK = ("-p", "150", "-s", "999999")
# A test that measures in windows this short.
short_windows = pytest.mark.machine(
    reason="a window of 150 ms has requests only where other processes leave the server a core"
)


@pytest.fixture
def pa(triton: EmbeddedTriton, known: dict[tuple[str, ...], Ended]) -> Callable[..., Ended]:
    """Runs the script over gRPC; the same words run once."""

    def run(*words: str) -> Ended:
        if words not in known:
            known[words] = call_here(perf_analyzer.main, "-i", "grpc", "-u", triton.grpc_address, *words)
        return known[words]

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grpc")


@pytest.fixture(scope="module")
def data(folder: Path) -> Callable[..., str]:
    """A file of input data with these steps."""

    def write(name: str, *steps: dict[str, object]) -> str:
        path = folder / name
        path.write_text(json.dumps({"data": steps}))
        return str(path)

    return write


def assert_like(template: str, text: str) -> None:
    """Line by line: `#` stands for an integer, `~` for a number as printf's %g writes it, `·` for a trailing blank."""
    lines, expected = text.split("\n"), template.replace("·", " ").split("\n")
    for line, wanted in zip(lines, expected, strict=False):
        pattern = re.escape(wanted).replace(r"\#", r"\d+").replace(r"\~", r"\d+(\.\d+)?(e[+-]\d+)?")
        assert re.fullmatch(pattern, line), f"{line!r} is not like {wanted!r} in\n{text}"
    assert len(lines) == len(expected), text


def assert_refused(ended: Ended, *says: str) -> None:
    """One sentence, without the usage text."""
    assert ended.code == 99
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("error: ")
    for words in says:
        assert words in ended.stderr


SETTINGS = """\
*** Measurement Settings ***
  Batch size: 1
  Service Kind: TRITON
  Using "time_windows" mode for stabilization
  Stabilizing using average latency and throughput
  Measurement window: 150 msec
  Using synchronous calls for inference

"""
ASYNC_SETTINGS = SETTINGS.replace("average latency and throughput", "average throughput").replace(
    "synchronous calls", "asynchronous calls"
)
LATENCY = """\
    Avg latency: # usec (standard deviation # usec)
    p50 latency: # usec
    p90 latency: # usec
    p95 latency: # usec
    p99 latency: # usec
"""
CLIENT = "  Client:·\n    Request count: #\n    Throughput: ~ infer/sec\n" + LATENCY
TRANSPORT = "    Avg gRPC time: # usec ((un)marshal request/response # usec + response wait # usec)\n"
VERBOSE_TRANSPORT = "    Avg gRPC time: # usec (marshal # usec + response wait # usec + unmarshal # usec)\n"
SERVER = """\
  Server:·
    Inference count: #
    Execution count: #
    Successful request count: #
    Avg request latency: # usec (overhead # usec + queue # usec + compute input # usec + compute infer # usec + compute output # usec)

"""  # noqa: E501
PASSES = "".join(
    f"  Pass [{number}] throughput: ~ infer/sec. Avg latency: # usec (std # usec).·\n" for number in (1, 2, 3)
)


def end(concurrency: int) -> str:
    return (
        "Inferences/Second vs. Client Average Batch Latency\n"
        f"Concurrency: {concurrency}, throughput: ~ infer/sec, latency # usec\n"
    )


# --- reports


@short_windows
def test_21_the_plain_report_line_by_line(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "simple", *QUICK)
    assert (ended.code, ended.stderr_apart_from_machine) == (0, "")
    assert_like(f"{SETTINGS}Request concurrency: 1\n{CLIENT}{TRANSPORT}{SERVER}{end(1)}", ended.stdout)
    assert ended.figure("Avg gRPC time:") > 0


@short_windows
def test_21_the_verbose_report_line_by_line(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "simple", *QUICK, "-v")
    assert ended.code == 0
    client = CLIENT.replace("    Avg latency", "    Avg client overhead: #.#%\n    Avg latency")
    assert_like(
        f"{SETTINGS}Request concurrency: 1\n{PASSES}{client}{VERBOSE_TRANSPORT}{SERVER}{end(1)}", ended.stdout
    )
    found = re.search(r"gRPC time: (\d+) usec \(marshal (\d+) .* wait (\d+) .* unmarshal (\d+)", ended.stdout)
    assert found is not None
    whole, marshal, wait, unmarshal = map(int, found.groups())
    assert whole == marshal + wait + unmarshal > 0


@short_windows
def test_asynchronous_calls(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "simple", *QUICK, "--async", "--concurrency-range", "4")
    assert ended.code == 0
    assert_like(f"{ASYNC_SETTINGS}Request concurrency: 4\n{CLIENT}{TRANSPORT}{SERVER}{end(4)}", ended.stdout)


@short_windows
def test_streaming_calls(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "simple", *QUICK, "--streaming", "-v", "--concurrency-range", "3")
    assert ended.code == 0
    client = CLIENT.replace("    Avg latency", "    Avg client overhead: #.#%\n    Avg latency")
    assert_like(
        f"{ASYNC_SETTINGS}Request concurrency: 3\n{PASSES}{client}{VERBOSE_TRANSPORT}{SERVER}{end(3)}",
        ended.stdout,
    )


@short_windows
def test_66_a_decoupled_model(pa: Callable[..., Ended], data: Callable[..., str], folder: Path) -> None:
    four = {"content": [1, 2, 3, 4], "shape": [4]}
    path, csv = data("repeat.json", {"IN": four, "DELAY": four, "WAIT": [0]}), folder / "repeat.csv"
    words = ("--async", "--streaming", "-v", "--verbose-csv", "-f", str(csv))
    ended = pa("-m", "repeat", *QUICK, *words, "--input-data", path)
    assert ended.code == 0
    decoupled = "  Detected decoupled model, using the last response for measuring latency\n\n"
    client = CLIENT.replace(
        "    Avg latency",
        "    Response Throughput: ~ infer/sec\n    Avg client overhead: #.#%\n    Avg latency",
    )
    added = (
        "    Time to first response: # usec (p50 # usec, p99 # usec)\n"
        "    Time between responses: # usec (p50 # usec, p99 # usec)\n"
        "    Responses per request: 4\n"
    )
    assert_like(
        " Successfully read data for 1 stream/streams with 1 step/steps.\n"
        f"{ASYNC_SETTINGS.removesuffix(chr(10))}{decoupled}Request concurrency: 1\n"
        f"{PASSES}{client}    \n{added}{SERVER}{end(1)}",
        ended.stdout,
    )
    # The delays add up to 10 ms; the first is one of 1 ms.
    assert ended.figure("Avg latency:") >= 10_000
    assert 1_000 <= ended.figure("Time to first response:") < ended.figure("Avg latency:")
    assert ended.figure("Response Throughput:") == pytest.approx(
        4 * ended.figure("    Throughput:"), rel=1e-4
    )
    header, row = csv.read_text().splitlines()
    assert header == (
        "Concurrency,Inferences/Second,Response Throughput,Client Send,Network+Server Send/Recv,Server Queue,"
        "Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,"
        "p95 latency,p99 latency,Avg latency,request/response,response wait"
    )
    found = dict(zip(header.split(","), row.split(","), strict=True))
    assert found["Response Throughput"] == f"{ended.figure('Response Throughput:'):g}"
    assert (found["Client Send"], found["Client Recv"], found["response wait"]) == ("0", "0", "0")


def test_a_decoupled_model_may_answer_any_number_of_times(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    steps = [
        {
            "IN": {"content": [7] * count, "shape": [count]},
            "DELAY": {"content": [0] * count, "shape": [count]},
            "WAIT": [0],
        }
        for count in (1, 5, 30)
    ]
    ended = pa(
        *("-m", "repeat", "--streaming", "--input-data", data("counts.json", *steps)),
        *("--request-count", "30", "--concurrency-range", "6", "--json", str(folder / "counts.json.out")),
    )
    assert ended.code == 0
    assert ended.figure("Request count:") == 30
    (level,) = api.load(str(folder / "counts.json.out")).levels
    assert level.measurement.streaming.responses == 10 * (1 + 5 + 30)
    assert level.measurement.streaming.per_request.max_ns == 30


@pytest.mark.parametrize("words", [(), ("--async",)], ids=["sync", "async"])
def test_65_a_decoupled_model_needs_streaming(words: tuple[str, ...], pa: Callable[..., Ended]) -> None:
    assert_refused(
        pa("-m", "repeat", *words),
        "Decoupled models must be run with `--async` and `--streaming` and either `-i grpc` or "
        "`--service-kind=triton_c_api`",
    )


@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_a_batch_counts_inferences(words: tuple[str, ...], pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa("-m", "simple", "-b", "4", "--request-count", "50", *words)
    assert ended.code == 0
    assert "  Batch size: 4\n" in ended.stdout
    assert ended.figure("Request count:") == ended.figure("Successful request count:") == 50
    assert ended.figure("Inference count:") == 200


@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_an_ensemble_lists_its_members(
    words: tuple[str, ...], pa: Callable[..., Ended], folder: Path
) -> None:
    csv = folder / f"ensemble{len(words)}.csv"
    ended = pa("-m", "ens", "--request-count", "30", "-f", str(csv), *words)
    assert ended.code == 0
    composing = ended.stdout[ended.stdout.index("  Composing models: \n") :]
    assert re.findall(r"^  (\w+), version: 1$", composing, re.M) == ["addsub", "addsub_b"]
    assert composing.count("      Inference count: 30\n") == 2
    for member in ("addsub", "addsub_b"):
        assert (folder / f"{member}_v1.{csv.name}").exists()


def test_30_the_rate_of_a_slow_model_is_right(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    ended = pa(
        *("-m", "delay", "--input-data", data("d50.json", {"INPUT0": [0.05]}), "--concurrency-range", "2"),
        *("-p", "500", "-s", "999999", "-f", str(folder / "delay.csv")),
    )
    assert ended.code == 0
    (row,) = DictReader((folder / "delay.csv").read_text().splitlines())
    rate = float(row["Inferences/Second"])
    # One instance, 50 ms each; where the machine wakes it late, by its own count.
    compute_us = sum(float(row[f"Server Compute {part}"]) for part in ("Input", "Infer", "Output"))
    assert compute_us >= 50_000
    assert rate < 22
    assert rate == pytest.approx(1e6 / compute_us, rel=0.1)


# --- tensors

MIB = 1024 * 1024
TENSORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("one element", ("-m", "identity_fp32", "--shape", "INPUT0:1")),
    ("a MiB", ("-m", "identity_fp32", "--shape", f"INPUT0:{MIB // 4}", "--concurrency-range", "3")),
    ("8 MiB, batch 2", ("-m", "identity_fp32", "--shape", f"INPUT0:{2 * MIB}", "-b", "2")),
    ("8 MiB, streaming", ("-m", "identity_fp32", "--shape", f"INPUT0:{2 * MIB}", "--streaming")),
    ("strings", ("-m", "identity_bytes", "--shape", "INPUT0:3", "--string-length", "7")),
    ("strings, streaming", ("-m", "identity_bytes", "--shape", "INPUT0:1000", "-b", "8", "--streaming")),
    ("gzip", ("-m", "simple", "--grpc-compression-algorithm", "gzip")),
    ("deflate, streaming", ("-m", "simple", "--grpc-compression-algorithm", "deflate", "--streaming")),
    ("parameter, metadata", ("-m", "simple", "--request-parameter", "priority:1:int", "-H", "x-trace:1")),
    ("one connection", ("-m", "simple", "--concurrency-range", "8", "--connections", "1")),
    ("47: a shape", ("-m", "varint", "--shape", "INPUT0:2,3")),
)


@pytest.mark.parametrize("words", [row[1] for row in TENSORS], ids=[row[0] for row in TENSORS])
def test_every_request_is_answered(words: tuple[str, ...], pa: Callable[..., Ended]) -> None:
    ended = pa(*words, "--request-count", "8")
    assert ended.code == 0, ended.stderr
    assert ended.figure("Request count:") == ended.figure("Successful request count:") == 8


def test_18_the_protocol_is_accepted_in_any_case(triton: EmbeddedTriton) -> None:
    ended = call_here(
        perf_analyzer.main, "-m", "simple", "-u", triton.grpc_address, "-i", "gRPC", "--request-count", "2"
    )
    assert ended.code == 0
    assert "    Avg gRPC time: " in ended.stdout


# --- failures


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ((), "grpc INTERNAL", "Failed to maintain requested inference load."),
        (("--async",), "grpc INTERNAL", "Failed to retrieve results from inference request.\n"),
        (("--streaming",), "grpc UNKNOWN", "Failed to retrieve results from inference request.\n"),
    ],
    ids=["sync", "async", "streaming"],
)
def test_44_requests_that_fail(
    words: tuple[str, ...], kind: str, says: str, pa: Callable[..., Ended]
) -> None:
    ended = pa("-m", "fail", "--request-count", "5", *words)
    assert ended.code == 99
    assert says in ended.stderr
    assert re.search(r"^Thread \[0\] had error: .*boom", ended.stderr, re.M)
    assert re.search(rf"^    Failure: {kind}, 5 requests, .*boom", ended.stdout, re.M)


@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_48_a_shape_of_the_wrong_rank(words: tuple[str, ...], pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "varint", "--shape", "INPUT0:2", "--request-count", "5", *words)
    assert ended.code == 99
    assert "unexpected shape for input 'INPUT0'" in ended.stderr


def test_47_a_dynamic_shape_must_be_given(pa: Callable[..., Ended]) -> None:
    assert_refused(pa("-m", "varint"), "contains dynamic shape, provide shapes", "--shape INPUT0:")


# --- what is refused


def test_16_an_unknown_model(pa: Callable[..., Ended]) -> None:
    assert_refused(pa("-m", "nope"), "failed to get model metadata: ", "'nope' is not found", "simple")


def test_16_an_unknown_version(pa: Callable[..., Ended]) -> None:
    assert_refused(pa("-m", "simple", "-x", "7"), "failed to get model metadata: ", "version 7 is not found")


def test_17_a_closed_port() -> None:
    ended = call_here(perf_analyzer.main, "-i", "grpc", "-m", "simple", "-u", "localhost:1")
    assert_refused(ended, "failed to get model metadata: ", "Connection refused", "-u")


def test_the_http_port_asked_over_grpc(triton: EmbeddedTriton) -> None:
    ended = call_here(perf_analyzer.main, "-i", "grpc", "-m", "simple", "-u", triton.http_address)
    assert_refused(ended, "failed to get model metadata: ", "looks like Triton over HTTP", "-i http")


def test_the_grpc_port_asked_over_http(triton: EmbeddedTriton) -> None:
    ended = call_here(perf_analyzer.main, "-m", "simple", "-u", triton.grpc_address)
    assert_refused(ended, "failed to get model metadata: ", "-i grpc")


def test_an_upper_case_metadata_name(pa: Callable[..., Ended]) -> None:
    assert_refused(pa("-m", "simple", "-H", "X-Trace:1"), "'X-Trace'", "lower case")


# --- our own command


def test_measure_over_grpc(triton: EmbeddedTriton) -> None:
    result = api.measure(
        "simple", url=triton.grpc_address, protocol="grpc", duration_s=0.5, concurrency=(2, 2, 1)
    )
    (level,) = result.levels
    assert level.measurement.request_count > 0
    assert level.measurement.failed_count == 0
    assert level.measurement.server is not None


def test_a_decoupled_request_without_a_response_is_not_counted(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    none, one = {"content": [], "shape": [0]}, {"content": [1], "shape": [1]}
    steps = [{"IN": part, "DELAY": part, "WAIT": [0]} for part in (none, one, none)]
    words = ("-m", "repeat", "--streaming", "--request-count", "6")
    mixed = pa(
        *words,
        *("--input-data", data("some.json", *steps)),
        *("--profile-export-file", str(folder / "some-requests.json")),
    )
    assert mixed.code == 0
    assert (mixed.figure("Request count:"), mixed.figure("Responses per request:")) == (2, 1)
    assert "4 requests ended without a response" in mixed.stderr
    (found,) = json.loads((folder / "some-requests.json").read_text())["experiments"]
    assert sorted(len(request["response_timestamps"]) for request in found["requests"]) == [1, 1, 1, 1, 2, 2]
    silent = pa(*words, "--input-data", data("none.json", steps[0]))
    assert silent.code == 3
    assert "No valid requests recorded within time interval." in silent.stderr
