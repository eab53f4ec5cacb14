"""TorchServe's counters out of its metrics page, in the form that statistics have here."""

from collections.abc import Mapping
from typing import Any

from inferometer.wire.prometheus import metric_lines

_REQUESTS = "ts_inference_requests_total"
_LATENCY = "ts_inference_latency_microseconds"
_QUEUE = "ts_queue_latency_microseconds"
_MOST = 2.0**53  # a counter above it has lost its last digits


def rows(page: str, model: str) -> list[Mapping[str, Any]]:
    """A row for each version of the model: requests, the time they took in the server, and of it the time in the queue.

    What is not queue is called inference: it holds the worker with its handler and the way there and back.
    """
    found: dict[str, dict[str, float]] = {}
    for row in metric_lines(page):
        if row.labels.get("model_name") == model and 0 <= row.value < _MOST:
            version = found.setdefault(row.labels.get("model_version", ""), {})
            version[row.name] = version.get(row.name, 0.0) + row.value
    return [_row(model, version, counters) for version, counters in sorted(found.items())]


def _row(model: str, version: str, counters: Mapping[str, float]) -> Mapping[str, Any]:
    count = round(counters.get(_REQUESTS, 0))
    whole_ns, queue_ns = (round(counters.get(name, 0) * 1000) for name in (_LATENCY, _QUEUE))
    return {
        "name": model,
        "version": version,
        "inference_count": count,
        "execution_count": count,
        "inference_stats": {
            "success": {"count": count, "ns": whole_ns},
            "queue": {"count": count, "ns": queue_ns},
            "compute_infer": {"count": count, "ns": max(0, whole_ns - queue_ns)},
        },
    }
