"""Options of commands about servers and clients of this machine: `serve`, `demo`, `quick`, `selftest`, `clients`."""

from pathlib import Path
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.options import outputs
from inferometer.options.amounts import bandwidth, data_size, per_second
from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import choice, duration, label, path, share, whole

USUAL_PORTS = (8000, 8001, 8002)


def _port(service: str, usual: int) -> Any:
    return option(
        f"--{service}-port",
        f"Port of the {service} service (default: {usual} if free, else any free port; 0 picks a free port)",
        whole("PORT", least=0),
    )


@frozen
class ServeOptions:
    """Options of `serve`."""

    model_repository: tuple[Path, ...] = option(
        "--model-repository",
        "Model repository; may be given several times (default: the example models)",
        path("DIR", Reach.RUNS_CODE),
        group="Server",
        combine=appended,
    )
    models: str | None = option(
        "--models",
        "Example models to serve: basic, or vocoder (a small vocoder in four variants to compare)",
        choice("NAME", "basic", "vocoder"),
        shown="basic",
    )
    http_port: int | None = _port("http", USUAL_PORTS[0])
    grpc_port: int | None = _port("grpc", USUAL_PORTS[1])
    metrics_port: int | None = _port("metrics", USUAL_PORTS[2])
    load_model: tuple[str, ...] = option(
        "--load-model",
        "Load only this model; may be given several times (default: all)",
        label("NAME"),
        combine=appended,
    )
    log_file: Path | None = option("--log-file", "Write the server's log to this file", path())


@frozen
class SelftestOptions:
    """Options of `selftest`."""

    json: Path | None = option("--json", "Write all figures to this file", path(), group="Selftest")
    quick: bool = option("--quick", "Run a shorter, rougher test of about 20 seconds")
    allow_inconclusive: bool = outputs.inconclusive_allowed()


@frozen
class ClientsOptions:
    """Options of `clients`."""

    rate: float = option(
        "--rate",
        "Requests per second that all clients send together, such as 250k or 2M",
        per_second,
        default=0.0,
        shown="",
        group="Load",
        is_required=True,
    )
    grpc: bool = option("--grpc", "Send requests over gRPC instead of HTTP")
    request_size: float = option(
        "--request-size", "Bytes of data in a request, such as 64kB", data_size, default=64, shown="64"
    )
    reply_size: float = option(
        "--reply-size", "Bytes of data in a reply, such as 4kB", data_size, default=0, shown="0"
    )
    cores: int | None = option(
        "--cores",
        "Cores per client machine (default: those of this machine)",
        whole("N", least=1),
        group="Machines",
    )
    network: float = option(
        "--network",
        "Network bandwidth per client in each direction, such as 25Gbit",
        bandwidth,
        default=10e9,
        shown="10Gbit",
    )
    headroom: float = option(
        "--headroom",
        "Share of its cores and network that each client keeps unused, so that it is not the bottleneck",
        share(zero=True),
        default=0.3,
        shown="30%",
    )
    quick: bool = option("--quick", "Measure this machine for a shorter time, less precisely", group="Output")
    json: Path | None = option("--json", "Write all figures to this file", path())


@frozen
class DemoOptions:
    """Options of `demo`."""

    folder: Path = option(
        "--folder", "Folder for the results", path("DIR"), default=Path("inferometer-demo"), group="Output"
    )


@frozen
class QuickOptions:
    """Options of `quick`."""

    duration_s: float = option(
        "-d --duration",
        "Time for all servers together, such as 2m",
        duration(zero=False),
        default=60.0,
        shown="1m",
        group="Load",
    )
    list: bool = option("--list", "List the servers found, without load")
