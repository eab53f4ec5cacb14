"""TorchServe's counters out of its metrics page, in the form that statistics have here."""

import re
from collections.abc import Mapping
from typing import Any

_LINE = re.compile(r"(ts_\w+)\{([^}]*)\}\s+([0-9.eE+-]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_REQUESTS = "ts_inference_requests_total"
_LATENCY = "ts_inference_latency_microseconds"
_QUEUE = "ts_queue_latency_microseconds"


def rows(page: str, model: str) -> list[Mapping[str, Any]]:
    """A row for each version of the model: requests, the time they took in the server, and of it the time in the queue.

    What is not queue is called inference: it holds the worker with its handler and the way there and back.
    """
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in _LINE.findall(page):
        label = dict(_LABEL.findall(labels))
        if label.get("model_name") == model:
            version = found.setdefault(label.get("model_version", ""), {})
            version[name] = version.get(name, 0.0) + float(value)
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
