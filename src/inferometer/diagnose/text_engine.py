"""A server that generates text with continuous batching: one station of the simulation core. Pure.

The server works in steps. A step generates one token for each running answer and reads prompts that were admitted:

    step = fixed + answer * (running answers) + context * (tokens that they hold) + prompt * (prompt tokens read)

Requests wait in order of arrival until a slot is free and their prompt fits into the KV cache. If the cache is full,
the answer that was admitted last is preempted: it returns to the head of the queue, and its tokens are read again.

Prompts are read in one of three ways. `whole` reads whole prompts in the same steps as the running answers, as many as
fit into the token budget of a step. `chunked` cuts them to the rest of the budget. `apart` reads whole prompts in
separate steps, in which no running answer gets a token.

Steps in which nothing starts or ends are alike except for the growing context, so they are simulated together: the cost
of a simulation depends on the number of requests, not on the number of tokens.
"""

import math
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from inferometer.base.frozen import frozen

PrefillMode = Literal["whole", "chunked", "apart"]
PREFILL_MODES: tuple[PrefillMode, ...] = ("whole", "chunked", "apart")
UNLIMITED = 1 << 40


@frozen
class TextEngine:
    """Step times and limits of a text server; a limit is None if none is known."""

    fixed_s: float
    answer_s: float
    context_s: float = 0.0
    prompt_s: float = 0.0
    outside_s: float = 0.0  # mean time of a request before it reaches the queue: client, network, tokenizer
    slots: int | None = None
    kv_tokens: int | None = None
    prefill_tokens: int | None = (
        2048  # most prompt tokens of a step; a single longer prompt is read all the same
    )
    prefill: PrefillMode = "whole"
    cached: float = 0.0  # share of the prompt tokens found in the prefix cache

    def step_s(self, running: int, context: float, prompt: float = 0.0) -> float:
        return self.fixed_s + self.answer_s * running + self.context_s * context + self.prompt_s * prompt

    def alone_s(self, prompt: int, output: int) -> tuple[float, float]:
        """Return the time to the first token and to the last one of a request on an idle server."""
        read = prompt * (1 - self.cached)
        parts = 1
        if self.prefill == "chunked" and self.prefill_tokens is not None:
            parts = max(1, math.ceil(read / self.prefill_tokens))
        first = self.outside_s + (parts - 1) * self.step_s(0, 0) + self.step_s(1, prompt, read)
        more = output - 1
        return first, first + more * self.step_s(1, prompt + (more + 1) / 2)


@dataclass(slots=True)
class TextRequest:
    """A simulated request; times in seconds."""

    sent_s: float
    prompt: int
    output: int
    user: int = -1
    first_s: float = math.nan
    end_s: float = math.nan
    # State of the simulation:
    read: int = 0  # tokens that a (re)start must read
    held: int = 0  # tokens in the KV cache at `since`
    since: int = 0  # number of the decode step after which it held them


@dataclass(slots=True)
class _Reading:
    """A prompt that is read in several steps."""

    left: float  # tokens
    request: TextRequest


