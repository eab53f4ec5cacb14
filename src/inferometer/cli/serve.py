"""`inferometer serve`: run an embedded Triton server until Ctrl-C."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.signals import handled_by, note_signal
from inferometer.base.text import to_stderr
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import Command, Request
from inferometer.options.machines import USUAL_PORTS, ServeOptions

if TYPE_CHECKING:
    from inferometer.server.embedded import EmbeddedTriton

COMMAND = Command(
    "inferometer serve",
    "[options]",
    "Start the real Triton server from the nvidia-pytriton wheel and run it until Ctrl-C. "
    "Model control is explicit: load and unload models through the server's API.",
    ServeOptions,
    shared=CONFIG,
)


def run(request: Request[ServeOptions]) -> int:
    from inferometer.server.embedded import EmbeddedTriton
    from inferometer.server.guarded import empty_log
    from inferometer.server.wheel import find_wheel

    asked = request.own
    if asked.models and asked.model_repository:
        raise UsageError(
            "--models selects example models, but --model-repository gives others",
            remedy="give one of them",
        )
    ports = (asked.http_port, asked.grpc_port, asked.metrics_port)
    http, grpc, metrics = (_choose(port, usual) for port, usual in zip(ports, USUAL_PORTS, strict=True))
    find_wheel()  # before any warning: the wheel is required
    empty_log(asked.log_file)
    stop = threading.Event()

    def end(number: int, frame: object) -> None:
        note_signal(number)
        stop.set()

    with handled_by(end):
        server = EmbeddedTriton(
            _repositories(asked),
            http_port=http,
            grpc_port=grpc,
            metrics_port=metrics,
            load_models=asked.load_model or None,
            log_file=asked.log_file,
        )
        for remark in server.remarks:
            to_stderr(f"WARNING: {remark.text}; {remark.note.advice}")
        try:
            return _serve(server, stop)
        except InferometerError:
            if stop.is_set():
                return 0  # stopped before it was ready
            raise


def _serve(server: "EmbeddedTriton", stop: threading.Event) -> int:
    with server:
        print(f"HTTP     {server.http_address}")
        print(f"gRPC     {server.grpc_address}")
        print(f"metrics  http://{server.metrics_address}/metrics")
        print(f"log      {server.log_path}")
        print("ready; press Ctrl-C to stop", flush=True)
        while not stop.wait(0.2):
            if not server.is_running():
                to_stderr(f"inferometer serve: the server ended unexpectedly: it {server.end_words()}")
                return 3
    return 0


def _repositories(asked: ServeOptions) -> tuple[Path, ...] | None:
    from inferometer.server.repository import vocoder_repository

    if asked.models == "vocoder":
        return (vocoder_repository(),)
    return asked.model_repository or None


def _choose(asked: int | None, usual: int) -> int:
    """Return the requested port, else the usual one if free, else 0 for any."""
    if asked is not None:
        return asked
    from inferometer.server.ports import is_free

    return usual if is_free(usual) else 0
