"""`inferometer serve`: the real Triton, here, until Ctrl-C."""

import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from inferometer.base.errors import UsageError
from inferometer.options.help import read_or_answer
from inferometer.options.option import appended, option, rows
from inferometer.options.values import choice, path, text, whole
from inferometer.options.words import Command, taken

USUAL_PORTS = (8000, 8001, 8002)


def _port(service: str, usual: int) -> int | None:
    return option(
        None,
        f"--{service}-port",
        f"port of the {service} service (default: {usual} if it is free, else a free one; 0 picks a free one)",
        whole("PORT", least=0),
    )


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `serve` is asked."""

    model_repository: tuple[Path, ...] = option(
        (),
        "--model-repository",
        "folder of models; may be given several times (default: the example models)",
        path("DIR"),
        group="Server",
        combine=appended,
    )
    models: str | None = option(
        None,
        "--models",
        "which example models: the basic ones, or a small vocoder in four variants to compare",
        choice("NAME", "basic", "vocoder"),
        shown="basic",
    )
    http_port: int | None = _port("http", USUAL_PORTS[0])
    grpc_port: int | None = _port("grpc", USUAL_PORTS[1])
    metrics_port: int | None = _port("metrics", USUAL_PORTS[2])
    load_model: tuple[str, ...] = option(
        (), "--load-model", "load only these (default: all)", text("NAME"), combine=appended
    )
    log_file: Path | None = option(None, "--log-file", "keep the server's log here", path())


COMMAND = Command(
    "inferometer serve",
    "[options]",
    "Start the real Triton server out of the nvidia-pytriton wheel and keep it until Ctrl-C. "
    "The models are under explicit control: load and unload them through the server's API.",
    rows(ServeOptions),
)


def main(argv: list[str]) -> int:
    given = read_or_answer(argv, COMMAND)
    if given is None:
        return 0
    asked = taken(given, ServeOptions)
    if asked.models and asked.model_repository:
        raise UsageError(
            "--models chooses among the example models, and --model-repository gives others",
            remedy="give one of them",
        )
    return _serve(asked)


def _serve(asked: ServeOptions) -> int:
    from inferometer.server.embedded import EmbeddedTriton

    ports = (asked.http_port, asked.grpc_port, asked.metrics_port)
    http, grpc, metrics = (_choose(port, usual) for port, usual in zip(ports, USUAL_PORTS, strict=True))
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    server = EmbeddedTriton(
        _repositories(asked),
        http_port=http,
        grpc_port=grpc,
        metrics_port=metrics,
        load_models=asked.load_model or None,
        log_file=asked.log_file,
    )
    for remark in server.remarks:
        print(f"WARNING: {remark.text}; {remark.note.advice}", file=sys.stderr)
    with server:
        print(f"HTTP     {server.http_address}")
        print(f"gRPC     {server.grpc_address}")
        print(f"metrics  http://{server.metrics_address}/metrics")
        print(f"log      {server.log_path}")
        print("ready; Ctrl-C stops it", flush=True)
        while not stop.wait(0.2):
            if not server.is_running():
                print("inferometer serve: the server ended by itself; see its log", file=sys.stderr)
                return 3
    return 0


def _repositories(asked: ServeOptions) -> tuple[Path, ...] | None:
    from inferometer.server.repository import vocoder_repository

    if asked.models == "vocoder":
        return (vocoder_repository(),)
    return asked.model_repository or None


def _choose(asked: int | None, usual: int) -> int:
    """The port asked for; else the usual one if it is free, else 0, any."""
    if asked is not None:
        return asked
    from inferometer.server.ports import is_free

    return usual if is_free(usual) else 0
