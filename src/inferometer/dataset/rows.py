"""Rows of named fields from files of prompts and chats; the format is detected from the content.

    JSON lines      an object per line
    JSON            a list of objects, such as ShareGPT's
    CSV             the first line names the columns
    Parquet         needs pyarrow
    text            a prompt per line

Errors name the file and the line (or, without lines, the entry or row, counted from 1).
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA, size_text
from inferometer.dataset.dataset import MOST_LINES, check_lines, parse_json, split_lines
from inferometer.dataset.trace_tables import TABLES
from inferometer.options.names import option_name, with_names

PROMPT_FIELDS = ("prompt", "text", "text_input", "question", "input")
CHAT_FIELDS = ("body", "messages", "conversations")
ACCEPTED = (
    "a row has 'prompt' (a text), 'messages' (a list of role and content), 'conversations' (ShareGPT: a list of "
    "from and value) or 'body' (OpenAI batch file); {--prompt-column} names another field for the text"
)
A_TRACE = "replay a trace with {--replay} FILE; inferometer inspect FILE shows its requests"
_OTHER_FIELDS = (
    "id",
    "session_id",
    "delay",
    "max_tokens",
    "output_length",
    "output_tokens",
    "url",
    "expected",
)
_PARQUET = b"PAR1"
_BATCH = 256  # rows of a Parquet file decoded at a time
_LIST = re.compile(rb"\s*\[\s*\{")
_DICTIONARY = re.compile(r"dictionary<values=(?:((?:large_)?(?:string|binary))|u?int\d+|float|double|bool),")
_NUMBER_SIZE = 8


@frozen
class Row:
    """A row and its position in the file."""

    place: str
    fields: Mapping[str, Any]

    def error(self, detail: str, *, remedy: str = "") -> UsageError:
        return UsageError(f"{self.place}: {detail}", remedy=remedy or with_names(ACCEPTED))


@frozen
class Rows:
    """Rows of one file; `format` is the display name of its format."""

    format: str
    rows: Sequence[Row]


def is_rows(path: str, data: bytes) -> bool:
    """Return whether a data file contains rows; otherwise it is a single document, as in the classic tool, or
    invalid."""
    if data.startswith(_PARQUET) or _LIST.match(data) or path.lower().endswith(".csv"):
        return True
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        document = json.loads(data)
    except RecursionError:
        return False
    except ValueError as error:
        return "Extra data" in str(error)  # more JSON after the first line
    return bool(set(document) & {*CHAT_FIELDS, *PROMPT_FIELDS, "input_length"})


def read_rows(path: str, data: bytes, column: str | None = None) -> Rows:
    """Read the rows of a file with this content; `column` is the field of the prompts, if the user named one."""
    if data.startswith(_PARQUET):
        found = Rows("Parquet", tuple(_parquet(path, data, column)))
    elif _LIST.match(data):
        found = Rows("JSON", tuple(_listed(path, data)))
    elif not data.lstrip().startswith(b"{") and _is_table(path, data, column):
        found = Rows("CSV", tuple(_table(path, data, column)))
    else:
        found = Rows("JSON lines" if data.lstrip().startswith(b"{") else "text", tuple(_lines(path, data)))
    if not found.rows:
        raise UsageError(f"the prompt file {path} is empty", remedy="write one prompt per line")
    return found


def _lines(path: str, data: bytes) -> Iterator[Row]:
    """Yield lines as texts, or as objects if they begin like one."""
    for number, line in enumerate(split_lines(data, path), start=1):
        if not line.strip():
            continue
        if line.lstrip().startswith(b"{"):
            fields = parse_json(
                line,
                f"line {number} of {path} begins like JSON, but is invalid: ",
                remedy=with_names(ACCEPTED),
            )
        else:
            fields = {PROMPT_FIELDS[0]: line.decode("utf-8", "replace")}
        yield Row(f"line {number} of {path}", fields)


def _listed(path: str, data: bytes) -> Iterator[Row]:
    found = parse_json(
        data, f"{path} begins like a JSON list, but is invalid: ", remedy="give a complete file"
    )
    for number, fields in enumerate(found, start=1):
        if not isinstance(fields, dict):
            raise UsageError(f"entry {number} of {path} is not an object", remedy=with_names(ACCEPTED))
        yield Row(f"entry {number} of {path}", fields)


# --- tables


def _is_table(path: str, data: bytes, column: str | None) -> bool:
    names = _header(data)
    if any(set(table.columns) <= set(names) for table in TABLES):
        raise UsageError(f"{path} is a trace without prompts", remedy=with_names(A_TRACE))
    return path.lower().endswith(".csv") or bool(set(names) & {column, *PROMPT_FIELDS})


def _header(data: bytes) -> list[str]:
    text = data[:65536].split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    try:
        return [cell.strip() for cell in next(csv.reader([text.rstrip("\r")]), [])]
    except csv.Error:
        return []


def _table(path: str, data: bytes, column: str | None) -> Iterator[Row]:
    names = _header(data)
    _require_prompts(path, names, column)
    check_lines(data, path)
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig", "replace"), newline=""))
    try:
        next(lines)
        for cells in lines:
            where = f"line {lines.line_num} of {path}"
            if not cells:
                continue
            if len(cells) != len(names):
                raise UsageError(
                    f"{where} has {len(cells)} cells, but the header has {len(names)} columns",
                    remedy="quote text that contains commas or line breaks",
                )
            yield Row(where, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise UsageError(
            f"line {lines.line_num} of {path} is not CSV: {error}", remedy="give JSON lines instead"
        ) from None


def _require_prompts(path: str, names: Sequence[str], column: str | None) -> None:
    known = (*CHAT_FIELDS, *PROMPT_FIELDS) if column is None else (column,)
    if not set(names) & set(known):
        raise UsageError(
            f"{path} has the columns {', '.join(names)[:200]}, but none named {' or '.join(known)}",
            remedy=f"give the column of the prompts with {option_name('--prompt-column')}",
        )


def _parquet(path: str, data: bytes, column: str | None) -> Iterator[Row]:
    """Read only the required columns, a few rows at a time: a compressed value may expand to very many bytes."""
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException, BufferReader
    except ImportError:
        raise UsageError(
            f"{path} is a Parquet file, but the package pyarrow is not installed",
            remedy="pip install 'inferometer[parquet]', or give JSON lines",
        ) from None
    wanted = {*CHAT_FIELDS, *PROMPT_FIELDS, *_OTHER_FIELDS, column}
    try:
        file = pq.ParquetFile(BufferReader(data))
        names = file.schema_arrow.names
        _require_prompts(path, names, column)
        columns = [name for name in names if name in wanted]
        _check_unpacked(path, _declared(file.metadata), file.metadata.num_rows)
        first, unpacked = 1, 0
        for batch in file.iter_batches(_BATCH, columns=columns):
            unpacked += sum(_unpacked_size(path, values) for values in batch.columns)
            _check_unpacked(path, unpacked, first + batch.num_rows - 1)
            for number, fields in enumerate(batch.to_pylist(), start=first):
                yield Row(f"row {number} of {path}", fields)
            first += batch.num_rows
    except (ArrowException, OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as Parquet: {error}", remedy="give a complete file"
        ) from None


def _unpacked_size(path: str, values: Any) -> int:
    """Return the bytes of a column without its dictionary, which stores a value once for any number of rows."""
    kind = str(values.type)
    if "dictionary<" not in kind:
        return int(values.nbytes)
    match = _DICTIONARY.match(kind)
    if match is None:
        raise UsageError(
            f"{path} has a column of type {kind[:100]}", remedy="write its values as plain strings"
        )
    if match[1] is None:
        return len(values) * _NUMBER_SIZE
    import pyarrow.compute as pc

    lengths = pc.binary_length(values.dictionary).take(values.indices)
    return int(pc.sum(lengths).as_py() or 0)


def _declared(metadata: Any) -> int:
    """Return the uncompressed size declared by the file, which may be too low.

    It covers all columns: pyarrow aborts the process when queried about a single damaged column.
    """
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def _check_unpacked(path: str, size: int, rows: int) -> None:
    if size > DATA or rows > MOST_LINES:
        raise UsageError(
            f"{path} holds {rows:,} rows with {size:,} bytes of text, which exceeds the limit of "
            f"{MOST_LINES:,} rows or {size_text(DATA)}",
            remedy="use a part of it",
        )
