"""Traces to replay: one JSON object per line with the send time of a request and, optionally, its data.

    {"timestamp": 250}                            milliseconds
    {"timestamp_s": 0.25, "step": 3}              seconds; the data's step 3, counted from 0
    {"timestamp": 250, "stream": 1, "step": 0}    of another stream of the data
    {"timestamp": 250, "data": {"INPUT": [1]}}    its own data, written as a step of a data file
    {"timestamp": 250, "input_length": 700, "output_length": 20, "hash_ids": [3, 8]}

The last one is a line of a Mooncake trace: lengths in tokens, and names of the 512-token blocks that form the
prompt. `trace_tables` reads traces in CSV files. Only the differences between times matter. Lines may be in
any order; blank lines and other keys are ignored.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.dataset import parse_json, read_bytes, split_lines
from inferometer.dataset.trace_tables import TABLES, read_table
from inferometer.dataset.trace_tokens import BLOCK, LONGEST, TraceTokens, trace_place
from inferometer.options.names import option_name

TIMES = {"timestamp": NS_PER_MS, "timestamp_ms": NS_PER_MS, "timestamp_s": NS_PER_S}
_FARTHEST = 1e15
_LONGEST_NS = 366 * 24 * 3600 * NS_PER_S
_FORMATS = "give JSON lines with a timestamp, or a CSV file whose first line is " + " or ".join(
    f"'{','.join(table.columns)}'" for table in TABLES
)


@frozen
class TraceLine:
    """One line of a trace: `time_ns` counts from the first request. The description of its prompt applies only if it
    has no other data."""

    time_ns: int
    line: int
    step: int | None = None
    stream: int | None = None
    data: bytes | None = None  # JSON
    tokens: TraceTokens | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the dataset determines the data to send."""
        return self.step is None and self.stream is None and self.data is None


@frozen
class Trace:
    """A trace, sorted by time."""

    path: str
    entries: tuple[TraceLine, ...]
    format: str = "JSON lines"

    @property
    def has_tokens(self) -> bool:
        """Whether every line has the length of its prompt."""
        return all(entry.tokens is not None for entry in self.entries)

    def error(self, entry: TraceLine, detail: str, *, remedy: str = "") -> UsageError:
        return UsageError(f"{trace_place(self.path, entry.line)}: {detail}", remedy=remedy)


def read_trace(path: str, *, speed: float = 1.0) -> Trace:
    """Read the trace in a file; at speed 2 it takes half the time."""
    return parse_trace(path, read_bytes(path), speed=speed)


def parse_trace(path: str, data: bytes, *, speed: float = 1.0) -> Trace:
    name, entries = _entries(path, split_lines(data, path))
    if not entries:
        raise UsageError(
            f"the trace '{path}' is empty", remedy='write one object per line, such as {"timestamp": 250}'
        )
    first_ns = min(entry.time_ns for entry in entries)
    moved = [replace(entry, time_ns=round((entry.time_ns - first_ns) / speed)) for entry in entries]
    trace = Trace(path, tuple(sorted(moved, key=lambda entry: entry.time_ns)), name)
    last = trace.entries[-1]
    if last.time_ns > _LONGEST_NS:
        days = last.time_ns // (24 * 3600 * NS_PER_S)
        detail = f"this request is due {days} days after the first"
        raise trace.error(
            last,
            detail,
            remedy=f"give all times in the same unit, or a higher {option_name('--speed')}; the limit is a year",
        )
    return trace


def _entries(path: str, lines: list[bytes]) -> tuple[str, list[TraceLine]]:
    """Return the name of the format, determined by the first line, and the lines."""
    if table := next((table for table in TABLES if lines and table.is_header(lines[0])), None):
        rows = read_table(path, lines, table)
        return table.name, [TraceLine(row.time_ns, row.line, tokens=row.tokens) for row in rows]
    entries = [_entry(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    is_mooncake = any(entry.tokens is not None and entry.tokens.blocks for entry in entries)
    return "Mooncake" if is_mooncake else "JSON lines", entries


def _entry(path: str, number: int, line: bytes) -> TraceLine:
    where = trace_place(path, number)
    found = parse_json(line, f"{where} is not JSON: ", remedy=_FORMATS)
    if not isinstance(found, dict):
        raise UsageError(f"{where} is not an object", remedy='write it like {"timestamp": 250}')
    step, stream = _number(where, found, "step"), _number(where, found, "stream")
    data = found.get("data")
    if data is None:
        tokens = _tokens(where, found) if step is None and stream is None else None
        return TraceLine(_time_ns(where, found), number, step, stream, tokens=tokens)
    if not isinstance(data, dict):
        raise UsageError(
            f"{where}: 'data' must be an object like a step of a data file",
            remedy='write it like {"timestamp": 250, "data": {"INPUT": [1, 2]}}',
        )
    if step is not None or stream is not None:
        raise UsageError(
            f"{where} has its own data and also refers to the dataset", remedy="leave out one of them"
        )
    return TraceLine(_time_ns(where, found), number, data=json.dumps(data).encode())


def _time_ns(where: str, found: Mapping[str, Any]) -> int:
    given = [name for name in TIMES if name in found]
    if len(given) != 1:
        raise UsageError(
            f"{where} has {'more than one time' if given else 'no time'}",
            remedy="give it either timestamp (milliseconds) or timestamp_s (seconds)",
        )
    value: Any = found[given[0]]
    if type(value) not in (int, float) or not abs(value) < _FARTHEST:
        raise UsageError(
            f"{where}: '{given[0]}' is {json.dumps(value)}", remedy="give times as numbers without a unit"
        )
    time_ns: int = round(value * TIMES[given[0]])
    return time_ns


def _number(where: str, found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise UsageError(f"{where}: '{name}' is {json.dumps(value)}", remedy="give a whole number, 0 or more")
    return value


def _tokens(where: str, found: Mapping[str, Any]) -> TraceTokens | None:
    length = _number(where, found, "input_length")
    if length is None:
        return None
    output, blocks = _number(where, found, "output_length"), found.get("hash_ids", [])
    if length == 0 or max(length, output or 0) > LONGEST:
        raise UsageError(
            f"{where}: 'input_length' is {length}, 'output_length' is {output}",
            remedy=f"lengths are in tokens; a prompt has at least one, and the limit is {LONGEST:,}",
        )
    if not isinstance(blocks, list) or not all(type(block) in (int, str) for block in blocks):
        raise UsageError(
            f"{where}: 'hash_ids' is {json.dumps(blocks)[:80]}", remedy="give a list of whole numbers"
        )
    if len(blocks) > -(-length // BLOCK):
        raise UsageError(
            f"{where}: 'hash_ids' names {len(blocks)} blocks, but {length} tokens make {-(-length // BLOCK)} blocks",
            remedy=f"a block is {BLOCK} tokens; only the last one may be shorter",
        )
    session = found.get("session_id")
    return TraceTokens(length, output, tuple(blocks), None if session is None else str(session))
