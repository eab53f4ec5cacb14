"""Traces in CSV files: one request per line, with its time and the lengths of prompt and answer.

    Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type    BurstGPT, in seconds
    TIMESTAMP,ContextTokens,GeneratedTokens                                 Azure, date and time

Columns may be in any order, with others among them.
"""

import csv
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.dataset.trace_tokens import LONGEST, TraceTokens, trace_place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class TraceTable:
    """A trace format: its columns for time, prompt and answer, and the parser of its times."""

    name: str
    columns: tuple[str, str, str]
    session: str
    time_ns: Callable[[str], int]  # raises ValueError if invalid
    time_is: str

    def is_header(self, line: bytes) -> bool:
        return set(self.columns) <= set(_cells(line))


@frozen
class TableRow:
    """A request of the table."""

    time_ns: int
    line: int
    tokens: TraceTokens


def _seconds(text: str) -> int:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(text)
    return round(seconds * NS_PER_S)


def _moment(text: str) -> int:
    found = datetime.fromisoformat(text)
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * NS_PER_US


TABLES = (
    TraceTable(
        "BurstGPT",
        ("Timestamp", "Request tokens", "Response tokens"),
        "Session ID",
        _seconds,
        "a number of seconds",
    ),
    TraceTable(
        "Azure LLM inference",
        ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        "",
        _moment,
        "a date and time, such as 2023-11-16 18:15:46.68",
    ),
)


def _cells(line: bytes) -> list[str]:
    text = line.decode("utf-8-sig", "replace")
    try:
        return [cell.strip() for cell in next(csv.reader([text]), [])]
    except csv.Error:
        return []


def read_table(path: str, lines: list[bytes], table: TraceTable) -> Iterator[TableRow]:
    """Yield the requests of a trace whose first line is the header; skip blank lines."""
    header = _cells(lines[0])
    time, prompt, answer = map(header.index, table.columns)
    session = header.index(table.session) if table.session in header else None
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = _cells(line)
        where = trace_place(path, number)
        if len(cells) != len(header):
            raise UsageError(
                f"{where} has {len(cells)} cells, but the header has {len(header)} columns",
                remedy="give a complete file",
            )
        tokens = TraceTokens(
            _tokens(where, header[prompt], cells[prompt], least=1),
            _tokens(where, header[answer], cells[answer], least=0),
            session=None if session is None or not cells[session] else cells[session],
        )
        yield TableRow(_time(where, table, cells[time]), number, tokens)


def _time(where: str, table: TraceTable, text: str) -> int:
    try:
        return table.time_ns(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{where}: '{table.columns[0]}' is '{text}'",
            remedy=f"{table.name} traces require {table.time_is}",
        ) from None


def _tokens(where: str, column: str, text: str, *, least: int) -> int:
    if is_digits(text) and least <= (found := int(text)) <= LONGEST:
        return found
    raise UsageError(
        f"{where}: '{column}' is '{text}'",
        remedy=f"give a whole number of tokens from {least} to {LONGEST:,}; leave out lines without one",
    )
