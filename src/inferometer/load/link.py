"""Interface between engine and links, and the code common to the links of every protocol.

A link holds all connections of one worker to the server. It is built from a `LinkSetup` and the engine's `Callbacks`.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.base.messages import MESSAGES, body_text
from inferometer.base.text import is_digits
from inferometer.base.units import NS_PER_US, Clock
from inferometer.load.reactor import SocketReactor
from inferometer.load.sequences import Mark
from inferometer.records.path import Opening, PathReport
from inferometer.records.spool import Spool
from inferometer.services.check_plan import NO_VERDICT, AnswerVerdict
from inferometer.services.kserve import grpc_outputs, http_outputs, infer_text
from inferometer.services.traffic import (
    IN_PROCESS,
    Checker,
    OutputReader,
    Reply,
    Wiring,
)
from inferometer.wire.frames import Buffer

if TYPE_CHECKING:
    from inferometer.services.answer_checks import AnswerJudge

RECENT = 15  # samples used,
OUTLIERS = 3  # excluding this many at either end: interrupts are charged to the running process
MASK, FIRST = 1023, 8  # sample send n of a connection if n & MASK < FIRST: a sample costs a fifth of a send

Request = bytes | memoryview
"""For HTTP the head and body, ready for the socket; for gRPC the message."""

Shown = Callable[[Buffer], str]
"""A message as -v -v shows it."""

_JSON_LENGTH = re.compile(rb"(?i)\r\ninference-header-content-length: *(\d+)")

# --- between engine and link

Responded = Callable[[int, int], None]
"""(slot, responses of its request so far)."""

Explain = Callable[[int, str], None]
"""(status, error text): kept once per status, as the example of its failures."""


class Finish(Protocol):
    """Callback with which a link reports the end of a request; times not reached are 0."""

    def __call__(
        self,
        slot: int,
        status: int,
        sent_ns: int,
        wrote_ns: int,
        first_ns: int,
        end_ns: int,
        received: int,
        responses: int = 1,
        times: Sequence[int] = (),
        tokens: int = 0,
        prompt_tokens: int = 0,
        reasoning_tokens: int = 0,
        cached_tokens: int = 0,
        answer_at: int = 0,
        tool_at: int = 0,
        checked: int = 0,
    ) -> None: ...


class NextStep(Protocol):
    """Record a successful reply of one response that ended at `now_ns`; return the slot's next step and its due time,
    now.

    A step below 0 means that the link has nothing to send."""

    def __call__(
        self, slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int
    ) -> tuple[int, int]: ...


NOTHING = (-1, 0)


def always_finish(finish: Finish) -> NextStep:
    """Return a NextStep for links that must report every request with `finish`."""

    def next_step(slot: int, sent_ns: int, wrote_ns: int, now_ns: int, received: int) -> tuple[int, int]:
        finish(slot, outcome.OK, sent_ns, wrote_ns, now_ns, now_ns, received)
        return NOTHING

    return next_step


class Callbacks(NamedTuple):
    """Callbacks of the engine."""

    finish: Finish
    next_step: NextStep
    explain: Explain


class Link(Protocol):
    """All connections of one worker to the server."""

    reconnects: int
    resent: int  # requests sent again because the server had closed the connection or not started the request
    connects: int
    connect_ns: int  # summed over `connects`
    responded: Responded | None  # called for every response of a stream as it arrives

    @property
    def opening(self) -> int:
        """Number of connections being opened."""

    @property
    def heard(self) -> int:
        """Bytes received of incomplete replies; any change shows that the server is working."""

    @property
    def is_flushed(self) -> bool:
        """Whether no data waits to be sent."""

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        """Send the request of this step of the dataset, marked as part of its sequence."""

    def prepare(self, slots: int) -> None:
        """Open the connections of the first `slots` slots."""

    def cancel(self, slot: int, status: int, text: str) -> None:
        """Cancel the slot's request; the link calls `finish` with this status."""

    def sent_ns(self, slot: int) -> int:
        """Return when the slot's request was sent; 0 if not yet."""

    def times(self, slot: int) -> Sequence[int]:
        """Return the times of the responses so far to the slot's request; empty unless the reply is a stream."""

    def said(self, slot: int) -> Sequence[str]:
        """Return the texts of the answer so far to the slot's request; empty unless its reader keeps them."""

    def close(self, slot: int) -> None: ...


