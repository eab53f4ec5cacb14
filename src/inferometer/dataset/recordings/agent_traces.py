"""Agent traces: Weka's `requests` with `in`, `out`, `t` and nested subagents; a task per trace."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.dataset.recordings.parts import (
    REMEDY,
    RecordedCall,
    RecordedTask,
    count_of,
    list_of,
    number_of,
)

AGENT, SUBAGENT = "agent", "subagent"


def agent_trace(path: str, number: int, row: Mapping[str, Any]) -> RecordedTask:
    name = str(row.get("id", number))
    calls: list[RecordedCall] = []
    _add_agent(f"trace '{name}' of {path}", list_of(path, row.get("requests"), "requests"), calls, (), AGENT)
    return RecordedTask(name, tuple(calls))


def _add_agent(
    place: str, requests: Sequence[Any], calls: list[RecordedCall], after: tuple[int, ...], kind: str
) -> tuple[int, ...]:
    """Add the calls of an agent, which begin after the given ones, and return the last of them. Subagents that follow
    each other run in parallel, and the agent waits for all of them."""
    last = after
    waiting: tuple[int, ...] = ()
    before: Mapping[str, Any] | None = None
    context = -1
    for number, entry in enumerate(requests, start=1):
        where = f"{place}, request {number}"
        if not isinstance(entry, Mapping):
            raise UsageError(f"{where} is not an object", remedy=REMEDY)
        if entry.get("type") == SUBAGENT:
            inner = list_of(where, entry.get("requests"), "requests")
            waiting = (*waiting, *_add_agent(where, inner, calls, last, SUBAGENT))
            continue
        size, answer = count_of(where, entry, "in"), count_of(where, entry, "out")
        is_continued = before is not None and _continues(before, entry)
        known = int(before["in"]) + int(before["out"]) if before is not None and is_continued else 0
        pause_ns = _think_ns(where, before, entry)
        calls.append(
            RecordedCall(
                max(1, size - known),
                answer,
                after=tuple(dict.fromkeys((*last, *waiting))),
                context=context if is_continued else -1,
                pause_ns=pause_ns if not waiting else 0,
                kind=kind,
            )
        )
        context = len(calls) - 1
        last, waiting, before = (context,), (), entry
    return tuple(dict.fromkeys((*last, *waiting)))


def _continues(before: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether a request repeats most of the previous request's context, judged by its blocks or else by its
    length."""
    ours, theirs = entry.get("hash_ids"), before.get("hash_ids")
    if isinstance(ours, list) and isinstance(theirs, list) and theirs:
        shared = next(
            (place for place, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None
        )
        common = min(len(ours), len(theirs)) if shared is None else shared
        return 2 * common > len(theirs) and int(entry["in"]) > int(before["in"])
    return int(entry["in"]) > int(before["in"])


def _think_ns(place: str, before: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> int:
    """Return the time between a request and the previous answer."""
    if before is None:
        return 0
    if "think_time" in entry:
        return round(number_of(place, entry, "think_time") * NS_PER_S)
    passed = (
        number_of(place, entry, "t") - number_of(place, before, "t") - number_of(place, before, "api_time")
    )
    return max(0, round(passed * NS_PER_S))
