"""The table of formats that can be written, and the folder that they are written to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.base.writing import write_file, writing
from inferometer.report.foreign import aiperf, guidellm, llm_d, mlperf, vllm
from inferometer.report.foreign.figures import Written
from inferometer.report.foreign.requests import LevelRequests, read_requests
from inferometer.stats.foreign.built import StatedRequest
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result

Files = Iterator[tuple[str, str]]
"""Pairs of a file's name and its text."""


@frozen
class Writer:
    """How a format is written: a set of files for each level, or one set for all levels."""

    each: Callable[[Written], Files] | None = None
    all: Callable[[Sequence[Written]], Files] | None = None
    has_requests: bool = False


WRITERS: Mapping[str, Writer] = {
    "aiperf": Writer(each=aiperf.files, has_requests=True),
    "guidellm": Writer(all=guidellm.files, has_requests=True),
    "vllm": Writer(each=vllm.files, has_requests=True),
    "llm-d": Writer(each=llm_d.files),
    "mlperf": Writer(each=mlperf.files),
}


def write_as(result: Result, tool: str, folder: Path, export: Path | None) -> tuple[tuple[Path, ...], str]:
    """Write the files of a format; return their paths, and why individual requests are missing, if they are.

    With several levels, a format that has one file for each level gets a folder for each.
    """
    writer = WRITERS[tool]
    levels, missing = _levels(result, writer, export)
    if not levels:
        raise UsageError("the result has no level with figures", remedy="measure again")
    found: list[tuple[Path, str]] = []
    if writer.all is not None:
        found += [(folder / name, text) for name, text in writer.all(levels)]
    for row in levels if writer.each is not None else ():
        own = folder if len(levels) == 1 else folder / _name(row.level)
        found += [(own / name, text) for name, text in writer.each(row)] if writer.each is not None else []
    for path, text in found:
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    return tuple(path for path, _ in found), missing


def _levels(result: Result, writer: Writer, export: Path | None) -> tuple[list[Written], str]:
    rows = [(level, level.measurement) for level in result.levels if level.measurement is not None]
    known, missing = _requests(result, export) if writer.has_requests else ((), "")
    found = [Written(result, level, measurement, _of_level(level, known)) for level, measurement in rows]
    return found, missing


def _requests(result: Result, export: Path | None) -> tuple[Sequence[LevelRequests], str]:
    stated = str(result.asked.get("profile_export") or "")
    path = export or (Path(stated) if stated and Path(stated).is_file() else None)
    if path is not None:
        return read_requests(path), ""
    if stated:
        return (), f"the export of its requests, '{stated}', does not exist: name it with --requests"
    return (), "its requests were not exported: measure with --export"


def _of_level(level: Level, known: Sequence[LevelRequests]) -> Sequence[StatedRequest]:
    return next((row.rows for row in known if (row.mode, row.value) == (level.mode, level.value)), ())


def _name(level: Level) -> str:
    """Return a folder name such as concurrency4 or request_rate12.5."""
    return "".join(
        char if char.isalnum() or char in "._-" else "_"
        for char in f"{level.mode}{plain_number(level.value)}"
    )
