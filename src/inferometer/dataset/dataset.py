"""Inputs of a run: streams of steps, each with the tensors of one batch-1 request; and reading of data files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA, read_file
from inferometer.model.spec import Tensor
from inferometer.model.unique import Unique

Step = tuple[Tensor, ...]
Streams = tuple[Sequence[Step], ...]

EXPECTED = "expected"
"""Name of the tensor with the expected text of the answer; it is not sent."""

MALFORMED = "Input data file is malformed."
DATA_FILE = "the data file"
MOST_LINES = 4_000_000
"""Limit of lines in a file: each becomes a request, which takes a kilobyte or more."""
UNPARSED = "failed to parse the specified json file for reading provided data: {}, "
AS_JSON = "JSON has double quotes, no comments, and no comma before ] or }"


@frozen
class Dataset:
    """Steps of a run. `origin` is random, zero, json, directory, files or trace. A batch repeats a generated step, but
    takes given steps one after the other.

    `expected` holds the expected outputs of every step; an empty step is not checked. The shape of
    an expected tensor is a guess if neither model nor data gives one: only its bytes matter. `times_ms` are
    those of a fixed schedule, one per step of stream 0. `unique` fills the placeholders in texts for a unique
    prefix. `findings` are notes on the data, as sentences for the user.
    """

    origin: str
    streams: Streams
    expected: Streams | None = None
    times_ms: tuple[float, ...] | None = None
    unique: Unique | None = None
    findings: tuple[str, ...] = ()

    @property
    def is_given(self) -> bool:
        return self.origin not in ("random", "zero")


def add_streams(streams: list[list[Step]], more: list[list[Step]], *, is_nested: bool) -> None:
    """Add the data of another file: a flat one adds steps to stream 0, a nested one adds streams."""
    if is_nested or not streams:
        streams += more
    else:
        streams[0] += more[0]


def read_bytes(path: str | Path) -> bytes:
    """Read a whole data file, or everything from a pipe."""
    check_path(path)
    return read_file(path, DATA, DATA_FILE)


def parse_json(text: bytes, wrong: str, *, remedy: str = "") -> Any:
    """Parse JSON; `wrong` is the beginning of the error message."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{wrong}{error}", remedy=remedy) from None


def check_lines(data: bytes, path: str | Path) -> None:
    """Refuse a file whose lines would take far more memory than its bytes."""
    if data.count(b"\n") > MOST_LINES:
        raise UsageError(
            f"{DATA_FILE} '{path}' has more than {MOST_LINES:,} lines, which exceeds the limit",
            remedy=f"use a part of it: head -n {MOST_LINES}",
        )


def split_lines(data: bytes, path: str | Path) -> list[bytes]:
    """Split into lines, ended by LF or CRLF; the end of the last line is optional."""
    check_lines(data, path)
    lines = data.split(b"\n")
    if lines[-1] == b"":
        del lines[-1]
    return [line.removesuffix(b"\r") for line in lines]
