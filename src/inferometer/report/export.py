"""The per-request export: a JSON object in the classic form, or a Parquet table with a row per request.

Both are written piece by piece to a temporary file, which is renamed when it is complete.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.writing import replacing, writable
from inferometer.stats.exported import (
    Export,
    ExportedLevel,
    ExportedRequest,
    Value,
    compact,
    json_value,
)

FORMAT_VERSION = "2.51.0"  # of the classic tool that defines the form
UNSUPPORTED = ("FP16", "BF16")  # the classic form does not support these
KEPT_TEXTS = 4096  # texts that are cached, if they are
LONGEST_KEPT = 16 * 1024  # characters at most
GROUP_ROWS = 20_000  # rows of a row group, or
GROUP_CHARACTERS = 32 * 1024 * 1024  # characters of text, whichever comes first


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def exportable(path: Path) -> None:
    """Refuse, before the load starts, a file that could not be written after it."""
    if path.exists():
        raise UsageError(
            f"'{path}' already exists",
            remedy="give another name",
            classic=f"'{path}' exists; Path must not already exist.",
        )
    writable(path)
    if not is_parquet(path):
        return
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"'{path}' cannot be written as Parquet without pyarrow: {error}",
            remedy="pip install 'inferometer[parquet]', or use a name that ends in .json",
        ) from error


def write_export(export: Export, path: Path) -> tuple[str, ...]:
    """Write the file; return remarks about it."""
    remarks: list[str] = []
    with replacing(path) as partial:
        if is_parquet(path):
            _write_parquet(export, partial)
        else:
            remarks += _write_json(export, path, partial)
    if export.problem:
        raise LocalError(
            f"'{path}' is incomplete: at some point requests could no longer be stored: {export.problem}",
            remedy="free some disk space, or export fewer requests",
        )
    return tuple(remarks)


# --- JSON


def _write_json(export: Export, path: Path, partial: Path) -> Iterator[str]:
    """Write the JSON form; yield remarks about values that it cannot represent."""
    texts = Texts()
    left_out = 0
    with partial.open("w", encoding="utf-8") as file:
        file.write('{"experiments":[')
        for number, level in enumerate(export.levels):
            file.write("," if number else "")
            left_out += _write_level(level, file, texts)
        tail = {"version": FORMAT_VERSION, "service_kind": export.service_kind, "endpoint": export.endpoint}
        file.write(f"],{compact(tail)[1:]}")
    for name, datatype in sorted(texts.unsupported):
        yield f"WARNING: '{path}' has null for '{name}': the export has no {datatype} values."
    if left_out:
        yield (
            f"WARNING: '{path}' leaves out {left_out} failed requests; a file whose name ends in .parquet has them."
        )


def _write_level(level: ExportedLevel, file: TextIO, texts: "Texts") -> int:
    """Write a level; return how many failed requests were left out."""
    value = int(level.value) if level.mode == "concurrency" else float(level.value)
    left_out = written = 0
    file.write(f'{{"experiment":{compact({"mode": level.mode, "value": value})},"requests":[')
    for request in level.requests:
        if request.is_good:
            file.write("," if written else "")
            file.writelines(_request(request, texts))
            written += 1
        else:
            left_out += 1
    file.write(f'],"window_boundaries":{compact(level.boundaries_ns)}}}')
    return left_out


def _request(request: ExportedRequest, texts: "Texts") -> Iterator[str]:
    yield f'{{"timestamp":{request.sent_ns},'
    if request.sequence_id:
        yield f'"sequence_id":{request.sequence_id},'
    yield f'"request_inputs":{texts.json_object(request.inputs)},'
    yield f'"response_timestamps":{compact([response.time_ns for response in request.responses])},'
    yield f'"response_outputs":{texts.outputs(request)}}}'


class Texts:
    """Tensors as JSON text. Requests and replies repeat, so short texts are cached."""

    def __init__(self) -> None:
        self.unsupported: set[tuple[str, str]] = set()  # (name, datatype) of values that cannot be written
        self._known: dict[tuple[Value, ...], str] = {}

    def outputs(self, request: ExportedRequest) -> str:
        return f"[{','.join(self.json_object(response.outputs) for response in request.responses)}]"

    def json_object(self, fields: tuple[Value, ...]) -> str:
        known = self._known.get(fields)
        if known is not None:
            return known
        rows = [f"{compact(field.name)}:{self._value(field)}" for field in fields]
        text = f"{{{','.join(rows)}}}"
        if len(text) <= LONGEST_KEPT and len(self._known) < KEPT_TEXTS:
            self._known[fields] = text
        return text

    def _value(self, field: Value) -> str:
        if field.data and field.datatype in UNSUPPORTED:
            self.unsupported.add((field.name, field.datatype))
            return "null"
        return json_value(field.datatype, field.data)


# --- Parquet; docs/output.md lists its columns

_Cell = Callable[[ExportedLevel, ExportedRequest], object]
_COLUMNS: dict[str, tuple[str, _Cell]] = {
    "mode": ("string", lambda level, _: level.mode),
    "value": ("float64", lambda level, _: level.value),
    "window": ("int32", lambda level, request: bisect_left(level.boundaries_ns, request.end_ns) - 1),
    "worker": ("int32", lambda _, request: request.worker),
    "step": ("int32", lambda _, request: request.step),
    "sequence_id": ("int64", lambda _, request: request.sequence_id or None),
    "due_ns": ("int64", lambda _, request: request.due_ns),
    "sent_ns": ("int64", lambda _, request: request.sent_ns or None),
    "end_ns": ("int64", lambda _, request: request.end_ns),
    "service_ns": ("int64", lambda _, request: request.end_ns - request.sent_ns if request.sent_ns else None),
    "status": ("string", lambda _, request: request.status),
    "received_bytes": ("int64", lambda _, request: request.received),
}


def _write_parquet(export: Export, path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    types = {"level": "int32", **{name: kind for name, (kind, _) in _COLUMNS.items()}}
    columns = [(name, getattr(pyarrow, kind)()) for name, kind in types.items()]
    columns.append(("response_timestamps", pyarrow.list_(pyarrow.int64())))
    columns += [(name, pyarrow.string()) for name in ("request_inputs", "response_outputs")]
    about = {"service_kind": export.service_kind, "endpoint": export.endpoint}
    schema = pyarrow.schema(columns, metadata=about)
    texts = Texts()
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[dict[str, object]] = []
        characters = 0
        for number, level in enumerate(export.levels):
            for request in level.requests:
                row = {name: cell(level, request) for name, (_, cell) in _COLUMNS.items()}
                times = [response.time_ns for response in request.responses]
                inputs, outputs = texts.json_object(request.inputs), texts.outputs(request)
                row |= {"level": number, "response_timestamps": times}
                row |= {"request_inputs": inputs, "response_outputs": outputs}
                rows.append(row)
                characters += len(inputs) + len(outputs)
                if len(rows) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
                    writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                    rows, characters = [], 0
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
