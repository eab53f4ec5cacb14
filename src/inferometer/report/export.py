"""The per-request export: one JSON object in the classic form, or a Parquet table of one row per request.

Both are written piece by piece beside their final name, and take that name when they are whole.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.writing import replacing, writable
from inferometer.model.numbers import values
from inferometer.options.options import Options
from inferometer.stats.exported import Export, ExportedLevel, ExportedRequest, Value

FORMAT_VERSION = "2.51.0"  # of the classic tool whose form this is
UNSUPPORTED = ("FP16", "BF16")  # the classic form has no values of these
KEPT_TEXTS = 4096  # that are made once, if they are
LONGEST_KEPT = 16 * 1024  # characters at the most
GROUP_ROWS = 20_000  # of a row group, or
GROUP_CHARACTERS = 32 * 1024 * 1024  # of text, whichever comes first


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def check_files(options: Options) -> None:
    """Refuses files asked for that could not be written when the load is over."""
    writable(options.csv, options.json, options.html)
    if options.profile_export is not None:
        exportable(Path(options.profile_export))


def exportable(path: Path) -> None:
    """Refuses, before the load starts, a file that could not be written when it is over."""
    if path.exists():
        raise UsageError(f"'{path}' exists; Path must not already exist.", remedy="give another name")
    writable(path)
    if is_parquet(path):
        _require_pyarrow(path)


def _require_pyarrow(path: Path) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"'{path}' is to be a Parquet file, for which pyarrow cannot be used: {error}",
            remedy="pip install 'inferometer[parquet]', or let the name end in .json",
        ) from error


def write_export(export: Export, path: Path) -> tuple[str, ...]:
    """Write the file; what is to say about it."""
    with replacing(path) as place:
        remarks = _write(export, path, place)
    if export.problem:
        raise LocalError(
            f"'{path}' is not whole: from some time on requests could not be kept: {export.problem}",
            remedy="make room on that disk, or export fewer requests",
        )
    return remarks


def _write(export: Export, path: Path, partial: Path) -> tuple[str, ...]:
    if is_parquet(path):
        _write_parquet(export, partial)
        return ()
    texts = Texts()
    with partial.open("w", encoding="utf-8") as file:
        left_out = _write_json(export, file, texts)
    remarks = [
        f"WARNING: '{path}' has null for '{name}': the export has no {datatype} values."
        for name, datatype in sorted(texts.unsupported)
    ]
    if left_out:
        remarks.append(
            f"WARNING: '{path}' leaves out {left_out} failed requests; a file whose name ends in .parquet has them."
        )
    return tuple(remarks)


# --- JSON


def _write_json(export: Export, file: TextIO, texts: "Texts") -> int:
    """How many requests were left out because they failed: the form has no place for an error."""
    left_out = 0
    file.write('{"experiments":[')
    for number, level in enumerate(export.levels):
        file.write("," if number else "")
        left_out += _write_level(level, file, texts)
    tail = {"version": FORMAT_VERSION, "service_kind": export.service_kind, "endpoint": export.endpoint}
    file.write(f"],{_compact(tail)[1:]}")
    return left_out


def _write_level(level: ExportedLevel, file: TextIO, texts: "Texts") -> int:
    value = int(level.value) if level.mode == "concurrency" else float(level.value)
    left_out = written = 0
    file.write(f'{{"experiment":{_compact({"mode": level.mode, "value": value})},"requests":[')
    for request in level.requests:
        if request.is_good:
            file.write("," if written else "")
            file.writelines(_request(request, texts))
            written += 1
        else:
            left_out += 1
    file.write(f'],"window_boundaries":{_compact(level.boundaries_ns)}}}')
    return left_out


def _request(request: ExportedRequest, texts: "Texts") -> Iterator[str]:
    yield f'{{"timestamp":{request.sent_ns},'
    if request.sequence_id:
        yield f'"sequence_id":{request.sequence_id},'
    yield f'"request_inputs":{texts.inputs(request)},'
    yield f'"response_timestamps":{_compact([response.time_ns for response in request.responses])},'
    yield f'"response_outputs":{texts.outputs(request)}}}'


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Texts:
    """Tensors as JSON text. The same requests and replies come again and again: their text is kept if it is short."""

    def __init__(self) -> None:
        self.unsupported: set[tuple[str, str]] = set()  # (name, datatype) of values that cannot be written
        self._known: dict[tuple[Value, ...], str] = {}

    def inputs(self, request: ExportedRequest) -> str:
        return self._object(request.inputs)

    def outputs(self, request: ExportedRequest) -> str:
        return f"[{','.join(self._object(response.outputs) for response in request.responses)}]"

    def _object(self, fields: tuple[Value, ...]) -> str:
        known = self._known.get(fields)
        if known is not None:
            return known
        rows = [f"{_compact(field.name)}:{self._value(field)}" for field in fields]
        text = f"{{{','.join(rows)}}}"
        if len(text) <= LONGEST_KEPT and len(self._known) < KEPT_TEXTS:
            self._known[fields] = text
        return text

    def _value(self, field: Value) -> str:
        if field.data and field.datatype in UNSUPPORTED:
            self.unsupported.add((field.name, field.datatype))
            return "null"
        return json_value(field.datatype, field.data)


def json_value(datatype: str, data: bytes | None) -> str:
    """A tensor as the classic export writes it: one element bare, several in a flat list, BYTES as one string."""
    if data is None:
        return "null"
    if not data:
        return '""'
    if datatype == "BYTES":
        return _compact(
            data[4:].decode("utf-8", "replace")
        )  # only the first length is taken off, as is the custom
    if datatype == "JSON":
        return _compact(data.decode("utf-8", "replace"))
    try:
        found = values(datatype, data)
    except (KeyError, ValueError):
        return "null"  # no whole number of elements, or of a kind we do not know
    elements = found.tolist()
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        elements = [element if np.isfinite(element) else None for element in elements]  # JSON has no NaN
    return _compact(elements[0] if len(elements) == 1 else elements)


# --- Parquet; docs/output.md lists its columns


def _write_parquet(export: Export, path: Path) -> None:
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
                if len(rows) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
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
