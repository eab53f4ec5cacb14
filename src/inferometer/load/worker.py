"""The sending process: one engine, driven by messages from its controller over a socket.

Started as `python -m inferometer.load.worker FD`. It exits when the controller is gone.
"""

import gc

if __name__ == "__main__":  # before the imports, which leave no garbage; later a pause would disturb the load
    gc.disable()

import mmap
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from inferometer.base.errors import InferometerError, maybe_shortage
from inferometer.base.messages import ALOUD, messages_shown
from inferometer.base.system import most_open_files
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.load.balance import Balance
from inferometer.load.channel import Channel
from inferometer.load.engine import Engine
from inferometer.load.http1 import Http1Link
from inferometer.load.link import LinkSetup, OpenLink, Replies, Request, RequestLog, shown_body
from inferometer.load.messages import (
    Adjust,
    Applied,
    Apply,
    Failed,
    InFlightRows,
    Job,
    Stop,
    Stopped,
    Sync,
    Synced,
)
from inferometer.load.plan import Closed
from inferometer.load.reactor import SocketReactor
from inferometer.load.sequences import Sequences
from inferometer.records.path import PathReport
from inferometer.records.ring import RingWriter, map_ring
from inferometer.records.spans import SpanReport
from inferometer.records.spool import Spool
from inferometer.services.traffic import IN_PROCESS, Checker, Wiring

if TYPE_CHECKING:
    from inferometer.load.task_engine import TaskEngine
    from inferometer.load.visit_engine import VisitEngine
    from inferometer.services.task_plan import TaskPlan
    from inferometer.services.visit_plan import VisitPlan

FLUSH_NS = NS_PER_S // 2  # time to tell the server about cancelled requests
# Sent to the whole process group; workers ignore them, since the controller decides when they end.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SMALL = 64 * 1024  # requests up to this size are sent from bytes, larger ones directly from shared memory


def main() -> None:
    for number in GROUP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)  # blocked by workers.start_process
    controller = Channel(int(sys.argv[1]))
    try:
        job: Job = controller.recv()
        with messages_shown(job.verbose):
            _Worker(controller, job).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except InferometerError as error:
        controller.send(Failed(error, str(error)))
    except Exception as error:  # noqa: BLE001 - the outermost frame; the controller reports it
        import traceback

        controller.send(Failed(maybe_shortage(error), traceback.format_exc()))


def _open_link(setup: LinkSetup) -> OpenLink:
    """Create the link of the setup's protocol, or one for each of several addresses."""
    if setup.wiring.others:
        from inferometer.load.address_links import AddressLinks

        return AddressLinks.opener(setup, _open_link)
    if setup.wiring.protocol == "grpc":
        from inferometer.load.grpc import GrpcLink

        return partial(GrpcLink, setup)
    if setup.wiring.protocol == IN_PROCESS:
        from inferometer.load.in_process import InProcessLink

        return partial(InProcessLink, setup)
    return partial(Http1Link, setup)


def _maybe_replies(job: Job, spool: Spool | None, requests: Sequence[Request]) -> Replies | None:
    shown = None if job.verbose < ALOUD else shown_body(job.wiring, is_reply=True)
    if job.validation is None and job.checks is None:
        return None if spool is None and shown is None else Replies(None, spool, shown=shown)
    checker = None if job.validation is None else Checker(job.validation)
    judge = None
    if job.checks is not None:
        from inferometer.services.answer_checks import AnswerJudge

        judge = AnswerJudge(job.checks, requests)
    judges_all = job.checks is not None and job.checks.share >= 1
    return Replies(checker, spool, job.wiring.outputs, shown=shown, judge=judge, judges_all=judges_all)


def _read_reply(link: Http1Link, slot: int, step: int) -> None:
    link.read_reply(slot, step)


