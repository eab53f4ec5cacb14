"""Load: its interface for measurements (`Load`), and the worker processes that generate it.

The processes start together and receive the same messages; their records are merged.
"""

import contextlib
import math
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import repeat
from typing import NamedTuple, Protocol, TypeVar

from inferometer.base.deadline import INTERRUPT, UNDO_LAST_S, Deadline
from inferometer.base.errors import LocalError
from inferometer.base.interpreter import module_command
from inferometer.base.processes import open_files
from inferometer.base.system import most_open_files, unnamed_file
from inferometer.base.units import NS_PER_MS, NS_PER_S, monotonic_ns
from inferometer.load.channel import Channel, readable
from inferometer.load.messages import Adjust, Applied, Apply, Failed, Job, Stop, Stopped, Sync, Synced
from inferometer.load.plan import Cancellation, Closed, Open, Plan
from inferometer.load.resumed import Progression, Timing
from inferometer.load.sequences import SequencePlan
from inferometer.records.network_path import NetworkPath
from inferometer.records.records import EMPTY, Records, RingReader, Totals, from_cells, join
from inferometer.records.ring import CAPACITY, create_ring, map_ring
from inferometer.records.span_matcher import SpanMatcher
from inferometer.records.spans import SpanReport, Tracing
from inferometer.services.traffic import Traffic

ROUND_NS = 200 * NS_PER_MS  # records are fetched at least this often
FIRST_ROUND_NS = 40 * NS_PER_MS  # for a plan with a count, then doubled each time: a short plan ends soon
NAP_NS = ROUND_NS // 4  # or this often if there are many
MANY = CAPACITY // 8  # records per worker and round; a worker stops when half of its ring is full
# When the load stops, wait for outstanding requests as long as some end within this time,
SILENCE_NS = 2 * NS_PER_S
HURRIED_NS = NS_PER_S  # the same after a signal,
DRAIN_NS = 10 * NS_PER_S  # and at most this long; not every server honors a cancellation
HEAD_START_NS = 20 * NS_PER_MS  # for workers to receive a schedule and to open connections before it begins
LOOK_NS = NS_PER_S  # system counters are read this often and at the end of a window: reading them is slow
EXIT_S = 5.0  # a worker that has closed its connection exits within this time
HURRIED_ANSWER_S = 1.5  # after a signal
ANSWER_S = 20.0  # a worker that does not answer for this long is considered dead

Answer = TypeVar("Answer")


class Cost(NamedTuple):
    """Resources used by the workers since they started."""

    cpu_ns: tuple[int, ...]  # of each worker
    sent: int  # requests
    reconnects: int
    connects: int
    connect_ns: int
    files: int = 0  # open in the worker that has the most, and its limit (0: unlimited)
    file_limit: int = 0
    stolen_ns: int = 0  # total time of this machine's cores that its host gave to others
    parts: tuple["Cost", ...] = ()  # per class of traffic, if each has its own workers
    visits: int = 0  # or tasks, started, if requests are parts of these


class Collected(NamedTuple):
    """Every request that ended up to `seen_ns` and was not returned before (later ones may be included)."""

    records: Records
    seen_ns: int
    cost: Cost
    is_finished: bool  # the plan's count is used up and all its requests have ended
    loop_lag_ns: int = 0  # time the slowest worker took to answer
    outstanding: int = 0  # requests that have started and not ended
    heard: int = 0  # bytes received of their replies; any change shows that the server is working
    # If requested: requests in flight as if they had ended at `seen_ns`, with their responses so far.
    running: Records | None = None
    path: NetworkPath | None = None  # to the server, as all connections so far show it


class Load(Protocol):
    """Worker processes, or the engine on a simulated clock."""

    def apply(self, plan: Plan) -> int:
        """Change the load, wait until it is in effect, and return when an open plan's schedule begins."""

    def wait(self, until_ns: int) -> None:
        """Let the load continue until then; requests that end meanwhile are collected later."""

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        """Wait until `until_ns` at the latest, and return the requests that ended meanwhile. May return early."""

    def examples(self) -> dict[int, str]:
        """Return the first error text of each failure status."""

    def stop(self, *, is_urgent: bool = False) -> int:
        """End the load after waiting for outstanding requests, for less time if urgent; return the number cancelled."""

    def totals(self) -> Totals:
        """Return the totals of all requests so far; complete after `stop`."""


