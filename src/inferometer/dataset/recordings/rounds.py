"""Rounds: TraceLab's lines with `session_id`, `round_index` and token counts; a task per session."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.dataset.recordings.parts import REMEDY, Found, RecordedCall, RecordedTask, count_of, list_of

AFTER_USER, AFTER_TOOL = "after-user", "after-tool"  # steps of rounds
CACHE_BLOCK = 128  # tokens; reported cache hits are rounded down to blocks


class _Round(NamedTuple):
    """A round of a session: one call of an agent."""

    number: int
    size: int  # tokens of its context
    cached: int  # of these, tokens that the recorded server had in its cache
    said: int  # tokens of its answer
    kept: int  # of these, tokens that later contexts can repeat: reasoning is dropped
    begun_ns: int  # when its last input arrived; 0 if unknown
    ended_ns: int  # when the last part of its answer arrived; 0 if unknown
    kind: str


def rounds_of(path: str, rows: Sequence[Mapping[str, Any]]) -> Found:
    sessions: dict[str, list[_Round]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"line {number} of {path}"
        if row.get("session_id") is None:
            raise UsageError(f"{place} has no 'session_id'", remedy=REMEDY)
        sessions.setdefault(str(row["session_id"]), []).append(_round(place, row))
    tasks, repeated, fresh = [], 0, 0
    for name, rounds in sessions.items():
        rounds.sort(key=lambda each: each.number)
        contexts = _contexts(rounds)
        added, kept = _amounts(rounds, contexts)
        repeated += sum(each.size for each in rounds) - sum(added)
        fresh += contexts.count(-1) - 1
        tasks.append(RecordedTask(name, tuple(_round_calls(rounds, contexts, added, kept))))
    cached = sum(each.cached for rounds in sessions.values() for each in rounds)
    findings = (
        f"{path}: prompts repeat {repeated:,} tokens of earlier calls, where the recorded server found {cached:,} "
        f"tokens in its cache; contexts that start over within a session: {fresh:,}",
        f"{path}: sessions of subagents are separate tasks, because rounds do not say which call started them",
    )
    return "TraceLab rounds", findings, tasks


def _round(place: str, row: Mapping[str, Any]) -> _Round:
    size, said = (count_of(place, row, name) for name in ("input_tokens_total", "output_tokens"))
    hidden = row.get("reasoning_output_tokens") or 0
    if type(hidden) is not int or not 0 <= hidden <= said:
        raise UsageError(
            f"{place}: 'reasoning_output_tokens' is {hidden!r}, and 'output_tokens' is {said:,}",
            remedy="give a number of tokens that is not greater than 'output_tokens'",
        )
    heard, spoken = 0, 0
    for event in list_of(place, row.get("timing_events") or (), "timing_events"):
        kind = event.get("event_type") if isinstance(event, Mapping) else None
        if kind in ("user_message", "tool_result"):
            heard = max(heard, _moment_ns(place, event))
        elif kind in ("reasoning", "text", "tool_call"):
            spoken = max(spoken, _moment_ns(place, event))
    return _Round(
        number=count_of(place, row, "round_index"),
        size=max(1, size),
        cached=min(count_of(place, row, "prefix_tokens"), size)
        if row.get("prefix_tokens") is not None
        else 0,
        said=said,
        kept=said - hidden,
        begun_ns=heard,
        ended_ns=spoken,
        kind=AFTER_TOOL if row.get("first_input_event_type") == "tool_result" else AFTER_USER,
    )


def _moment_ns(place: str, event: Mapping[str, Any]) -> int:
    written = event.get("timestamp")
    try:
        found = datetime.fromisoformat(str(written))
    except ValueError:
        raise UsageError(
            f"{place}: the timestamp {written!r} cannot be read", remedy="write 2026-06-01T05:40:20.151Z"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * NS_PER_S)


def _contexts(rounds: Sequence[_Round]) -> list[int]:
    """Return which earlier round each round continues; -1 if none.

    A context that has grown continues the round before it. One that has shrunk, because the agent dropped its reasoning
    or summarized, continues the last round whose whole context the recorded server found in its cache.
    """
    found = []
    for number, this in enumerate(rounds):
        context = number - 1
        if context >= 0 and this.size <= rounds[context].size:
            most = min(this.size - 1, this.cached + CACHE_BLOCK)
            context = next((each for each in range(number - 1, -1, -1) if rounds[each].size <= most), -1)
        found.append(context)
    return found


def _amounts(rounds: Sequence[_Round], contexts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how many tokens each round adds to its context, and how many of its answer later contexts repeat."""
    kept = [max(1, this.kept) for this in rounds]
    for number, context in enumerate(contexts):
        if context >= 0:
            kept[context] = max(1, min(kept[context], rounds[number].size - rounds[context].size - 1))
    known = [rounds[context].size + kept[context] if context >= 0 else 0 for context in contexts]
    return [max(1, this.size - before) for this, before in zip(rounds, known, strict=True)], kept


def _round_calls(
    rounds: Sequence[_Round], contexts: Sequence[int], added: Sequence[int], kept: Sequence[int]
) -> Iterator[RecordedCall]:
    """Yield the calls of a session, each of which waits for the previous one."""
    ended_ns = 0
    for number, this in enumerate(rounds):
        yield RecordedCall(
            added[number],
            kept[number],
            after=(number - 1,) if number else (),
            context=contexts[number],
            pause_ns=max(0, this.begun_ns - ended_ns) if this.begun_ns and ended_ns else 0,
            kind=this.kind,
            limit=max(1, this.said),
        )
        ended_ns = this.ended_ns
