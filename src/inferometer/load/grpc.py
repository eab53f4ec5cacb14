"""gRPC calls of one worker: slots share connections, and each call is its own stream.

Slots form groups of SHARE; a group shares a connection (docs/measurement.md explains the number). All data ready
at one moment is sent together: while the events of one receive are being handled, new calls are only queued.

A unary call whose reply is only counted is plain (load/plain.py). A load test spends most of its time on that path,
in _ready.

With `is_streaming`, requests go out on bidirectional streams that stay open and are shared. A request on a stream has
its own ID, which its responses repeat: so each response is matched with its request, and a response to a cancelled
request is dropped. Requests go out in the order in which they were sent, so those of a sequence, which keeps its
stream, reach the server in order.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.load.connection import SocketConnection, SocketLink
from inferometer.load.grpc_requests import MadeCalls, NumberedCalls, render_parts, rendered_calls
from inferometer.load.link import FIRST, MASK, Callbacks, LinkSetup, Request, always_finish
from inferometer.load.plain import PlainCalls, Steps
from inferometer.load.reactor import READ
from inferometer.load.sequences import Mark
from inferometer.services.kserve import REQUEST_ID, StreamReply, grpc_mark, infer_response, read_stream_reply
from inferometer.services.traffic import Wiring
from inferometer.wire import grpc
from inferometer.wire.frames import Buffer
from inferometer.wire.grpc import Ending, GrpcConnection, frame_message, render_call
from inferometer.wire.headers import encode_block
from inferometer.wire.protobuf import string_field
from inferometer.wire.sender import Http2Request, Stream, render

SHARE = 4  # slots per connection
LONGEST_ID = 20  # digits
RESPONSE_COST = 128  # bytes of memory per response in addition to its content
RETRIES = 5  # of a call that the server did not start

_CAUSES = {
    grpc.RESET: outcome.RESET,
    grpc.LOST: outcome.RESET,
    grpc.REFUSED: outcome.RESET,
    grpc.BROKEN: outcome.MALFORMED,
    grpc.MALFORMED: outcome.MALFORMED,
}


class _Call:
    """State of a slot and its current call."""

    __slots__ = (
        "channel", "difference", "first_ns", "kept", "lane", "received", "refusals", "request", "request_id",
        "responses", "sent_ns", "shared", "slot", "step", "stream", "times", "until", "wrote_ns",
    )  # fmt: skip

    def __init__(self, slot: int, channel: "_Channel", lane: int) -> None:
        self.slot = slot
        self.channel = channel
        self.lane = lane  # decides the connection or stream: the slot, or the sequence it carries
        self.request: Http2Request | Request | None = None  # rendered completely; on a stream, the message
        self.stream: Stream | None = None  # its own stream; a shared one is in `shared`
        self.shared: SharedStream | None = None
        self.sent_ns = self.wrote_ns = self.first_ns = 0
        self.responses = 0
        self.kept = 0  # bytes of memory for the responses kept
        self.refusals = 0  # refusals of this request by a server that did not start it
        self.request_id = b""  # on a shared stream
        self.until = 0  # bytes sent on a shared stream once this request is
        self.step = -1  # of a request whose reply is read; negative if the reply is only counted
        self.difference = ""  # result of the comparison with the expected reply
        self.received = 0  # bytes received for it on a shared stream
        self.times: list[int] = []


class SharedStream:
    """A bidirectional stream that carries the requests of several slots or of a sequence.

    It ends when its channel closes.
    """

    __slots__ = ("_bytes", "_counted", "_sent", "calls", "channel", "first_id", "number", "stream")

    def __init__(self, number: int, channel: "_Channel", first_id: int = 0) -> None:
        self.number = number
        self.channel = channel
        self.stream: Stream | None = None  # None until its first request
        self.first_id = first_id
        self.calls: dict[bytes, _Call] = {}  # outstanding calls by request ID, oldest first
        self._sent = 0  # requests
        self._bytes = 0  # sent or waiting on the current stream
        self._counted = 0  # bytes already attributed to a request

    @property
    def next_id(self) -> int:
        return self.first_id + self._sent

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended, with its end about to be reported, or its connection is closing."""
        has_ended = self.stream is not None and self.stream.id not in self.channel.http2.streams
        return has_ended or self.channel.is_leaving

    def send(self, call: _Call, message: Request, connection: GrpcConnection, wiring: Wiring) -> None:
        """Send a request; the first one opens the stream."""
        if self.stream is None:
            self.stream = connection.open(self, render(wiring.block, ends=False), keep=True)
            self._bytes = self._counted = 0
        name = str(self.next_id)
        self._sent += 1
        call.request_id = name.encode()
        self.calls[call.request_id] = call
        tail = string_field(REQUEST_ID, name)
        parts: tuple[Buffer, ...]
        if wiring.compression is None:
            parts = b"\0" + (len(message) + len(tail)).to_bytes(4, "big"), message, tail
        else:
            parts = frame_message(bytes(message) + tail, wiring.compression)
        connection.http2.send(self.stream, parts)
        self._bytes += sum(map(len, parts))
        call.until = self._bytes

    def has_unsent(self, call: _Call) -> bool:
        """Whether part of the request still waits for the server's window."""
        return call.request_id in self.calls and self.stream is not None and self.stream.sent < call.until

    def maybe_owner(self, reply: StreamReply, now_ns: int) -> _Call | None:
        """Return the call that a response received at this time belongs to; None if that call was cancelled, or if the
        response names no request and none was outstanding. Raise PeerError for an ID that had not been sent at that
        time."""
        name = reply.request_id
        call = self.calls.get(name)
        is_number = name.isdigit() and len(name) <= LONGEST_ID
        if call is None and (not name or (reply.error and not is_number)):
            call = next(iter(self.calls.values()), None)  # servers answer in order if they name no request
            return call if call is None or call.sent_ns <= now_ns else None
        is_sent = is_number and self.first_id <= int(name) < self.next_id
        if not is_sent or (call is not None and call.sent_ns > now_ns):
            raise PeerError(f"a response has the ID {name[:40]!r}, which matches no request on its stream")
        return call

    def take_count(self) -> int:
        """Return the number of bytes received since the last call."""
        assert self.stream is not None
        before, self._counted = self._counted, self.stream.received
        return self._counted - before

    def leave(self) -> list[_Call]:
        """Detach the ended stream and return its unanswered calls."""
        left = list(self.calls.values())
        self.calls.clear()
        self.stream = None
        return left


