"""Tasks: graphs of calls to a text server, as agents make them.

A **step** is a kind of call as a user writes it. Steps that are repeated, in parallel or in turns, are expanded to
**nodes**: one call each, with the nodes that it waits for. A prompt is a template over the data and earlier answers:

    {{data}}     the row of the data that belongs to the task
    {{task}}     the number of the task, from 1
    {{copy}}     the number of the copy of the step, from 1
    {{STEP}}     the answer of an earlier step; of all its copies in this branch, each on a line of its own

A reference to a step implies that the call waits for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from inferometer.base.drawn_times import NO_TIME, DrawnTime
from inferometer.base.frozen import frozen
from inferometer.base.text import nearest

DATA, TASK, COPY = "data", "task", "copy"
RESERVED = (DATA, TASK, COPY)
MOST_CALLS = 4096  # of one task
_REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")


# --- retries


@frozen
class Retry:
    """How a failed call is retried: calls in total, and the wait before the first retry; each later wait is
    `factor` times as long."""

    attempts: int = 1  # calls in total
    wait_ns: int = 0
    factor: float = 2.0

    def wait_after_ns(self, attempt: int) -> int:
        """Return the wait after the failure of this attempt, counted from 1."""
        return round(self.wait_ns * self.factor ** (attempt - 1))


ONCE = Retry()


# --- steps, as a user writes them


@frozen
class TaskStep:
    """A step: its prompt, the steps that it waits for, and its number of repetitions."""

    name: str
    prompt: str
    after: tuple[str, ...] = ()
    each: str = ""  # makes a copy for every copy of this step
    repeat: int = 1  # copies in parallel
    turns: int = 1  # calls in a row; each continues the conversation of the one before
    context: str = ""  # step whose conversation it continues
    system: str = ""
    pause: DrawnTime = NO_TIME
    retry: Retry = ONCE
    max_tokens: int = 0  # 0 leaves it to the server

    @property
    def references(self) -> tuple[str, ...]:
        """Names that the templates of the step refer to, in order."""
        return tuple(_REFERENCE.findall(self.prompt))

    @property
    def awaited(self) -> tuple[str, ...]:
        """Steps that this step waits for, in whichever way they are declared."""
        said = (*self.after, self.each, self.context, *self.references)
        return tuple(dict.fromkeys(name for name in said if name and name not in RESERVED))


class Mistake(NamedTuple):
    """A mistake in the steps of a task: its place below `steps`, and its description."""

    where: str
    said: str


def mistakes(steps: Sequence[TaskStep]) -> list[Mistake]:
    """Return all mistakes in the names and the order of steps; without any, they can be expanded."""
    names = [step.name for step in steps]
    found = [mistake for step in steps for mistake in _wrong_names(step, names)]
    if found:
        return found
    cycle = _maybe_cycle({step.name: step.awaited for step in steps})
    if cycle:
        said = f"waits for itself: {' -> '.join((*cycle, cycle[0]))}"
        return [Mistake(cycle[0], f"'{cycle[0]}' {said}")]
    return _too_many(steps) or _ambiguous_contexts(steps)


def _wrong_names(step: TaskStep, names: Sequence[str]) -> Iterator[Mistake]:
    if step.name in RESERVED:
        yield Mistake(step.name, f"'{step.name}' is reserved for templates; give the step another name")
    places = [
        *(
            (f"after.{number}" if len(step.after) > 1 else "after", name)
            for number, name in enumerate(step.after)
        ),
        ("for", step.each),
        ("continue", step.context),
        *(("prompt", name) for name in step.references if name not in RESERVED),
    ]
    for place, name in places:
        if place != "prompt" and not name:
            continue
        if name == step.name:
            yield Mistake(f"{step.name}.{place}", f"'{name}' is the step itself")
        elif name not in names:
            written = f"{{{{{name}}}}}" if place == "prompt" else f"'{name}'"
            known = (*names, *RESERVED) if place == "prompt" else names
            close = nearest(name, [each for each in known if each != step.name])
            what = f"did you mean '{close}'?" if close else f"the steps are {', '.join(names)}"
            yield Mistake(f"{step.name}.{place}", f"{written} is not a step; {what}")


def _maybe_cycle(awaited: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the steps of a cycle, in the order in which they wait for each other; empty if there is none."""
    done: set[str] = set()
    for start in awaited:
        path: list[str] = []
        pending = [iter(awaited[start])] if start not in done else []
        path += [start] if pending else []
        while pending:
            rest = pending[-1]
            following = next(rest, None)
            if following is None:
                pending.pop()
                done.add(path.pop())
            elif following in path:
                return tuple(path[path.index(following) :])
            elif following not in done:
                pending.append(iter(awaited[following]))
                path.append(following)
    return ()


