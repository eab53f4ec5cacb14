"""`triton_docker_args` as words of `docker run`."""

from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.values import mapping, wrong

_VALUED = {
    name: name.replace("_", "-")
    for name in (
        "blkio_weight", "blkio_weight_device", "cap_add", "cap_drop", "cgroup_parent", "cgroupns", "cpu_count",
        "cpu_percent", "cpu_period", "cpu_quota", "cpuset_cpus", "cpuset_mems", "domainname", "entrypoint",
        "hostname", "isolation", "kernel_memory", "mac_address", "network", "oom_score_adj", "pids_limit",
        "platform", "runtime", "shm_size", "stop_signal", "user", "volume_driver",
    )
} | {
    "cpu_rt_period": "cpu-rt-period",
    "cpu_shares": "cpu-shares",
    "ipc_mode": "ipc",
    "mem_limit": "memory",
    "mem_reservation": "memory-reservation",
    "memswap_limit": "memory-swap",
    "network_mode": "network",
    "pid_mode": "pid",
    "userns_mode": "userns",
    "uts_mode": "uts",
    "volumes": "volume",
    "working_dir": "workdir",
}  # fmt: skip
_SWITCHES = {
    "oom_kill_disable": "oom-kill-disable",
    "privileged": "privileged",
    "publish_all_ports": "publish-all",
    "stdin_open": "interactive",
}
_OURS = {
    "image": "--triton-docker-image",
    "name": "nothing: the tool names its container",
    "command": "triton_server_flags",
    "auto_remove": "nothing: the container is always removed",
    "remove": "nothing: the container is always removed",
    "detach": "nothing: the tool watches the container",
    "init": "nothing: it is always on",
    "stream": "--triton-output-path",
    "stdout": "--triton-output-path",
    "stderr": "--triton-output-path",
    "tty": "nothing: there is no terminal",
    "version": "nothing: the docker command knows its own",
    "init_path": "nothing: docker's own init is used",
    "nano_cpus": "cpu_quota and cpu_period",
    "network_disabled": "network_mode: none",
    "use_config_proxy": "environment",
}


def docker_args(path: str, value: Any) -> tuple[str, ...]:
    """In the user's order; what the tool does itself is refused, with what to use instead."""
    return tuple(word for name, row in mapping(path, value).items() for word in _words(path, name, row))


def _words(path: str, name: str, value: Any) -> list[str]:
    where = f"{path}.{name}"
    if name in _OURS:
        raise UsageError(f"{where} cannot be given", remedy=f"use {_OURS[name]}")
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise wrong(where, value, "true or false")
        return [f"--{_SWITCHES[name]}"] if value else []
    if name in ("environment", "labels"):
        option = "env" if name == "environment" else "label"
        return [word for pair in _pairs(where, value) for word in (f"--{option}", pair)]
    if name not in _VALUED:
        known = sorted([*_VALUED, *_SWITCHES, *_OURS, "environment", "labels"])
        raise UsageError(f"{where} is not an argument of docker run", remedy=f"they are {', '.join(known)}")
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, (str, int, float)):
            raise wrong(where, row, "a text, a number, or a list of texts")
    return [word for row in rows for word in (f"--{_VALUED[name]}", str(row))]


def _pairs(path: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}={row}" for name, row in value.items()]
    if isinstance(value, list) and all(isinstance(row, str) for row in value):
        return list(value)
    raise wrong(path, value, "a mapping of names to texts, or a list of NAME=TEXT")
