"""The figures a configuration can be judged by: what they are called, which way is better, how they add up."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Across(Enum):
    """How the values of several models (or GPUs) become one."""

    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the catalogue: the tag in files and options, the header in tables."""

    tag: str
    header: str
    is_higher_better: bool
    across: Across = Across.MEAN
    of_gpu: bool = False
    may_min: bool = False  # as a constraint
    may_max: bool = False

    def combine(self, values: Sequence[float]) -> float:
        total = sum(values)
        return total if self.across is Across.SUM else total / len(values)


_STATISTICS = ("avg", "min", "max", "p25", "p50", "p75", "p90", "p95", "p99")


def _token_rows() -> tuple[Metric, ...]:
    return tuple(
        Metric(
            f"{name}_{statistic}",
            f"{_capital(statistic)} {header} (ms)",
            is_higher_better=False,
            may_max=True,
        )
        for name, header in (
            ("inter_token_latency", "Inter Token Latency"),
            ("time_to_first_token", "Time To First Token"),
        )
        for statistic in _STATISTICS
    )


def _capital(statistic: str) -> str:
    return statistic if statistic.startswith("p") else statistic.capitalize()


METRICS = (
    Metric(
        "perf_throughput",
        "Throughput (infer/sec)",
        is_higher_better=True,
        across=Across.SUM,
        may_min=True,
    ),
    Metric("perf_latency_avg", "Avg Latency (ms)", is_higher_better=False, may_max=True),
    Metric("perf_latency_p50", "p50 Latency (ms)", is_higher_better=False, may_max=True),
    Metric("perf_latency_p90", "p90 Latency (ms)", is_higher_better=False, may_max=True),
    Metric("perf_latency_p95", "p95 Latency (ms)", is_higher_better=False, may_max=True),
    Metric("perf_latency_p99", "p99 Latency (ms)", is_higher_better=False, may_max=True),
    Metric("perf_client_response_wait", "Response Wait Time (ms)", is_higher_better=False),
    Metric("perf_client_send_recv", "Client Send/Recv (ms)", is_higher_better=False),
    Metric("perf_server_queue", "Server Queue time (ms)", is_higher_better=False),
    Metric("perf_server_compute_input", "Server Compute Input time (ms)", is_higher_better=False),
    Metric("perf_server_compute_infer", "Server Compute Infer time (ms)", is_higher_better=False),
    Metric("perf_server_compute_output", "Server Compute Output time (ms)", is_higher_better=False),
    Metric("perf_server_batch", "Mean Server Batch", is_higher_better=True),
    Metric("perf_error_rate", "Failed Requests (%)", is_higher_better=False, may_max=True),
    Metric(
        "gpu_used_memory",
        "GPU Memory Usage (MB)",
        is_higher_better=False,
        across=Across.SUM,
        of_gpu=True,
        may_max=True,
    ),
    Metric(
        "gpu_free_memory", "GPU Memory Available (MB)", is_higher_better=True, across=Across.SUM, of_gpu=True
    ),
    Metric(
        "gpu_total_memory", "GPU Memory Available (MB)", is_higher_better=True, across=Across.SUM, of_gpu=True
    ),
    Metric("gpu_utilization", "GPU Utilization (%)", is_higher_better=True, of_gpu=True),
    Metric("gpu_power_usage", "GPU Power Usage (W)", is_higher_better=False, of_gpu=True),
    Metric("cpu_used_ram", "RAM Usage (MB)", is_higher_better=False),
    Metric("cpu_available_ram", "RAM Available (MB)", is_higher_better=True),
    Metric("cpu_utilization", "CPU Utilization (%)", is_higher_better=False),
    Metric(
        "output_token_throughput",
        "Output Token Throughput (infer/sec)",
        is_higher_better=True,
        across=Across.SUM,
        may_min=True,
    ),
    *_token_rows(),
)

BY_TAG = {metric.tag: metric for metric in METRICS}

TOKEN_TAGS = frozenset(
    {"output_token_throughput", *(metric.tag for metric in _token_rows())}
)  # only of models that make text

THROUGHPUT = "perf_throughput"
LATENCY_P99 = "perf_latency_p99"
OLD_LATENCY = "perf_latency"  # the classic tool's first name for the p99
