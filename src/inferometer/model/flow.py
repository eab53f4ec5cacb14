"""Flows: the steps of a visit as given in a file. A string value may be a reference to an earlier answer.

$first.OUTPUT0         the output OUTPUT0 of the step `first`
$first.OUTPUT0.3       its element 3
$ask.choices.0.text    a part of a JSON answer
$visit                 the number of the visit, unique in a run
$$5                    the text $5
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inferometer.base.frozen import frozen
from inferometer.model.visit import Call, Pause, VisitAnswer

VISIT = "visit"
_FORM = re.compile(r"\$([A-Za-z0-9_-]+)((?:\.[^.\s]+)*)")

Visit = Generator[Call | Pause, Any, None]


class Reference(NamedTuple):
    """A value of an earlier answer, or the number of the visit."""

    step: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((f"${self.step}", *self.path))


def with_references(value: Any) -> Any:
    """Replace strings that are references by `Reference`; raise ValueError for a malformed one."""
    if isinstance(value, str) and value.startswith("$"):
        return _reference(value)
    if isinstance(value, Mapping):
        return {key: with_references(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_references(part) for part in value]
    return value


def _reference(text: str) -> "Reference | str":
    if text.startswith("$$"):
        return text[1:]
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a reference; write $STEP.OUTPUT or $visit, or $$ for a literal $")
    step, path = found[1], tuple(found[2].split(".")[1:])
    if step == VISIT and path:
        raise ValueError(f"'{text}': $visit is a number and has no parts")
    if step != VISIT and not path:
        raise ValueError(f"'{text}' names a step without an output; write ${step}.OUTPUT")
    return Reference(step, path)


def references(value: Any, where: str = "") -> Iterator[tuple[str, Reference]]:
    """Yield every reference in a value, with its path."""
    if isinstance(value, Reference):
        yield where, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from references(part, f"{where}.{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from references(part, f"{where}.{number}")


@frozen
class FlowStep:
    """A call with references among its values, and the think time after its answer."""

    name: str
    inputs: Mapping[str, Any]
    body: Any = None
    think_s: float = 0.0


@frozen
class FlowVisit:
    """Creates the visits of a flow. It is sent to workers, so it must be picklable."""

    steps: Sequence[FlowStep]

    def __call__(self, number: int) -> Visit:
        answers: dict[str, Any] = {VISIT: number}
        for step in self.steps:
            inputs = {name: _filled(value, answers) for name, value in step.inputs.items()}
            answers[step.name] = yield Call(step.name, inputs, _filled(step.body, answers))
            if step.think_s:
                yield Pause(step.think_s)


MakeVisit = Callable[[int], Any]
"""Creates the visit with this number: a generator, or an async generator, of calls and pauses. Must be picklable."""


def _filled(value: Any, answers: Mapping[str, Any]) -> Any:
    if isinstance(value, Reference):
        return _looked_up(value, answers[value.step])
    if isinstance(value, Mapping):
        return {key: _filled(part, answers) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, answers) for part in value]
    return value


def _looked_up(reference: Reference, answer: Any) -> Any:
    path = reference.path
    if isinstance(answer, VisitAnswer):
        if len(path) == 1:
            return answer.tensor(path[0])
        answer, path = answer[path[0]].tolist(), path[1:]
    try:
        for part in path:
            answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    except (LookupError, TypeError, ValueError):
        raise LookupError(f"the answer has no '{reference}'") from None
    return answer