class GrpcLink(SocketLink):
    """Channels and the calls of the slots on them."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks) -> None:
        super().__init__(setup, callbacks, protocols=("h2",))
        wiring, requests = setup.wiring, setup.requests
        if self.replies is not None and not self.replies.is_sampled:
            self.next_step = always_finish(self.finish)
        self._messages = requests
        self._numbered = (
            NumberedCalls(wiring.block, requests, wiring.first_id())
            if wiring.has_ids and not wiring.is_streaming and wiring.compression is None
            else None
        )
        rendered = rendered_calls(wiring, requests) if self._numbered is None and not setup.are_made else []
        self._requests: NumberedCalls | MadeCalls | list[Http2Request | Request] = (
            MadeCalls(wiring, requests) if setup.are_made else self._numbered or rendered
        )
        self.plain_requests: Steps = self._numbered or [
            request for request in rendered if isinstance(request, Http2Request)
        ]
        self._channels: dict[int, _Channel] = {}
        self._streams: dict[int, SharedStream] = {}
        self._calls: list[_Call] = []
        self._block = wiring.block  # headers of the next call
        self._untraced: tuple[Any, Any] | None = None  # the calls that a traced one replaces

    def carry(self, step: int, traceparent: str) -> bool:
        if self.wiring.is_streaming:  # requests share the headers of their stream
            return False
        self._block = block = self.wiring.block + encode_block((("traceparent", traceparent),))
        if self._numbered is not None:
            self._numbered.use(block)
            return True
        assert isinstance(self._requests, list)
        assert isinstance(self.plain_requests, list)
        self._untraced = self._requests[step], self.plain_requests[step]
        made = rendered_calls(self.wiring._replace(block=block), (self._messages[step],))[0]
        self._requests[step] = self.plain_requests[step] = made
        return True

    def drop(self, step: int) -> None:
        self._block = self.wiring.block
        if self._numbered is not None:
            self._numbered.use(self._block)
        elif self._untraced is not None:
            assert isinstance(self._requests, list)
            assert isinstance(self.plain_requests, list)
            self._requests[step], self.plain_requests[step] = self._untraced
            self._untraced = None

    def prepare(self, slots: int) -> None:
        self._grow(slots)
        for call in self._calls[:slots]:
            channel = self.stream(call.slot).channel if self.wiring.is_streaming else call.channel
            channel.prepare()

    def _grow(self, slots: int) -> None:
        while len(self._calls) < slots:
            slot = len(self._calls)
            self._calls.append(_Call(slot, self.channel(slot), slot))

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        if slot >= len(self._calls):
            self._grow(slot + 1)
        call = self._calls[slot]
        channel = call.channel
        call.sent_ns = now_ns
        call.wrote_ns = call.first_ns = call.responses = call.refusals = call.received = call.kept = 0
        if self.replies is not None:
            call.step = step if self.replies.reads_next and self.replies.wants(slot) else -1
        is_quick = channel.is_quick and mark is None and call.step < 0 and not channel.waiting
        if not is_quick or not channel.plain.open(call, self.plain_requests[step]):
            self._send_generally(call, step, mark)
        elif not channel.is_corked:
            channel.flush()

    def _send_generally(self, call: _Call, step: int, mark: Mark | None) -> None:
        call.request = self._requests[step] if mark is None else self._marked(step, mark)
        if mark is not None:
            call.lane = mark.lane
        if self.wiring.is_streaming:
            call.shared, call.request_id = self.stream(call.lane), b""
            call.channel = call.shared.channel
        elif mark is not None or call.channel.is_leaving:
            call.channel = self.channel(call.lane)
        call.channel.send(call)

    def _marked(self, step: int, mark: Mark) -> Http2Request | Request:
        """Return the request marked as part of a sequence."""
        message, tail = self._messages[step], grpc_mark(mark[:3])
        if self._numbered is not None:
            return self._numbered.marked(step, tail)
        if self.wiring.is_streaming:
            return bytes(message) + tail
        if self.wiring.compression is None:
            return render_parts(self._block, message, tail)
        return render_call(self._block, bytes(message) + tail, compression=self.wiring.compression)

    def channel(self, lane: int, *, own: bool = False) -> "_Channel":
        """Return the connection of the slot, sequence or stream, which others may share."""
        connections = self.wiring.connections
        number = -1 - lane if own else lane % connections if connections else lane // SHARE
        channel = self._channels.get(number)
        if channel is None or channel.is_leaving:
            if channel is not None:
                self.reconnects += 1
            channel = self._channels[number] = _Channel(self, is_shared=not own)
        return channel

    def stream(self, lane: int) -> SharedStream:
        """Return the stream of this slot or sequence, one of `wiring.streams`; if that is 0, each has its own."""
        limit = self.wiring.streams
        number = lane % limit if limit else lane
        found = self._streams.get(number)
        if found is None or found.is_over:
            first_id = self.wiring.first_id(number) if found is None else found.next_id
            found = self._streams[number] = SharedStream(number, self.channel(number), first_id=first_id)
        return found

    def cancel(self, slot: int, status: int, text: str) -> None:
        call = self._calls[slot]
        if call.request is not None:
            call.channel.give_up(call)
            self.end(call, status, text, self.clock())

    def sent_ns(self, slot: int) -> int:
        return self._calls[slot].sent_ns

    def times(self, slot: int) -> Sequence[int]:
        return self._calls[slot].times

    def close(self, slot: int) -> None:
        call = self._calls[slot] if slot < len(self._calls) else None
        if call is not None and call.shared is not None:
            call.channel.close_unused(call.shared)

    @property
    def opening(self) -> int:
        return sum(channel.is_opening for channel in self._channels.values())

    @property
    def heard(self) -> int:
        """Bytes received on open streams. Plain calls have no stream: their reply arrives complete, or makes them
        one."""
        return sum(
            stream.received
            for channel in self._channels.values()
            for stream in channel.http2.streams.values()
        )

    @property
    def is_flushed(self) -> bool:
        return all(channel.is_flushed for channel in self._channels.values())

    def end(self, call: _Call, status: int, text: str, end_ns: int) -> None:
        """Report the end of the call to the engine; `text` explains a failure."""
        received = call.received if call.stream is None else call.stream.received
        call.request = call.stream = None
        if call.shared is not None:
            call.shared.calls.pop(call.request_id, None)
        if status:
            self.explain(status, text)
        times, call.times = call.times, []
        checked = 0 if status or call.step < 0 else self.verdict(call.slot)
        self.finish(
            call.slot,
            status,
            call.sent_ns,
            call.wrote_ns,
            call.first_ns,
            end_ns,
            received,
            call.responses,
            times,
            checked=checked,
        )


class _Channel(SocketConnection):
    """One connection from opening to end; the link then creates another."""

    _link: GrpcLink

    def __init__(self, link: GrpcLink, *, is_shared: bool) -> None:
        super().__init__(link)
        self.is_leaving = False  # takes no new calls
        self._is_shared = is_shared
        self.is_corked = False  # while events are being handled, resulting sends are batched
        self._is_sharing = link.wiring.is_streaming
        self._is_unary = not (link.wiring.is_streaming or link.wiring.is_whole_calls)
        self.is_quick = False  # accepts plain calls, with no other data queued before them
        self._connection = GrpcConnection(largest_kept=link.wiring.reply_limit)
        self.http2 = self._connection.http2
        self._sender = self.http2.sender
        self._flushes = 0  # flushes that sent calls
        self._is_held = False  # queued data waits for the socket or for the server's windows
        self.waiting: OrderedDict[_Call, None] = OrderedDict()  # for the connection, or for a free stream
        self._unwritten: list[_Call] = []
        self.plain = PlainCalls(self.http2, link.plain_requests, link.next_step, self._unwritten)

    @property
    def is_flushed(self) -> bool:
        return not (self._is_open and (self._unsent or self._sender.queue))

    def prepare(self) -> None:
        if not self.is_leaving:
            super().prepare()

    # --- calls

    def send(self, call: _Call) -> None:
        if not self._is_open:
            if not call.wrote_ns:
                call.sent_ns = 0  # connection set-up is not part of the service time
            self.waiting[call] = None
            self.prepare()
            return
        is_on_open_stream = call.shared is not None and call.shared.stream is not None
        if not is_on_open_stream and (self.waiting or not self.http2.can_open):
            self.waiting[call] = None  # the wait for a stream counts: the request is due and not answered
            if not self.is_corked:
                self._start_waiting()
        else:
            self._begin(call)
        if not self.is_corked:
            self.flush()

    def _begin(self, call: _Call) -> None:
        request = call.request
        if isinstance(request, Http2Request):
            call.stream = self._connection.open(call, request, keep=call.step >= 0)
        else:
            assert request is not None
            assert call.shared is not None
            call.shared.send(call, request, self._connection, self._link.wiring)
        self._unwritten.append(call)

    def give_up(self, call: _Call) -> None:
        self.waiting.pop(call, None)
        self.plain.make_streams()
        stream = call.stream
        if call.shared is not None:
            call.shared.calls.pop(call.request_id, None)
            if not call.shared.calls:  # otherwise the stream stays open for the other calls
                stream, call.shared.stream = call.shared.stream, None
        if stream is not None and self._is_open:
            self._connection.cancel(stream)
            self.flush()

    def close_unused(self, shared: SharedStream) -> None:
        """Half-close the stream if it has no outstanding calls."""
        if shared.stream is None or shared.calls or not self._is_open:
            return
        self.http2.send(shared.stream, ends=True)
        shared.stream = None
        if not self.is_corked:
            self.flush()

    # --- the socket

    def _began(self) -> None:
        self._start_waiting()
        self.flush()

    def _refused(self, status: int, text: str) -> None:
        self.is_leaving = True
        waiting, self.waiting = self.waiting, OrderedDict()
        now = self._link.clock()
        for call in waiting:
            self._link.end(call, status, text, now)

    def _start_waiting(self) -> None:
        """Start as many waiting calls as possible; on shared streams, which are few, also those behind a blocked
        call."""
        held: list[_Call] = []
        while self.waiting and (self._is_sharing or self.http2.can_open):
            call, _ = self.waiting.popitem(last=False)
            is_on_open_stream = call.shared is not None and call.shared.stream is not None
            if not is_on_open_stream and not self.http2.can_open:
                held.append(call)
                continue
            if not call.sent_ns:
                call.sent_ns = self._link.clock()
            self._begin(call)
        self.waiting.update(dict.fromkeys(held))
        if self.waiting and self._is_shared and self._link.wiring.is_streaming:
            self._move_waiting(own=True)  # streams stay open, so no room will become free

    def flush(self) -> None:
        """Send queued data as far as the socket accepts it."""
        sender = self._sender
        self.is_quick = False
        is_sampled = False
        if self._unwritten and not self._is_held:
            is_sampled = self._flushes & MASK < FIRST
            self._flushes += 1
        if is_sampled and self._flushes == 1:
            self._note_firsts()
        begun = self._cost.clock() if is_sampled else 0
        while (sender.queue or self._unsent or sender.ring) and self._is_open:
            if not self._unsent:
                self._unsent = self.http2.take()
                if not self._unsent:
                    self._is_held = True  # the server's windows are closed
                    break
            if not self._transmit():
                self._is_held = True
                return
        if self._unwritten:
            if is_sampled and not self._is_held:
                self._cost.note(begun, len(self._unwritten))
            self._stamp_written()
        self.is_quick = (
            self._is_unary and self._is_open and not (self.is_leaving or self.waiting or sender.ring)
        )

    def _note_firsts(self) -> None:
        for call in self._unwritten:
            self._link.note_first(call.sent_ns, self._opening)

    def _stamp_written(self) -> None:
        now = self._clock()
        calls = self._unwritten.copy()
        self._unwritten.clear()  # keep the list object, which is shared
        for call in calls:
            if call.shared is not None:
                is_waiting = call.shared.has_unsent(call)
            else:
                is_waiting = call.stream is not None and bool(call.stream.waiting)
            if is_waiting:
                self._unwritten.append(call)  # its data waits for the server's window
            else:
                call.wrote_ns = now if self._is_held else call.sent_ns + self._cost.ns
        self._is_held = bool(self._unwritten)

    def _ready(self, mask: int) -> None:
        if mask != READ or not self.is_quick:
            self._ready_generally(mask)
            return
        # Local names for callables: calling an attribute of `self` that is not a method costs more.
        buffer, plain, clock = self._buffer, self.plain, self._clock
        recv_into, send = self._recv_into, self._send
        try:
            length = recv_into(buffer)
        except self._link.errors.later:
            return
        except OSError as error:
            self._lost(error)
            return
        now = clock()
        self.is_corked = True
        at = plain.exchange(buffer, length, now)
        self.is_corked = False
        call = plain.only
        if call is None:
            self._take(length, now, at)
            if self._pending is not None:
                self._receive_pending()
            return
        # The usual case in one function: a reply like the previous one, followed by the slot's next call.
        plain.only = None
        frames = call.request.frames
        cost = self._cost
        try:
            sent = send(frames) if self.http2.next_id >> 1 & MASK >= FIRST else cost.sampled(send, frames)
        except self._link.errors.later:
            sent = 0
        except OSError as error:
            self._lost(error)
            return
        if sent == len(frames):
            call.wrote_ns = call.sent_ns + cost.ns
        else:
            self._unwritten.append(call)
            self._is_held = True
            self.is_quick = False
            self._send_later(bytes(frames), sent)
        if self._pending is not None:
            self._receive_pending()

    def _writable(self) -> None:
        self.flush()

    def _take(self, length: int, now_ns: int, at: int = 0) -> None:
        """Handle the received bytes from `at` on."""
        if self.plain.late:
            late, self.plain.late = self.plain.late, []
            self.is_corked = True
            for call in late:
                self.send(call)
            self.is_corked = False
        if not at:
            self._read(self._buffer, length, now_ns)
        elif at < length:
            self._read(self._buffer[at:length], length - at, now_ns)
        else:
            self._after_events()

    def _read(self, data: bytearray, length: int, now_ns: int) -> None:
        """Handle received bytes in the general way; a length of 0 means that the server closed its side."""
        self.plain.make_streams()
        events = self._connection.receive(data, length) if length else self._connection.eof()
        if events:
            self._handle(events, now_ns)
        elif length:
            self._notice_first_bytes(now_ns)
        if self._is_open:
            self._after_events()

    def _notice_first_bytes(self, now_ns: int) -> None:
        for stream in self.http2.streams.values():
            call: _Call = stream.token
            if not self._is_sharing and call.stream is stream and not call.first_ns and stream.received:
                call.first_ns = now_ns

    def _handle(self, events: list[grpc.Event], now_ns: int) -> None:
        self.is_corked = True
        for stream, ending, message in events:
            if self._is_sharing:
                self._handle_shared(stream, ending, message or b"", now_ns)
                continue
            call: _Call = stream.token
            if call.stream is not stream:
                continue
            if ending is not None:
                self._ended(call, ending, now_ns)
            else:
                call.responses += 1
                if not call.first_ns:
                    call.first_ns = now_ns
                if self._is_too_much(call, message):
                    self._connection.cancel(stream)
                    self._link.end(call, outcome.MALFORMED, self._too_much, now_ns)
                    continue
                if self._link.wiring.is_whole_calls:
                    call.times.append(now_ns)
                if call.step >= 0:
                    self._judge(call, message or b"", now_ns)
        self.is_corked = False

    def _ended(self, call: _Call, ending: Ending, now_ns: int) -> None:
        if ending.is_retriable and call.refusals < RETRIES:
            call.refusals += 1
            self._link.resent += 1
            call.stream = None
            self.waiting[call] = None
        elif ending.code:
            status = _CAUSES.get(ending.cause, outcome.GRPC + ending.code)
            self._link.end(call, status, ending.text or grpc.name_of_code(ending.code), now_ns)
        elif self._link.wiring.is_whole_calls and (
            call.responses == 1 or not self._link.wiring.has_one_reply
        ):
            self._end_well(call, call.times[-1] if call.times else now_ns)
        elif self._is_unary and call.responses == 1:
            self._end_well(call, now_ns)
        else:
            text = f"the call ended without an error status after {call.responses} messages"
            self._link.end(call, outcome.MALFORMED, text, now_ns)

    def _end_well(self, call: _Call, end_ns: int) -> None:
        """Report success, or a mismatch if the reply was compared and differs."""
        difference, call.difference = call.difference, ""
        status = outcome.MISMATCH if difference else outcome.OK
        self._link.end(call, status, difference, end_ns)

    def _is_too_much(self, call: _Call, message: Buffer | None) -> bool:
        """Whether the call's responses exceed the memory limit per call."""
        call.kept += RESPONSE_COST if message is None or call.step < 0 else RESPONSE_COST + len(message)
        return call.kept > self._link.wiring.reply_limit

    @property
    def _too_much(self) -> str:
        return f"the responses exceed the limit of {self._link.wiring.reply_limit} bytes"

    def _judge(self, call: _Call, message: Buffer, now_ns: int) -> None:
        assert self._link.replies is not None
        found = self._link.replies.judge_grpc(call.slot, call.step, now_ns, message)
        call.difference = call.difference or found  # the first difference of a stream counts

    # --- shared streams

    def _handle_shared(self, stream: Stream, ending: Ending | None, message: Buffer, now_ns: int) -> None:
        shared: SharedStream = stream.token
        if shared.stream is not stream:
            return  # it was cancelled
        if ending is not None:
            received = shared.take_count()
            for call in shared.leave():
                call.received += received
                self._ended(call, ending, now_ns)
            return
        try:
            reply = read_stream_reply(message)
            owner = shared.maybe_owner(reply, now_ns)
        except PeerError as error:
            self._connection.cancel(stream)
            for call in shared.leave():
                self._link.end(call, outcome.MALFORMED, str(error), now_ns)
            return
        if owner is not None:
            owner.received += shared.take_count()
            self._responded(owner, reply, message, now_ns)
        if self.is_leaving:
            self.close_unused(shared)

    def _responded(self, call: _Call, reply: StreamReply, message: Buffer, now_ns: int) -> None:
        if reply.error:
            self._link.end(call, outcome.GRPC + grpc.UNKNOWN, reply.error, now_ns)
            return
        if self._is_too_much(call, message):
            self._link.end(call, outcome.MALFORMED, self._too_much, now_ns)
            return
        if reply.has_data:
            if call.step >= 0:
                self._judge(call, infer_response(message), now_ns)
            call.responses += 1
            call.times.append(now_ns)
            if not call.first_ns or call.responses == 1:
                call.first_ns = now_ns
            if self._link.responded is not None:
                self._link.responded(call.slot, call.responses)
        elif call.step >= 0 and self._link.replies is not None:
            self._link.replies.keep(call.slot, now_ns, infer_response(message))
        if reply.is_final:
            self._end_well(call, call.times[-1] if call.times else now_ns)

    def _after_events(self) -> None:
        http2 = self.http2
        if http2.broken is not None:
            self.flush()
            self._close()
            self._move_waiting()
            return
        if http2.closing:
            self.is_leaving = True
            self._move_waiting()  # including calls that a second GOAWAY refuses
        if self.is_leaving and not http2.streams and not http2.plain:
            self._close()
            return
        if self.waiting:
            self._start_waiting()
        self.flush()

    def _move_waiting(self, *, own: bool = False) -> None:
        """Move calls that this connection cannot take to its successor, or each to its own connection."""
        waiting, self.waiting = self.waiting, OrderedDict()
        link = self._link
        for call in waiting:
            if call.shared is None:
                call.channel = link.channel(call.lane, own=own)
            else:
                if own:
                    call.shared.channel = link.channel(call.shared.number, own=True)
                else:
                    call.shared = link.stream(call.lane)
                call.channel = call.shared.channel
            call.channel.send(call)

    def _lost(self, error: OSError) -> None:
        """Fail every call on the broken connection; later calls use another one."""
        now = self._link.clock()
        status = self._link.loss_status(error)
        self._close()
        self.plain.make_streams()
        for stream in list(self.http2.streams.values()):
            lost = stream.token.leave() if self._is_sharing else [stream.token]
            for call in lost:
                self._link.end(call, status, str(error), now)
        self._move_waiting()

    def _close(self) -> None:
        self.is_leaving, self.is_quick = True, False
        self.close()
