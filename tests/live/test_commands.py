"""`inferometer measure`, `serve`, `demo` and the Python API against the real Triton."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from inferometer import api
from inferometer.base.answer_file import read as read_diagnosis
from inferometer.base.answer_file import to_json
from inferometer.cli import demo
from inferometer.cli.main import COMMANDS, main
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.diagnose.investigation import ENOUGH
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.ports import Ports, choose_ports
from tests.support.commands import Ended, call
from tests.support.reports import classic_report

pytestmark = pytest.mark.live

DEADLINE_S = 60
# Said instead of what the server does, where these tests are not alone.
BUSY = "The machine was busy: other programs used|The client is the limit: |The client was short of cores: "


# --- measure


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture
def measured(triton: EmbeddedTriton, folder: Path, known: dict[tuple[str, ...], Ended]) -> Ended:
    """A sweep over the ensemble, once for all tests that look at it; a test that is retried measures again."""
    words = (
        *("inferometer", "measure", "-m", "ens", "-u", triton.http_address),
        *("--concurrency-range", "1:2", "--duration", "1"),
        *("--json", str(folder / "r.json"), "-f", str(folder / "r.csv")),
    )
    return known.get(words) or known.setdefault(words, call(*words))


def test_measure_prints_a_table_and_where_the_time_goes(measured: Ended) -> None:
    assert measured.code == 0, measured.stderr
    lines = measured.stdout.splitlines()
    assert re.match(r"[\d,]+ infer/s .*at concurrency [12], p50 ", lines[0])
    assert any(line.startswith("ens · triton http · batch 1") for line in lines)
    assert [found[1] for line in lines if (found := re.match(r" +(\d+) +[\d.,]+ ", line))] == ["1", "2"]
    said = " ".join(measured.stdout.split())
    assert re.search(f"Where the time goes|{BUSY}", said)
    assert re.search(rf"Slowest step: addsub(_b)?, .*% of the server's time|{BUSY}", said)


def test_measure_writes_what_it_shows(measured: Ended, folder: Path) -> None:
    result = api.load(str(folder / "r.json"))
    assert [level.value for level in result.levels] == [1, 2]
    assert result.command == "measure"
    rows = (folder / "r.csv").read_text().splitlines()
    assert sorted(row.split(",")[0] for row in rows[1:]) == ["1", "2"]
    assert (folder / "addsub_v1.r.csv").exists()


def test_measure_shows_progress_on_stderr(measured: Ended) -> None:
    assert "concurrency 1" in measured.stderr.lower()


def test_a_result_read_back_is_the_same(measured: Ended, folder: Path) -> None:
    text = (folder / "r.json").read_text()
    assert to_json(api.load(str(folder / "r.json"))) == text


@pytest.mark.machine(
    reason="a window of 300 ms has requests only where other processes leave the server a core"
)
def test_the_classic_report_can_be_made_again_from_the_file(triton: EmbeddedTriton, tmp_path: Path) -> None:
    words = (
        "-p",
        "300",
        "-s",
        "999999",
        "-v",
        "--concurrency-range",
        "1:2",
        "--json",
        str(tmp_path / "r.json"),
    )
    done = call("perf_analyzer", "-u", triton.http_address, "-m", "ens", *words)
    assert done.code == 0
    assert classic_report(api.load(str(tmp_path / "r.json"))) == done.stdout


@pytest.mark.machine(
    reason="requests at either end of a window of half a second count for more the longer they take"
)
def test_api_measure_gives_a_result(triton: EmbeddedTriton) -> None:
    result = api.measure("addsub", url=triton.http_address, concurrency=(1, 3, 2), duration_s=0.5, batch=2)
    assert [level.value for level in result.levels] == [1, 3]
    for level in result.levels:
        found = level.measurement
        assert found is not None
        assert found.request_count > 0
        assert found.failed_count == 0
        assert found.server is not None
        by_count = (
            2 * found.request_count / found.duration_ns * 1e9
        )  # requests that run at either end count in part
        assert found.infer_per_s.value == pytest.approx(by_count, rel=0.02)


def test_api_measure_takes_the_classic_rule(triton: EmbeddedTriton) -> None:
    result = api.measure("addsub", url=triton.http_address, duration_s=None, request_count=25)
    assert result.levels[0].measurement is not None
    assert result.levels[0].measurement.request_count == 25


# --- words without a server


@pytest.mark.parametrize(
    "words", [(), ("--help",), *((command, "--help") for command in COMMANDS)], ids=" ".join
)
def test_help(words: tuple[str, ...]) -> None:
    done = call("inferometer", *words)
    assert (done.code, done.stderr) == (0, "")
    assert " ".join(("inferometer", *words[:1])).replace(" --help", "") in done.stdout


def test_an_unknown_command_is_named() -> None:
    done = call("inferometer", "mesure")
    assert done.code == 2
    assert "unknown command 'mesure'" in done.stderr
    assert "measure" in done.stderr


@pytest.mark.parametrize(
    "module",
    ["inferometer", "inferometer.cli.main", "inferometer.api", "inferometer.dialects.perf_analyzer.main"],
)
def test_importing_stays_light(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in ('numpy', 'rich', 'pydantic') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("nope",)])
def test_the_first_answer_stays_light(words: tuple[str, ...]) -> None:
    program = (
        "import sys; from inferometer.cli.main import main; main(sys.argv[1:]); "
        "print(*(name for name in ('numpy', 'rich', 'pydantic') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


# --- serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command with one quick model and temporary files in a folder of our own."""
    started: list[subprocess.Popen[str]] = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "inferometer.cli.main", "serve", *words]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def until_ready(process: subprocess.Popen[str]) -> dict[str, str]:
    """The lines it prints until it is ready, by their first word."""
    assert process.stdout is not None
    said = {}
    for line in process.stdout:
        name, _, rest = line.strip().partition(" ")
        said[name.rstrip(";")] = rest.strip()
        if line.startswith("ready"):
            return said
    raise AssertionError(process.stderr.read() if process.stderr else "")


