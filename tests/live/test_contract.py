"""The script `perf_analyzer` against the real Triton: what the contract says of stdout, CSV, stderr and exit codes.

The numbers in the tests' names are those of the contract's acceptance cases.
"""

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from inferometer.server.embedded import EmbeddedTriton
from tests.support.commands import Ended, call_script

pytestmark = pytest.mark.live

QUICK = ("-p", "150", "-s", "999999")
DEADLINE_S = 60
# A test that measures in windows this short.
short_windows = pytest.mark.machine(
    reason="a window of 150 ms has requests only where other processes leave the server a core"
)


@pytest.fixture
def pa(triton: EmbeddedTriton, known: dict[tuple[str, ...], Ended]) -> Callable[..., Ended]:
    """Runs the script against the server; the same words run once."""

    def run(*words: str) -> Ended:
        if words not in known:
            known[words] = call_script("-u", triton.http_address, *words)
        return known[words]

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contract")


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


def block(text: str, start: str, stop: str) -> str:
    """The lines from the one that starts so up to the one that starts so."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    last = next(i for i, line in enumerate(lines) if i > first and line.startswith(stop))
    return "\n".join(lines[first:last])


def rows(path: Path) -> list[dict[str, str]]:
    header, *lines = path.read_text().splitlines()
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]


def successes(server: EmbeddedTriton, model: str) -> int:
    connection = http.client.HTTPConnection(server.http_address, timeout=DEADLINE_S)
    try:
        connection.request("GET", f"/v2/models/{model}/stats")
        document = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return int(document["model_stats"][0]["inference_stats"]["success"]["count"])


def grows_to(server: EmbeddedTriton, model: str, count: int) -> bool:
    """Triton counts a request shortly after it has answered it."""
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while successes(server, model) < count and time.monotonic() < end:
        pause.wait(0.02)
    return successes(server, model) == count


# --- 7.1 command line

USAGE = "Usage: perf_analyzer -m NAME"
REFUSED = (
    ("1: no model", (), "Failed to parse -m (model name). The value must be specified."),
    ("3: an unknown option", ("-m", "addsub", "--trace-file", "x"), "--trace-file"),
    ("4: batch 0", ("-m", "addsub", "-b", "0"), "-b (batch size)"),
    ("5: percentile 100", ("-m", "addsub", "--percentile", "100"), "percentile"),
    ("5: percentile 0", ("-m", "addsub", "--percentile", "0"), "percentile"),
    ("5: percentile 101", ("-m", "addsub", "--percentile", "101"), "percentile"),
    ("5: percentile abc", ("-m", "addsub", "--percentile", "abc"), "percentile"),
    ("6: a shape without a colon", ("-m", "addsub", "--shape", "INPUT0"), "colon"),
    ("6: a shape with 0", ("-m", "addsub", "--shape", "INPUT0:0"), "> 0"),
    ("6: a shape with a letter", ("-m", "addsub", "--shape", "INPUT0:a"), "Invalid value provided: INPUT0:a"),
    ("7: four fields", ("-m", "addsub", "--concurrency-range", "1:2:3:4"), "does not match <start:end:step>"),
    ("8: an open range without a limit", ("-m", "addsub", "--concurrency-range", "1:0"), "latency limit"),
    (
        "9: two load modes",
        ("-m", "addsub", "--concurrency-range", "1", "--request-rate-range", "1"),
        "Cannot specify more then one inference load mode",
    ),
    ("10: streaming over HTTP", ("-m", "addsub", "--streaming"), "Streaming is only allowed with gRPC"),
    ("10: both async and sync", ("-m", "addsub", "--async", "--sync"), "Cannot specify --async and --sync"),
    (
        "10: compression over HTTP",
        ("-m", "addsub", "--grpc-compression-algorithm", "gzip"),
        "only allowed with gRPC protocol",
    ),
    (
        "11: a binary search without a limit",
        ("-m", "addsub", "--binary-search", "--concurrency-range", "1:4"),
        "The --latency-threshold cannot be 0 for binary search mode.",
    ),
    (
        "12: fewer requests than concurrency",
        ("-m", "addsub", "--request-count", "1", "--concurrency-range", "2"),
        "request-count can not be less than concurrency",
    ),
    (
        "12: a count and a range",
        ("-m", "addsub", "--request-count", "10", "--concurrency-range", "2:4"),
        "request-count not supported with multiple concurrency values in one run",
    ),
    ("13: metrics options alone", ("-m", "addsub", "--metrics-interval", "100"), "--collect-metrics"),
    (
        "14: an export file that exists",
        ("-m", "addsub", "--profile-export-file", __file__),
        "Path must not already exist.",
    ),
)


@pytest.mark.parametrize(("words", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_with_the_usage_text(words: tuple[str, ...], says: str, pa: Callable[..., Ended]) -> None:
    ended = pa(*words)
    assert ended.code == 99
    assert ended.stdout == ""
    first, *others = ended.stderr.splitlines()
    assert first.startswith("Error: ")
    assert says in first
    assert others[0].startswith(USAGE)


def test_2_version() -> None:
    ended = call_script("--version")
    assert (ended.code, ended.stdout) == (0, "")
    assert re.fullmatch(r"Perf Analyzer Version \d+\.\d+\.\d+ \(commit \S+\)\n", ended.stderr)


@pytest.mark.parametrize("word", ["--help", "-h", "-?"])
def test_help_is_on_stdout(word: str) -> None:
    ended = call_script(word)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(USAGE)


def test_the_installed_script_is_the_module() -> None:
    script = Path(sys.executable).with_name("perf_analyzer")
    done = subprocess.run(
        [script, "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0
    assert done.stderr == call_script("--version").stderr


@short_windows
def test_8_an_open_range_with_a_limit_sweeps(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", "--concurrency-range", "1:0", "-l", "60000", "--max-threads", "2", *QUICK)
    assert ended.code == 0
    assert "  Latency limit: 60000 msec\n  Concurrency limit: 2 concurrent requests\n" in ended.stdout
    assert re.findall(r"^Request concurrency: (\d+)$", ended.stdout, re.M) == ["1", "2"]
    assert ended.stderr_apart_from_machine == (
        "WARNING: The maximum attainable concurrency will be limited by max_threads specification (2).\n"
    )


def test_15_prefixes_and_glued_values(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", "--concurrency", "2", "-p200", "-s999999")
    assert ended.code == 0
    assert "Request concurrency: 2\n" in ended.stdout
    assert ended.figure("Request count:") > 0


def test_16_an_unknown_model(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "nope")
    assert ended.code == 99
    assert "failed to get model metadata" in ended.stderr
    assert "'nope' is not found" in ended.stderr
    assert USAGE not in ended.stderr


def test_16_an_unknown_version(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", "-x", "7")
    assert ended.code == 99
    assert "failed to get model metadata" in ended.stderr


def test_a_given_version_is_measured(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", "-x", "1", "--request-count", "10")
    assert ended.code == 0
    assert ended.figure("Successful request count:") == 10


def test_17_a_closed_port() -> None:
    ended = call_script("-m", "addsub", "-u", "localhost:1")
    assert ended.code == 99
    assert "failed to get model metadata" in ended.stderr


# --- 7.2 layout

CLIENT = """\
  Client:·
    Request count: #
    Throughput: ~ infer/sec
    Avg latency: # usec (standard deviation # usec)
    p50 latency: # usec
    p90 latency: # usec
    p95 latency: # usec
    p99 latency: # usec
    Avg HTTP time: # usec (send/recv # usec + response wait # usec)
