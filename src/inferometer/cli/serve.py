"""`inferometer serve`: the real Triton, here, until Ctrl-C."""

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

USUAL_PORTS = (8000, 8001, 8002)


def main(argv: list[str]) -> int:
    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog="inferometer serve",
        description="Start the real Triton server out of the nvidia-pytriton wheel and keep it until Ctrl-C. "
        "The models are under explicit control: load and unload them through the server's API.",
        formatter_class=RichHelpFormatter,
    )
    parser.add_argument(
        "--model-repository",
        metavar="DIR",
        action="append",
        type=Path,
        help="folder of models; may be given several times (default: the example models)",
    )
    parser.add_argument(
        "--models",
        choices=("basic", "vocoder"),
        help="which example models: the basic ones, or a small vocoder in four variants to compare (default: basic)",
    )
    for service, port in zip(("http", "grpc", "metrics"), USUAL_PORTS, strict=True):
        parser.add_argument(
            f"--{service}-port",
            metavar="PORT",
            type=int,
            help=f"port of the {service} service (default: {port} if it is free, else a free one; 0 picks a free one)",
        )
    parser.add_argument(
        "--load-model", metavar="NAME", action="append", help="load only these (default: all)"
    )
    parser.add_argument("--log-file", metavar="FILE", type=Path, help="keep the server's log here")
    asked = parser.parse_args(argv)
    if asked.models and asked.model_repository:
        parser.error("--models chooses among the example models, and --model-repository gives others")
    return _serve(asked)


def _serve(asked: argparse.Namespace) -> int:
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
        load_models=None if asked.load_model is None else tuple(asked.load_model),
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


def _repositories(asked: argparse.Namespace) -> tuple[Path, ...] | None:
    from inferometer.server.repository import vocoder_repository

    if asked.models == "vocoder":
        return (vocoder_repository(),)
    return None if asked.model_repository is None else tuple(asked.model_repository)


def _choose(asked: int | None, usual: int) -> int:
    """The port asked for; else the usual one if it is free, else 0, any."""
    if asked is not None:
        return asked
    from inferometer.server.ports import is_free

    return usual if is_free(usual) else 0