def _engine_class(job: Job, replies: Replies | None) -> Callable[..., Engine]:
    """Return the engine, or one that takes the samples of the job."""
    share = 1.0 if job.checks is None else job.checks.share
    if job.trace_share is None and share >= 1:
        return Engine
    from inferometer.load.sampled import RequestSample, SampledEngine, SampleGaps

    samples = []
    if replies is not None and share < 1:
        gaps, mark = SampleGaps(share, job.first_step), _read_reply if job.wiring.protocol == "http" else None
        samples.append(RequestSample(gaps, replies.begin_check, replies.end_check, mark))
    if job.trace_share is None:
        return partial(SampledEngine, samples=samples)
    from inferometer.load.traced import TracedEngine

    return partial(TracedEngine, gaps=SampleGaps(job.trace_share), worker=job.wiring.worker, samples=samples)


def _requests(job: Job) -> list[Request]:
    whole = memoryview(mmap.mmap(job.requests_fd, 0, prot=mmap.PROT_READ))
    views = {span: whole[span[0] : span[1]] for span in job.spans}  # each once: a mixture repeats requests
    requests = {span: bytes(view) if len(view) <= SMALL else view for span, view in views.items()}
    return [requests[span] for span in job.spans]


def _maybe_balance(wiring: Wiring, steps: int) -> Balance | None:
    if not wiring.others:
        return None
    return Balance(wiring.balance, 1 + len(wiring.others), steps, first=wiring.worker)


