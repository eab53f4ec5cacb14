"""The server's end of an HTTP/1.1 connection: it reads requests in order, and the backend answers them."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.torture.http1_faults import Fault
from tests.torture.log import Log, Seen

LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    head: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a backend to a request; a control call has no step."""

    reply: bytes
    fault: Fault | None = None
    step: int | None = None
    call: str = ""  # name of the control call


Decide = Callable[[Request], Answer]
Greet = Callable[["Http1Wire"], Coroutine[Any, Any, None]]


class Http1Wire(asyncio.Protocol):
    """Plays faults on one connection."""

    def __init__(self, log: Log, random: Random, decide: Decide, greet: Greet | None = None) -> None:
        self.random = random
        self._greet = greet
        self._log = log
        self._decide = decide
        self._transport: Any = None  # until it is connected
        self._buffer = bytearray()
        self._is_busy = False
        self._is_over = False
        self._is_lost = False
        self._served = 0
        self._also: set[str] = set()  # outcomes of whatever follows on this connection
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what faults do

    def send(self, data: bytes) -> None:
        if not self._is_over:
            self._transport.write(data)

    def close(self) -> None:
        self._is_over = True
        self._transport.close()

    def reset(self) -> None:
        self._is_over = True
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        self._transport.abort()

    def poison(self, *kinds: str) -> None:
        self._also |= set(kinds)

    def excuse(self, *kinds: str) -> None:
        self._log.unseen |= set(kinds)

    def leave(self) -> None:
        """End the connection after the run."""
        if self._transport is not None and not self._is_lost:  # asyncio cannot abort a closed transport
            self._is_over = True
            self._transport.abort()

    # --- the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._greet is not None:
            self._start(self._greet(self))

    def _start(self, act: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = self._is_lost = True
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def _advance(self) -> None:
        while not self._is_busy and not self._is_over and (request := self._maybe_request()) is not None:
            answer = self._decide(request)
            entry = None if answer.step is None else self._note(answer)
            if answer.call:
                self._log.controls.append((answer.call, "" if answer.fault is None else answer.fault.name))
            if answer.fault is None:
                self.send(answer.reply)
                self._served += 1
                if entry is not None:
                    entry.is_answered = True
            else:
                self._is_busy = True
                self._start(self._play(answer.fault, answer.reply, entry))

    def _note(self, answer: Answer) -> Seen:
        fault = answer.fault
        kinds = set(fault.kinds) if fault is not None and fault.kinds else {"ok"}
        return self._log.add(
            -1 if answer.step is None else answer.step,
            "" if fault is None else fault.name,
            kinds | self._also,
            may_repeat=fault is not None and fault.may_repeat and self._served > 0,
        )

    async def _play(self, fault: Fault, reply: bytes, entry: Seen | None) -> None:
        await fault.act(self, reply)
        if entry is not None:
            entry.is_answered = True
        if fault.is_mute:
            return  # ignore anything that the client still sends
        self._served += 1
        self._is_busy = False
        self._advance()

    def _maybe_request(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._buffer[:end])
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        stop = end + 4 + length
        if len(self._buffer) < stop:
            return None
        body = bytes(self._buffer[end + 4 : stop])
        del self._buffer[:stop]
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if words[0] == b"PRI":  # probes whether this is a gRPC server
            self.close()
            return None
        if len(words) != 3:
            self._log.misuse.append(f"request line {words!r}")
            self.close()
            return None
        return Request(words[0].decode("latin-1"), words[1].decode("latin-1"), head, body)
