"""A whole run as one value and one file: every report can be made again from it."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.base.documents import decode
from inferometer.base.errors import UsageError
from inferometer.base.notes import Note, Remark
from inferometer.base.validation import validated
from inferometer.base.writing import write_file
from inferometer.stats.account import Account
from inferometer.stats.measurement import Level

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Judged:
    """A load of a search, and what all its measurements together say."""

    load: float
    verdict: str  # kept, broken or undecided
    broken: tuple[
        str, ...
    ] = ()  # terms of the promise that are beyond their limit, of an undecided one as measured


@dataclass(frozen=True, slots=True)
class Finding:
    """The most load that keeps a promise.

    With `confidence`, the load at which the promise begins to be broken lies between `low` and `high` with that
    probability. Results of 0.1 have none: their ends are loads that passed or failed one short try.
    """

    promise: str
    mode: str  # request_rate or concurrency
    value: float  # the most that was measured within the limits, and nothing below it beyond; 0 when there is none
    low: float  # 0 where no load is known to keep the promise
    high: float | None  # None where no load is known to break it
    limited_by: str  # what broke first
    knee: float  # the most load up to `value` at which latency was still less than twice that of the lightest
    confidence: float | None = None
    judged: tuple[Judged, ...] = ()  # by load
    needed_s: float = 0.0  # how long a search would have to last to say more; 0 when this one was long enough


@dataclass(frozen=True, slots=True)
class Result:
    """`asked` is what the user typed, `effective` what ran; neither ever holds a header's value or a key."""

    schema: int
    tool: str
    command: str  # measure or perf_analyzer
    started_at: str  # wall time, the run's one anchor
    asked: Mapping[str, Any]
    effective: Mapping[str, Any]
    host: Mapping[str, Any]
    server: Mapping[str, Any]
    model: Mapping[str, Any]
    levels: tuple[Level, ...] = ()
    remarks: tuple[Remark, ...] = ()
    finding: Finding | None = None
    account: Account | None = None  # known when the load is over

    @property
    def failed_share(self) -> float:
        """Of all requests measured, at any level."""
        found = [level.measurement for level in self.levels if level.measurement is not None]
        failed = sum(row.failed_count for row in found)
        total = failed + sum(row.request_count for row in found)
        return failed / total if total else 0.0


def to_json(result: Result) -> str:
    """The file's text; the same result gives the same bytes."""
    return json.dumps(dataclasses.asdict(result), indent=1, sort_keys=True, default=plain) + "\n"


def plain(value: object) -> object:
    """What JSON has instead of a value it does not know."""
    if isinstance(value, Note):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not belong in a result")


def from_json(text: str, origin: str) -> Result:
    """The result in a file's text; a file of another kind or schema is refused."""
    from pydantic import ValidationError

    try:
        document = decode(text)
    except ValueError as error:
        raise UsageError(
            f"'{origin}' is not JSON: {error}", remedy="give a file written with --json"
        ) from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise UsageError(
            f"'{origin}' has result schema {found}, and this version reads {SCHEMA}", remedy="measure again"
        )
    try:
        return validated(Result, with_notes(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"'{origin}' is not a result: {where}: {first['msg']}", remedy="measure again"
        ) from error


def with_notes(value: Any) -> Any:
    """The document with its notes as members of their enum again."""
    if isinstance(value, dict):
        if value.keys() == {"note", "text"} and str(value["note"]) in Note.__members__:
            return {"note": Note[str(value["note"])], "text": value["text"]}
        return {key: with_notes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_notes(item) for item in value]
    return value


def write(result: Result, path: Path) -> None:
    """Whole or not at all: a reader never sees half a file."""
    write_file(path, to_json(result))


def read(path: Path) -> Result:
    try:
        return from_json(path.read_text(), str(path))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}", remedy="check the name") from error