"""
TIMES = (
    "Avg request latency: # usec (overhead # usec + queue # usec + compute input # usec + compute infer # usec + "
    "compute output # usec)"
)
SERVER = f"""\
  Server:·
    Inference count: #
    Execution count: #
    Successful request count: #
    {TIMES}

"""
SETTINGS = """\
*** Measurement Settings ***
  Batch size: 1
  Service Kind: TRITON
  Using "time_windows" mode for stabilization
  Stabilizing using average latency and throughput
  Measurement window: 150 msec
  Using synchronous calls for inference

"""
AVERAGE = "Inferences/Second vs. Client Average Batch Latency\n"


def summary(*levels: int) -> str:
    return "".join(f"Concurrency: {level}, throughput: ~ infer/sec, latency # usec\n" for level in levels)


@short_windows
def test_19_the_plain_report_line_by_line(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK)
    assert (ended.code, ended.stderr_apart_from_machine) == (0, "")
    assert_like(f"{SETTINGS}Request concurrency: 1\n{CLIENT}{SERVER}{AVERAGE}{summary(1)}", ended.stdout)


@short_windows
def test_19_the_figures_agree_with_each_other(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK)
    found = re.search(
        r"HTTP time: (\d+) usec \(send/recv (\d+) usec \+ response wait (\d+) usec\)", ended.stdout
    )
    assert found is not None
    whole, parts, wait = map(int, found.groups())
    assert whole == parts + wait
    percentiles = [ended.figure(f"p{p} latency:") for p in (50, 90, 95, 99)]
    assert percentiles == sorted(percentiles)
    assert ended.stdout.endswith(
        f"throughput: {ended.figure('Throughput:'):g} infer/sec, latency {ended.figure('Avg latency:'):g} usec\n"
    )
    assert ended.figure("Inference count:") > 0
    assert (
        abs(ended.figure("Inference count:") - ended.figure("Successful request count:")) <= 2
    )  # see case 26


@short_windows
def test_20_the_verbose_report(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK, "-v")
    assert ended.code == 0
    pass_line = "  Pass [{}] throughput: ~ infer/sec. Avg latency: # usec (std # usec).·\n"
    client = CLIENT.replace("    Avg latency", "    Avg client overhead: #.#%\n    Avg latency").replace(
        "(send/recv # usec + response wait # usec)",
        "(send # usec + response wait # usec + receive # usec)",
    )
    passes = "".join(pass_line.format(number) for number in (1, 2, 3))
    assert_like(
        f"{SETTINGS}Request concurrency: 1\n{passes}{client}{SERVER}{AVERAGE}{summary(1)}", ended.stdout
    )
    assert re.search(r"^    Avg client overhead: \d+\.\d\d%$", ended.stdout, re.M)


@short_windows
def test_22_a_percentile_instead_of_the_mean(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK, "--percentile", "95", "-v")
    assert ended.code == 0
    assert "  Stabilizing using p95latency and throughput\n" in ended.stdout
    assert re.search(r"^  Pass \[1\] throughput: \S+ infer/sec\. p95 latency: \d+ usec$", ended.stdout, re.M)
    assert "Avg latency:" not in ended.stdout
    assert "Inferences/Second vs. Client p95 Batch Latency\n" in ended.stdout
    assert ended.stdout.endswith(f", latency {ended.figure('    p95 latency:'):g} usec\n")


@short_windows
def test_23_asynchronous_calls(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK, "-a")
    assert ended.code == 0
    assert "  Stabilizing using average throughput\n" in ended.stdout
    assert "  Using asynchronous calls for inference\n" in ended.stdout


@short_windows
def test_24_a_range_of_levels(pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa("-m", "addsub", *QUICK, "--concurrency-range", "1:5:2", "-f", str(folder / "range.csv"))
    assert ended.code == 0
    settings = SETTINGS.replace(
        "  Using sync", "  Latency limit: 0 msec\n  Concurrency limit: 5 concurrent requests\n  Using sync"
    )
    levels = "".join(f"Request concurrency: {level}\n{CLIENT}{SERVER}" for level in (1, 3, 5))
    assert_like(f"{settings}{levels}{AVERAGE}{summary(1, 3, 5)}", ended.stdout)
    found = rows(folder / "range.csv")
    assert sorted(row["Concurrency"] for row in found) == ["1", "3", "5"]
    rates = [float(row["Inferences/Second"]) for row in found]
    assert rates == sorted(rates)
    for row in found:  # the same figures as on stdout
        line = (
            f"Concurrency: {row['Concurrency']}, throughput: {row['Inferences/Second']} infer/sec, latency "
        )
        assert line in ended.stdout


@short_windows
def test_25_one_level_shows_no_limits(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK, "--concurrency-range", "4")
    assert ended.code == 0
    assert "limit:" not in ended.stdout
    assert re.findall(r"^Request concurrency: (\d+)$", ended.stdout, re.M) == ["4"]


@short_windows
def test_26_a_batch_counts_inferences(pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa("-m", "addsub", *QUICK, "-b", "4", "--json", str(folder / "batch.json"))
    assert ended.code == 0
    assert "  Batch size: 4\n" in ended.stdout
    # The server counts a request and its inferences one after the other, and may be asked in between.
    assert abs(ended.figure("Inference count:") - 4 * ended.figure("Successful request count:")) <= 2 * 4
    (level,) = api.load(str(folder / "batch.json")).levels
    found = level.measurement
    assert found.request_count == ended.figure("Request count:")
    assert found.duration_ns == 3 * 150_000_000
    assert f"{4 * found.request_count / 0.45:g}" == f"{ended.figure('Throughput:'):g}"


def test_26_a_batch_the_model_cannot_take(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "nobatch", "-b", "2")
    assert ended.code == 99
    assert "can not specify batch size > 1 as the model does not support batching" in ended.stderr
    larger = pa("-m", "addsub", "-b", "9", "--request-count", "2")
    assert larger.code == 99
    assert "batch-size must be <= 8" in larger.stderr


def test_27_one_request(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", "--request-count", "1")
    assert ended.code == 0
    assert "  Sending 1 benchmark request\n" in ended.stdout
    assert "(standard deviation 0 usec)" in ended.stdout
    assert "only one request" in ended.stderr


# --- 7.3 measurement


@pytest.mark.machine(
    reason="one execution follows the other at once only if other processes leave the server a core"
)
def test_30_the_delay_model_gives_what_its_sleep_allows(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    path = data("d100.json", {"INPUT0": [0.1]})
    ended = pa(
        *("-m", "delay", "--input-data", path, "--concurrency-range", "2", "-p", "1000", "-s", "999999"),
        *("-f", str(folder / "delay.csv")),
    )
    assert ended.code == 0
    assert ended.stdout.startswith(
        " Successfully read data for 1 stream/streams with 1 step/steps.\n*** Meas"
    )
    (row,) = rows(folder / "delay.csv")
    rate = float(row["Inferences/Second"])
    # One instance, 100 ms each; where the machine wakes it late, by its own count.
    compute_us = sum(float(row[f"Server Compute {part}"]) for part in ("Input", "Infer", "Output"))
    assert compute_us >= 100_000
    assert rate < 11
    assert rate == pytest.approx(1e6 / compute_us, rel=0.1)


def test_33_count_windows_end_at_the_count(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    d5 = data("d5.json", {"INPUT0": [0.005]})
    ended = pa(
        *("-m", "delay", "--input-data", d5, "--measurement-mode", "count_windows", "-s", "999999", "-v"),
        *("--measurement-request-count", "25", "--json", str(folder / "count.json")),
    )
    assert ended.code == 0
    assert '  Using "count_windows" mode for stabilization\n' in ended.stdout
    assert "  Minimum number of samples in each window: 25\n" in ended.stdout
    (level,) = api.load(str(folder / "count.json")).levels
    assert [window.request_count for window in level.windows] == [25, 25, 25]
    assert ended.figure("Request count:") == 75
    assert ended.stdout.count("  Pass [") == 3


@pytest.mark.parametrize("words", [("-s", "0", "-r", "3"), ("-s", "1000", "-r", "2")], ids=["34", "35"])
def test_34_35_a_level_that_never_becomes_stable(
    words: tuple[str, ...], pa: Callable[..., Ended], folder: Path
) -> None:
    path = folder / "unstable.csv"
    ended = pa("-m", "addsub", "-p", "200", *words, "-f", str(path))
    assert ended.code == 2
    assert ended.stderr.splitlines()[-2:] == [
        f"Failed to obtain stable measurement within {words[-1]} measurement windows for concurrency 1. "
        "Please try to increase the --measurement-interval.",
        "Failed to obtain stable measurement.",
    ]
    assert "    [WARNING] Not stable: " in ended.stdout
    assert "Inferences/Second vs." not in ended.stdout
    assert not path.exists()


@pytest.mark.machine(reason="levels are told apart by their latency, which other processes lengthen")
def test_36_a_sweep_ends_at_the_latency_limit(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    path = data("d20.json", {"INPUT0": [0.02]})  # one instance: at least 20, 100 and 180 ms
    ended = pa(
        *("-m", "delay", "-l", "150", "--concurrency-range", "1:16:4", "--input-data", path),
        *("-p", "300", "-s", "999999", "-f", str(folder / "limit.csv")),
    )
    assert ended.code == 0
    assert re.findall(r"^Request concurrency: (\d+)$", ended.stdout, re.M) == ["1", "5", "9"]
    assert re.findall(r"^Concurrency: (\d+), ", ended.stdout, re.M) == ["1", "5"]
    assert ended.stdout.count("  Client: \n") == 2
    assert ended.stderr.count("Measured latency went over the set limit of 150 msec. \n") == 1
    assert sorted(row["Concurrency"] for row in rows(folder / "limit.csv")) == ["1", "5"]


@short_windows
def test_37_the_only_level_is_over_the_limit(
    pa: Callable[..., Ended], data: Callable[..., str], folder: Path
) -> None:
    d5 = data("d5.json", {"INPUT0": [0.005]})
    ended = pa("-m", "delay", "-l", "1", "--input-data", d5, *QUICK, "-f", str(folder / "over.csv"))
    assert ended.code == 0
    assert ended.stderr_apart_from_machine == "Measured latency went over the set limit of 1 msec. \n"
    assert "    [WARNING] Over the latency limit of 1 msec\n" in ended.stdout
    assert "Inferences/Second vs." not in ended.stdout
    assert not (folder / "over.csv").exists()


def test_42_a_request_count_is_exact(pa: Callable[..., Ended], triton: EmbeddedTriton) -> None:
    before = successes(triton, "addsub_b")
    ended = pa("-m", "addsub_b", "--request-count", "100", "--concurrency-range", "4", "-v")
    assert ended.code == 0
    assert grows_to(triton, "addsub_b", before + 100)
    assert ended.figure("Request count:") == 100
    assert ended.stdout.count("  Pass [") == 1
    assert "  Sending 100 benchmark requests\n  Using synchronous calls for inference\n\n" in ended.stdout


def test_a_warm_up_by_rate_has_no_header_of_its_own(pa: Callable[..., Ended]) -> None:
    ended = pa(
        *("-m", "addsub", "--warmup-request-count", "5"),
        *("--request-rate-range", "100", "--request-count", "100"),
    )
    assert ended.code == 0
    assert ended.stdout.count("Request Rate: 100 inference requests per seconds\n") == 1
    assert ended.figure("Request count:") == 100


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-m", "addsub", "--max-threads", "1", "--concurrency-range", "3"), "Overriding max_threads"),
        (("-m", "accumulator", "--sequence-id-range", "0:9"), "invalid start sequence id"),
        (("-m", "accumulator", "--sequence-length", "-1"), "The sequence length must be > 0"),
    ],
    ids=["threads", "id", "length"],
)
def test_what_is_taken_instead_is_said(words: tuple[str, ...], says: str, pa: Callable[..., Ended]) -> None:
    ended = pa(*words, "--request-count", "24")
    assert ended.code == 0
    (line,) = ended.stderr_apart_from_machine.splitlines()
    assert line.startswith("WARNING: ")
    assert says in line
    assert "Inferences/Second vs." in ended.stdout


def test_43_warm_up_requests_are_not_reported(pa: Callable[..., Ended], triton: EmbeddedTriton) -> None:
    before = successes(triton, "addsub_b")
    ended = pa("-m", "addsub_b", "--warmup-request-count", "50", "--request-count", "20")
    assert ended.code == 0
    assert grows_to(triton, "addsub_b", before + 70)
    assert ended.figure("Request count:") == 20
    assert "  Sending 50 warmup requests\n" in ended.stdout
    assert ended.stdout.count("Request concurrency: 1\n") == 2


@short_windows
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            (),
            "Failed to maintain requested inference load. Worker thread(s) failed to generate concurrent requests.\n",
        ),
        (("-a",), "Failed to retrieve results from inference request.\n"),
        (("--measurement-mode", "count_windows"), "Failed to maintain requested inference load."),
    ],
    ids=["sync", "async", "count windows"],
)
def test_44_requests_that_fail(words: tuple[str, ...], says: str, pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "fail", *QUICK, *words)
    assert ended.code == 99
    assert says in ended.stderr
    assert re.search(r"^Thread \[0\] had error: .*boom", ended.stderr, re.M)
    assert re.search(r"^    Failed request count: [1-9]\d* \(100\.00 %\)$", ended.stdout, re.M)
    assert "Inferences/Second vs." not in ended.stdout


@short_windows
def test_45_few_threads_still_carry_the_whole_concurrency(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "addsub", *QUICK, "-a", "--max-threads", "2", "--concurrency-range", "8")
    assert ended.code == 0
    outstanding = ended.figure("Throughput:") * ended.figure("Avg latency:") / 1e6
    assert outstanding == pytest.approx(8, rel=0.1)


# --- 7.4 input data


@pytest.mark.parametrize("words", [(), ("--string-data", "abc"), ("--input-data", "zero")])
def test_46_strings(words: tuple[str, ...], pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "str", "--request-count", "5", *words)
    assert ended.code == 0
    assert ended.figure("Successful request count:") == 5


def test_47_a_dynamic_shape_must_be_given(pa: Callable[..., Ended]) -> None:
    refused = pa("-m", "varint")
    assert refused.code == 99
    assert "contains dynamic shape, provide shapes" in refused.stderr
    assert "--shape INPUT0:" in refused.stderr
    assert pa("-m", "varint", "--shape", "INPUT0:2,3", "--request-count", "5").code == 0


@short_windows
@pytest.mark.parametrize("words", [(), ("--measurement-mode", "count_windows")], ids=["time", "count"])
def test_48_a_shape_of_the_wrong_rank(words: tuple[str, ...], pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "varint", "--shape", "INPUT0:2", *QUICK, *words)
    assert ended.code == 99
    assert "INPUT0" in ended.stderr


def test_50_files_add_up(pa: Callable[..., Ended], data: Callable[..., str]) -> None:
    one = data("one.json", {"INPUT0": [0.001]}, {"INPUT0": [0.0]})
    two = data("two.json", {"INPUT0": [0.002]}, {"INPUT0": [0.0]})
    ended = pa("-m", "delay", "--input-data", one, "--input-data", two, "--request-count", "5")
    assert ended.code == 0
    assert ended.stdout.startswith(" Successfully read data for 1 stream/streams with 4 step/steps.\n")


def test_51_a_shape_that_does_not_fit_the_model(pa: Callable[..., Ended], data: Callable[..., str]) -> None:
    wrong = {"content": [0] * 16, "shape": [4, 4]}
    ended = pa("-m", "addsub", "--input-data", data("wrong.json", {"INPUT0": wrong, "INPUT1": wrong}))
    assert ended.code == 99
    assert "Failed to init manager inputs: The supplied shape of [4,4]" in ended.stderr
    assert "is incompatible with the model's input shape of [16]" in ended.stderr


def test_shapes_and_base64_in_json(pa: Callable[..., Ended], data: Callable[..., str]) -> None:
    path = data(
        "shapes.json",
        {"INPUT0": {"content": [1, 2, 3, 4, 5, 6], "shape": [2, 3]}},
        {"INPUT0": {"b64": "AQAAAAIAAAA=", "shape": [1, 2]}},
    )
    ended = pa("-m", "varint", "--input-data", path, "--request-count", "6")
    assert ended.code == 0
    assert ended.figure("Successful request count:") == 6


# --- 3 CSV

COLUMNS = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv"
)
PERCENTILES = ",p50 latency,p90 latency,p95 latency,p99 latency"


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ((), COLUMNS + PERCENTILES),
        (("--verbose-csv",), COLUMNS + PERCENTILES + ",Avg latency,request/response,response wait"),
        (("--percentile", "75"), COLUMNS + ",p50 latency,p75 latency,p90 latency,p95 latency,p99 latency"),
        (("--percentile", "95", "--verbose-csv"), COLUMNS + PERCENTILES + ",request/response,response wait"),
    ],
    ids=["plain", "verbose", "percentile", "verbose with percentile"],
)
def test_csv_columns(words: tuple[str, ...], columns: str, pa: Callable[..., Ended], folder: Path) -> None:
    path = folder / f"columns{len(columns)}.csv"
    ended = pa("-m", "addsub", "--request-count", "30", "-f", str(path), *words)
    assert ended.code == 0
    text = path.read_text()
    assert text.splitlines()[0] == columns
    assert text.endswith("\n")
    assert "\r" not in text
    (row,) = rows(path)
    assert row["Inferences/Second"] == f"{ended.figure('Throughput:'):g}"
    for p in (50, 90, 95, 99):
        assert int(row[f"p{p} latency"]) == ended.figure(f"p{p} latency:")
    for name in ("Queue", "Compute Input", "Compute Infer", "Compute Output"):
        assert int(row[f"Server {name}"]) == ended.figure(f"{name.lower()}")


def test_csv_of_a_cached_model_has_the_cache_columns(pa: Callable[..., Ended], folder: Path) -> None:
    path = folder / "cached.csv"
    ended = pa("-m", "cached", "--request-count", "30", "--input-data", "zero", "-f", str(path))
    assert ended.code == 0
    assert path.read_text().splitlines()[0] == (
        COLUMNS.replace("Client Recv", "Server Cache Hit,Server Cache Miss,Client Recv") + PERCENTILES
    )
    assert ended.figure("Cache hit count:") + ended.figure("Cache miss count:") == 30
    assert "      Average Cache Hit Latency: " in ended.stdout
    assert "      Average Cache Miss Latency: " in ended.stdout


# --- 7.5 ensembles

MEMBER = f"""\
      Inference count: #
      Execution count: #
      Successful request count: #
      {TIMES}

