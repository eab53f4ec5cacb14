"""Flags passed on to the load generator, to the server, and to `docker run`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.text import decode_json
from inferometer.dialects.model_analyzer.values import (
    Read,
    choice,
    flag,
    mapping,
    number,
    text,
    texts_by_name,
    whole,
    wrong,
)
from inferometer.tune.settings import LENGTHS

Flags = tuple[tuple[str, Any], ...]

# In command-line order.
LOAD_FLAGS = (
    "service-kind", "model-signature-name", "async", "sync", "measurement-interval", "concurrency-range",
    "request-rate-range", "request-distribution", "request-intervals", "binary-search", "num-of-sequences",
    "latency-threshold", "max-threads", "stability-percentage", "max-trials", "percentile", "input-data",
    "shared-memory", "output-shared-memory-size", "shape", "sequence-length", "sequence-id-range",
    "string-length", "string-data", "measurement-mode", "measurement-request-count", "streaming",
    "grpc-compression-algorithm", "triton-server-directory", "model-repository", "ssl-grpc-use-ssl",
    "ssl-grpc-root-certifications-file", "ssl-grpc-private-key-file", "ssl-grpc-certificate-chain-file",
    "ssl-https-verify-peer", "ssl-https-verify-host", "ssl-https-ca-certificates-file",
    "ssl-https-client-certificate-type", "ssl-https-client-certificate-file", "ssl-https-private-key-type",
    "ssl-https-private-key-file", "collect-metrics", "metrics-url", "metrics-interval",
    "bls-composing-models", "model-name", "model-version", "batch-size", "url", "protocol",
    "latency-report-file", "http-header", "verbose", "extra-verbose", "verbose-csv",
)  # fmt: skip
SWITCHES = (
    "streaming", "async", "sync", "binary-search", "ssl-grpc-use-ssl", "collect-metrics",
    "verbose", "extra-verbose", "verbose-csv",
)  # fmt: skip
REPEATED = ("input-data", "shape", "http-header")
SHORT = {
    "model-name": "-m", "model-version": "-x", "batch-size": "-b", "url": "-u", "protocol": "-i",
    "latency-report-file": "-f", "http-header": "-H", "verbose": "-v",
}  # fmt: skip

# Flags that determine the data: measurements with different values are not interchangeable.
DATA_FLAGS = (
    "service-kind", "model-signature-name", "streaming", "input-data", "shared-memory", "shape",
    "num-of-sequences", "sequence-length", "sequence-id-range", "string-length", "string-data",
    "grpc-compression-algorithm", "request-distribution", "model-version",
)  # fmt: skip

# Options of the load generator that the tuner sets itself, and the settings to use instead. The classic tool passes
# them on with a warning, so files that contain them must be accepted.
SET_BY_TUNER = {
    "model-name": "profile_models names the models",
    "latency-report-file": "the tables are below export_path",
    "verbose": "-v shows more",
    "extra-verbose": "-v shows more",
    "verbose-csv": "the tables are below export_path",
    "binary-search": "the search already bisects towards constraints",
    "latency-threshold": "latency_budget sets a limit",
    "triton-server-directory": "triton_install_path names the installation",
    "model-repository": "model_repository names the folder",
    "bls-composing-models": "bls_composing_models names them",
}

SERVER_FLAGS = frozenset(
    {
        "allow-cpu-metrics", "allow-gpu-metrics", "allow-grpc", "allow-http", "allow-metrics",
        "allow-sagemaker", "allow-vertex-ai", "allow-poll-model-repository", "allow-profiling",
        "backend-config", "backend-directory", "buffer-manager-thread-count", "cache-config",
        "cache-directory", "cuda-memory-pool-byte-size", "cuda-virtual-address-size",
        "disable-auto-complete-config", "enable-peer-access", "exit-on-error", "exit-timeout-secs",
        "grpc-address", "grpc-header-forward-pattern", "grpc-http2-max-ping-strikes",
        "grpc-http2-max-pings-without-data", "grpc-http2-min-recv-ping-interval-without-data",
        "grpc-infer-allocation-pool-size", "grpc-infer-response-compression-level",
        "grpc-infer-thread-count", "grpc-keepalive-permit-without-calls", "grpc-keepalive-time",
        "grpc-keepalive-timeout", "grpc-max-connection-age", "grpc-max-connection-age-grace",
        "grpc-max-response-pool-size", "grpc-port", "grpc-restricted-protocol", "grpc-root-cert",
        "grpc-server-cert", "grpc-server-key", "grpc-stream-infer-thread-count", "grpc-use-ssl",
        "grpc-use-ssl-mutual", "host-policy", "http-address", "http-header-forward-pattern",
        "http-max-input-size", "http-port", "http-restricted-api", "http-thread-count", "id",
        "load-model", "log-error", "log-file", "log-format", "log-info", "log-verbose", "log-warning",
        "metrics-address", "metrics-config", "metrics-interval-ms", "metrics-port",
        "min-supported-compute-capability", "model-config-name", "model-control-mode",
        "model-load-gpu-limit", "model-load-retry-count", "model-load-thread-count",
        "model-namespacing", "model-repository", "model-store", "pinned-memory-pool-byte-size",
        "rate-limit", "rate-limit-resource", "repoagent-directory", "repository-poll-secs",
        "response-cache-byte-size", "reuse-grpc-port", "reuse-http-port", "sagemaker-port",
        "sagemaker-safe-port-range", "sagemaker-thread-count", "strict-model-config",
        "strict-readiness", "trace-config", "trace-count", "trace-file", "trace-level",
        "trace-log-frequency", "trace-rate", "vertex-ai-default-model", "vertex-ai-port",
        "vertex-ai-thread-count",
    }
)  # fmt: skip
OWN_SERVER_FLAGS = (
    "model-repository", "http-port", "grpc-port", "metrics-port", "model-control-mode",
    "metrics-interval-ms", "strict-model-config",
)  # fmt: skip


def load_flags(path: str, value: Any) -> Flags:
    """Read `perf_analyzer_flags`: known names, in the fixed order."""
    found = {name: row for name, row in mapping(path, value).items() if row is not None}
    for name, row in found.items():
        if name not in LOAD_FLAGS:
            close = name.replace("_", "-")
            hint = f"write {close}" if close in LOAD_FLAGS else f"they are {', '.join(LOAD_FLAGS)}"
            raise UsageError(f"{path}.{name} is not an option of the load generator", remedy=hint)
        _check_value(f"{path}.{name}", name, row)
    found |= {name: flag(f"{path}.{name}", row) for name, row in found.items() if name in SWITCHES}
    return tuple((name, found[name]) for name in LOAD_FLAGS if name in found)


def _check_value(path: str, name: str, value: Any) -> None:
    if isinstance(value, list) and name in REPEATED and value:
        for place, item in enumerate(value):
            _check_value(f"{path}[{place}]", "", item)
        return
    if value is None or isinstance(value, (list, dict)):
        raise wrong(path, value, f"a text or a number{' or a list of them' if name in REPEATED else ''}")


def words(flags: Iterable[tuple[str, Any]]) -> list[str]:
    """Return flags as words of a command line; a switch that is off is omitted."""
    found: list[str] = []
    for name, value in flags:
        option = SHORT.get(name, f"--{name}")
        if name in SWITCHES:
            found += [option] if flag(name, value) else []
            continue
        for row in value if isinstance(value, list) else [value]:
            found += [option, str(row).lower() if isinstance(row, bool) else str(row)]
    return found


def data_flags(flags: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    """Return the flags that determine the data, in one spelling."""
    return {
        name: [str(row) for row in (value if isinstance(value, list) else [value])]
        for name, value in flags
        if name in DATA_FLAGS and value not in (None, False)
    }


def server_flags(path: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Read `triton_server_flags`: names known to the server, with dashes or underscores; null leaves one out."""
    found = texts_by_name(path, {name: row for name, row in mapping(path, value).items() if row is not None})
    for name in found:
        if name.replace("_", "-") not in SERVER_FLAGS:
            raise UsageError(
                f"{path}.{name} is not an option of the server",
                remedy=f"they are {', '.join(sorted(SERVER_FLAGS))}",
            )
    return tuple((name.replace("_", "-"), row) for name, row in found.items())