@dataclass(slots=True)
class Recorded:
    """Load that keeps the collected records of the current plan."""

    load: Load
    parts: list[Records] = field(default_factory=list)
    begun_ns: int = 0  # when that plan began
    ramp_ns: int = 0  # time over which its users start

    def __post_init__(self) -> None:
        self.load.collect(0)  # discard records of earlier plans

    def apply(self, plan: Plan) -> int:
        self.parts.clear()
        self.begun_ns = self.load.apply(plan)
        self.ramp_ns = plan.ramp_ns if isinstance(plan, Closed) else 0
        return self.begun_ns

    def wait(self, until_ns: int) -> None:
        self.load.wait(until_ns)

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        collected = self.load.collect(until_ns, with_running=with_running)
        self.parts.append(collected.records)
        return collected

    def examples(self) -> dict[int, str]:
        return self.load.examples()

    def stop(self, *, is_urgent: bool = False) -> int:
        return self.load.stop(is_urgent=is_urgent)

    def totals(self) -> Totals:
        return self.load.totals()


class ResizableLoad(Load, Protocol):
    """Load whose number of workers can be changed."""

    @property
    def count(self) -> int: ...

    def resize(self, count: int) -> None:
        """Continue with this many workers; in-flight requests are dropped."""


class WorkerProcess(Protocol):
    """A started process."""

    @property
    def pid(self) -> int: ...
    def kill(self) -> None: ...
    def wait(self, timeout_s: float | None = None, /) -> int:
        """Return its exit code; raise TimeoutError or TimeoutExpired if it does not exit in time."""


StartProcess = Callable[[list[str], tuple[int, ...]], WorkerProcess]
"""Function that starts a command which inherits these descriptors."""


