"""HTTP/1.1 connections of one worker: one per slot, kept alive, opened when first needed."""

import re
import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.base.units import NS_PER_US
from inferometer.load.connection import SocketConnection, SocketLink
from inferometer.load.link import FIRST, MASK, Callbacks, LinkSetup, Request, always_finish
from inferometer.load.reactor import READ
from inferometer.load.sequences import Mark
from inferometer.model.unique import COUNTER_BITS, MARK, Unique
from inferometer.services.encoding import decoded, start_reading
from inferometer.services.kserve import ID_PLACE, PLACE, http_mark
from inferometer.services.traffic import Reply, ReplyBody, ReplyReader
from inferometer.wire.http1 import LENGTH_LIMIT, ReplyDecoder

HEAD = 64 * 1024  # bytes that contain the request line
MANY_CHUNKS = 1000  # received together: later ones are received in smaller portions


class Http1Link(SocketLink):
    """HTTP/1.1 connections of a worker; slot n owns connection n."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks) -> None:
        super().__init__(setup, callbacks)
        wiring, requests = setup.wiring, setup.requests
        # Whether some replies are read; send() decides which.
        self.is_reading = self.replies is not None or wiring.reader is not None
        if self.is_reading:
            is_sampled = self.replies is not None and self.replies.is_sampled
            if wiring.reader is not None or not is_sampled:
                self.next_step = always_finish(self.finish)
        self.is_flushed = True  # a cancelled request closes its connection
        self.reader = wiring.reader
        # Reader of the replies whose answers are checked.
        self.keeping_reader = wiring.reader
        if wiring.reader is not None and self.replies is not None and self.replies.keeps_answers:
            self.keeping_reader = wiring.reader.keeping()
        self.conversations = wiring.conversations
        self.requests: Sequence[Request] | NumberedRequests | UniqueRequests = requests
        if wiring.has_ids:
            self.requests = NumberedRequests(requests, wiring.first_id())
        elif wiring.unique is not None:
            self.requests = UniqueRequests(requests, wiring.unique, first_number(wiring.worker))
        self._connections: list[_Connection] = []
        self._trace = b""  # header line of the next request
        self._untraced: Any = None  # the request that it replaces

    def carry(self, step: int, traceparent: str) -> bool:
        self._trace = f"traceparent: {traceparent}\r\n".encode()
        parts = self._parts
        self._untraced = parts[step]
        if isinstance(self._untraced, tuple | list):  # head, placeholder, rest
            parts[step] = (with_line(self._untraced[0], self._trace), *self._untraced[1:])
        else:
            parts[step] = with_line(self._untraced, self._trace)
        return True

    def drop(self, step: int) -> None:
        self._parts[step] = self._untraced
        self._trace = b""

    @property
    def _parts(self) -> Any:
        return (
            self.requests.parts
            if isinstance(self.requests, NumberedRequests | UniqueRequests)
            else self.requests
        )

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if slot >= len(self._connections):
            self._grow(slot + 1)
        request = self.requests[step]
        connection = self._connections[slot]
        if self.replies is not None:
            connection.step = step if self.replies.reads_next and self.replies.wants(slot) else -1
        if mark is not None:
            if self.conversations is None:
                request = _marked(request, mark)
            else:
                request = self.conversations.request(slot, request, is_start=mark.is_start)
                request = with_line(request, self._trace) if self._trace else request
        connection.send(request, now_ns)

    def read_reply(self, slot: int, step: int) -> None:
        """Read the reply to the slot's next request, which follows without `send`."""
        assert self.replies is not None
        self.replies.expect(slot)
        self._connections[slot].expect(step)

    def _grow(self, slots: int) -> None:
        while len(self._connections) < slots:
            self._connections.append(_Connection(self, len(self._connections)))

    def prepare(self, slots: int) -> None:
        self._grow(slots)
        for connection in self._connections[:slots]:
            connection.prepare()

    def cancel(self, slot: int, status: int, text: str) -> None:
        self._connections[slot].fail(status, text)

    def sent_ns(self, slot: int) -> int:
        return self._connections[slot].sent_ns

    def times(self, slot: int) -> Sequence[int]:
        return self._connections[slot].times

    def said(self, slot: int) -> Sequence[str]:
        return self._connections[slot].said

    def close(self, slot: int) -> None:
        if slot < len(self._connections):
            self._connections[slot].close()

    @property
    def opening(self) -> int:
        return sum(connection.is_opening for connection in self._connections)

    @property
    def heard(self) -> int:
        return sum(connection.heard for connection in self._connections)


