"""Sessions: Mooncake's lines with `session_id`, `input_length` and `output_length`; a task per session."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.recordings.parts import Found, RecordedCall, RecordedTask, count_of, number_of


def sessions_of(path: str, rows: Sequence[Mapping[str, Any]], lengths: str) -> Found:
    """Read the sessions; `lengths` is as in the rules of a recording."""
    sessions: dict[str, list[tuple[int, int, float, Any]]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"line {number} of {path}"
        sizes = [count_of(place, row, name) for name in ("input_length", "output_length")]
        text = next((row[key] for key in ("text_input", "prompt") if isinstance(row.get(key), str)), None)
        key = str(row["session_id"]) if row.get("session_id") is not None else place
        sessions.setdefault(key, []).append((*sizes, number_of(place, row, "delay"), text))  # type: ignore[arg-type]
    cumulative = lengths == "cumulative" or (lengths == "auto" and _grow(sessions.values()))
    tasks = [RecordedTask(name, tuple(_turns(name, turns, cumulative))) for name, turns in sessions.items()]
    how = "the whole context (cumulative)" if cumulative else "only what a turn adds (delta)"
    chosen = "" if lengths != "auto" else "; set turn-lengths if that is wrong"
    findings = [f"{path}: input_length is assumed to count {how}{chosen}"]
    if not any(turn[2] for turns in sessions.values() for turn in turns):
        findings.append(f"{path}: no turn has a delay, so each is sent as soon as the previous answer ends")
    return "Mooncake sessions", tuple(findings), tasks


def _grow(sessions: Iterable[Sequence[tuple[int, int, float, Any]]]) -> bool:
    """Return whether every turn is at least as long as the previous one with its answer."""
    pairs = [pair for turns in sessions for pair in pairwise(turns)]
    return bool(pairs) and all(later[0] >= earlier[0] + earlier[1] for earlier, later in pairs)


def _turns(
    name: str, turns: Sequence[tuple[int, int, float, Any]], cumulative: bool
) -> Iterator[RecordedCall]:
    before = 0
    for number, (size, answer, delay_ms, text) in enumerate(turns):
        added = size - before if cumulative else size
        if added < 1:
            raise UsageError(
                f"session '{name}': turn {number + 1} has {size:,} tokens, but the context before it has {before:,}",
                remedy="set turn-lengths: delta if input_length counts only what a turn adds",
            )
        yield RecordedCall(
            added if text is None else text, answer, context=number - 1, pause_ns=round(delay_ms * NS_PER_MS)
        )
        before = size + answer
