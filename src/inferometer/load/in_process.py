"""Requests to a Triton in this process: the library's threads call back, and an event descriptor wakes the loop.

A request object is free again after both its final response and its release, in any order; a slot that
sends before that takes another one. Callbacks only record events and their times; all other work happens in the loop.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from inferometer.base import status as outcome
from inferometer.base.errors import LocalError
from inferometer.load.link import FIRST, MASK, Callbacks, LinkBase, LinkSetup
from inferometer.load.reactor import READ
from inferometer.load.sequences import Mark
from inferometer.services.in_process import serve_control
from inferometer.services.tritonserver import (
    InProcessRequest,
    InProcessServer,
    InProcessSettings,
    TritonError,
)


@dataclass(slots=True)
class _Call:
    """State of a slot's current call."""

    slot: int
    carrier: "_Carrier | None" = None
    sent_ns: int = 0
    wrote_ns: int = 0
    first_ns: int = 0
    end_ns: int = 0  # time of the last response with data
    responses: int = 0
    step: int = -1  # step whose expected reply is compared; negative if the reply is only counted
    status: int = outcome.OK
    text: str = ""
    times: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Carrier:
    """A request object, the call that uses it, and the events it still waits for."""

    request: InProcessRequest
    step: int
    call: _Call | None = None
    is_answered: bool = True
    is_released: bool = True


def _open_event() -> tuple[int, Callable[[], None], Callable[[], int]]:
    """Return the descriptor of a new event, the call that sets it, and the call that clears it."""
    if sys.platform != "linux":
        raise LocalError("Triton's library is built for Linux only")
    event = os.eventfd(0, os.EFD_NONBLOCK)
    return event, partial(os.eventfd_write, event, 1), partial(os.eventfd_read, event)


class InProcessLink(LinkBase):
    """Slots and the request objects they use."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks) -> None:
        super().__init__(setup, callbacks)
        self.is_flushed = True  # there is no wire
        self.opening = 0  # and nothing to open
        self._messages = setup.requests
        self._is_streaming = setup.wiring.is_streaming
        self._sends = 0
        self._calls: list[_Call] = []
        self._carriers: list[_Carrier] = []
        self._free: list[list[_Carrier]] = [[] for _ in setup.requests]  # by step
        self._came: deque[tuple[int, int, int | None, bool]] = deque()  # (number, time, response, is final)
        event, self._wake, self._woken = _open_event()
        setup.reactor.add(event, READ, self._ready)
        self._server = InProcessServer(InProcessSettings.from_environment(), self._responded, self._released)
        serve_control(self._server, setup.wiring.endpoint.port)

    # --- called on threads of the library

    def _responded(self, number: int, response: int | None, is_final: bool) -> None:
        self._came.append((number, self.clock(), response, is_final))
        self._wake()

    def _released(self, number: int) -> None:
        self._came.append((number, 0, None, False))

    # --- called by the engine

    @property
    def heard(self) -> int:
        return sum(call.responses for call in self._calls if call.carrier is not None)

    def prepare(self, slots: int) -> None:
        """Do nothing: there are no connections."""

    def close(self, slot: int) -> None:
        """Do nothing: there are no connections."""

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        while slot >= len(self._calls):
            self._calls.append(_Call(len(self._calls)))
        call, carrier = self._calls[slot], self._carrier(step)
        call.sent_ns, call.wrote_ns, call.first_ns, call.end_ns = now_ns, 0, 0, 0
        call.responses = call.status = 0
        replies = self.replies
        call.step = step if replies is not None and replies.reads_next and replies.wants(slot) else -1
        call.carrier, carrier.call = carrier, call
        try:
            if mark is not None:
                self._server.mark(
                    carrier.request, mark.sequence_id, is_start=mark.is_start, is_end=mark.is_end
                )
            carrier.is_answered = carrier.is_released = False
            is_sampled = self._sends & MASK < FIRST
            begun = self.cost.clock() if is_sampled else 0
            self._server.check(self._server.infer(self._server.handle, carrier.request.handle, None))
        except TritonError as error:  # it was rejected: no callback will follow
            carrier.is_released = True
            call.status, call.text = outcome.GRPC + error.code, error.text
            # Handle it in the loop, not from within the engine.
            self._responded(carrier.request.number, None, is_final=True)
            return
        if is_sampled:
            self.cost.note(begun)
        self._sends += 1
        call.wrote_ns = now_ns + self.cost.ns

    def _carrier(self, step: int) -> _Carrier:
        free = self._free[step]
        if free:
            return free.pop()
        carrier = _Carrier(self._server.request(self._messages[step], len(self._carriers) + 1), step)
        self._carriers.append(carrier)
        return carrier

    def cancel(self, slot: int, status: int, text: str) -> None:
        call = self._calls[slot]
        if call.carrier is None:
            return
        self._server.cancel(call.carrier.request)
        call.carrier.call = None  # drop later responses
        call.carrier = None
        call.status, call.text = status, text
        self._report(call, self.clock())

    def sent_ns(self, slot: int) -> int:
        return self._calls[slot].sent_ns

    def times(self, slot: int) -> Sequence[int]:
        return self._calls[slot].times if self._is_streaming else ()

    # --- in the loop

    def _ready(self, mask: int) -> None:
        self._woken()
        came = self._came
        while came:
            number, time_ns, response, is_final = came.popleft()
            carrier = self._carriers[number - 1]
            if time_ns:
                if response is not None:  # None only means that no more responses follow
                    self._take(carrier.call, time_ns, response)
                if is_final:
                    carrier.is_answered = True
                    call, carrier.call = carrier.call, None
                    if call is not None:
                        call.carrier = None
                        self._report(call, call.end_ns or time_ns)
            else:
                carrier.is_released = True
            if carrier.is_answered and carrier.is_released:
                self._free[carrier.step].append(carrier)

    def _take(self, call: _Call | None, time_ns: int, response: int) -> None:
        if call is not None:
            error = self._server.outcome(response)
            if error is not None:
                call.status, call.text = outcome.GRPC + error.code, error.text
            elif self._server.output_count(response):
                self._count(call, time_ns, response)
        self._server.delete(response)

    def _count(self, call: _Call, time_ns: int, response: int) -> None:
        call.responses += 1
        call.times.append(time_ns)
        call.first_ns = call.first_ns or time_ns
        call.end_ns = time_ns
        if call.step >= 0 and self.replies is not None:
            message = self._server.message(response)
            text = self.replies.judge_grpc(call.slot, call.step, time_ns, message)
            if text and not call.status:
                call.status, call.text = outcome.MISMATCH, text

    def _report(self, call: _Call, end_ns: int) -> None:
        if call.responses == 1 and not call.status and not self._is_streaming and call.step < 0:
            call.times.clear()
            step, due_ns = self.next_step(call.slot, call.sent_ns, call.wrote_ns, end_ns, 0)
            if step >= 0:
                self.send(call.slot, step, due_ns, None)
            return
        times, call.times = call.times if self._is_streaming else (), []
        if call.status:
            self.explain(call.status, call.text)
        received = 0  # bytes: there is no network
        checked = 0 if call.status or call.step < 0 else self.verdict(call.slot)
        self.finish(
            call.slot, call.status, call.sent_ns, call.wrote_ns, call.first_ns, end_ns, received, call.responses, times,
            checked=checked,
        )  # fmt: skip