def _too_many(steps: Sequence[TaskStep]) -> list[Mistake]:
    by_name = {step.name: step for step in steps}
    copies: dict[str, int] = {}

    def count(step: TaskStep) -> int:
        if step.name not in copies:
            copies[step.name] = step.repeat * (count(by_name[step.each]) if step.each else 1)
        return copies[step.name]

    total = sum(min(count(step), MOST_CALLS + 1) * step.turns for step in steps)
    if total <= MOST_CALLS:
        return []
    most = max(steps, key=lambda step: count(step) * step.turns)
    calls = count(most) * most.turns
    return [
        Mistake(
            most.name, f"the task has more than {MOST_CALLS:,} calls, of which '{most.name}' makes {calls:,}"
        )
    ]


def _ambiguous_contexts(steps: Sequence[TaskStep]) -> list[Mistake]:
    branches = _branches(steps)
    found = []
    for step in steps:
        if step.context:
            own = [path for path in branches[step.context] if _is_shared(path, branches[step.name][0])]
            if len(own) > 1:
                said = f"'{step.context}' has {len(own)} copies here, and a call continues one conversation"
                found.append(Mistake(f"{step.name}.continue", f"{said}; add for: {step.context}"))
    return found


# --- nodes


class Answers(NamedTuple):
    """Part of a prompt: the answers of these nodes, one per line."""

    nodes: tuple[int, ...]


class Place(NamedTuple):
    """Part of a prompt that differs between tasks: DATA or TASK."""

    name: str


Part = str | Answers | Place


class TaskMessage(NamedTuple):
    """A message of a call, with its text in parts."""

    role: str
    parts: tuple[Part, ...]


@frozen
class TaskNode:
    """One call of a task."""

    kind: int  # number of its step
    messages: tuple[TaskMessage, ...]  # after those of its context
    after: tuple[int, ...] = ()  # nodes whose answers it waits for
    context: int = -1  # node whose conversation it continues; -1 begins one
    system: str = ""
    pause: DrawnTime = NO_TIME  # after the last of these answers
    retry: Retry = ONCE
    max_tokens: int = 0
    turn: int = 1  # number of calls on the longest way to it, itself included
    answer: str | None = None  # recorded: later calls carry it instead of the server's


@frozen
class TaskGraph:
    """The calls of a task; a node comes after all that it waits for."""

    nodes: tuple[TaskNode, ...]
    is_cut: bool = False  # the limit of turns has removed calls
    name: str = ""  # in a recording

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(number for number, node in enumerate(self.nodes) if not node.after)

    @property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that wait for each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for earlier in node.after:
                found[earlier].append(number)
        return tuple(map(tuple, found))


_Path = tuple[tuple[str, int], ...]
"""The branch of a copy: the repeated steps that it descends from, each with the number of the copy."""


def expanded(steps: Sequence[TaskStep], *, most_turns: int | None = None) -> TaskGraph:
    """Return the calls of a task with these steps, which must be without mistakes."""
    kinds = {step.name: number for number, step in enumerate(steps)}
    by_name = {step.name: step for step in steps}
    branches = _branches(steps)
    nodes: list[TaskNode] = []
    last: dict[tuple[str, _Path], int] = {}  # the last node of each copy
    for name in _ordered({step.name: step.awaited for step in steps}):
        step = by_name[name]
        for path in branches[name]:
            for turn in range(step.turns):
                nodes.append(_node(step, path, turn, kinds, branches, last, nodes))
                last[name, path] = len(nodes) - 1
    return limited(TaskGraph(tuple(nodes)), most_turns)