OpenLink = Callable[[Callbacks], Link]

# --- common to all links


class Replies:
    """Reader of replies for the comparison with expected outputs, the checks of answers and the export."""

    def __init__(
        self,
        checker: Checker | None,
        spool: Spool | None,
        outputs: OutputReader | None = None,
        *,
        shown: Shown | None = None,
        judge: "AnswerJudge | None" = None,
        judges_all: bool = False,
    ) -> None:
        self._checker = checker
        self._spool = spool
        self._outputs = outputs
        self._shown = shown  # -v -v
        self._checked: dict[int, bool] = {}
        self._judge = judge
        self._verdicts: dict[int, AnswerVerdict] = {}  # of the requests whose answer is checked
        self.keeps_answers = judge is not None
        self._judges_next = judges_all
        self.is_sampled = checker is None and spool is None and shown is None and not judges_all
        self.reads_next = not self.is_sampled

    def begin_check(self, slot: int, step: int) -> None:
        """Check the answer to the next request."""
        self._judges_next = self.reads_next = True

    def end_check(self) -> None:
        self._judges_next, self.reads_next = False, not self.is_sampled

    def expect(self, slot: int) -> None:
        """Check the answer to the slot's next request, which its link sends itself."""
        self._verdicts[slot], self._checked[slot] = NO_VERDICT, False

    def wants(self, slot: int) -> bool:
        """Return whether the reply to the slot's next request will be read."""
        if self._judges_next:
            self._verdicts[slot] = NO_VERDICT
        elif self._verdicts:
            self._verdicts.pop(slot, None)
        is_checked = self._checker is not None and self._checker.wants_next()
        self._checked[slot] = is_checked
        if self._spool is None:
            return self._judges_next or is_checked or self._shown is not None
        self._spool.begin(slot)
        return True

    def verdict(self, slot: int) -> AnswerVerdict:
        """Return the verdict on the answer to the slot's request, which has ended."""
        return self._verdicts.pop(slot, NO_VERDICT)

    def judge_text(self, slot: int, step: int, reply: Reply) -> None:
        """Check the answer of a text server."""
        if slot in self._verdicts and self._judge is not None:
            text = reply.answer
            if text is None:
                text = b"".join(piece for _, piece in reply.texts).decode("utf-8", "replace")
            self._verdicts[slot] = self._judge.of_text(step, text)

    def _judge_outputs(
        self, slot: int, step: int, reply: Buffer, read: Callable[[], Mapping[str, bytes]]
    ) -> None:
        """Check a response of a tensor server; the first wrong one of a stream decides."""
        if slot in self._verdicts and self._judge is not None and not self._verdicts[slot].text:
            self._verdicts[slot] = self._judge.of_outputs(step, reply, read)

    def judge_http(
        self, slot: int, step: int, now_ns: int, body: bytearray, header_length: str | None
    ) -> tuple[int, str]:
        """Return the status of a reply, and a description of its error."""
        if self._shown is not None:
            is_binary = header_length is not None and is_digits(header_length)
            MESSAGES.debug("< [%d] %s", slot, body_text(body, int(header_length or 0) if is_binary else None))
        if self._spool is not None:
            is_known = header_length is not None and is_digits(header_length)
            self._spool.respond(slot, now_ns, body, int(header_length or 0) if is_known else -1)
        if self._judge is not None:
            if self._judge.is_text:
                self.judge_text(slot, step, Reply(answer=body.decode("utf-8", "replace")))
            else:
                self._judge_outputs(slot, step, body, lambda: self._http_outputs(body, header_length))
        if not self._checked[slot]:
            return outcome.OK, ""
        assert self._checker is not None
        try:
            found = self._http_outputs(body, header_length)
            text = self._checker.check(step, found)
        except PeerError as error:
            return outcome.MALFORMED, str(error)
        return outcome.MISMATCH if text else outcome.OK, text

    def _http_outputs(self, body: bytearray, header_length: str | None) -> Mapping[str, bytes]:
        return http_outputs(body, header_length) if self._outputs is None else self._outputs(body)

    def judge_grpc(self, slot: int, step: int, now_ns: int, message: Buffer) -> str:
        """Return a description of what is wrong with a ModelInferResponse; empty if it is right."""
        self.keep(slot, now_ns, message)
        self._judge_outputs(slot, step, message, lambda: (self._outputs or grpc_outputs)(message))
        if not self._checked[slot]:
            return ""
        assert self._checker is not None
        try:
            return self._checker.check(step, (self._outputs or grpc_outputs)(message))
        except PeerError as error:
            return f"cannot read the reply: {error}"

    def keep(self, slot: int, now_ns: int, message: Buffer) -> None:
        """Keep a response without comparing it, such as the empty final response of a stream."""
        if self._shown is not None:
            MESSAGES.debug("< [%d] %s", slot, self._shown(message))
        if self._spool is not None:
            self._spool.respond(slot, now_ns, message)


