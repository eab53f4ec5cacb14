"""A task in progress: which calls are due when, given those that have ended. No clock and no socket are involved."""

from typing import NamedTuple

from inferometer.model.task import TaskGraph, TaskNode
from inferometer.records.tasks import COMPLETE, FAILED, LIMITED, RUNNING


class Due(NamedTuple):
    """A call to make, not before this time."""

    due_ns: int
    node: int


class Routes:
    """A graph as runs use it: computed once, for all tasks with this graph."""

    __slots__ = ("awaited", "followers", "is_cut", "nodes", "pauses", "roots")

    def __init__(self, graph: TaskGraph) -> None:
        self.nodes: tuple[TaskNode, ...] = graph.nodes
        self.is_cut = graph.is_cut
        self.roots = graph.roots
        self.followers = graph.followers
        self.awaited = [len(node.after) for node in graph.nodes]
        # None has to be drawn for each task.
        self.pauses = [
            round(node.pause.first) if node.pause.kind == "fixed" else None for node in graph.nodes
        ]


class TaskRun:
    """One task. A call whose retries have all failed ends it: no more calls start, and it is over when none is in
    flight."""

    __slots__ = (
        "_attempts",
        "_awaited",
        "_left",
        "_ready_ns",
        "_routes",
        "_seed",
        "in_flight",
        "is_failed",
        "number",
    )

    def __init__(self, routes: Routes, number: int, seed: int = 0) -> None:
        self.number = number
        self.in_flight = 0
        self.is_failed = False
        self._routes = routes
        self._seed = seed
        self._left = len(routes.nodes)  # nodes without an answer
        self._awaited = routes.awaited.copy()
        self._ready_ns: dict[int, int] = {}  # of nodes that wait for several answers: the latest so far
        self._attempts: dict[int, int] = {}  # failed ones

    def begin(self, due_ns: int) -> list[Due]:
        """Return the first calls of a task that is due at this time."""
        return [self._due(node, due_ns) for node in self._routes.roots]

    def start(self) -> None:
        """Record the start of a call."""
        self.in_flight += 1

    def end(self, node: int, end_ns: int, *, is_good: bool) -> list[Due]:
        """Record the end of a call, and return the calls that it makes due."""
        self.in_flight -= 1
        if not is_good:
            return self._failed(node, end_ns)
        self._left -= 1
        if self.is_failed:
            return []
        due, awaited = [], self._awaited
        for follower in self._routes.followers[node]:
            awaited[follower] = left = awaited[follower] - 1
            if left:
                self._ready_ns[follower] = max(end_ns, self._ready_ns.get(follower, 0))
            else:
                due.append(self._due(follower, max(end_ns, self._ready_ns.pop(follower, 0))))
        return due

    def _failed(self, node: int, end_ns: int) -> list[Due]:
        retry = self._routes.nodes[node].retry
        self._attempts[node] = attempt = self._attempts.get(node, 0) + 1
        if self.is_failed or attempt >= retry.attempts:
            self.is_failed = True
            return []
        return [Due(end_ns + retry.wait_after_ns(attempt), node)]

    def _due(self, node: int, ready_ns: int) -> Due:
        pause = self._routes.pauses[node]
        if pause is None:
            pause = self._routes.nodes[node].pause.draw_ns(self._seed, self.number, node)
        return Due(ready_ns + pause, node)

    @property
    def outcome(self) -> int:
        """The outcome of the task; RUNNING until it is over."""
        if self.is_failed:
            return RUNNING if self.in_flight else FAILED
        if self._left:
            return RUNNING
        return LIMITED if self._routes.is_cut else COMPLETE
