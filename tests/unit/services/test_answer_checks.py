"""Checks of answers: which are right, and how texts are compared."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.base.status import FALSE, RIGHT, UNCHECKED
from inferometer.load.visit_file import VisitFile
from inferometer.model.numbers import encode
from inferometer.model.spec import Tensor
from inferometer.services.answer_checks import AnswerJudge, similarity, tensor_similarity
from inferometer.services.check_plan import AnswerCheck, AnswerChecks

SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def judge(*checks: AnswerCheck, requests: tuple[bytes, ...] = (b"",), **more: Any) -> AnswerJudge:
    return AnswerJudge(AnswerChecks(checks, more.pop("share", 1.0), **more), requests)


@pytest.mark.parametrize(
    ("check", "answer", "code", "said"),
    [
        (AnswerCheck("exact", "Paris"), "Paris", RIGHT, ""),
        (AnswerCheck("exact", "Paris"), " Paris\n", RIGHT, ""),
        (AnswerCheck("exact", "Paris"), "paris", FALSE, "expected 'Paris', got 'paris'"),
        (AnswerCheck("choice", ("yes", "no")), "no\n", RIGHT, ""),
        (AnswerCheck("choice", ("yes", "no")), "maybe", FALSE, "'maybe' is not one of 'yes', 'no'"),
        (AnswerCheck("regex", r"^\d+ EUR$"), "12 EUR", RIGHT, ""),
        (AnswerCheck("regex", r"^\d+ EUR$"), "about 12 EUR", FALSE, "does not match"),
        (AnswerCheck("schema", SCHEMA), '{"city": "Rome"}', RIGHT, ""),
        (AnswerCheck("schema", SCHEMA), '{"city": 3}', FALSE, "['city'] does not match the schema"),
        (AnswerCheck("schema", SCHEMA), "{}", FALSE, "'city' is a required property"),
        (AnswerCheck("schema", SCHEMA), "Rome", FALSE, "is not JSON"),
    ],
)
def test_an_answer_is_right_or_wrong(check: AnswerCheck, answer: str, code: int, said: str) -> None:
    found = judge(check).of_text(0, answer)
    assert found.code == code
    assert said in found.text
    assert bool(found.text) == (code == FALSE)


def test_a_right_answer_passes_every_check() -> None:
    both = judge(AnswerCheck("regex", "a"), AnswerCheck("regex", "b"))
    assert [both.of_text(0, text).code for text in ("ab", "a", "b")] == [RIGHT, FALSE, FALSE]


def test_each_request_has_its_own_expected_text_and_others_are_not_judged() -> None:
    found = judge(AnswerCheck("exact"), expected=("one", "two", None))
    assert [found.of_text(step, "two").code for step in range(3)] == [FALSE, RIGHT, UNCHECKED]


def test_outputs_are_compared_with_the_validation_data_within_its_tolerance() -> None:
    expected = ((Tensor("OUT", "FP32", (2,), np.array([1, 2], np.float32).tobytes()),), ())
    found = judge(
        AnswerCheck("exact"),
        is_text=False,
        datatypes={"OUT": "FP32"},
        expected=expected,
        tolerance=(0.1, 0.0),
    )
    for second, code in ((2.05, RIGHT), (2.2, FALSE)):
        outputs = {"OUT": np.array([1, second], np.float32).tobytes()}
        assert found.of_outputs(0, repr(outputs).encode(), partial(dict, outputs)).code == code
        assert found.of_outputs(1, repr(outputs).encode(), partial(dict, outputs)).code == UNCHECKED


@pytest.mark.parametrize(
    ("datatype", "values", "pattern"),
    [
        ("BYTES", ["cat"], "^cat$"),  # the only string is the answer
        ("BYTES", ["cat", "dog"], r'^\{"OUT": \["cat", "dog"\]\}$'),
        ("INT32", [7], r'^\{"OUT": \[7\]\}$'),
    ],
)
def test_outputs_are_also_text(datatype: str, values: list[Any], pattern: str) -> None:
    found = judge(AnswerCheck("regex", pattern), is_text=False, datatypes={"OUT": datatype})
    assert found.of_outputs(0, b"", lambda: {"OUT": encode(datatype, values)}).code == RIGHT


def test_outputs_of_the_wrong_size_are_wrong() -> None:
    found = judge(AnswerCheck("regex", "."), is_text=False, datatypes={"OUT": "INT32"})
    assert "not INT32" in found.of_outputs(0, b"", lambda: {"OUT": b"abc"}).text


def test_a_reply_that_was_right_is_not_read_again() -> None:
    found = judge(AnswerCheck("regex", "cat"), is_text=False, datatypes={"OUT": "BYTES"})
    read: list[str] = []

    def outputs(text: str) -> dict[str, bytes]:
        read.append(text)
        return {"OUT": encode("BYTES", [text])}

    for step, reply, text in (
        (0, b"1", "cat"),
        (0, b"1", "?"),
        (0, b"2", "dog"),
        (1, b"1", "dog"),
        (0, b"1", "?"),
    ):
        verdict = found.of_outputs(step, bytearray(reply), partial(outputs, text))
        assert verdict.code == (FALSE if text == "dog" else RIGHT)
    assert read == ["cat", "dog", "dog"]


FUNCTIONS = """
def short(answer, request):
    return len(answer) < 5

