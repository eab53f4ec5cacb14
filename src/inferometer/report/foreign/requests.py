"""The individual requests of a run, read from its per-request export (`--export`), for formats that have them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferometer.base import status
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA, check_file, read_text
from inferometer.base.text import decode_json
from inferometer.options.names import option_name
from inferometer.stats.foreign.built import StatedRequest
from inferometer.stats.foreign.failures import status_of

_DATA = "data:"


@frozen
class LevelRequests:
    """The exported requests of one level."""

    mode: str
    value: float
    rows: tuple[StatedRequest, ...]


def read_requests(path: Path) -> tuple[LevelRequests, ...]:
    """Read an export. Its JSON form has only successful requests, its Parquet form all of them."""
    try:
        return tuple(_of_parquet(path) if path.suffix.lower() == ".parquet" else _of_json(path))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(
            f"'{path}' is not an export of requests: {type(error).__name__}: {error}",
            remedy=f"give a file written with {option_name('--export')}",
        ) from error


def _of_json(path: Path) -> Iterator[LevelRequests]:
    for part in decode_json(read_text(path, DATA, "the export"))["experiments"]:
        load = part["experiment"]
        rows = (
            _request(row, row["response_timestamps"], row["response_outputs"]) for row in part["requests"]
        )
        yield LevelRequests(str(load["mode"]), float(load["value"]), tuple(rows))


def _request(row: Mapping[str, Any], times: Sequence[int], outputs: Sequence[Any]) -> StatedRequest:
    start = int(row["timestamp"])
    answer = _Answer()
    for time, output in zip(times, outputs, strict=True):
        answer.add(int(time), output)
    end = max((*answer.times, *map(int, times[-1:])), default=start) if not answer.times else answer.times[-1]
    return StatedRequest(
        start_ns=start,
        end_ns=end,
        first_ns=answer.times[0] if answer.is_stream and answer.times else 0,
        times_ns=tuple(answer.times) if answer.is_stream else (),
        tokens=answer.tokens,
        prompt_tokens=answer.prompt_tokens,
    )


class _Answer:
    """The responses of one request: those with text, and the server's token counts."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.tokens = self.prompt_tokens = 0
        self.is_stream = False

    def add(self, time_ns: int, output: Any) -> None:
        body = output.get("response") if isinstance(output, dict) else None
        if not isinstance(body, str):
            self.times.append(time_ns)
            return
        for line in body.splitlines() if body.startswith(_DATA) else (body,):
            self.is_stream |= line.startswith(_DATA)
            self._add_document(time_ns, _maybe_object(line.removeprefix(_DATA).strip()))

    def _add_document(self, time_ns: int, document: Mapping[str, Any]) -> None:
        usage = document.get("usage")
        if isinstance(usage, dict):
            self.tokens = _count(usage, "completion_tokens") or self.tokens
            self.prompt_tokens = _count(usage, "prompt_tokens") or self.prompt_tokens
        if not self.is_stream or any(map(_has_text, _choices(document))):
            self.times.append(time_ns)


def _maybe_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _count(usage: Mapping[str, Any], name: str) -> int:
    found = usage.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _choices(document: Mapping[str, Any]) -> Sequence[Any]:
    found = document.get("choices")
    return found if isinstance(found, list) else ()


def _has_text(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    parts = delta if isinstance(delta, dict) else {}
    return any(
        isinstance(text, str) and text
        for text in (
            choice.get("text"),
            *(parts.get(name) for name in ("content", "reasoning_content", "reasoning")),
        )
    )


def _of_parquet(path: Path) -> Iterator[LevelRequests]:
    check_file(path, DATA, "the export")
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            f"'{path}' cannot be read without pyarrow: {error}", remedy="pip install 'inferometer[parquet]'"
        ) from error
    levels: dict[tuple[int, str, float], list[StatedRequest]] = {}
    for row in parquet.read_table(path).to_pylist():
        key = (int(row["level"]), str(row["mode"]), float(row["value"]))
        levels.setdefault(key, []).append(_parquet_request(row))
    for (_, mode, value), rows in levels.items():
        yield LevelRequests(mode, value, tuple(rows))


def _parquet_request(row: Mapping[str, Any]) -> StatedRequest:
    start = int(row["sent_ns"] or row["due_ns"])
    if row["status"] != "ok":
        words = str(row["status"])
        code = int(words.removeprefix("http ")) if words.startswith("http ") else None
        return StatedRequest(start, int(row["end_ns"]), status=status_of(code, words), message=words)
    times = list(row["response_timestamps"] or ())
    outputs = json.loads(row["response_outputs"] or "[]")
    found = _request(
        {"timestamp": start}, times, outputs if len(outputs) == len(times) else [{}] * len(times)
    )
    return found if times else StatedRequest(start, int(row["end_ns"]), status=status.OK)
