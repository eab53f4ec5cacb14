"""Branching conversations: aiperf's lines with `session_id` and `turns` (`dag_jsonl`); a task per root.

A turn may fork sessions, which continue its conversation, and spawn sessions, which begin a new one. The next turn, or
turn `join_at`, waits for the last calls of those that were spawned.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.recordings.conversations import message_of
from inferometer.dataset.recordings.parts import (
    REMEDY,
    Found,
    RecordedCall,
    RecordedTask,
    count_of,
    list_of,
    number_of,
)
from inferometer.model.task import MOST_CALLS

ROOT, FORK, SPAWN = "root", "fork", "spawn"  # steps
WHOLE_CONTEXTS = "message_array_with_responses"  # context mode in which turns do not carry earlier ones
_CONTEXT_MODES = (None, "deltas_without_responses", WHOLE_CONTEXTS)
_UNSENT = ("model", "tools", "extra")


class _Branch(NamedTuple):
    """A session that a turn starts."""

    session: str
    kind: str
    join_at: int = 0  # turn that waits for it; 0 for none


class _Turn(NamedTuple):
    """A turn of a session."""

    system: str
    messages: tuple[tuple[str, str], ...]
    limit: int
    pause_ns: int
    branches: tuple[_Branch, ...]


class _Session(NamedTuple):
    """A line of the file."""

    turns: tuple[_Turn, ...]
    before: tuple[str, ...]  # sessions that start with it
    is_whole: bool  # each turn has its whole context


def branches_of(path: str, rows: Sequence[Mapping[str, Any]]) -> Found:
    sessions: dict[str, _Session] = {}
    for number, row in enumerate(rows, start=1):
        place, name = f"line {number} of {path}", row.get("session_id")
        if not isinstance(name, str) or name in sessions:
            raise UsageError(f"{place}: 'session_id' is {name!r}", remedy="give each session its own name")
        sessions[name] = _session(place, row)
    started = {child for session in sessions.values() for child in _started(session)}
    if unknown := sorted(started - sessions.keys()):
        raise UsageError(f"{path} has no session '{unknown[0]}', which a turn starts", remedy="add it")
    roots = [name for name in sessions if name not in started]
    if not roots:
        raise UsageError(f"every session of {path} is started by another one", remedy="add a root")
    tasks = [RecordedTask(name, tuple(_Tree(path, sessions).calls(name))) for name in roots]
    unsent = {name for row in rows for turn in row["turns"] for name in _UNSENT if turn.get(name) is not None}
    findings = (f"{path}: not sent: {', '.join(sorted(unsent))} of turns",) if unsent else ()
    return "branching conversations", findings, tasks


def _started(session: _Session) -> Iterator[str]:
    yield from session.before
    for turn in session.turns:
        yield from (branch.session for branch in turn.branches)


def _session(place: str, row: Mapping[str, Any]) -> _Session:
    if row.get("orchestrator"):
        raise UsageError(
            f"{place}: sessions without requests of their own (orchestrator) are not supported",
            remedy="write the task as steps; see docs/agents.md",
        )
    mode = row.get("context_mode")
    if mode not in _CONTEXT_MODES:
        raise UsageError(f"{place}: the context mode {mode!r} is not supported", remedy="leave it out")
    turns = list_of(place, row.get("turns"), "turns")
    return _Session(
        tuple(
            _turn(f"{place}, turn {number}", number, turn, len(turns)) for number, turn in enumerate(turns)
        ),
        tuple(map(str, list_of(place, row.get("pre_session_spawns") or (), "pre_session_spawns"))),
        mode == WHOLE_CONTEXTS,
    )


def _turn(place: str, number: int, turn: Any, count: int) -> _Turn:
    if not isinstance(turn, Mapping):
        raise UsageError(f"{place} is not an object", remedy=REMEDY)
    found = [message_of(place, message) for message in list_of(place, turn.get("messages"), "messages")]
    if not any(role == "user" for role, _ in found):
        raise UsageError(f"{place}: 'messages' has none of a user", remedy=REMEDY)
    system = found.pop(0)[1] if found[0][0] == "system" else ""
    branches = (*_forks(place, turn), *_spawns(place, number, turn, count))
    limit = 0 if turn.get("max_tokens") is None else count_of(place, turn, "max_tokens")
    return _Turn(system, tuple(found), limit, round(number_of(place, turn, "delay") * NS_PER_MS), branches)


def _forks(place: str, turn: Mapping[str, Any]) -> Iterator[_Branch]:
    for entry in list_of(place, turn.get("forks") or (), "forks"):
        yield _Branch(str(entry.get("child")) if isinstance(entry, Mapping) else str(entry), FORK)


def _spawns(place: str, number: int, turn: Mapping[str, Any], count: int) -> Iterator[_Branch]:
    for entry in list_of(place, turn.get("spawns") or (), "spawns"):
        if not isinstance(entry, Mapping):
            yield _Branch(str(entry), SPAWN, number + 1 if number + 1 < count else 0)
            continue
        join_at = entry.get("join_at", number + 1)
        if type(join_at) is not int or not number < join_at < count:
            raise UsageError(
                f"{place}: 'join_at' is {join_at!r}", remedy=f"name a turn from {number + 1} to {count - 1}"
            )
        for child in list_of(place, entry.get("children"), "children"):
            yield _Branch(str(child), SPAWN, join_at)


class _Tree:
    """The calls of a root and of all sessions that it starts."""

    def __init__(self, path: str, sessions: Mapping[str, _Session]) -> None:
        self._path = path
        self._sessions = sessions
        self._calls: list[RecordedCall] = []

    def calls(self, root: str) -> Sequence[RecordedCall]:
        self._add(root, ROOT, -1, "", ())
        return self._calls

    def _add(self, name: str, kind: str, parent: int, system: str, started_by: tuple[str, ...]) -> int:
        """Add the calls of a session, which begin after the call `parent`, and return its last one."""
        if name in started_by:
            raise UsageError(f"{self._path}: session '{name}' starts itself", remedy="remove the cycle")
        session, line = self._sessions[name], (*started_by, name)
        for child in session.before:
            self._add(child, SPAWN, parent, "", line)
        last, context = parent, parent if kind == FORK else -1
        awaited: list[tuple[int, int]] = []  # turn, and the last call of a session that it waits for
        for number, turn in enumerate(session.turns):
            if len(self._calls) >= MOST_CALLS:
                raise UsageError(
                    f"{self._path}: '{line[0]}' starts more than {MOST_CALLS:,} calls", remedy="split it"
                )
            system = turn.system if context < 0 or session.is_whole else system
            joined = [call for place, call in awaited if place == number]
            self._calls.append(
                RecordedCall(
                    "",
                    after=(*((last,) if last >= 0 else ()), *joined),
                    context=-1 if session.is_whole else context,
                    pause_ns=turn.pause_ns,
                    kind=kind,
                    system=system,
                    limit=turn.limit,
                    messages=turn.messages,
                )
            )
            last = context = len(self._calls) - 1
            for branch in turn.branches:
                end = self._add(
                    branch.session, branch.kind, last, system if branch.kind == FORK else "", line
                )
                awaited.append((branch.join_at or len(session.turns), end))
        return last
