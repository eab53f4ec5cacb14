"""Grouping of turns in a file into sessions."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.dataset import Step
from inferometer.measure.requests import session_plan
from inferometer.model.spec import Tensor


def turn(session: str | None, delay: str | None = "0") -> Step:
    said = {"payload": "{}", "session_id": session, "delay": delay}
    return tuple(
        Tensor(name, "BYTES", (1,), text.encode()) for name, text in said.items() if text is not None
    )


def test_turns_of_a_session_are_in_the_order_of_the_file():
    plan = session_plan([turn("a", "5"), turn("b", "2.5"), turn("a", None), turn("b")], 2)
    assert plan.streams == ((0, 2), (1, 3))
    assert plan.delays_ns == (5 * NS_PER_MS, 5 * NS_PER_MS // 2, 0, 0)
    assert plan.is_once


@pytest.mark.parametrize(
    ("steps", "concurrency", "sentence"),
    [
        ([turn(None)], 1, "step 0 of the data has no 'session_id'"),
        ([turn("a", None), turn("a", None)], 1, "turn 1 of session 'a' has no 'delay'"),
        ([turn("a"), turn("a")], 2, "--session-concurrency is 2, but the data has 1 sessions"),
    ],
)
def test_rejected_data(steps: list[Step], concurrency: int, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        session_plan(steps, concurrency)
