"""A visit in progress: its next request, given the last answer; and the requests as links see them."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from inferometer.base import status as outcome
from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.units import NS_PER_S
from inferometer.load.visit_file import VisitFile
from inferometer.model.visit import Call, Pause
from inferometer.services.check_plan import NO_VERDICT, AnswerVerdict
from inferometer.services.traffic import Reply
from inferometer.services.visit_plan import VisitPlan
from inferometer.wire.frames import Buffer

MOST_PAUSES = 1000  # without a request between them
_AWAITED = "use yield pause(seconds) to wait, and do not await in a visit"


class Following(NamedTuple):
    """Continuation after an answer: a pause and then a request; without a request the visit is over."""

    pause_ns: int
    step: int = -1
    request: bytes = b""

    @property
    def is_over(self) -> bool:
        return self.step < 0


class VisitError(Exception):
    """The visit's code failed or yielded an invalid value."""


class VisitRun:
    """One visit. The request after a pause is generated at once, and sent when the pause is over."""

    __slots__ = ("_advance", "_close", "_plan")

    def __init__(self, plan: VisitPlan, number: int) -> None:
        self._plan = plan
        try:
            made = plan.make(number)
        except Exception as error:  # user code may raise anything
            raise VisitError(said(error)) from error
        if inspect.isgenerator(made):
            self._advance: Callable[[Any], Any] = made.send
            self._close: Callable[[], Any] = made.close
        elif inspect.isasyncgen(made):
            self._advance = _advance_async(made)
            self._close = _close_async(made)
        else:
            raise UsageError(
                f"{plan.origin} returns a {type(made).__name__}, not a generator",
                remedy="write a function that yields call(...) and pause(...)",
            )

    def following(self, answer: Any) -> Following:
        """Return the next request with the pause before it; raise VisitError if the visit cannot continue."""
        pause_ns = 0
        try:
            for _ in range(MOST_PAUSES):
                what = self._advance(answer)
                answer = None
                if not isinstance(what, Pause):
                    return self._called(what, pause_ns)
                pause_ns += round(what.seconds * NS_PER_S)
        except (StopIteration, StopAsyncIteration):
            return Following(pause_ns)
        except VisitError:
            raise
        except Exception as error:  # user code may raise anything
            raise VisitError(said(error)) from error
        raise VisitError(f"{MOST_PAUSES} pauses in a row without a request between them")

    def _called(self, what: object, pause_ns: int) -> Following:
        if not isinstance(what, Call):
            raise VisitError(
                f"the visit yielded an object of type {type(what).__name__}, not call(...) or pause(...)"
            )
        steps = self._plan.steps
        if what.step not in steps:
            raise VisitError(f"the visit calls '{what.step}', but its steps are {', '.join(steps)}")
        step = steps.index(what.step)
        try:
            return Following(pause_ns, step, self._plan.callers[step].request(what))
        except UsageError as error:
            raise VisitError(f"{what.step}: {error}") from error

    def close(self) -> None:
        """End the visit early."""
        try:
            self._close()
        except Exception as error:  # user code may raise anything
            raise VisitError(said(error)) from error


def said(error: BaseException) -> str:
    """Format an error of the visit in one line, with its position in the user's file."""
    if isinstance(error, InferometerError):
        return str(error)
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
        return str(error)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if traceback is None:
        return words
    return f"{words} ({traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno})"


def _advance_async(made: Any) -> Callable[[Any], Any]:
    def advance(answer: Any) -> Any:
        return _driven(made.asend(answer))

    return advance


def _close_async(made: Any) -> Callable[[], Any]:
    def close() -> Any:
        return _driven(made.aclose())

    return close


def _driven(step: Any) -> Any:
    """Advance an async generator, which must not await anything: no event loop runs here."""
    try:
        step.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
    raise UsageError("the visit awaits something that is not ready", remedy=_AWAITED)


class VisitMessages(Sequence[bytes]):
    """Requests by slot and readers of their replies, as links expect them."""

    is_sampled = False
    reads_next = True
    keeps_answers: bool = False

    def __init__(self, plan: VisitPlan) -> None:
        if isinstance(plan.make, VisitFile):
            plan.make.load()  # before the load, since it may take long
        self._callers = plan.callers
        self._requests: dict[int, bytes] = {}
        self._steps: dict[int, int] = {}
        self.answers: dict[int, Any] = {}  # by slot, from replies already read

    def put(self, slot: int, step: int, request: bytes) -> None:
        self._requests[slot], self._steps[slot] = request, step
        self.answers.pop(slot, None)

    # --- requests, by slot

    def __getitem__(self, slot: Any) -> Any:
        return self._requests[slot]

    def __len__(self) -> int:
        return 0  # no requests can be rendered in advance

    # --- replies

    def expect(self, slot: int) -> None:
        """Do nothing: all replies are read."""

    def wants(self, slot: int) -> bool:
        return True

    def judge_http(
        self, slot: int, step: int, now_ns: int, body: bytearray, header_length: str | None
    ) -> tuple[int, str]:
        try:
            self.answers[slot] = self._callers[self._steps[slot]].http_answer(body, header_length)
        except PeerError as error:
            return outcome.MALFORMED, str(error)
        return outcome.OK, ""

    def judge_grpc(self, slot: int, step: int, now_ns: int, message: Buffer) -> str:
        try:
            self.answers[slot] = self._callers[self._steps[slot]].grpc_answer(bytes(message))
        except PeerError as error:
            return str(error)
        return ""

    def judge_text(self, slot: int, step: int, reply: Reply) -> None:
        """Return nothing: the code of a visit checks its answers."""

    def verdict(self, slot: int) -> AnswerVerdict:
        return NO_VERDICT

    def keep(self, slot: int, now_ns: int, message: Buffer) -> None:
        """Do nothing: no replies are kept."""