class _Worker:
    """Translator of messages into calls of the engine."""

    def __init__(self, controller: Channel, job: Job) -> None:
        self._controller = controller
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < (most := most_open_files()):  # raise the limit of open files as far as allowed
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        self._reactor = SocketReactor(monotonic_ns)
        self._ring = RingWriter(map_ring(job.ring_fd))
        self._spool = None if job.spool_fd is None else Spool(job.spool_fd)
        # A server in this process has its own threads; only this one counts as client cost.
        self._cpu_ns = time.thread_time_ns if job.wiring.protocol == IN_PROCESS else time.process_time_ns
        self._pending_apply = False
        self._stop: Stop | None = None
        self._runs_code = job.visits is not None or (job.tasks is not None and job.tasks.code is not None)
        self._take: Callable[[], SpanReport] | None = None  # spans since the last report
        if job.visits is not None:
            self._engine: Engine | VisitEngine | TaskEngine = self._visit_engine(job, job.visits)
            return
        if job.tasks is not None:
            self._engine = self._task_engine(job, job.tasks)
            return
        requests = _requests(job)
        replies = _maybe_replies(job, self._spool, requests)
        setup = LinkSetup(job.wiring, requests, replies, self._reactor, monotonic_ns)
        sequences = job.sequences
        steps = len(requests) // (1 + len(job.wiring.others))
        self._engine = _engine_class(job, replies)(
            steps=steps,
            open_link=_open_link(setup),
            reactor=self._reactor,
            ring=self._ring,
            clock=monotonic_ns,
            on_crowded=self._wait_for_room,
            first_step=job.first_step,
            stride=job.stride,
            timeout_ns=job.timeout_ns,
            sequences=None if sequences is None else Sequences(sequences, job.first_step, job.stride),
            spool=self._spool,
            cancellation=job.cancellation,
            log=None if job.verbose < ALOUD else RequestLog(requests, job.wiring),
            balance=_maybe_balance(job.wiring, steps),
        )
        self._take = getattr(self._engine, "take_spans", None)

    def _visit_engine(self, job: Job, plan: "VisitPlan") -> "VisitEngine":
        from inferometer.load.visit_engine import VisitEngine
        from inferometer.load.visits import VisitMessages

        messages = VisitMessages(plan)
        setup = LinkSetup(job.wiring, messages, messages, self._reactor, monotonic_ns, are_made=True)
        return VisitEngine(
            plan=plan,
            messages=messages,
            open_link=_open_link(setup),
            reactor=self._reactor,
            ring=self._ring,
            clock=monotonic_ns,
            on_crowded=self._wait_for_room,
            first=job.first_step,
            stride=job.stride,
            timeout_ns=job.timeout_ns,
        )

    def _task_engine(self, job: Job, plan: "TaskPlan") -> "TaskEngine":
        from inferometer.load.http1 import first_number
        from inferometer.load.task_engine import TaskEngine, TaskMessages

        messages = TaskMessages()
        wiring = job.wiring._replace(conversations=messages)
        setup = LinkSetup(wiring, messages, None, self._reactor, monotonic_ns, are_made=True)
        make: type[TaskEngine] = TaskEngine
        if plan.code is not None:
            from inferometer.load.python_tasks import PythonTaskEngine

            make = PythonTaskEngine
        return make(
            plan=plan,
            messages=messages,
            open_link=_open_link(setup),
            reactor=self._reactor,
            ring=self._ring,
            clock=monotonic_ns,
            on_crowded=self._wait_for_room,
            first=job.first_step,
            stride=job.stride,
            timeout_ns=job.timeout_ns,
            first_unique=first_number(job.wiring.worker),
        )

    def run(self) -> None:
        self._reactor.add_urgent(self._controller.fileno(), self._message)
        if self._runs_code:  # user code may create garbage
            gc.collect()
            gc.freeze()
            gc.enable()
        else:
            gc.disable()
        while self._stop is None:
            self._engine.run(None, self._is_applied if self._pending_apply else None)
            self._engine.is_interrupted = False
        self._drain(self._stop)
        cancelled = self._engine.cancel_all()
        self._engine.run(monotonic_ns() + FLUSH_NS, lambda: self._engine.link.is_flushed)
        if self._spool is not None:
            self._spool.flush()
        sent, resent = self._engine.sent, self._engine.link.resent
        self._controller.send(Stopped(cancelled, sent, resent, self._take_spans()))

    def _drain(self, stop: Stop) -> None:
        """Wait for outstanding requests as long as some keep ending."""
        engine, now = self._engine, monotonic_ns()
        limit_ns, before = now + stop.limit_ns, -1
        engine.apply(Closed(0))
        while not engine.is_finished and self._ring.written != before and now < limit_ns:
            before = self._ring.written
            engine.run(min(now + stop.silence_ns, limit_ns), lambda: engine.is_finished)
            now = monotonic_ns()

    def _is_applied(self) -> bool:
        if self._pending_apply and self._engine.is_applied:
            self._pending_apply = False
            self._controller.send(Applied())
        return not self._pending_apply

    def _message(self, mask: int) -> None:
        message = self._controller.recv()
        match message:
            case Apply(plan, start_ns):
                self._pending_apply = self._engine.is_interrupted = True
                self._engine.apply(plan, start_ns)
            case Adjust(timing, more, cap):
                self._engine.adjust(timing, more, cap)
            case Sync(with_running):
                self._reactor.do_later(partial(self._answer, monotonic_ns(), with_running))
            case Stop():
                self._stop = message
                self._engine.is_interrupted = True

    def _answer(self, asked_ns: int, with_running: bool) -> None:
        """Answer a Sync in its turn, after all data received before it has been read."""
        self._ring.publish()
        self._controller.send(self._report(asked_ns, with_running))

    def _report(self, seen_ns: int, with_running: bool) -> Synced:
        engine, link, spool = self._engine, self._engine.link, self._spool
        if spool is not None:
            spool.flush()
        return Synced(
            seen_ns=seen_ns,
            behind_ns=monotonic_ns() - seen_ns,
            cpu_ns=self._cpu_ns(),
            sent=engine.sent,
            resent=link.resent,
            reconnects=link.reconnects,
            connects=link.connects,
            connect_ns=link.connect_ns,
            outstanding=engine.outstanding,
            heard=link.heard,
            is_finished=engine.is_finished,
            examples=dict(engine.examples),
            spool_problem="" if spool is None else spool.problem,
            visits=getattr(engine, "begun", 0),
            running=InFlightRows(*engine.running(seen_ns)) if with_running else None,
            path=getattr(link, "take_path", PathReport)(),
            spans=self._take_spans(),
        )

    def _take_spans(self) -> SpanReport:
        return SpanReport() if self._take is None else self._take()

    def _wait_for_room(self) -> None:
        """Wait until the controller makes room in the ring; raise EOFError if it is gone."""
        controller = select.poll()
        controller.register(self._controller.fileno(), select.POLLHUP)
        while self._ring.crowded:
            if controller.poll(1):
                raise EOFError


if __name__ == "__main__":
    main()
