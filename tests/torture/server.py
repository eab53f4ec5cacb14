"""The fault server: plays the faults of a case on one port, and logs every complete request."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from tests.torture import grpc_faults, http1_faults
from tests.torture.backends import Backend
from tests.torture.http1_faults import Fault
from tests.torture.http1_wire import Answer, Http1Wire, Request
from tests.torture.http2_wire import Call, GrpcAnswer, GrpcFault, Http2Wire
from tests.torture.log import Log

CONNECT = "connect"  # the call name for faults of whole connections
AnyFault = Fault | GrpcFault
Asked = TypeVar("Asked", Request, Call)
Reply = TypeVar("Reply", Answer, GrpcAnswer)


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault for a share of the requests from `first` to `last`, counted over these calls or over inferences."""

    fault: str
    share: float = 1.0
    first: int = 0
    last: int = 10**9
    call: str = ""


class Choice:
    """Choice of the fault for each request."""

    def __init__(self, planned: tuple[Planned, ...], faults: Mapping[str, AnyFault], random: Random) -> None:
        self._planned = [(row, faults.get(row.fault)) for row in planned]
        self._random = random
        self._counts: dict[str, int] = {}

    def of(self, call: str) -> Any:
        """Return the fault of the next such call, if any."""
        chosen = self._next(call)
        return None if chosen is None else chosen[1]

    def greeting(self) -> str:
        """Return the name of the next connection's fault; empty if none."""
        chosen = self._next(CONNECT)
        return "" if chosen is None else chosen[0].fault

    def _next(self, call: str) -> "tuple[Planned, AnyFault | None] | None":
        number = self._counts.get(call, 0)
        self._counts[call] = number + 1
        for row, fault in self._planned:
            if row.call == call and row.first <= number < row.last and self._random.random() < row.share:
                return row, fault
        return None


class FaultServer:
    """A server on a free port. Use as an asynchronous context manager."""

    def __init__(
        self,
        log: Log,
        *,
        backend: Backend[Request] | None,
        grpc: Backend[Call] | None,
        choice: Choice,
        random: Random,
    ) -> None:
        """Use HTTP/1.1 for `backend`, or HTTP/2 for `grpc`."""
        self.log = log
        self._backend = backend
        self._grpc = grpc
        self._choice = choice
        self._random = random
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._wires: list[Http1Wire | Http2Wire] = []

    async def __aenter__(self) -> "FaultServer":
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        for wire in self._wires:
            wire.leave()
        await asyncio.sleep(0)  # transports close in the next iteration of the loop

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._wire, sock=self._socket)

    def refuse(self) -> None:
        """Stop listening; existing connections stay open."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def listen_again(self) -> None:
        if self._server is None:
            self._socket = socket.create_server(("127.0.0.1", self.port), backlog=256)
            await self._listen()

    def _wire(self) -> asyncio.Protocol:
        name = self._choice.greeting()
        if name:
            self.log.count(name)
        wire: Http1Wire | Http2Wire
        if self._grpc is not None:
            decide_call = partial(self._decide, self._grpc, GrpcAnswer)
            wire = Http2Wire(self.log, self._random, decide_call, grpc_faults.GREETINGS.get(name))
        else:
            assert self._backend is not None
            decide = partial(self._decide, self._backend, Answer)
            wire = Http1Wire(self.log, self._random, decide, http1_faults.GREETINGS.get(name))
        self._wires.append(wire)
        return wire

    def _decide(self, backend: Backend[Asked], answer: type[Reply], asked: Asked) -> Reply:
        name = backend.call(asked)
        fault = self._choice.of(name)
        if name:
            return answer(backend.control(asked, name), fault, call=name)
        is_bad = fault is not None and bool(fault.kinds)
        backend.counters.good += not is_bad
        backend.counters.bad += is_bad
        return answer(backend.inference(asked), fault, backend.step(asked))