def explains(answer, request):
    return None if request.decode() in answer else f"does not mention {request.decode()}"

def fails(answer, request):
    raise ValueError("no idea")
"""


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [("short", FALSE, "returned False"), ("explains", RIGHT, "")],
)
def test_a_function_judges_the_answer_with_its_request(
    function: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "check.py").write_text(FUNCTIONS)
    check = AnswerCheck("python", VisitFile(str(tmp_path / "check.py"), function).carried())
    found = judge(check, requests=(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nRome",)).of_text(0, "about Rome")
    assert (found.code, said in found.text) == (code, True)


def test_a_function_that_raises_ends_the_run_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(FUNCTIONS)
    found = judge(AnswerCheck("python", VisitFile(str(tmp_path / "check.py"), "fails")))
    with pytest.raises(UsageError, match=r"check fails in .*check.py raised ValueError: no idea"):
        found.of_text(0, "x")


# --- similarity


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("a b c", "a b c", 1.0),
        ("a b c d", "a x c d", 0.75),
        ("a b", "b a", 0.5),
        ("a", "b", 0.0),
        ("", "", 1.0),
        ("a", "", 0.0),
    ],
)
def test_the_similarity_of_texts_counts_common_words_in_order(one: str, other: str, alike: float) -> None:
    assert similarity(one, other) == similarity(other, one) == alike


def test_the_similarity_equals_that_of_the_textbook_algorithm() -> None:
    source = random.Random(5)
    for _ in range(100):
        left, right = ([source.choice("abcd") for _ in range(source.randrange(1, 90))] for _ in range(2))
        table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
        for row, a in enumerate(left):
            for column, b in enumerate(right):
                table[row + 1][column + 1] = (
                    table[row][column] + 1 if a == b else max(table[row][column + 1], table[row + 1][column])
                )
        expected = 2 * table[-1][-1] / (len(left) + len(right))
        assert similarity(" ".join(left), " ".join(right)) == expected


@pytest.mark.parametrize(
    ("datatype", "one", "other", "alike"),
    [
        ("FP32", [1.0, 0.0], [2.0, 0.0], 1.0),
        ("FP32", [1.0, 0.0], [0.0, 1.0], 0.0),
        ("FP32", [1.0, 0.0], [1.0, 0.0, 0.0], 0.0),
        ("INT32", [1, 2, 3, 4], [1, 2, 3, 5], 0.75),
        ("BYTES", ["a", "b"], ["a", "c"], 0.5),
    ],
)
def test_the_similarity_of_outputs(datatype: str, one: list[Any], other: list[Any], alike: float) -> None:
    found = tensor_similarity(datatype, encode(datatype, one), encode(datatype, other))
    assert found == pytest.approx(alike)


def test_the_most_similar_reference_counts() -> None:
    found = judge(AnswerCheck("reference"), references=(("a b c d", "w x y z"), ()), similarity=0.7)
    assert [found.of_text(0, text).code for text in ("a b c e", "w x", "w x y")] == [RIGHT, FALSE, RIGHT]
    assert "67 %, below 70 %" in found.of_text(0, "w x").text
    assert found.of_text(1, "anything").code == UNCHECKED
