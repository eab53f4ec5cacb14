"""The agent of a client: it runs the workers of one machine and answers the controller's requests.

It is independent of the transport. Between requests a thread drains the rings; if no request arrives for a long time,
the controller is considered gone, and the workers end.
"""

import os
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import BinaryIO

from inferometer.base.errors import InferometerError, maybe_shortage
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.cluster.blocks import pack
from inferometer.cluster.messages import (
    AdjustPlan,
    ApplyPlan,
    AskTime,
    ClientAnswer,
    ClientFailed,
    ClientFinished,
    ClientJob,
    ClientReport,
    ClientTime,
    Collect,
    FetchKept,
    FinishClient,
    Kept,
    LoadStopped,
    PlanAdjusted,
    PlanApplied,
    Question,
    Resize,
    Resized,
    StopLoad,
)
from inferometer.load.plan import Open
from inferometer.load.workers import StartProcess, Workers
from inferometer.records.records import EMPTY, Records, join

SILENT_S = 60.0  # without any request; normally the controller sends one every few seconds
LOOK_S = 0.1  # between polls of the rings
MOST_KEPT = 8 << 20  # bytes of exported requests per worker and report


@dataclass(slots=True, eq=False)
class Agent:
    """The workers of one client. Use as a context manager, which ends them."""

    job: ClientJob
    start: StartProcess | None = None
    silent_s: float = SILENT_S
    is_over: bool = False  # the workers have ended
    _workers: Workers = field(init=False)
    _spools: list[BinaryIO] = field(default_factory=list)
    _read: list[int] = field(default_factory=list)  # bytes read from each spool
    _later: Records = EMPTY  # records that ended after the last report
    _told: set[int] = field(default_factory=set)  # failures with an example already reported
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _heard_ns: int = 0
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        job = self.job
        self._workers = Workers(
            job.traffic,
            count=job.workers,
            first=job.first,
            total=job.total,
            timeout_ns=job.timeout_ns,
            sequences=job.sequences,
            cancellation=job.cancellation,
            verbose=job.verbose,
            start=self.start,
        )

    def __enter__(self) -> "Agent":
        self._open_spools(self.job.workers)
        self._workers.__enter__()
        self._heard_ns = monotonic_ns()
        self._thread = threading.Thread(target=self._look_after, name="inferometer-client", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._end()

    @property
    def pids(self) -> tuple[int, ...]:
        return self._workers.pids

    def handle(self, message: Question) -> ClientAnswer:
        """Answer a request without raising; `AskTime` is answered immediately, even during other requests."""
        self._heard_ns = monotonic_ns()
        if isinstance(message, AskTime):
            return ClientTime(monotonic_ns())
        try:
            with self._lock:
                return self._answer(message)
        except InferometerError as error:
            return ClientFailed(error, str(error))
        except Exception as error:  # noqa: BLE001 - the outermost frame; the controller reports it
            return ClientFailed(maybe_shortage(error), traceback.format_exc())
        finally:
            self._heard_ns = monotonic_ns()

    def _answer(self, message: Question) -> ClientAnswer:
        if isinstance(message, FinishClient):
            self._end()
            return ClientFinished()
        if self.is_over:
            return ClientFailed(None, "its workers have ended")
        workers = self._workers
        match message:
            case ApplyPlan(plan, timing, first, total):
                workers.first, workers.total = first, total
                workers.apply(plan, timing.start_ns)
                if isinstance(plan, Open) and timing.quicker:
                    workers.adjust(timing)
                return PlanApplied()
            case AdjustPlan(timing, more, caps):
                workers.adjust(timing, more, caps)
                return PlanAdjusted()
            case Collect(timing, with_running):
                if timing is not None:
                    workers.adjust(timing)
                return self._report(with_running)
            case StopLoad(is_urgent):
                cancelled = workers.stop(is_urgent=is_urgent)
                return LoadStopped(cancelled, workers.totals())
            case FetchKept():
                return self._kept()
            case Resize(count, first, total):
                return self._resize(count, first, total)
        raise AssertionError(message)

    def _report(self, with_running: bool) -> ClientReport:
        workers = self._workers
        found = workers.collect(monotonic_ns(), with_running=with_running)
        records = found.records
        if self._spools:  # the spools are complete up to that time
            records = join([self._later, records])
            is_seen = records.end_ns <= found.seen_ns
            records, self._later = records.where(is_seen), records.where(~is_seen)
        examples = workers.examples()
        fresh = {status: text for status, text in examples.items() if status not in self._told}
        self._told.update(fresh)
        return ClientReport(
            block=pack(records),
            rows=len(records),
            seen_ns=found.seen_ns,
            cost=found.cost,
            is_finished=found.is_finished,
            loop_lag_ns=found.loop_lag_ns,
            outstanding=found.outstanding,
            heard=found.heard,
            resent=workers.totals().resent,
            own_cpu_ns=time.process_time_ns(),
            examples=fresh,
            kept=self._kept(),
            spool_problem=workers.spool_problem,
            running=b"" if found.running is None else pack(found.running),
        )

    def _resize(self, count: int, first: int, total: int) -> Resized:
        self._workers.first, self._workers.total = first, total
        self._open_spools(count)
        self._workers.resize(count)
        self._later = EMPTY
        return Resized(self._workers.totals())

    # --- exported requests

    def _open_spools(self, count: int) -> None:
        """Open one anonymous file per worker."""
        while self.job.keeps_requests and len(self._spools) < count:
            self._spools.append(tempfile.TemporaryFile())  # noqa: SIM115
            self._read.append(0)
        self._workers.spool_fds = tuple(spool.fileno() for spool in self._spools)

    def _kept(self) -> Kept:
        parts = tuple(self._more_kept(number) for number in range(len(self._spools)))
        return Kept(parts, any(len(part) == MOST_KEPT for part in parts))

    def _more_kept(self, number: int) -> bytes:
        """Return the bytes a worker has spooled since the last call, without moving its write position."""
        found = os.pread(self._spools[number].fileno(), MOST_KEPT, self._read[number])
        self._read[number] += len(found)
        return found

    # --- between requests

    def _look_after(self) -> None:
        while not self._wake.wait(LOOK_S):
            if monotonic_ns() - self._heard_ns > self.silent_s * NS_PER_S:
                with self._lock:
                    self._end()
                return
            if self._lock.acquire(blocking=False):
                try:
                    self._workers.drain()
                finally:
                    self._lock.release()

    def _end(self) -> None:
        self.is_over = True
        self._workers.__exit__()
        for spool in self._spools:
            spool.close()
        self._spools.clear()