def with_line(request: Request, line: bytes) -> bytes:
    """Return a copy with a header line after the request line."""
    end = bytes(request[:HEAD]).index(b"\r\n") + 2
    return b"".join((request[:end], line, request[end:]))


def _marked(request: Request, mark: Mark) -> bytes:
    """Return a copy with the sequence's ID and flags filled in; their placeholder is near the beginning of the JSON
    part."""
    copy = bytearray(request)
    start = copy.index(PLACE)
    copy[start : start + len(PLACE)] = http_mark(mark[:3])
    return bytes(copy)


class NumberedRequests:
    """Requests with a different ID for each send, like asynchronous calls of the classic tool.

    Large requests, which are in shared memory and would have to be copied each time, keep the empty ID."""

    def __init__(self, requests: Sequence[Request], first: int) -> None:
        self._numbers = count(first)
        self.parts = [
            (request, b"") if isinstance(request, memoryview) else request.split(ID_PLACE, 1)
            for request in requests
        ]

    def __getitem__(self, step: int) -> Request:
        before, after = self.parts[step]
        if not after:
            return before
        return b"".join((before, (b'"%d"' % next(self._numbers)).ljust(len(ID_PLACE)), after))


class UniqueRequests:
    """Requests with a different prefix of their text for each send; those without a placeholder are sent unchanged."""

    def __init__(self, requests: Sequence[Request], unique: Unique, first: int) -> None:
        self._numbers = count(first)
        self._unique = unique
        self.parts = [_around_place(request, unique.width) for request in requests]

    def __getitem__(self, step: int) -> Request:
        before, digits, after = self.parts[step]
        if not digits:
            return before
        return b"".join((before, self._unique.start(next(self._numbers), digits), after))


def _around_place(request: Request, width: int) -> tuple[Request, int, Request]:
    """Return the parts before and after the placeholder, and the number of words it holds."""
    head = re.search(b"\r\n\r\n", request)
    place = re.compile(b"%s{%d,}" % (MARK.encode(), width)).search(request, head.end() if head else 0)
    if place is None:
        return request, 0, b""
    return request[: place.start()], (place.end() - place.start()) // width, request[place.end() :]


def first_number(worker: int) -> int:
    """Return the worker's first number. Below a million requests per second, later runs begin with higher numbers, so
    no request hits a cache entry of an earlier run. Each worker has its own range."""
    return worker << COUNTER_BITS | time.time_ns() // NS_PER_US % (1 << COUNTER_BITS)


