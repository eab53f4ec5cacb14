"""Checks of answers: whether a server that answers fast also answers correctly.

`AnswerChecks` travels to the workers; there the engine draws the sample, before requests are sent (load/sampled.py),
and an `AnswerJudge` judges their answers. A wrong answer is still a successful request: only its verdict is recorded.

An answer is text: that of the first choice of a text server, the only string of a tensor server, or else JSON. For
tensor servers, the JSON is an object with the values of each output.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.status import FALSE, RIGHT
from inferometer.base.units import share as percent
from inferometer.options.checking import CHOICE, EXACT, PYTHON, REFERENCE, REGEX, SCHEMA
from inferometer.services.check_plan import (
    NO_VERDICT,
    Answer,
    AnswerChecks,
    AnswerVerdict,
    Outputs,
    UserFunction,
)
from inferometer.services.traffic import FLOATS, Checker, Validation
from inferometer.wire.frames import Buffer

SHOWN = 80  # characters of an answer in an explanation
ROOM = 16 * 1024 * 1024  # bytes of replies that were right


IS_RIGHT = AnswerVerdict(RIGHT)


class AnswerJudge:
    """Draws the sample of answers to check, and judges them."""

    def __init__(self, checks: AnswerChecks, requests: Sequence[bytes | memoryview]) -> None:
        if not checks.is_text:
            _numbers()  # now, not at the first check under load
        self.is_text = checks.is_text
        self._checks = checks
        self._requests = requests
        self._functions = [_JUDGES[check.kind](self, check.value) for check in checks.checks]
        self._right: dict[int, bytes] = {}  # by step, the last reply that was right
        self._room = ROOM  # bytes for more of them
        self._is_fixed = all(
            check.kind != PYTHON for check in checks.checks
        )  # a function may change its mind

    def of_text(self, step: int, text: str) -> AnswerVerdict:
        return self._verdict(step, text)

    def of_outputs(self, step: int, reply: Buffer, read: Callable[[], Outputs]) -> AnswerVerdict:
        """Judge the outputs of a tensor server; those that cannot be read are wrong.

        Most servers give the same reply to the same request, so a reply that was right before is not read again.
        """
        if self._right.get(step) == reply:
            return IS_RIGHT
        try:
            found = self._verdict(step, read())
        except PeerError as error:
            return AnswerVerdict(FALSE, f"the reply cannot be read: {error}")
        if found is IS_RIGHT and self._is_fixed and len(reply) <= self._room:
            self._room -= len(reply) - len(self._right.get(step, b""))
            self._right[step] = bytes(reply)
        return found

    def _verdict(self, step: int, answer: Answer) -> AnswerVerdict:
        found = [judge(step, answer) for judge in self._functions]
        if text := next(filter(None, found), ""):
            return AnswerVerdict(FALSE, text)
        return NO_VERDICT if all(text is None for text in found) else IS_RIGHT

    # --- answers in the form that a check needs

    def text_of(self, answer: Answer) -> str:
        if isinstance(answer, str):
            return answer
        value = self.value_of(answer)
        found = list(value.values())
        if len(found) == 1 and len(found[0]) == 1 and isinstance(found[0][0], str):
            return str(found[0][0])
        return json.dumps(value)

    def value_of(self, answer: Outputs) -> dict[str, list[Any]]:
        """Decode the outputs to lists of numbers and strings."""
        return {
            name: _values(self._checks.datatypes.get(name, "BYTES"), data)
            for name, data in sorted(answer.items())
        }

    # --- kinds of checks: each gives a function that returns what is wrong, an empty text if nothing is, or None if
    # nothing is known about the answer to this request

    def exact(self, value: str | None) -> "Judgement":
        if value is not None:
            return lambda step, answer: _unlike(value, self.text_of(answer))
        expected = self._checks.expected
        if self.is_text:
            texts = [row if isinstance(row, str) else None for row in expected]
            return lambda step, answer: (
                None if (row := texts[step]) is None else _unlike(row, self.text_of(answer))
            )
        tensors = tuple(row if isinstance(row, tuple) else () for row in expected)
        checker = Checker(Validation(tensors, *self._checks.tolerance))
        return lambda step, answer: (
            None if isinstance(answer, str) or not tensors[step] else checker.check(step, answer)
        )

    def choice(self, value: tuple[str, ...]) -> "Judgement":
        allowed = frozenset(value)

        def judge(step: int, answer: Answer) -> str:
            text = self.text_of(answer).strip()
            return "" if text in allowed else f"{_shown(text)} is not one of {', '.join(map(repr, value))}"

        return judge

    def regex(self, value: str) -> "Judgement":
        pattern = re.compile(value)

        def judge(step: int, answer: Answer) -> str:
            text = self.text_of(answer)
            return "" if pattern.search(text) else f"{_shown(text)} does not match /{value}/"

        return judge

    def schema(self, value: Any) -> "Judgement":
        from jsonschema.validators import validator_for

        validator = validator_for(value)(value)

        def judge(step: int, answer: Answer) -> str:
            try:
                document = json.loads(answer) if isinstance(answer, str) else self.value_of(answer)
            except (ValueError, RecursionError):
                return f"{_shown(self.text_of(answer))} is not JSON"
            error = next(iter(validator.iter_errors(document)), None)
            if error is None:
                return ""
            place = "".join(f"[{part!r}]" for part in error.absolute_path)
            return f"the answer{place} does not match the schema: {error.message[:SHOWN]}"

        return judge

    def python(self, value: UserFunction) -> "Judgement":
        function = value.load()

        def judge(step: int, answer: Answer) -> str:
            given = answer if isinstance(answer, str) else self.value_of(answer)
            try:
                found = function(given, _body(self._requests[step]))
            except Exception as error:
                raise UsageError(
                    f"the check {value.function} in {value.file} raised {type(error).__name__}: {error}, for the "
                    f"answer {_shown(self.text_of(answer))}",
                    remedy="return False or a text for a wrong answer",
                ) from error
            if found is None or found is True or found == "":
                return ""
            text = found if isinstance(found, str) else f"{value.function} returned {found!r}"
            return f"{text[:SHOWN]}: {_shown(self.text_of(answer))}"

        return judge

    def reference(self, value: None) -> "Judgement":
        references, least = self._checks.references, self._checks.similarity

        def judge(step: int, answer: Answer) -> str | None:
            if not references[step]:
                return None
            alike = max(self._similarity(one, answer) for one in references[step])
            if alike >= least:
                return ""
            return (
                f"the similarity to the reference is {percent(alike)}, below {percent(least)}: "
                f"{_shown(self.text_of(answer))}"
            )

        return judge

    def _similarity(self, reference: Answer, answer: Answer) -> float:
        if isinstance(reference, str) or isinstance(answer, str):
            return similarity(self.text_of(reference), self.text_of(answer))
        if reference.keys() != answer.keys():
            return 0.0
        datatypes = self._checks.datatypes
        found = (
            tensor_similarity(datatypes.get(name, "BYTES"), reference[name], answer[name]) for name in answer
        )
        return min(found, default=1.0)


Judgement = Callable[[int, Answer], str | None]
_JUDGES: Mapping[str, Callable[[AnswerJudge, Any], Judgement]] = {
    EXACT: AnswerJudge.exact,
    CHOICE: AnswerJudge.choice,
    REGEX: AnswerJudge.regex,
    SCHEMA: AnswerJudge.schema,
    REFERENCE: AnswerJudge.reference,
    PYTHON: AnswerJudge.python,
}


def _unlike(expected: str, text: str) -> str:
    return "" if text.strip() == expected.strip() else f"expected {_shown(expected)}, got {_shown(text)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _body(request: bytes | memoryview) -> bytes:
    """Return the body of an HTTP request, or the message of a gRPC call."""
    whole = bytes(request)
    head, separator, body = whole.partition(b"\r\n\r\n")
    return body if separator and b" HTTP/1.1\r\n" in head else whole


def _values(datatype: str, data: bytes) -> list[Any]:
    numbers = _numbers()
    if datatype == "JSON" or datatype not in numbers.DATATYPES:
        return [data.decode("utf-8", "replace")]
    try:
        found: list[Any] = numbers.decode(datatype, data)
    except ValueError as error:
        raise PeerError(f"an output is not {datatype}: {error}") from None
    if datatype != "BYTES":
        return found
    return [one.decode("utf-8", "replace") for one in found]


@cache
def _numbers() -> Any:
    from inferometer.model import numbers  # imports numpy, which checks of text do not need

    return numbers


# --- similarity


def similarity(one: str, other: str) -> float:
    """Return the similarity of two texts from 0 to 1: twice the length of their longest common subsequence of words,
    over the number of words in both (ROUGE-L).

    The subsequence is found a machine word at a time (Hyyrö 2004), so that long answers cost little.
    """
    left, right = one.split(), other.split()
    if not left or not right:
        return float(left == right)
    places: dict[str, int] = {}
    for place, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(left)) - 1
    row = every
    for word in right:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & every
    common = len(left) - row.bit_count()
    return 2 * common / (len(left) + len(right))


def tensor_similarity(datatype: str, one: bytes, other: bytes) -> float:
    """Return the cosine similarity of floats, or the share of equal elements; 0 if their numbers differ."""
    if one == other:
        return 1.0
    if datatype in FLOATS:
        return _cosine(datatype, one, other)
    left, right = _values(datatype, one), _values(datatype, other)
    if len(left) != len(right) or not left:
        return 0.0
    return sum(bool(a == b) for a, b in zip(left, right, strict=True)) / len(left)


def _cosine(datatype: str, one: bytes, other: bytes) -> float:
    import numpy as np

    from inferometer.model.numbers import values

    left, right = (values(datatype, data).astype(np.float64) for data in (one, other))
    if len(left) != len(right) or not (np.isfinite(left).all() and np.isfinite(right).all()):
        return 0.0
    sizes = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    if not sizes:
        return float(bool((left == right).all()))
    return min(1.0, float(left @ right) / sizes)