@pytest.mark.parametrize(
    ("number", "ports"), [(signal.SIGINT, Ports()), (signal.SIGTERM, choose_ports(Ports()))]
)
def test_serve_runs_until_it_is_stopped(
    number: signal.Signals, ports: Ports, serve: Callable, tmp_path: Path
) -> None:
    asked = [word for name, port in ports.named() for word in (f"--{name.lower()}-port", str(port))]
    process = serve(*asked, "--load-model", "simple")
    said = until_ready(process)
    addresses = (said["HTTP"], said["gRPC"], said["metrics"].removeprefix("http://").removesuffix("/metrics"))
    for address, port in zip(addresses, ports, strict=True):
        assert re.fullmatch(rf"127\.0\.0\.1:{port or '[1-9][0-9]*'}", address)
    assert Path(said["log"]).exists()
    result = api.measure("simple", url=said["HTTP"], duration_s=None, request_count=5)
    assert result.levels[0].measurement is not None
    assert result.levels[0].measurement.request_count == 5
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("tritonserver" in child.name() for child in children)
    assert list(Path("/dev/shm").glob(f"inferometer_{process.pid}_*"))
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
    assert not list(Path("/dev/shm").glob(f"inferometer_{process.pid}_*"))
    assert not list((tmp_path / "temporary").iterdir())


def test_serve_says_when_the_server_ends_by_itself(serve: Callable) -> None:
    process = serve("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--load-model", "simple")
    until_ready(process)
    (server,) = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if child.name().startswith("tritonserver")
    ]
    server.kill()
    _, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3
    assert "the server ended unexpectedly: it was killed by SIGKILL; its last line: " in stderr
    assert not list(Path("/dev/shm").glob(f"inferometer_{process.pid}_*"))


def test_serve_names_a_port_in_use(serve: Callable) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = serve("--http-port", str(port))
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert stdout == ""
    assert str(port) in stderr
    assert "is used by another process" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("a file"), ""),
    ],
    ids=["missing", "a file"],
)
def test_serve_names_a_repository_that_cannot_be_used(
    make: Callable[[Path], object], says: str, serve: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "models"
    make(path)
    process = serve(
        "--model-repository", str(path), "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"
    )
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert stdout == ""
    assert str(path) in stderr
    assert says in stderr
    assert "Traceback" not in stderr


# --- demo


@pytest.mark.machine(
    reason="a budget of 0.1 s is spent before the first trial if other processes hold the cores"
)
def test_demo_finds_the_limit_and_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "LEVEL_S", 1.0)
    monkeypatch.setattr(demo, "BUDGET_S", 0.1)
    folder = tmp_path / "demo"
    assert main(["demo", "--folder", str(folder)]) == 0
    stdout, stderr = capfd.readouterr()
    assert re.search(
        rf"Slowest step: preprocessing, .* \d+(\.\d+)? ?% of the server's time|{BUSY}",
        " ".join(stdout.split()),
    )
    names = ("report.html", "diagnosis.json", "result.json", "result.csv")
    assert "Results: " + ", ".join(f"{folder}/{name}" for name in names) in stdout
    assert "Starting the embedded Triton server" in stderr
    story = read_diagnosis(folder / "diagnosis.json", Diagnosis)
    assert [step.name for step in story.steps] == ["preprocessing", "classifier", "postprocessing"]
    # On a machine whose cores others hold, no step is named and nothing is tried, and the story says that instead.
    assert story.verdict.step == "preprocessing" or "busy with other programs" in story.verdict.sentence
    promising = [row for row in story.suggestions if row.change.can_apply and row.gain > ENOUGH]
    assert [trial.suggestion for trial in story.trials] == promising[:1]
    for trial in story.trials:
        assert trial.suggestion.change.model == "preprocessing"
        assert trial.throughput > 0
        assert "What was tried" in stdout
        assert "The server is back to its original configuration." in stdout
    result = api.load(str(folder / "result.json"))
    assert [level.value for level in result.levels] == [1, 2, 4]
    assert all(
        level.measurement is not None and not level.measurement.failed_count for level in result.levels
    )
    assert len((folder / "result.csv").read_text().splitlines()) == 4
    assert "INPUT" in json.loads((folder / "sample_input.json").read_text())["data"][0]


def test_demo_names_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--folder", str(tmp_path / "file" / "demo")]) == 2
    assert "cannot write to the folder" in capsys.readouterr().err
