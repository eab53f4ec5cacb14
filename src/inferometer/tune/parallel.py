"""A search on several servers at once: each server measures one trial at a time, and the search gets the trials as
they end.

Only servers on machines of one kind take part, so that all trials are comparable. The search assigns each proposal to a
server. If that server is lost, another one takes over as soon as it is free.

The journal numbers trials in the order in which they end. A resumed search gets known trials in that order, before any
new one ends, so that it repeats its proposals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from inferometer.base.deadline import CALL_LAST_S
from inferometer.base.errors import LocalError, PeerError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.stats.watcher import Watcher
from inferometer.tune.attempt import Attempt
from inferometer.tune.journal import Journal
from inferometer.tune.machine import ServerMachine
from inferometer.tune.recall import renamed
from inferometer.tune.search.search import Proposal
from inferometer.tune.trial import Status, Trial

LOOK_S = 0.2  # interval of checks for ended trials and interruptions
GRACE_S = CALL_LAST_S + 0.5  # for trials to end when the search has to, including communication
FIRST_ATTEMPTS = 2  # give up if this many first trials all fail
MOST_LOSSES = 2  # a trial that loses this many servers is considered the cause


@frozen
class ServerLost:
    """A server that no longer answers, and the reason."""

    why: str


class TrialServers(Protocol):
    """Numbered servers that measure one trial each at a time."""

    @property
    def machines(self) -> Sequence[ServerMachine]:
        """The machine of each server."""

    def begin(self, server: int, proposal: Proposal) -> None: ...

    def ended(self, timeout_s: float) -> Sequence[tuple[int, Attempt | ServerLost]]:
        """Return the begun trials that have ended since the last call, waiting for one up to the timeout. A lost server
        is reported once."""

    def interrupt(self) -> None:
        """Request the running trials to end soon."""


@dataclass(slots=True)
class _Work:
    """A proposal being measured."""

    proposal: Proposal
    known: Trial | None = None  # from the journal
    begun_ns: int = 0
    losses: int = 0
    has_died: bool = False  # the server died in the previous attempt


@dataclass(slots=True)
class ParallelTrials:
    """Measures the proposals of one search. `key_of` returns the key of a trial in the journal."""

    servers: TrialServers
    journal: Journal
    watcher: Watcher
    key_of: Callable[[Proposal], str]
    study: str  # its name
    retry: bool = False  # retry trials that failed in an earlier session
    has_measured: bool = False
    since_ns: int = field(default_factory=monotonic_ns)
    clock: Callable[[], int] = monotonic_ns
    trials: list[Trial] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)  # lost servers and the reasons
    _works: dict[int, _Work] = field(default_factory=dict)  # by the server they were proposed for
    _queue: list[int] = field(default_factory=list)  # those not begun yet
    _running: dict[int, int] = field(default_factory=dict)  # server -> the work it does
    _free_ns: dict[int, int] = field(default_factory=dict)  # when each server's last work ended
    _ended: list[tuple[int, Attempt | ServerLost]] = field(default_factory=list)  # not reported yet
    _attempts: int = 0

    def start(self, proposal: Proposal) -> bool:
        """Measure the proposal unless the journal knows it; return whether it does."""
        found = self.journal.find(self.key_of(proposal), with_failed=not self.retry)
        known = None if found is None else renamed(found, proposal)
        self._works[proposal.server] = _Work(proposal, known)
        if known is None:
            self._queue.append(proposal.server)
            self._send()
        return known is not None

    def next_trial(self) -> Trial | None:
        """Return the next trial that ends; None if interrupted."""
        known = [(work.known.number, place) for place, work in self._works.items() if work.known is not None]
        if known:
            _, place = min(known)
            trial = self._works.pop(place).known
            assert trial is not None
            self.trials.append(trial)
            return trial
        while not self.watcher.is_interrupted():
            trial = self._look()
            if trial is not None:
                return trial
        return None

    def end(self) -> None:
        """Wait briefly for running trials, so that they count."""
        self._queue.clear()
        self.servers.interrupt()
        deadline_ns = self.clock() + round(GRACE_S * NS_PER_S)
        while self._running and self.clock() < deadline_ns:
            self._look(is_last=True)

    # --- servers

    def _send(self) -> None:
        """Send work to its servers, or to others if those were lost."""
        for place in list(self._queue):
            free = [
                server
                for server in range(len(self.servers.machines))
                if server not in self.lost and server not in self._running
            ]
            server = place if place not in self.lost else next(iter(free), None)
            if server is None or server not in free:
                continue
            self._queue.remove(place)
            self._running[server] = place
            work = self._works[place]
            work.begun_ns = self.clock()
            self.servers.begin(server, work.proposal)

    def _look(self, *, is_last: bool = False) -> Trial | None:
        """Return a trial if one ends within a short time. The search gets trials one at a time."""
        if not self._ended:
            self._ended += self.servers.ended(LOOK_S)
        if not self._ended:
            return None
        server, outcome = self._ended.pop(0)
        place = self._running.pop(server)
        if isinstance(outcome, ServerLost):
            trial = None if is_last else self._lose(server, place, outcome.why)
        else:
            trial = self._conclude(server, place, outcome, is_last=is_last)
        self._send()
        return trial

    def _lose(self, server: int, place: int, why: str) -> Trial | None:
        self.lost[server] = why
        work = self._works[place]
        work.losses += 1
        where = self.servers.machines[server].place
        name = work.proposal.trial(-1, Status.SKIPPED).name
        left = len(self.servers.machines) - len(self.lost)
        again = (
            "its trial is retried on another server"
            if left and work.losses < MOST_LOSSES
            else "its trial failed"
        )
        self.watcher.said(
            f"Server {server + 1} at {where} was lost: {why}; {again} ({name})", is_warning=True
        )
        if not left:
            raise LocalError(
                f"all servers were lost; the last, at {where}: {why}",
                remedy="run the same command to continue: the journal has all measurements",
            )
        if work.losses < MOST_LOSSES:
            self._queue.append(place)
            return None
        reason = f"{work.losses} servers were lost while measuring it; the last: {why}"
        return self._kept(server, place, Attempt(None, reason=reason))

    def _conclude(self, server: int, place: int, outcome: Attempt, *, is_last: bool) -> Trial | None:
        work = self._works[place]
        if outcome.figures is None and not self.has_measured and not is_last:
            outcome.check_mistake(work.proposal)
        if outcome.figures is None and (is_last or self.watcher.is_interrupted()):
            return None  # it may have been interrupted: the next session retries it
        trial = self._kept(server, place, outcome)
        self._attempts += not trial.is_measured and not trial.lacks_memory
        self.has_measured = self.has_measured or trial.is_measured
        if self._attempts >= FIRST_ATTEMPTS and not self.has_measured and not self._running:
            raise PeerError(
                f"the first {self._attempts} attempts to measure failed; the last: {trial.reason}",
                remedy="fix the model or its settings; see the server's log",
            )
        if not trial.is_measured and not outcome.is_running and not work.has_died:
            self._works[place] = replace(work, has_died=True)  # the variant may not be the cause
            self._queue.append(place)
            return None
        return trial

    def _kept(self, server: int, place: int, outcome: Attempt) -> Trial:
        """Save the trial of this attempt to the journal and return it."""
        work, now_ns = self._works.pop(place), self.clock()
        # The first trial includes the start of the server.
        since_ns = self._free_ns.get(place)
        begun_ns = self.since_ns if since_ns is None else work.begun_ns
        waited_ns = 0 if since_ns is None else begun_ns - since_ns
        self._free_ns[place] = now_ns
        trial = replace(
            outcome.trial(work.proposal, self.journal.next_number()),
            cost_s=(now_ns - begun_ns) / NS_PER_S,
            waited_s=waited_ns / NS_PER_S,
            key=self.key_of(work.proposal),
            server=server + 1,
        )
        self.journal.add(trial, work.proposal.variants, study=self.study)
        self.trials.append(trial)
        return trial
