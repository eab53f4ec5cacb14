"""Real servers of other makers, each in an environment of its own that `make test-live` installs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from inferometer.cli import main
from inferometer.dialects.perf_analyzer import main as perf_analyzer

HERE = Path(__file__).parent
ROOT = Path(os.environ.get("INFEROMETER_PEERS", HERE.parent.parent))
COMMANDS = {"perf_analyzer": perf_analyzer.main, "inferometer": main.main}
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that is over, and the result it wrote."""

    code: int
    stdout: str
    stderr: str
    result: dict[str, Any]

    @property
    def measurement(self) -> dict[str, Any]:
        (level,) = self.result["levels"]
        found: dict[str, Any] = level["measurement"]
        return found


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ended]:
    def call(command: str, *words: str) -> Ended:
        path = tmp_path / "result.json"
        path.unlink(missing_ok=True)
        capfd.readouterr()
        code = COMMANDS[command]([*words, "--json", str(path)])
        result = json.loads(path.read_text()) if path.exists() else {}
        return Ended(code, *capfd.readouterr(), result)

    return call


def environment(name: str) -> Path:
    """The Python of a server's environment."""
    python = ROOT / f".venv-{name}" / "bin" / "python"
    assert python.exists(), f"{python} is missing: run `make test-live`"
    return python


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def started(command: Sequence[str | Path], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process group of its own, which ends with the block."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_until(
    holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, deadline_s: float = DEADLINE_S
) -> None:
    end = time.monotonic() + deadline_s
    while not holds():
        assert process.poll() is None and time.monotonic() < end, log.read_text()[-3000:]  # noqa: PT018
        time.sleep(0.05)


def answers(port: int) -> bool:
    with closing(socket.socket()) as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True, slots=True)
class MlServer:
    http: str
    grpc: str


@pytest.fixture(scope="session")
def mlserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlServer]:
    folder = tmp_path_factory.mktemp("mlserver")
    models = folder / "models"
    shutil.copytree(HERE / "mlserver_models", models)
    http, grpc, metrics = free_ports(3)
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "parallel_workers": 0,
        "metrics_endpoint": None,
    }
    (models / "settings.json").write_text(json.dumps(settings))
    program, log = environment("mlserver").parent / "mlserver", folder / "log"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with started([program, "start", models], log, cwd=folder, env=clean) as process:
        wait_until(
            lambda: answers(http) and answers(grpc) and b"'upper' success" in log.read_bytes(), process, log
        )
        yield MlServer(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")


@contextmanager
def llama_server(folder: Path, *words: str) -> Iterator[str]:
    """The address of a llama.cpp server."""
    log, address = folder / "log", folder / "address"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with started([environment("llama"), HERE / "llama_server.py", folder, *words], log, env=clean) as process:
        wait_until(address.exists, process, log)
        yield address.read_text()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama")) as address:
        yield address


@pytest.fixture(scope="session")
def llama_embeddings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama-embeddings"), "embeddings") as address:
        yield address


@pytest.fixture(scope="session")
def llama_rerank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama-rerank"), "rerank") as address:
        yield address


def offline(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a server that loads models from `folder` and never asks a hub for them."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return clean | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder)} | more


@dataclass(frozen=True, slots=True)
class Transformers:
    address: str
    model: str


@pytest.fixture(scope="session")
def transformers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transformers]:
    """The server in `transformers`, on a small random model; it finds nothing on a hub."""
    folder = tmp_path_factory.mktemp("transformers")
    python, model, log = environment("transformers"), folder / "tiny", folder / "log"
    clean = offline(folder, OMP_NUM_THREADS="1")
    subprocess.run([python, HERE / "transformers_model.py", model], env=clean, check=True, timeout=DEADLINE_S)
    (port,) = free_ports(1)
    words = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with started([python.parent / "transformers", "serve", model, *words], log, env=clean) as process:
        wait_until(lambda: answers(port), process, log)
        yield Transformers(f"127.0.0.1:{port}", str(model))


@dataclass(frozen=True, slots=True)
class Vllm:
    address: str
    slots: int  # that it has for requests at once


VLLM_SLOTS = 4
VLLM_DEADLINE_S = 300.0  # it compiles and warms up


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """vLLM on CPUs, with a small random model, few slots and its own metrics."""
    folder = tmp_path_factory.mktemp("vllm")
    python, model, log = environment("vllm"), folder / "tiny", folder / "log"
    threads = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    clean = offline(folder, VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1", **threads)
    subprocess.run([python, HERE / "vllm_model.py", model], env=clean, check=True, timeout=VLLM_DEADLINE_S)
    (port,) = free_ports(1)
    command: list[str | Path] = [python.parent / "vllm", "serve", model, "--served-model-name", "tiny"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "2048"]
    command += ["--max-num-seqs", str(VLLM_SLOTS), "--enforce-eager", "--no-enable-prefix-caching"]
    with started(command, log, env=clean, cwd=folder) as process:
        wait_until(lambda: answers(port), process, log, VLLM_DEADLINE_S)
        yield Vllm(f"127.0.0.1:{port}", VLLM_SLOTS)


@dataclass(frozen=True, slots=True)
class TorchServe:
    inference: str
    management: str
    metrics: str


@pytest.fixture(scope="session")
def torchserve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorchServe]:
    """Two models: `echo`, and `broken`, whose worker never comes up."""
    assert shutil.which("java"), "TorchServe needs Java 17: apt-get install default-jre-headless"
    folder, source = tmp_path_factory.mktemp("torchserve"), HERE / "torchserve"
    programs = environment("torchserve").parent
    clean = os.environ | {
        "PYTHONPATH": str(source),  # has the name `torch`, of which the worker needs no more
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "LOG_LOCATION": str(folder),
        "METRICS_LOCATION": str(folder),
    }
    for name in ("echo", "broken"):
        handler = source / f"{name}_handler.py"
        words = ["--model-name", name, "--version", "1.0", "--handler", handler, "--export-path", folder]
        subprocess.run([programs / "torch-model-archiver", *words], env=clean, check=True, timeout=DEADLINE_S)
    inference, management, metrics, grpc_inference, grpc_management = free_ports(5)
    settings = folder / "config.properties"
    settings.write_text(
        f"inference_address=http://127.0.0.1:{inference}\n"
        f"management_address=http://127.0.0.1:{management}\n"
        f"metrics_address=http://127.0.0.1:{metrics}\n"
        f"grpc_inference_address=127.0.0.1\ngrpc_management_address=127.0.0.1\n"
        f"grpc_inference_port={grpc_inference}\ngrpc_management_port={grpc_management}\n"
        f"model_store={folder}\nload_models=echo.mar\ndefault_workers_per_model=1\n"
        "enable_model_api=true\ndisable_system_metrics=true\nmetrics_mode=prometheus\n"
    )
    log = folder / "log"
    options = ("--foreground", "--ts-config", settings, "--disable-token-auth")
    with started([programs / "torchserve", *options], log, cwd=folder, env=clean) as process:
        wait_until(
            lambda: answers(inference) and b"WORKER_STARTED -> WORKER_MODEL_LOADED" in log.read_bytes(),
            process,
            log,
        )
        found = TorchServe(*(f"127.0.0.1:{port}" for port in (inference, management, metrics)))
        url = f"http://{found.management}/models?url=broken.mar&initial_workers=1&synchronous=false"
        with urlopen(Request(url, method="POST"), timeout=DEADLINE_S):
            yield found