class _Connection(SocketConnection):
    """One connection and the request on it."""

    __slots__ = (
        "_decoder", "_first_ns", "_late", "_next_step", "_reading", "_replies", "_request", "_requests", "_sent_ns",
        "_slot", "_wrote_ns", "step",
    )  # fmt: skip

    _decoder: ReplyDecoder
    _link: Http1Link

    def __init__(self, link: Http1Link, slot: int) -> None:
        super().__init__(link)
        self._next_step = link.next_step
        self._requests = link.requests
        self._slot = slot
        self._request: Request | None = None
        self._replies = 0  # received on this socket
        self.step = -1  # of the request whose reply is read; below 0 it is only counted
        self._sent_ns = self._wrote_ns = self._first_ns = 0
        self._reading: ReplyBody | None = None  # reader of the current reply, if its body is read
        # Received data still to be read, with its time; the end of the connection comes last.
        self._late: deque[tuple[bytes | OSError, int]] = deque()

    @property
    def sent_ns(self) -> int:
        """When the request was sent; 0 while its connection is opening."""
        return self._sent_ns

    @property
    def times(self) -> Sequence[int]:
        return () if self._reading is None or self._request is None else self._reading.times

    @property
    def said(self) -> Sequence[str]:
        return () if self._reading is None or self._request is None else self._reading.said

    @property
    def heard(self) -> int:
        return self._decoder.received if self._is_open and self._request is not None else 0

    def expect(self, step: int) -> None:
        self.step, self._decoder.keep = step, True

    # --- sending

    def send(self, request: Request, now_ns: int) -> None:
        self._request = request
        self._wrote_ns = self._first_ns = 0
        if self._is_open:
            if self._link.is_reading:
                self._decoder.keep = self.step >= 0 or self._link.reader is not None
                self._reading = None
            self._sent_ns = now_ns
            try:
                sent = self._sampled(request) if self._replies & MASK < FIRST else self._send(request)
            except self._link.errors.later:
                sent = 0
            except OSError as error:
                self._lost(error)
                return
            if sent == len(request):
                self._wrote_ns = now_ns + self._cost.ns
            else:
                self._send_later(request, sent)
        else:
            self._sent_ns = 0  # connection set-up is not part of the service time
            self.prepare()

    def _sampled(self, request: Request) -> int:
        if not self._replies:
            self._link.note_first(self._sent_ns, self._opening)
        return self._cost.sampled(self._send, request)

    def _writable(self) -> None:
        if self._unsent and self._transmit():
            self._wrote_ns = self._clock()

    # --- receiving

    def _ready(self, mask: int) -> None:
        if mask != READ or self._waits_to_write:
            self._ready_generally(mask)
            return
        # Local names for callables: calling an attribute of `self` that is not a method costs more.
        buffer, decoder, recv_into, clock = self._buffer, self._decoder, self._recv_into, self._clock
        try:
            length = recv_into(buffer)
        except self._link.errors.later:
            return
        except OSError as error:
            self._lost(error)
            return
        now = clock()
        if (
            length == decoder.expected_size
            and buffer.startswith(decoder.expected_start)
            and not (decoder.received or decoder.keep or self._request is None)
        ):
            # The usual case in one function: a complete reply like the previous one, and the next request.
            next_step, cost = self._next_step, self._cost
            self._request = None
            self._replies = replies = self._replies + 1
            step, due = next_step(self._slot, self._sent_ns, self._wrote_ns, now, length)
            if step < 0:
                return
            self._request = request = self._requests[step]
            self._wrote_ns = 0
            self._sent_ns = due
            send = self._send if replies & MASK >= FIRST else self._sampled
            try:  # the same as send(), saving one call ten thousand times a second
                sent = send(request)
            except self._link.errors.later:
                sent = 0
            except OSError as error:
                self._lost(error)
                return
            if sent == len(request):
                self._wrote_ns = due + cost.ns
            else:
                self._send_later(request, sent)
            return
        reading = self._reading
        if (
            reading is not None
            and not self._late
            and (begin := decoder.whole_chunk(buffer, length))
            and reading.takes(buffer, begin, length - 2, now)
        ):
            decoder.received += length  # the usual case of a stream: one event like the previous one
        elif self.step < 0 or self._link.reader is not None or not self._takes_checked(length, now):
            self._take(length, now)
        if self._pending is not None:
            self._receive_pending()

    def _takes_checked(self, length: int, now_ns: int) -> bool:
        """Take a complete reply like the previous one, and check its answer; return whether it was one."""
        decoder, link = self._decoder, self._link
        body = decoder.maybe_body(self._buffer, length)
        if body is None or self._request is None or link.conversations is not None:
            return False
        assert link.replies is not None
        size = decoder.last_header("inference-header-content-length")
        status, text = link.replies.judge_http(self._slot, self.step, now_ns, body, size)
        if status:
            link.explain(status, text)
        checked = 0 if status else link.verdict(self._slot)
        self._replies += 1
        self._request = None
        link.finish(
            self._slot, status, self._sent_ns, self._wrote_ns, now_ns, now_ns, length, checked=checked
        )
        return True

    def _take(self, length: int, now_ns: int) -> None:
        """Handle received bytes. Reading the start or end of a stream takes many times as long as an event in between.
        If many streams start or end at once, all pieces are timestamped before any is read."""
        if self._link.reader is None:
            self._take_piece(self._buffer, length, now_ns)
            return
        self._keep(bytes(memoryview(self._buffer)[:length]), now_ns)

    def _keep(self, piece: bytes | OSError, now_ns: int) -> None:
        late = self._late
        if not late:
            self._link.reactor.do_later(self._take_late)
        elif not late[-1][0] or isinstance(late[-1][0], OSError):
            return  # epoll reports an end repeatedly
        late.append((piece, now_ns))

    def _take_late(self) -> None:
        late = self._late
        while late:
            piece, now_ns = late.popleft()
            if isinstance(piece, OSError):
                self._lost(piece)
            elif not self._is_usual(piece, now_ns):
                self._take_piece(piece, len(piece), now_ns)

    def _is_usual(self, piece: bytes, now_ns: int) -> bool:
        """Take the piece, as _ready() does, if it is one event like the previous one; return whether it was."""
        decoder, reading, length = self._decoder, self._reading, len(piece)
        if (
            reading is None
            or not (begin := decoder.whole_chunk(piece, length))
            or not reading.takes(piece, begin, length - 2, now_ns)
        ):
            return False
        decoder.received += length
        return True

    def _take_piece(self, data: bytearray | bytes, length: int, now_ns: int) -> None:
        if length == 0:
            self._ended(now_ns)
            return
        if self._request is None:
            self.close()  # an unsolicited reply, such as 408 before an idle close: the next request reconnects
            return
        if not self._first_ns:
            self._first_ns = now_ns
        taken = 0 if self._reading is None else self._take_alike(self._reading, data, length, now_ns)
        if taken == length:
            return
        chunks = self._decoder.chunks
        try:
            complete = self._decoder.receive(data[taken:] if taken else data, length - taken)
            if self._link.reader is not None:
                self._read(self._link.reader, now_ns)
        except PeerError as error:
            self.fail(outcome.MALFORMED, str(error))
            return
        if self._decoder.chunks - chunks > MANY_CHUNKS:
            self._buffer = self._link.small_buffer
        if complete:
            self._complete(now_ns)

    def _take_alike(self, reading: ReplyBody, data: bytearray | bytes, length: int, now_ns: int) -> int:
        """Take events like the previous one that arrived together, as happens to a slow client; return where the rest
        begins."""
        decoder = self._decoder
        taken = 0
        while (chunk := decoder.chunk_at(data, taken, length)) and reading.takes(data, *chunk, now_ns):
            taken = chunk[1] + 2
        decoder.received += taken
        return taken

    def _complete(self, now_ns: int) -> None:
        decoder = self._decoder
        head = decoder.head
        assert head is not None
        received = decoder.received
        status, text, found = outcome.OK, "", Reply()
        if not 200 <= head.status < 300:
            status = outcome.HTTP + head.status
            text = decoded(head, bytes(decoder.body)).decode("utf-8", "replace") or head.reason
            if self._link.reader is not None:
                text = self._link.reader.refusal(head.status, text)
        elif self._reading is not None:
            found = self._reading.end()
            status, text = found.status, found.text
            if self._link.replies is not None:
                for time_ns, piece in found.texts:
                    self._link.replies.keep(self._slot, time_ns, piece)
                if self.step >= 0 and not status:
                    self._link.replies.judge_text(self._slot, self.step, found)
        elif self.step >= 0:
            replies, size = self._link.replies, head.get("inference-header-content-length")
            assert replies is not None
            status, text = replies.judge_http(self._slot, self.step, now_ns, decoder.body, size)
        if status:
            self._link.explain(status, text)
        checked = 0 if status or self.step < 0 else self._link.verdict(self._slot)
        decoder.next()
        self._replies += 1
        self._request = None
        if not head.reusable or not decoder.idle or self._unsent:
            self.close()
        if found.times:
            self._first_ns = found.first_ns or found.times[0]
        if self._link.conversations is not None:
            self._link.conversations.answered(self._slot, found)
        self._link.finish(
            self._slot, status, self._sent_ns, self._wrote_ns, self._first_ns, found.end_ns or now_ns, received,
            found.responses, found.times, found.tokens, found.prompt_tokens, found.reasoning_tokens,
            found.cached_tokens, found.answer_at, found.tool_at, checked,
        )  # fmt: skip

    def _read(self, reader: ReplyReader, now_ns: int) -> None:
        """Pass received parts of a successful reply's body to the reader."""
        decoder = self._decoder
        head = decoder.head
        if head is None or not 200 <= head.status < 300:
            return
        if self._reading is None:
            own = reader if self.step < 0 else self._link.keeping_reader
            self._reading = start_reading(own or reader, head)
        if decoder.body:
            body = bytes(decoder.body)
            decoder.body.clear()
            self._reading.receive(body, now_ns)

    # --- endings

    def _ended(self, now_ns: int) -> None:
        """Handle the peer closing its side."""
        if self._request is None:
            self.close()
            return
        try:
            complete = self._decoder.eof()
        except PeerError as error:
            self.fail(outcome.RESET, str(error))
            return
        if complete:
            self._complete(now_ns)
        else:
            self._lost(BrokenPipeError("the server closed the connection before it answered"))

    def _lost(self, error: OSError) -> None:
        """Handle a broken connection; reopen once a kept-alive one that the server had closed meanwhile.

        A server may close an idle connection at any time, even while a request is on its way (RFC 9112, 9.3.1 and
        9.5). After a reset, in contrast, the request has failed.
        """
        if self._late:
            self._keep(error, 0)
            return
        is_idle_close = isinstance(error, self._link.errors.closed) and self._decoder.idle
        if self._replies and self._request is not None and is_idle_close:
            self.close()
            self._link.reconnects += 1
            self._link.resent += 1
            self.prepare()
            return
        self.fail(self._link.loss_status(error), str(error))

    def close(self) -> None:
        self._late.clear()
        super().close()

    def fail(self, status: int, text: str) -> None:
        """Fail the request and close the socket, since the rest of the reply may still arrive on it."""
        received = self._decoder.received if self._is_open else 0
        self.close()
        if self._request is None:
            return
        self._request = None
        link = self._link
        link.explain(status, text)
        has_come = status == outcome.WITHDRAWN and self._reading is not None
        times = self._reading.times if has_come and self._reading is not None else ()
        if times:
            self._first_ns = times[0]
        link.finish(
            self._slot, status, self._sent_ns, self._wrote_ns, self._first_ns, link.clock(), received,
            len(times), times,
        )  # fmt: skip

    # --- opening

    def _refused(self, status: int, text: str) -> None:
        self.fail(status, text)

    def _began(self) -> None:
        link = self._link
        self._decoder = ReplyDecoder(
            limit=link.wiring.reply_limit
            if link.reader is None
            else LENGTH_LIMIT  # readers enforce their own limit
        )
        self._replies = 0
        if self._request is not None:
            self.send(self._request, self._sent_ns or self._clock())