def start_process(command: list[str], fds: tuple[int, ...]) -> WorkerProcess:
    """Start a worker with group signals blocked until it can ignore them; the mask is inherited."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        return subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(slots=True)
class _Worker:
    """A worker process and its channel and ring."""

    child: WorkerProcess
    control: Channel
    ring: RingReader


@dataclass(slots=True, eq=False)
class Workers:
    """Load by `count` worker processes. Use as a context manager: they never outlive it.

    They may be part of a larger set: those from number `first` on, of `total` on all machines.
    """

    traffic: Traffic
    _: KW_ONLY
    count: int = 1
    first: int = 0
    total: int | None = None  # None: no other workers
    timeout_ns: int = 0
    sequences: SequencePlan | None = None
    cancellation: Cancellation | None = None
    verbose: int = 0
    spool_fds: Sequence[int] = ()  # one per worker, to keep its requests for the export
    start: StartProcess | None = None
    spool_problem: str = ""  # why a worker could not keep its requests
    tracing: Tracing | None = None
    _path: NetworkPath = field(default_factory=NetworkPath)
    _spans: SpanMatcher = field(default_factory=SpanMatcher)
    _processes: list[_Worker] = field(default_factory=list)
    _examples: dict[int, str] = field(default_factory=dict)
    _backlog: list[Records] = field(default_factory=list)
    _totals: Totals = field(default_factory=Totals)  # of all records taken and of workers that have ended
    _sent: tuple[int, int] = (0, 0)  # by current workers: requests sent and resent
    _last: Collected | None = None  # without its records
    _round_ns: int = ROUND_NS
    _nap_ns: int = NAP_NS  # the number of records is not known yet
    _around: tuple[int, int, int] = (0, 0, 0)  # the last three parts of `Cost`, read from the system,
    _look_ns: int = 0  # and when to read them again

    def __enter__(self) -> "Workers":
        try:
            self._start_all()
        except BaseException:
            self._end_all()
            raise
        return self

    def _start_all(self) -> None:
        """Start all processes and wait until they are ready: an earlier schedule would start late."""
        requests_fd, spans = _share_requests(self.traffic.requests)
        try:
            for index in range(self.count):
                self._processes.append(self._start_one(index, requests_fd, spans))
        finally:
            os.close(requests_fd)
        self._ask(Synced, repeat(Sync()))

    def __exit__(self, *_: object) -> None:
        self._end_all()

    @property
    def parts(self) -> int:
        """Number of workers that share the load."""
        return self.count if self.total is None else self.total

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.child.pid for process in self._processes)

    def _end_all(self) -> None:
        for process in self._processes:
            process.control.close()
            process.child.kill()
            process.child.wait()
        self._processes.clear()

    def _start_one(self, index: int, requests_fd: int, spans: tuple[tuple[int, int], ...]) -> _Worker:
        ours, theirs = socket.socketpair()
        ring_fd = create_ring()
        spool_fd = self.spool_fds[index] if self.spool_fds else None
        fds = (theirs.fileno(), ring_fd, requests_fd, *(() if spool_fd is None else (spool_fd,)))
        command = module_command("inferometer.load.worker", str(theirs.fileno()))
        child = (self.start or start_process)(command, fds)
        theirs.close()
        control = Channel(ours.detach())
        ring = RingReader(map_ring(ring_fd))
        os.close(ring_fd)
        number = self.first + index
        job = Job(
            wiring=self.traffic.wiring.share(number, self.parts),
            ring_fd=ring_fd,
            requests_fd=requests_fd,
            spans=spans,
            first_step=number,
            stride=self.parts,
            timeout_ns=self.timeout_ns,
            sequences=self.sequences,
            validation=self.traffic.validation,
            checks=self.traffic.checks,
            cancellation=self.cancellation,
            verbose=self.verbose,
            spool_fd=spool_fd,
            visits=self.traffic.visits,
            tasks=self.traffic.tasks,
            trace_share=None if self.tracing is None else self.tracing.share,
        )
        # The missing answer reveals the failure.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            control.send(job)
        return _Worker(child, control, ring)

    def resize(self, count: int) -> None:
        """Continue with this many processes; the old ones exit, and their load and records are dropped."""
        self.stop()
        self._end_all()
        self._backlog.clear()
        self._totals, self._sent = self.totals(), (0, 0)
        self.count, self._last = count, None
        self._start_all()

    # --- Load

    def apply(self, plan: Plan, start_ns: int | None = None) -> int:
        """Apply the plan; `start_ns` is given if other workers or machines start at the same time."""
        start_ns = monotonic_ns() + HEAD_START_NS if start_ns is None else start_ns
        numbers = range(self.first, self.first + self.count)
        # Surplus slots end after their current request; one that hangs must not block the next level forever.
        messages = (Apply(plan.share(number, self.parts), start_ns) for number in numbers)
        self._ask(Applied, messages, hurried_s=HURRIED_NS / NS_PER_S / 2)
        self._spans.begin(counts_from_due=isinstance(plan, Open))
        self._round_ns = ROUND_NS if plan.count is None else FIRST_ROUND_NS
        return start_ns

    def adjust(
        self, timing: Timing, more: Sequence[Sequence[Progression]] = (), caps: Sequence[int] = ()
    ) -> None:
        """Shift the current schedule, and give each worker more of its requests and another cap."""
        for index, process in enumerate(self._processes):
            message = Adjust(timing, tuple(more[index]) if more else (), caps[index] if caps else None)
            # The next message reveals the failure.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.control.send(message)

    def collect(self, until_ns: int, *, with_running: bool = False) -> Collected:
        self.wait(min(until_ns, monotonic_ns() + self._round_ns))
        self._round_ns = min(2 * self._round_ns, ROUND_NS)
        asked_ns = monotonic_ns()
        try:
            answers = self._ask(Synced, repeat(Sync(with_running)))
        except LocalError:
            left = self._take()  # the ring outlives its worker; the next call raises the error
            if self._last is None or not len(left):
                raise
            return self._last._replace(records=left, seen_ns=int(left.end_ns.max()))
        if len(answers) < self.count:
            raise LocalError(
                "a worker process did not answer in time",
                remedy="this machine may be overloaded",
            )
        self._sent = sum(answer.sent for answer in answers), sum(answer.resent for answer in answers)
        for answer in answers:
            self._examples = {**answer.examples, **self._examples}
            self.spool_problem = self.spool_problem or answer.spool_problem
        self._path.add(answer.path for answer in answers)
        if asked_ns >= min(until_ns, self._look_ns):
            self._look_ns = asked_ns + LOOK_NS
            files = max(open_files(process.child.pid) for process in self._processes)
            self._around = (files, file_limit(self._processes[0].child.pid), stolen_ns())
        self._last = Collected(
            records=EMPTY,
            seen_ns=min(answer.seen_ns for answer in answers),
            cost=Cost(
                tuple(answer.cpu_ns for answer in answers),
                self._sent[0],
                sum(answer.reconnects for answer in answers),
                sum(answer.connects for answer in answers),
                sum(answer.connect_ns for answer in answers),
                *self._around,
                visits=sum(answer.visits for answer in answers),
            ),
            is_finished=all(answer.is_finished for answer in answers),
            loop_lag_ns=max(answer.seen_ns + answer.behind_ns for answer in answers) - asked_ns,
            outstanding=sum(answer.outstanding for answer in answers),
            heard=sum(answer.heard for answer in answers),
            path=self._path,
        )
        records = self._take()
        self._path.match(records)
        self._trace((answer.spans for answer in answers), records, self._last.seen_ns)
        self._nap_ns = ROUND_NS if len(records) < self.count * MANY else NAP_NS
        running = [from_cells(*answer.running) for answer in answers if answer.running is not None]
        return self._last._replace(records=records, running=join(running) if running else None)

    def wait(self, until_ns: int) -> None:
        """Wait; fetch records meanwhile if they arrive so fast that a ring might fill up."""
        while (left_ns := until_ns - monotonic_ns()) > 0:
            time.sleep(min(left_ns, self._nap_ns) / NS_PER_S)
            if left_ns > self._nap_ns:
                self.drain()

    def examples(self) -> dict[int, str]:
        return dict(self._examples)

    def stop(self, *, is_urgent: bool = False) -> int:
        silence_ns = HURRIED_NS if INTERRUPT.is_over() else SILENCE_NS
        limit_ns = silence_ns if is_urgent else DRAIN_NS
        message = Stop(silence_ns, limit_ns)
        limit_s = limit_ns / NS_PER_S
        answers = self._ask(
            Stopped, repeat(message), timeout_s=ANSWER_S + limit_s, hurried_s=HURRIED_ANSWER_S + limit_s
        )
        self.drain()
        self._sent = sum(answer.sent for answer in answers), sum(answer.resent for answer in answers)
        self._trace((answer.spans for answer in answers), join(self._backlog))
        return sum(answer.cancelled for answer in answers)

    def _trace(self, reports: Iterable[SpanReport], records: Records, reported_ns: float = math.inf) -> None:
        if self.tracing is None:
            return
        self._spans.add(reports)
        rows, dropped = self._spans.match(records, reported_ns), self._spans.take_dropped()
        if rows or dropped:
            self.tracing.sink.add(rows, dropped, self._path)

    def totals(self) -> Totals:
        self.drain()
        sent, resent = self._sent
        return replace(self._totals, sent=self._totals.sent + sent, resent=self._totals.resent + resent)

    # --- messages

    def _ask(
        self,
        kind: type[Answer],
        messages: Iterable[object],
        *,
        timeout_s: float = ANSWER_S,
        hurried_s: float = HURRIED_ANSWER_S,
    ) -> list[Answer]:
        """Return one answer per worker to its message, fewer after the time-out. Empty the rings meanwhile."""
        for process, message in zip(self._processes, messages, strict=False):
            # The missing answer reveals the failure.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.control.send(message)
        answers: list[Answer] = []
        waiting = {process.control: process for process in self._processes}
        if INTERRUPT.is_over():  # each message has its own short time-out
            deadline = Deadline.after(min(timeout_s, hurried_s), last_s=math.inf)
        else:
            deadline = Deadline.after(timeout_s, last_s=UNDO_LAST_S)
        while waiting and not deadline.has_passed():
            ready = readable(list(waiting), ROUND_NS / NS_PER_S)
            for control in ready:
                answer = _receive(waiting[control])
                if isinstance(answer, kind):
                    answers.append(answer)
                    del waiting[control]
            if not ready:
                self.drain()
        return answers

    def drain(self) -> None:
        """Take the records from the rings; they are collected later."""
        for process in self._processes:
            taken = process.ring.take()
            if len(taken):
                self._backlog.append(taken)
                self._totals = self._totals.and_records(taken)

    def _take(self) -> Records:
        self.drain()
        taken, self._backlog = join(self._backlog), []
        return taken


def file_limit(pid: int) -> int:
    """Return the open-file limit of a worker; 0 if unlimited."""
    if not hasattr(resource, "prlimit"):
        return most_open_files()  # a worker raises its limit that far
    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except OSError:
        return 0
    return 0 if soft == resource.RLIM_INFINITY else soft


def stolen_ns() -> int:
    """Return the time in which this virtual machine had work but no CPU (steal time); 0 if unknown."""
    try:
        with open("/proc/stat") as file:
            ticks = int(file.readline().split()[8])
    except (OSError, ValueError, IndexError):
        return 0
    return ticks * NS_PER_S // os.sysconf("SC_CLK_TCK")


def _receive(process: _Worker) -> object:
    try:
        answer = process.control.recv()
    except (EOFError, ConnectionResetError):
        raise _died(process.child) from None
    if isinstance(answer, Failed):
        raise answer.error or LocalError(f"a worker process failed:\n{answer.text}")
    return answer


def _died(child: WorkerProcess) -> LocalError:
    """Return the error for a worker that closed its channel and is about to exit; kill it if it does not."""
    remedy = "results measured so far are kept"
    try:
        code = child.wait(EXIT_S)
    except (TimeoutError, subprocess.TimeoutExpired):
        child.kill()
        child.wait()
        return LocalError("a worker process closed its connection but did not exit", remedy=remedy)
    if code == -signal.SIGKILL:
        remedy = f"check the system log for the out-of-memory killer; {remedy}"
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    return LocalError(f"a worker process {how}", remedy=remedy)


def _share_requests(requests: tuple[bytes, ...]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Copy all requests into one shared memory, so that no worker needs its own copy; return their positions."""
    fd = unnamed_file("inferometer-requests")
    spans = []
    position = 0
    known: dict[int, tuple[int, int]] = {}  # a mixture contains the same request many times
    with os.fdopen(os.dup(fd), "wb") as file:
        for request in requests:
            if id(request) not in known:
                file.write(request)
                known[id(request)] = (position, position + len(request))
                position += len(request)
            spans.append(known[id(request)])
        file.write(b"\0")  # an empty file cannot be mapped, and a message may be empty
    return fd, tuple(spans)
