"""Tasks written in Python: the types that their functions use.

A task is a coroutine. It makes calls with `task.call` or `task.stream`, and may also await tools, other servers, or
several calls at once. It runs on the event loop that also sends the load.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self


class CallFailedError(Exception):
    """A call failed in all its attempts. The function may catch it; otherwise its task has failed."""

    def __init__(self, step: str, status: int, text: str) -> None:
        super().__init__(f"{step}: {text}")
        self.step = step
        self.status = status


class TaskAnswer(NamedTuple):
    """The answer to a call."""

    text: str
    tokens: int  # as the server counts them; 0 if it does not
    prompt_tokens: int
    seconds: float  # from the send to the end
    call: int  # its number in the task, from 0


class Asked(NamedTuple):
    """A call as the function asks for it."""

    step: str
    prompt: str
    messages: Sequence[Mapping[str, Any]]
    continues: TaskAnswer | None


class StartedCall(Protocol):
    """A call that the engine has sent."""

    def take(self) -> str:
        """Return the text that has arrived since the last call; empty if there is none."""

    async def more(self) -> bool:
        """Wait until more text has arrived, or until the call has ended: then return whether text is left."""

    async def answer(self) -> TaskAnswer: ...
    def cancel(self) -> None: ...


class AnswerStream:
    """An answer as it arrives. Leaving its block cancels the rest."""

    def __init__(self, start: Callable[[], StartedCall]) -> None:
        self._start = start
        self._call: StartedCall | None = None

    async def __aenter__(self) -> Self:
        self._call = self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is not None:
            self._call.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        call = self._entered
        text = call.take()
        if text or await call.more():
            return text or call.take()
        raise StopAsyncIteration

    async def answer(self) -> TaskAnswer:
        """Return the whole answer; if it was cancelled, the part that has arrived."""
        return await self._entered.answer()

    @property
    def _entered(self) -> StartedCall:
        if self._call is None:
            raise RuntimeError("use `async with task.stream(...) as stream`")
        return self._call


class Task:
    """A task in progress."""

    def __init__(
        self, number: int, data: Callable[[], str], seed: int, start: Callable[[Asked], StartedCall]
    ) -> None:
        self.number = number  # from 1
        self.random = Random(f"{seed} {number}")  # the same in every run with this seed
        self._data = data
        self._start = start

    @property
    def data(self) -> str:
        """The row of the data that belongs to the task; empty without data."""
        return self._data()

    async def call(
        self,
        step: str,
        prompt: str = "",
        *,
        messages: Sequence[Mapping[str, Any]] = (),
        continues: TaskAnswer | None = None,
    ) -> TaskAnswer:
        """Make a call and return its answer. It carries the conversation of the answer that it continues, then
        `messages`, then the prompt."""
        return await self._start(Asked(step, prompt, messages, continues)).answer()

    def stream(
        self,
        step: str,
        prompt: str = "",
        *,
        messages: Sequence[Mapping[str, Any]] = (),
        continues: TaskAnswer | None = None,
    ) -> AnswerStream:
        """Return the answer to a call as a stream of texts: `async with task.stream(...) as stream`."""
        return AnswerStream(lambda: self._start(Asked(step, prompt, messages, continues)))


PythonTask = Callable[[Task], Awaitable[object]]
