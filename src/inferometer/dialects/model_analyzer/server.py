"""Where the server runs, out of what was asked."""

import os
import shutil
from collections.abc import Sequence
from urllib.parse import urlsplit

from inferometer.base.errors import UsageError
from inferometer.base.text import is_digits
from inferometer.dialects.model_analyzer.asked import Asked, Dialect
from inferometer.dialects.model_analyzer.flags import Flags, ParseOptions, words
from inferometer.dialects.model_analyzer.models import ModelAsked
from inferometer.dialects.model_analyzer.rules import option
from inferometer.server.ports import Ports
from inferometer.tune.settings import IN_PROCESS, Addresses, LaunchSettings, ServerAccess


def launch_settings(
    asked: Asked, dialect: Dialect, models: Sequence[ModelAsked], parse: ParseOptions
) -> LaunchSettings:
    mode = asked["triton_launch_mode"]
    gpus: tuple[str, ...] | None = asked["gpus"]
    environment = expanded(asked["triton_server_environment"])
    if gpus is not None and mode in ("local", IN_PROCESS):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    first = models[0]
    flags = first.get("perf_analyzer_flags", asked["perf_analyzer_flags"])
    options = parse(["-m", first.name, "-i", asked["client_protocol"], *words(_ssl(flags))])
    return LaunchSettings(
        mode=mode,
        repositories=() if asked["model_repository"] is None else (asked["model_repository"],),
        executable=_executable(asked),
        install_path=asked["triton_install_path"],
        ports=_ports(asked, dialect),
        addresses=Addresses(
            asked["triton_http_endpoint"], asked["triton_grpc_endpoint"], asked["triton_metrics_url"]
        ),
        control=ServerAccess(asked["client_protocol"], options.headers, options.tls, options.grpc_tls),
        flags=asked["triton_server_flags"],
        environment=environment,
        log=asked["triton_output_path"],
        timeout_s=float(asked["client_max_retries"]),
        metrics_interval_ms=round(1000 * asked["monitoring_interval"]),
        may_load=not (mode == "remote" and asked["reload_model_disable"]),
        gpus=gpus,
        docker_image=asked["triton_docker_image"],
        docker_words=_docker_words(asked),
        docker_mounts=asked["triton_docker_mounts"],
    )


def _ssl(flags: Flags) -> Flags:
    return tuple(row for row in flags if row[0].startswith("ssl-") or row[0] == "http-header")


def _executable(asked: Asked) -> str | None:
    """As given; else the one on the PATH, as the classic tool does; else the embedded one."""
    if asked.has("triton_server_path"):
        return str(asked["triton_server_path"])
    return shutil.which("tritonserver")


def _ports(asked: Asked, dialect: Dialect) -> Ports:
    def port(name: str, text: str) -> int:
        if dialect.picks_ports and not asked.has(name):
            return 0
        found = text.rpartition(":")[2].strip("/")
        if not is_digits(found):
            raise UsageError(f"{option(name)} is '{text}'", remedy="write it as HOST:PORT")
        return int(found)

    if asked["triton_launch_mode"] not in ("local", "docker"):
        return Ports()
    url = asked["triton_metrics_url"]
    return Ports(
        port("triton_http_endpoint", asked["triton_http_endpoint"]),
        port("triton_grpc_endpoint", asked["triton_grpc_endpoint"]),
        port("triton_metrics_url", urlsplit(url if "//" in url else f"//{url}").netloc),
    )


def _docker_words(asked: Asked) -> tuple[str, ...]:
    found: list[str] = []
    if asked["triton_docker_shm_size"] is not None:
        found += ["--shm-size", asked["triton_docker_shm_size"]]
    for name, value in asked["triton_docker_labels"].items():
        found += ["--label", f"{name}={value}"]
    return (*found, *asked["triton_docker_args"])


def expanded(environment: dict[str, str]) -> dict[str, str]:
    return {name: os.path.expandvars(value) for name, value in environment.items()}
