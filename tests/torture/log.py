"""What the fault server saw, and how each request may end for the client."""

from dataclasses import dataclass, field

UNSEEN = frozenset({"connect", "reset", "timeout", "cancelled", "tls"})
"""Outcomes of requests that need not have reached the server."""


@dataclass(slots=True, eq=False)
class Seen:
    """One request that came whole. `allowed` are the outcomes that a result may state for it."""

    number: int
    step: int  # of the data, which the request carries; -1 where it cannot be told
    fault: str  # what was played; empty for the usual answer
    allowed: set[str]
    may_repeat: bool = False  # the client may send it again, and then it has no outcome of its own
    is_answered: bool = False  # the last byte of its answer was handed over

    def ends(self, *kinds: str) -> None:
        """From now on only these outcomes are right, unless it has been answered."""
        if not self.is_answered:
            self.allowed = set(kinds)


@dataclass(slots=True)
class Log:
    """Of one run."""

    seen: list[Seen] = field(default_factory=list)
    unseen: set[str] = field(default_factory=lambda: set(UNSEEN))
    controls: list[tuple[str, str]] = field(default_factory=list)  # (call, fault)
    faults: dict[str, int] = field(default_factory=dict)  # how often each was played
    misuse: list[str] = field(default_factory=list)  # what the client must not do

    def add(self, step: int, fault: str, allowed: set[str], *, may_repeat: bool = False) -> Seen:
        entry = Seen(len(self.seen), step, fault, set(allowed), may_repeat)
        self.seen.append(entry)
        if fault:
            self.count(fault)
        return entry

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1