"""
COMPOSED = "    Avg request latency: # usec (overhead # usec + queue # usec + compute # usec)"


@short_windows
def test_59_an_ensemble_lists_its_members(pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa("-m", "ens", *QUICK, "-f", str(folder / "e.csv"))
    assert ended.code == 0
    expected = (
        SERVER.replace(f"    {TIMES}", COMPOSED)
        + f"  Composing models:·\n  addsub, version: 1\n{MEMBER}  addsub_b, version: 1\n{MEMBER}"
    )
    assert_like(expected.removesuffix("\n"), block(ended.stdout, "  Server: ", "Inferences/Second"))
    (parent,) = rows(folder / "e.csv")
    for member in ("addsub_v1.e.csv", "addsub_b_v1.e.csv"):
        assert (folder / member).read_text().splitlines()[0] == COLUMNS
        (row,) = rows(folder / member)
        assert (row["Concurrency"], row["Client Send"], row["Client Recv"]) == ("1", "0", "0")
        assert float(row["Inferences/Second"]) == pytest.approx(float(parent["Inferences/Second"]), rel=0.1)


def test_a_nested_ensemble_lists_members_of_members(pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa(
        "-m", "ens_nested", "--request-count", "20", "--input-data", "zero", "-f", str(folder / "n.csv")
    )
    assert ended.code == 0
    cached = "Cache hit count: #\n{0}Cache miss count: #\n{0}"
    counts = "{0}Inference count: #\n{0}Execution count: #\n{0}" + cached + "Successful request count: #\n"
    latency = "{0}Avg request latency: # usec (overhead # usec + queue # usec + cache hit/miss # usec)\n"
    hit = "{1}Average Cache Hit Latency: # usec\n{1}Average Cache Miss Latency: # usec·"
    lookup = "(cache lookup/insertion # usec + compute input # usec + compute infer # usec + compute output # usec)"

    def figures(indent: int, deep: int, leaf: bool) -> str:
        text = (counts + latency + hit).format(" " * indent, " " * deep)
        return (text.removesuffix("·") + " " + lookup if leaf else text) + "\n\n"

    expected = (
        "  Server:·\n"
        + figures(4, 6, leaf=False)
        + "  Composing models:·\n  cached, version: 1\n"
        + figures(6, 10, leaf=True)
        + "  ens, version: 1\n"
        + figures(6, 10, leaf=False)
        + "    Composing models:·\n    addsub, version: 1\n"
        + figures(8, 14, leaf=True)
        + "    addsub_b, version: 1\n"
        + figures(8, 14, leaf=True)
    )
    assert_like(expected.removesuffix("\n"), block(ended.stdout, "  Server: ", "Inferences/Second"))
    assert (folder / "ens_v1.n.csv").exists()
    assert (folder / "cached_v1.n.csv").exists()
    assert not (folder / "addsub_v1.n.csv").exists()


def test_60_bls_lists_the_models_it_calls(pa: Callable[..., Ended], folder: Path) -> None:
    ended = pa(
        "-m", "bls", "--request-count", "20", "--bls-composing-models", "addsub", "-f", str(folder / "b.csv")
    )
    assert ended.code == 0
    assert re.search(
        r"^    Avg request latency: \d+ usec \(.*queue \d+ usec \+ .*compute \d+ usec.*\)$",
        ended.stdout,
        re.M,
    )
    assert "  Composing models: \n  addsub, version: 1\n      Inference count: 20\n" in ended.stdout
    assert (folder / "addsub_v1.b.csv").exists()


def test_60_a_listed_model_that_does_not_exist(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "bls", "--bls-composing-models", "nope")
    assert ended.code == 99
    assert "nope" in ended.stderr


def test_60_a_listed_model_that_is_never_called_is_noted(pa: Callable[..., Ended]) -> None:
    ended = pa("-m", "bls", "--request-count", "20", "--bls-composing-models", "addsub,str")
    assert ended.code == 0
    assert "str" in ended.stdout + ended.stderr