class SendCost:
    """Cost of sending a request that the socket accepts at once, in one worker: sampled CPU time of the call.

    The wall time of such a call says little about sending. The call wakes the server, which may take the CPU before
    the call returns, so that the server's work would count as sending. So a request that goes out in one piece
    counts as sent after the CPU time that recent calls took; only one that the socket does not accept at once
    counts until its last byte is sent.
    """

    __slots__ = ("_own_ns", "_recent", "clock", "ns")

    def __init__(self, clock: Callable[[], int] = time.thread_time_ns) -> None:
        self.ns = 0  # per request
        self.clock = clock
        self._recent: deque[int] = deque(maxlen=RECENT)
        self._own_ns = min(-clock() + clock() for _ in range(RECENT))  # cost of reading the clock

    def sampled(self, send: Callable[..., int], data: Buffer) -> int:
        """Send the data and record the cost."""
        begun = self.clock()
        sent = send(data)
        self.note(begun)
        return sent

    def note(self, begun: int, requests: int = 1) -> None:
        """Record the cost of sending these requests since `clock` returned `begun`."""
        took = self.clock() - begun - self._own_ns
        self._recent.append(max(took, 0) // requests)
        ordered = sorted(self._recent)
        usual = ordered[OUTLIERS:-OUTLIERS] or ordered[: len(ordered) // 2 + 1]
        self.ns = sum(usual) // len(usual)


class ReplyReading(Protocol):
    """Interface of `Replies` and of the readers of visits' replies."""

    is_sampled: bool  # only the replies of a sample are read
    reads_next: bool  # `wants` is to be asked about the next request
    keeps_answers: bool  # readers of text must keep the answer

    def expect(self, slot: int) -> None: ...
    def wants(self, slot: int) -> bool: ...
    def judge_http(
        self, slot: int, step: int, now_ns: int, body: bytearray, header_length: str | None
    ) -> tuple[int, str]: ...
    def judge_grpc(self, slot: int, step: int, now_ns: int, message: Buffer) -> str: ...
    def judge_text(self, slot: int, step: int, reply: Reply) -> None: ...
    def verdict(self, slot: int) -> AnswerVerdict: ...
    def keep(self, slot: int, now_ns: int, message: Buffer) -> None: ...


class LinkSetup(NamedTuple):
    """Parameters of a link."""

    wiring: Wiring
    requests: Sequence[Request]  # by step
    replies: ReplyReading | None  # None if replies are only counted
    reactor: SocketReactor
    clock: Clock
    are_made: bool = False  # requests are generated while the load runs


class LinkBase:
    """Callbacks and counters of a link."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks) -> None:
        self.reconnects = self.resent = self.connects = self.connect_ns = 0
        self.wiring = setup.wiring
        self.replies = setup.replies
        self.reactor = setup.reactor
        self.clock = setup.clock
        self.finish = callbacks.finish
        self.next_step = callbacks.next_step
        self.explain = callbacks.explain
        self.responded: Responded | None = None
        self.cost = SendCost()
        self.resolve_ns = 0  # time to resolve the host name
        self.openings: list[Opening] = []  # since the last report, like `firsts`
        self.firsts: list[tuple[int, Opening]] = []  # send times of first requests on their connections

    def take_path(self) -> PathReport:
        """Return the observations of the path to the server since the last call."""
        report = PathReport(self.resolve_ns, tuple(self.openings), tuple(self.firsts))
        self.openings.clear()
        self.firsts.clear()
        return report

    def carry(self, step: int, traceparent: str) -> bool:
        """Send this trace context with the next request of the step, until `drop`; return whether that is possible."""
        return False

    def drop(self, step: int) -> None:
        """Send later requests of the step without trace context."""

    def said(self, slot: int) -> Sequence[str]:
        return ()

    def verdict(self, slot: int) -> int:
        """Return the verdict on the answer to the slot's request, and keep the first wrong one as an example."""
        assert self.replies is not None
        found = self.replies.verdict(slot)
        if found.text:
            self.explain(outcome.WRONG, found.text)
        return found.code


def shown_body(wiring: Wiring, *, is_reply: bool) -> Shown:
    """Return the function that shows messages of this wiring: text and KServe v2 as JSON, others by their size."""
    if wiring.protocol == "http":
        return body_text if is_reply else _request_text
    if wiring.protocol == IN_PROCESS or b"GRPCInferenceService" in wiring.block:
        return partial(infer_text, is_reply=is_reply)
    return lambda message: f"{len(message)} bytes"


def _request_text(request: Buffer) -> str:
    """Return the body of an HTTP request as text. Headers are not shown: they may contain secrets."""
    head, _, body = bytes(request).partition(b"\r\n\r\n")
    found = _JSON_LENGTH.search(head)
    return body_text(body, None if found is None else int(found[1]))


class RequestLog:
    """Log of one line per request and reply (-v -v), which slows down the client."""

    def __init__(self, requests: Sequence[Request], wiring: Wiring) -> None:
        self._requests = requests
        self._body = shown_body(wiring, is_reply=False)
        self._titles = [title(request) for request in requests]

    def sent(self, slot: int, step: int, mark: Mark | None) -> None:
        sequence = "" if mark is None else f", sequence {mark.sequence_id}"
        MESSAGES.debug(f"> [{slot}] {self._titles[step]}{sequence}")
        MESSAGES.debug("> [%d] %s", slot, self._body(self._requests[step]))

    def finished(self, slot: int, status: int, took_ns: int | None, received: int, responses: int) -> None:
        """Log the end of a request; `took_ns` is None if it was never sent."""
        took = "never sent" if took_ns is None else f"{took_ns // NS_PER_US} usec"
        MESSAGES.debug(
            f"< [{slot}] {outcome.kind(status)}, {received} bytes in {responses} response(s), {took}"
        )

    def failed(self, status: int, text: str) -> None:
        MESSAGES.debug(f"! {outcome.kind(status)}: {text}")


def title(request: Request) -> str:
    """Return a one-line summary of a request, for HTTP its first line. Headers are not shown: they may contain
    secrets."""
    start = bytes(request[:2048])
    if start.startswith(b"POST "):
        first = start.partition(b"\r\n")[0].decode("latin-1")
        return f"{first}, {len(request)} bytes"
    return f"gRPC message, {len(request)} bytes"
