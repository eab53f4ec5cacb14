"""Effective settings of a run: the options after the server was queried, and the values derived from them."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from inferometer.base.frozen import frozen
from inferometer.base.units import INFERENCES, REQUESTS
from inferometer.options.options import Options

_REQUEST_KINDS = ("http", "dynamic_grpc", "openai")  # service kinds whose requests are not inferences


@frozen
class Effective:
    """The settings of a result. Fields named like an option hold its value; all other fields are derived."""

    mode: str = "concurrency"  # the kind of load
    service_kind: str = ""
    protocol: str = ""
    api: str = ""  # of a text server, named as for --endpoint
    shared_memory: str = "none"
    input_format: str = "binary"
    output_format: str = "binary"
    asynchronous: bool = False
    batch: int = 1
    batch_given: bool = False
    data_given: bool = False  # a file of requests was read
    data_streams: int = 1
    data_steps: int = 1  # of the first stream

    concurrency_start: int = 1
    concurrency_end: int | None = None  # None: not given; 0: open
    concurrency_step: int = 1
    request_rate_start: float | None = None
    request_rate_end: float | None = None
    distribution: str = "constant"
    burstiness: float = 1.0  # shape of gamma and Weibull gaps
    session_concurrency: int | None = None
    think_time: str | None = None
    periodic: tuple[float, float | None, float] | None = None  # start, end, step of a ramp
    request_period: int = 10
    schedule: str = ""  # name and length of a load that ends by itself
    schedule_s: float | None = None
    speed: float = 1.0
    request_count: int = 0  # to send; 0 if unknown
    warmup_request_count: int = 0
    request_timeout_s: float = 0.0
    workers: int | Literal["auto"] = 1

    stopping: str = "stability"  # or precision
    measurement_mode: str = "time_windows"
    measurement_interval_ms: int = 5000
    measurement_request_count: int = 50
    stability_percentage: float = 10.0
    max_trials: int = 10
    duration_s: float | None = None
    precision: float = 0.02
    percentile: int | None = None
    latency_limit_ms: int = 0
    max_error_rate: float = 0.0
    binary_search: bool = False

    verbose: int = 0
    verbose_csv: bool = False
    collect_metrics: bool = False
    metrics_interval_ms: int = 1000

    @property
    def rate_unit(self) -> str:
        """The unit of throughput: inferences, or requests if the server has no model or generates text."""
        return rate_unit(self.service_kind)

    @property
    def batch_words(self) -> str:
        """The batch size; empty if requests are counted."""
        return f"batch {self.batch}" if self.rate_unit == INFERENCES else ""

    def __getitem__(self, name: str) -> Any:
        """Return a setting by name; in 0.1 this class was a mapping."""
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in _NAMES else default


_NAMES = frozenset(field.name for field in dataclasses.fields(Effective))
_TAKEN = _NAMES & {field.name for field in dataclasses.fields(Options)}


def rate_unit(service_kind: str) -> str:
    """The unit of throughput of a kind of servers."""
    return REQUESTS if service_kind in _REQUEST_KINDS else INFERENCES


def common_unit(units: Iterable[str]) -> str:
    """Return the unit of several throughputs: requests if any of them counts requests."""
    return REQUESTS if REQUESTS in units else INFERENCES


def effective(options: Options, **derived: Any) -> Effective:
    """Return the effective settings; derived values take precedence over options of the same name."""
    return Effective(**({name: getattr(options, name) for name in _TAKEN} | derived))
