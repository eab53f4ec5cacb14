"""Checks of answers as passed to workers: the conditions for a right answer, and verdicts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from inferometer.base.status import UNCHECKED

if TYPE_CHECKING:
    from inferometer.model.spec import Tensor


class AnswerVerdict(NamedTuple):
    """Verdict on an answer, with a description of what is wrong."""

    code: int  # of `base.status`
    text: str = ""


NO_VERDICT = AnswerVerdict(UNCHECKED)


class UserFunction(Protocol):
    """A function in a file of the user."""

    file: str
    function: str

    def load(self) -> Callable[..., Any]: ...


Outputs = Mapping[str, bytes]
"""Outputs by name, encoded as in a Tensor."""

Answer = str | Outputs


class AnswerCheck(NamedTuple):
    """One condition; `value` is the text, choices, pattern, schema or function."""

    kind: str
    value: Any = None


class AnswerChecks(NamedTuple):
    """Checks of the answers to a run's requests. Sent to the workers, so it must pickle."""

    checks: tuple[AnswerCheck, ...]
    share: float  # of the answers to check
    is_text: bool = True  # answers are text, not outputs of these datatypes
    datatypes: Mapping[str, str] = {}
    expected: "tuple[str | tuple[Tensor, ...] | None, ...]" = ()  # by step
    references: tuple[tuple[Answer, ...], ...] = ()  # answers of a reference run, by step
    similarity: float = 1.0  # least similarity to one of them
    tolerance: tuple[float, float] = (0.0, 0.0)  # of floats: absolute and relative