# --- GenAI-Perf


def _tokenizer(path: str, value: Any) -> str:
    """Read the path of a local file or folder."""
    found = text(path, value)
    if not Path(found).exists():
        raise UsageError(
            f"{path} is '{found}', which is not a file or folder here, and tokenizers are not downloaded",
            remedy="give a tokenizer.json or its folder, or leave it out to count common words as tokens",
        )
    return found


def _extra_inputs(path: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Read a mapping, or GenAI-Perf's notation: NAME:VALUE, a JSON object, or a list of them."""
    if isinstance(value, list):
        return tuple(pair for row in value for pair in _extra_inputs(path, row))
    found = _read_json(value) if isinstance(value, str) else value
    if isinstance(found, str):
        name, colon, rest = found.partition(":")
        found = {name.strip(): _read_json(rest.strip())} if colon and name.strip() else None
    if not isinstance(found, Mapping) or not _is_json(found):
        raise wrong(path, value, "a mapping of names to values, or words such as temperature:0")
    return tuple((str(name), row) for name, row in found.items())


def _read_json(word: str) -> Any:
    """Return the JSON value, or the word itself if it is not JSON."""
    try:
        return decode_json(word)
    except ValueError:
        return word


def _is_json(value: object) -> bool:
    """Whether a value is JSON: YAML also has dates."""
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


GENAI_FLAGS: Mapping[str, Read] = {
    "backend": choice(*LENGTHS),
    "endpoint": text,
    "service-kind": choice("triton", "openai"),
    "url": text,
    "expected-output-tokens": whole(1),
    "input-tokens-mean": whole(1),
    "input-tokens-stddev": number(),
    "input-type": choice("synthetic", "file"),
    "input-file": text,
    "num-of-output-prompts": whole(1),
    "random-seed": whole(0),
    "streaming": flag,
    "tokenizer": _tokenizer,
    "prefix-prompt-length": whole(1),
    "num-prefix-prompts": whole(1),
    "output-tokens-stddev": number(),
    "extra-inputs": _extra_inputs,
}
# Names in later versions of GenAI-Perf.
_NEWER = {
    "output-tokens-mean": "expected-output-tokens",
    "osl": "expected-output-tokens",
    "isl": "input-tokens-mean",
    "synthetic-input-tokens-mean": "input-tokens-mean",
    "synthetic-input-tokens-stddev": "input-tokens-stddev",
    "num-prompts": "num-of-output-prompts",
    "num-dataset-entries": "num-of-output-prompts",
    "endpoint-type": "endpoint",
}
_REFUSED = {
    "input-dataset": (
        "names a dataset on the internet, but nothing is downloaded",
        "give prompts with input-file, one per line, or leave it out to generate them",
    ),
    "goodput": (
        "has no effect: no result of model-analyzer contains goodput",
        "limit the figures themselves, such as constraints: {time_to_first_token_p99: {max: 500}}",
    ),
}


def genai_flags(path: str, value: Any) -> Mapping[str, Any]:
    """Read the flags of GenAI-Perf; return values by their canonical names."""
    found: dict[str, Any] = {}
    for name, row in mapping(path, value).items():
        if name in _REFUSED:
            why, remedy = _REFUSED[name]
            raise UsageError(f"{path}.{name} {why}", remedy=remedy)
        known = _NEWER.get(name, name)
        if known not in GENAI_FLAGS:
            raise UsageError(
                f"{path}.{name} is not a flag of the built-in load generator",
                remedy=f"they are {', '.join([*GENAI_FLAGS, *_NEWER])}",
            )
        if row is not None:
            found[known] = GENAI_FLAGS[known](f"{path}.{name}", row)
    if (found.get("input-type") == "file") != ("input-file" in found):
        raise UsageError(
            f"{path}.input-type and {path}.input-file are inconsistent",
            remedy="use input-type file together with input-file",
        )
    if "num-prefix-prompts" in found and "prefix-prompt-length" not in found:
        raise UsageError(
            f"{path}.num-prefix-prompts requires {path}.prefix-prompt-length",
            remedy="set prefix-prompt-length to the number of tokens of each prefix",
        )
    if "output-tokens-stddev" in found and "expected-output-tokens" not in found:
        raise UsageError(
            f"{path}.output-tokens-stddev requires {path}.output-tokens-mean",
            remedy="set output-tokens-mean to the average length of answers",
        )
    for name in ("tokenizer", "prefix-prompt-length"):
        if name in found and "input-file" in found:
            raise UsageError(
                f"{path}.{name} applies only to generated prompts, but {path}.input-file contains prompts",
                remedy="leave one of them out",
            )
    return found


# --- docker run


_VALUED = {
    name: name.replace("_", "-")
    for name in (
        "blkio_weight", "blkio_weight_device", "cap_add", "cap_drop", "cgroup_parent", "cgroupns", "cpu_count",
        "cpu_percent", "cpu_period", "cpu_quota", "cpu_rt_period", "cpu_shares", "cpuset_cpus", "cpuset_mems",
        "domainname", "entrypoint", "hostname", "isolation", "kernel_memory", "mac_address", "network",
        "oom_score_adj", "pids_limit", "platform", "runtime", "shm_size", "stop_signal", "user", "volume_driver",
    )
} | {
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
_DOCKER_SWITCHES = {
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
    "init": "nothing: an init process is always used",
    "stream": "--triton-output-path",
    "stdout": "--triton-output-path",
    "stderr": "--triton-output-path",
    "tty": "nothing: there is no terminal",
    "version": "nothing: the docker command negotiates the version",
    "init_path": "nothing: docker's own init is used",
    "nano_cpus": "cpu_quota and cpu_period",
    "network_disabled": "network_mode: none",
    "use_config_proxy": "environment",
}


def docker_args(path: str, value: Any) -> tuple[str, ...]:
    """Read `triton_docker_args`, in the user's order; arguments that the tool sets itself are refused."""
    return tuple(
        word for name, row in mapping(path, value).items() for word in _docker_words(path, name, row)
    )


def _docker_words(path: str, name: str, value: Any) -> list[str]:
    where = f"{path}.{name}"
    if name in _OURS:
        raise UsageError(f"{where} cannot be given", remedy=f"use {_OURS[name]}")
    if name in _DOCKER_SWITCHES:
        if not isinstance(value, bool):
            raise wrong(where, value, "true or false")
        return [f"--{_DOCKER_SWITCHES[name]}"] if value else []
    if name in ("environment", "labels"):
        option = "env" if name == "environment" else "label"
        return [word for pair in _pairs(where, value) for word in (f"--{option}", pair)]
    if name not in _VALUED:
        known = sorted([*_VALUED, *_DOCKER_SWITCHES, *_OURS, "environment", "labels"])
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
