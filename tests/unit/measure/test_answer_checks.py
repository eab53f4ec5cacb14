"""Checks of answers as options ask for them: what is expected of the answer to each request."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.confined import confined_to
from inferometer.base.errors import UsageError
from inferometer.measure.answer_checks import make_checks
from inferometer.measure.requests import without_expected
from inferometer.model.numbers import encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.check_plan import AnswerCheck, AnswerChecks
from inferometer.services.endpoint import Endpoint
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Wiring

MODEL = ModelSpec(name="m", version="", inputs=(), outputs=(TensorSpec("OUT", "INT32", (2,)),))
TEXT_STEPS = tuple((Tensor("prompt", "JSON", (1,), text),) for text in (b"hello", b"bye"))
TENSOR_STEPS = ((Tensor("IN", "INT32", (2,), encode("INT32", [1, 2])),),)
EVENTS = [
    'data: {"choices": [{"index": 0, "delta": {"content": "one "}}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": "two"}}]}\n\n',
]


def made(steps: Any = TEXT_STEPS, expected: Any = (), kind: str = "openai", **more: Any) -> AnswerChecks:
    wiring = Wiring(Endpoint("localhost", 1), reader=TextReader() if kind == "openai" else None)
    return make_checks(Options(service_kind=kind, **more), MODEL, wiring, steps, expected)


def export(path: Path, *rows: tuple[dict[str, Any], list[dict[str, Any]]]) -> str:
    requests = [{"request_inputs": inputs, "response_outputs": outputs} for inputs, outputs in rows]
    path.write_text(json.dumps({"experiments": [{"requests": requests}]}))
    return f"reference:{path}"


def test_words_become_checks() -> None:
    found = made(check=("exact:a:b", "choice:yes | no|", "regex:^a|b$"), check_sample=0.5)
    assert found.checks == (
        AnswerCheck("exact", "a:b"), AnswerCheck("choice", ("yes", "no")), AnswerCheck("regex", "^a|b$"),
    )  # fmt: skip
    assert (found.share, found.is_text) == (0.5, True)


def test_expected_texts_are_not_sent() -> None:
    steps = (*TEXT_STEPS, (TEXT_STEPS[0][0], Tensor("expected", "JSON", (1,), b"hi")))
    sent, expected = without_expected(steps)
    assert sent == (*TEXT_STEPS, (TEXT_STEPS[0][0],))
    assert expected == (None, None, "hi")
    assert without_expected(TEXT_STEPS) == (TEXT_STEPS, ())


@pytest.mark.parametrize(
    "outputs",
    [
        [{"response": text} for text in EVENTS] + [{"response": ""}],
        [{"response": json.dumps({"choices": [{"message": {"content": "one two"}}]})}],
    ],
    ids=["stream", "whole"],
)
def test_answers_of_a_reference_are_found_by_their_prompt(
    outputs: list[dict[str, Any]], tmp_path: Path
) -> None:
    word = export(tmp_path / "run.json", ({"prompt": "hello"}, outputs), ({"prompt": "hello"}, outputs))
    assert made(check=(word,)).references == (("one two",), ())


def test_outputs_of_a_reference_are_found_by_their_inputs(tmp_path: Path) -> None:
    word = export(tmp_path / "run.json", ({"IN": [1, 2]}, [{"OUT": [3, 4]}]))
    found = made(TENSOR_STEPS, kind="triton", check=(word,))
    assert found.references == (({"OUT": encode("INT32", [3, 4])},),)
    assert not found.is_text


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (("exact",), "the data has none"),
        ("exact:a", "must be a tuple"),
        (("sounds:good",), "not a kind of check"),
    ],
)
def test_impossible_checks_are_rejected(check: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(check=check)


def test_a_reference_without_the_requests_is_refused(tmp_path: Path) -> None:
    word = export(tmp_path / "run.json", ({"prompt": "other"}, [{"response": EVENTS[0]}]))
    with pytest.raises(UsageError, match="none of the requests is in"):
        made(check=(word,))


def test_a_run_from_a_browser_loads_no_function(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text("raise SystemExit('loaded')")
    with confined_to(tmp_path), pytest.raises(UsageError, match="does not execute"):
        made(check_python=f"{tmp_path}/check.py:is_right")
