"""The fault server: plays the faults of a case on one port, and logs every request it has seen whole."""

import asyncio
import socket
from dataclasses import dataclass
from random import Random

from tests.torture.http1_faults import Fault
from tests.torture.http1_wire import Answer, Http1Wire, Request
from tests.torture.log import Log
from tests.torture.sites import HttpSite


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault that is played for a share of the requests from `first` up to `last`, of those calls or of inferences."""

    fault: str
    share: float = 1.0
    first: int = 0
    last: int = 10**9
    call: str = ""


class Choice:
    """Which fault a request meets."""

    def __init__(self, planned: tuple[Planned, ...], faults: dict[str, Fault], random: Random) -> None:
        self._planned = [(row, faults[row.fault]) for row in planned]
        self._random = random
        self._counts: dict[str, int] = {}

    def of(self, call: str) -> Fault | None:
        number = self._counts.get(call, 0)
        self._counts[call] = number + 1
        for row, fault in self._planned:
            if row.call == call and row.first <= number < row.last and self._random.random() < row.share:
                return fault
        return None


class FaultServer:
    """Listens on a port of its own; use as an asynchronous context manager."""

    def __init__(self, log: Log, *, site: HttpSite, choice: Choice, random: Random) -> None:
        self.log = log
        self._site = site
        self._choice = choice
        self._random = random
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "FaultServer":
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._wire, sock=self._socket)

    async def refuse(self) -> None:
        """Nobody listens any more; connections stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def listen_again(self) -> None:
        if self._server is None:
            self._socket = socket.create_server(("127.0.0.1", self.port), backlog=256)
            await self._listen()

    def _wire(self) -> asyncio.Protocol:
        return Http1Wire(self.log, self._random, self._decide)

    def _decide(self, request: Request) -> Answer:
        call = self._site.call(request)
        fault = self._choice.of(call)
        if call:
            return Answer(self._site.control(request, call), fault, call=call)
        self._site.counters.good += fault is None or not fault.kinds
        self._site.counters.bad += fault is not None and bool(fault.kinds)
        return Answer(self._site.inference(request), fault, self._site.step(request))