def _node(
    step: TaskStep,
    path: _Path,
    turn: int,
    kinds: Mapping[str, int],
    branches: Mapping[str, Sequence[_Path]],
    last: Mapping[tuple[str, _Path], int],
    nodes: Sequence[TaskNode],
) -> TaskNode:
    def nodes_of(name: str) -> tuple[int, ...]:
        return tuple(last[name, other] for other in branches[name] if _is_shared(other, path))

    after = {node for name in step.awaited for node in nodes_of(name)}
    context = nodes_of(step.context)[0] if step.context else -1
    if turn:
        context = last[step.name, path]
        after = {context}
    parts = tuple(_parts(step, path, nodes_of))
    system = step.system or (nodes[context].system if context >= 0 else "")
    return TaskNode(
        kind=kinds[step.name],
        messages=(TaskMessage("user", parts),),
        after=tuple(sorted(after)),
        context=context,
        system=system,
        pause=step.pause,
        retry=step.retry,
        max_tokens=step.max_tokens,
        turn=1 + max((nodes[earlier].turn for earlier in after), default=0),
    )


def _parts(step: TaskStep, path: _Path, nodes_of: Callable[[str], tuple[int, ...]]) -> Iterator[Part]:
    copy = dict(path).get(step.name, path[-1][1] if path else 0)
    for number, piece in enumerate(_REFERENCE.split(step.prompt)):
        if number % 2 == 0:
            if piece:
                yield piece
        elif piece == COPY:
            yield str(copy + 1)
        elif piece in RESERVED:
            yield Place(piece)
        else:
            yield Answers(nodes_of(piece))


def limited(graph: TaskGraph, most_turns: int | None) -> TaskGraph:
    """Return the graph without calls beyond this turn."""
    if most_turns is None or all(node.turn <= most_turns for node in graph.nodes):
        return graph
    kept = [number for number, node in enumerate(graph.nodes) if node.turn <= most_turns]
    places = {number: place for place, number in enumerate(kept)}
    nodes = tuple(_moved(graph.nodes[number], places) for number in kept)
    return TaskGraph(nodes, is_cut=True, name=graph.name)


def _moved(node: TaskNode, places: Mapping[int, int]) -> TaskNode:
    """Return the node with new numbers for the nodes that it refers to, which all have earlier turns."""
    messages = tuple(
        TaskMessage(
            message.role,
            tuple(
                Answers(tuple(places[number] for number in part.nodes)) if isinstance(part, Answers) else part
                for part in message.parts
            ),
        )
        for message in node.messages
    )
    return replace(
        node,
        messages=messages,
        after=tuple(places[number] for number in node.after),
        context=places[node.context] if node.context >= 0 else -1,
    )


def _branches(steps: Sequence[TaskStep]) -> dict[str, list[_Path]]:
    """Return the copies of each step, in order."""
    by_name = {step.name: step for step in steps}
    found: dict[str, list[_Path]] = {}

    def paths(step: TaskStep) -> list[_Path]:
        if step.name not in found:
            outer: list[_Path] = paths(by_name[step.each]) if step.each else [()]
            copies = range(step.repeat)
            own = [((step.name, copy),) if step.repeat > 1 else () for copy in copies]
            found[step.name] = [(*path, *each) for path in outer for each in own]
        return found[step.name]

    for step in steps:
        paths(step)
    return found


def _is_shared(one: _Path, other: _Path) -> bool:
    """Return whether two copies belong to one branch: no repeated step separates them."""
    mine = dict(one)
    return all(mine.get(name, copy) == copy for name, copy in other)


def _ordered(awaited: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the steps, each after all that it waits for, otherwise in the order of the file."""
    found: list[str] = []
    rest = list(awaited)
    while rest:
        following = next(name for name in rest if all(other in found for other in awaited[name]))
        rest.remove(following)
        found.append(following)
    return found
