"""Log of the fault server: the requests it received, and the outcomes the client may report for them."""

from dataclasses import dataclass, field

UNSEEN = frozenset({"connect", "reset", "timeout", "cancelled", "tls"})
"""Outcomes of requests that need not have reached the server."""


@dataclass(slots=True, eq=False)
class Seen:
    """One complete request. `allowed` are the outcomes that a result may report for it."""

    number: int
    step: int  # step of the data in the request; -1 if unknown
    fault: str  # what was played; empty for the usual answer
    allowed: set[str]
    may_repeat: bool = False  # the client may send it again, and then it has no outcome
    is_answered: bool = False  # the last byte of its answer was sent
    doubts: frozenset[str] = frozenset()  # outcomes that stay possible whatever is sent, up to its answer

    def ends(self, *kinds: str) -> None:
        """Allow only these outcomes from now on, unless it has been answered."""
        if not self.is_answered:
            self.allowed = {*self.doubts, *kinds}

    def doubt(self, kinds: frozenset[str]) -> None:
        """The client may have given up the request for another reason, with one of these outcomes."""
        self.doubts |= kinds
        self.allowed |= kinds


@dataclass(slots=True)
class Log:
    """Log of one run."""

    seen: list[Seen] = field(default_factory=list)
    unseen: set[str] = field(default_factory=lambda: set(UNSEEN))
    controls: list[tuple[str, str]] = field(default_factory=list)  # (call, fault)
    faults: dict[str, int] = field(default_factory=dict)  # how often each was played
    misuse: list[str] = field(default_factory=list)  # protocol violations of the client

    def add(self, step: int, fault: str, allowed: set[str], *, may_repeat: bool = False) -> Seen:
        entry = Seen(len(self.seen), step, fault, set(allowed), may_repeat)
        self.seen.append(entry)
        if fault:
            self.count(fault)
        return entry

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1
