"""Levels or requests of a result as pandas or polars data frames; column names end in units."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from inferometer.base.reading import DATA, check_file, read_text
from inferometer.base.text import decode_json
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.measurement import Level, Measurement

PERCENTILES = (50, 90, 95, 99)


def frame(library: str, levels: Sequence[Level], export: str | None) -> Any:
    """Return a `DataFrame` of the levels, or of the requests in an export."""
    try:
        found = import_module(library)
    except ImportError:
        raise ImportError(
            f"to_{library}() requires {library}, which is not installed: pip install {library}"
        ) from None
    if export is None:
        return found.DataFrame(level_columns(levels))
    if Path(export).suffix.lower() == ".parquet":
        check_file(export, DATA, "the export")
        return found.read_parquet(export)
    return found.DataFrame(_requests(export))


def _requests(export: str) -> dict[str, list[Any]]:
    """Return a row for each request of a JSON export."""
    rows = [
        {
            "concurrency": load["value"] if load["mode"] == "concurrency" else None,
            "rate_per_s": None if load["mode"] == "concurrency" else load["value"],
            "sent_ns": row["timestamp"],
            "latency_ms": (times[-1] - row["timestamp"]) / NS_PER_MS if times else None,
            "responses": len(times),
            "sequence_id": row.get("sequence_id"),
        }
        for part in decode_json(read_text(export, DATA, "the export"))["experiments"]
        for load in (part["experiment"],)
        for row in part["requests"]
        for times in (row["response_timestamps"],)
    ]
    names = ("concurrency", "rate_per_s", "sent_ns", "latency_ms", "responses", "sequence_id")
    return {name: [row[name] for row in rows] for name in names}


def level_columns(levels: Sequence[Level]) -> dict[str, list[Any]]:
    """Return a row for each level; unknown figures are None."""
    rows = [_row(level, level.measurement) for level in levels]
    return {name: [row[name] for row in rows] for name in _row(_NOTHING, None)}


_NOTHING = Level("concurrency", 0.0, None, (), False, False)


def _row(level: Level, found: Measurement | None) -> dict[str, Any]:
    is_rate = level.mode != "concurrency"
    per_s = None if found is None else found.infer_per_s
    times = None if found is None or not found.latency.count else found.latency
    known = {} if times is None else dict(times.percentiles)
    return {
        "concurrency": None if is_rate else level.value,
        "rate_per_s": level.value if is_rate else None,
        "infer_per_s": None if per_s is None else per_s.value,
        "infer_per_s_low": None if per_s is None else per_s.low,
        "infer_per_s_high": None if per_s is None else per_s.high,
        "latency_mean_ms": None if times is None else times.mean_ns / NS_PER_MS,
        **{f"latency_p{p}_ms": known[p] / NS_PER_MS if p in known else None for p in PERCENTILES},
        "latency_max_ms": None if times is None or times.max_ns is None else times.max_ns / NS_PER_MS,
        "requests": None if found is None else found.request_count,
        "failed_requests": None if found is None else found.failed_count,
        "checked_answers": None if found is None or found.checks is None else found.checks.checked,
        "wrong_answers": None if found is None or found.checks is None else found.checks.wrong,
        "duration_s": None if found is None else found.duration_ns / NS_PER_S,
        "client_cpu_cores": None if found is None or not found.client.workers else found.client.cpu_share,
        "remarks": "; ".join(remark.text for remark in level.remarks),
    }