class TextServer:
    """One running server. Requests must arrive in order of time: `take` each, and `advance` in between."""

    __slots__ = (
        "_arrivals", "_context", "_count", "_engine", "_pending", "_running", "_step", "_waiting", "ended", "now_s",
        "preemptions",
    )  # fmt: skip

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine
        self._arrivals: list[
            tuple[float, int, TextRequest]
        ] = []  # heap of (time in the queue, order, request)
        self._waiting: deque[TextRequest] = deque()
        self._pending: deque[_Reading] = deque()  # chunked
        self._running: list[tuple[int, int, TextRequest]] = []  # heap of (last step, order, request)
        self._count = 0
        self._context = 0  # tokens held at `_step`
        self._step = 0
        self.now_s = 0.0
        self.ended: list[TextRequest] = []
        self.preemptions = 0

    @property
    def inside(self) -> int:
        """Requests that have arrived and not ended."""
        return len(self._arrivals) + len(self._waiting) + len(self._pending) + len(self._running)

    def take(self, request: TextRequest, delay_s: float) -> None:
        """Accept a request, which reaches the queue after a delay."""
        self._count += 1
        request.read = request.prompt
        heappush(self._arrivals, (request.sent_s + delay_s, self._count, request))

    def advance(self, until_s: float) -> None:
        """Simulate all steps that begin before `until_s`, or up to the first step that ends a request."""
        done = len(self.ended)
        while self.now_s < until_s and len(self.ended) == done:
            arrivals, waiting = self._arrivals, self._waiting
            while arrivals and arrivals[0][0] <= self.now_s:
                waiting.append(heappop(arrivals)[2])
            if not self._running and not waiting and not self._pending:
                if not arrivals or arrivals[0][0] >= until_s:
                    self.now_s = until_s
                    return
                self.now_s = arrivals[0][0]
                continue
            started, read = self._admitted()
            if started or read:
                self._reading_step(started, read)
            else:
                self._alike_steps(until_s)

    # --- one step

    def _slots_free(self) -> int:
        engine = self._engine
        slots = UNLIMITED if engine.slots is None else engine.slots
        return slots - len(self._running) - len(self._pending)

    def _admitted(self) -> tuple[list[TextRequest], float]:
        """Admit requests to the next step; return those whose prompts it completes, and the tokens that it reads."""
        engine = self._engine
        if not self._waiting and not self._pending:
            return [], 0.0
        budget = UNLIMITED if engine.prefill_tokens is None else engine.prefill_tokens
        if engine.prefill == "chunked":
            return self._chunks(max(1, budget - len(self._running)))
        started: list[TextRequest] = []
        read, free = 0.0, self._slots_free()
        new = 1 - engine.cached
        while self._waiting and free > 0 and self._fits(self._waiting[0], len(started)):
            first = self._waiting[0]
            if started and read + first.read * new > budget:
                break
            self._waiting.popleft()
            self._hold(first)
            started.append(first)
            read += first.read * new
            free -= 1
        return started, read

    def _chunks(self, budget: float) -> tuple[list[TextRequest], float]:
        free, read = self._slots_free(), 0.0
        new = 1 - self._engine.cached
        started: list[TextRequest] = []
        while budget > 0:
            if not self._pending:
                if not (self._waiting and free > 0 and self._fits(self._waiting[0], len(started))):
                    break
                first = self._waiting.popleft()
                self._hold(first)
                self._pending.append(_Reading(max(1.0, first.read * new), first))
                free -= 1
            reading = self._pending[0]
            part = min(reading.left, budget)
            read, budget = read + part, budget - part
            reading.left -= part
            if reading.left > 0:
                break
            started.append(self._pending.popleft().request)
        return started, read

    def _fits(self, request: TextRequest, started: int) -> bool:
        limit = self._engine.kv_tokens
        if limit is None:
            return True
        running = len(self._running) + len(self._pending) + started
        return not running or self._context + running + request.read + 1 <= limit

    def _hold(self, request: TextRequest) -> None:
        request.held = request.read
        self._context += request.read

    def _reading_step(self, started: list[TextRequest], read: float) -> None:
        engine, running = self._engine, self._running
        if engine.prefill == "apart":
            self.now_s += engine.step_s(len(started), 0.0, read)
        else:
            self._make_room(len(started))
            self.now_s += engine.step_s(len(running) + len(started), self._context, read)
            self._step += 1
            self._context += len(running)
        for request in started:
            self._context += 1
            request.held += 1
            request.since = self._step
            if math.isnan(request.first_s):
                request.first_s = self.now_s
            made = request.held - request.prompt
            self._count += 1
            heappush(running, (self._step + request.output - made, self._count, request))
        self._finish()

    def _alike_steps(self, until_s: float) -> None:
        """Take steps until an answer ends, a request arrives that may be admitted, or the KV cache is full."""
        self._make_room(0)
        engine, running = self._engine, len(self._running)
        steps = self._running[0][0] - self._step
        if engine.kv_tokens is not None and running > 1:
            steps = min(steps, max(1, (engine.kv_tokens - self._context) // running))
        stop_s = until_s
        if self._arrivals and not self._waiting and self._slots_free() > 0:
            stop_s = min(stop_s, self._arrivals[0][0])
        each_s = engine.step_s(running, self._context)
        grown_s = engine.context_s * running
        steps = max(1, min(steps, _steps_until(stop_s - self.now_s, each_s, grown_s)))
        self.now_s += steps * each_s + grown_s * steps * (steps - 1) / 2
        self._step += steps
        self._context += steps * running
        self._finish()

    def _finish(self) -> None:
        running = self._running
        while running and running[0][0] <= self._step:
            _, _, request = heappop(running)
            request.end_s = self.now_s
            self._release(request)
            self.ended.append(request)

    def _release(self, request: TextRequest) -> None:
        self._context -= request.held + self._step - request.since

    def _make_room(self, started: int) -> None:
        """Preempt the youngest answers while the next step does not fit into the KV cache."""
        limit = self._engine.kv_tokens
        if limit is None:
            return
        while len(self._running) > 1 and self._context + len(self._running) + started > limit:
            youngest = max(self._running, key=lambda row: row[1])
            self._running.remove(youngest)
            self._running.sort()  # a sorted list is a heap
            request = youngest[2]
            request.read = request.held + self._step - request.since
            self._release(request)
            self._waiting.appendleft(request)
            self.preemptions += 1


def _steps_until(seconds: float, each_s: float, grown_s: float) -> int:
    """Return the fewest steps that take at least this long: the first takes `each_s`, each later one `grown_s` more."""
    if math.isinf(seconds):
        return UNLIMITED
    if grown_s <= 0:
        return math.ceil(seconds / each_s - 1e-9)
    half = each_s - grown_s / 2
    return math.ceil((math.sqrt(half * half + 2 * grown_s * max(seconds, 0.0)) - half) / grown_s - 1e-9)
