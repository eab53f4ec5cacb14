"""The per-request export as a Parquet table; docs/output.md lists its columns."""

from bisect import bisect_left
from pathlib import Path
from typing import Any

from inferometer.report.export import Texts
from inferometer.stats.exported import Export, ExportedLevel, ExportedRequest

ROWS = 20_000  # of a row group, or
CHARACTERS = 32 * 1024 * 1024  # of text, whichever comes first


def write_parquet(export: Export, path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = _schema(pyarrow, export)
    texts = Texts()
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        characters = 0
        for number, level in enumerate(export.levels):
            for request in level.requests:
                row = _row(number, level, request, texts)
                rows.append(row)
                characters += len(row["request_inputs"]) + len(row["response_outputs"])
                if len(rows) >= ROWS or characters >= CHARACTERS:
                    writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                    rows, characters = [], 0
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


def _schema(pyarrow: Any, export: Export) -> Any:
    whole = pyarrow.int64()
    columns = [
        ("level", pyarrow.int32()),
        ("mode", pyarrow.string()),
        ("value", pyarrow.float64()),
        ("window", pyarrow.int32()),
        ("worker", pyarrow.int32()),
        ("step", pyarrow.int32()),
        ("sequence_id", whole),
        ("due_ns", whole),
        ("sent_ns", whole),
        ("end_ns", whole),
        ("service_ns", whole),
        ("status", pyarrow.string()),
        ("received_bytes", whole),
        ("response_timestamps", pyarrow.list_(whole)),
        ("request_inputs", pyarrow.string()),
        ("response_outputs", pyarrow.string()),
    ]
    about = {"service_kind": export.service_kind, "endpoint": export.endpoint}
    return pyarrow.schema(columns, metadata=about)


def _row(number: int, level: ExportedLevel, request: ExportedRequest, texts: Texts) -> dict[str, Any]:
    return {
        "level": number,
        "mode": level.mode,
        "value": level.value,
        "window": bisect_left(level.boundaries_ns, request.end_ns) - 1,
        "worker": request.worker,
        "step": request.step,
        "sequence_id": request.sequence_id or None,
        "due_ns": request.due_ns,
        "sent_ns": request.sent_ns or None,
        "end_ns": request.end_ns,
        "service_ns": request.end_ns - request.sent_ns if request.sent_ns else None,
        "status": request.status,
        "received_bytes": request.received,
        "response_timestamps": [response.time_ns for response in request.responses],
        "request_inputs": texts.inputs(request),
        "response_outputs": texts.outputs(request),
    }
