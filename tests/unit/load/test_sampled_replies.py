"""Replies of a sample: which are read, and how verdicts reach their records."""

from typing import Any

import pytest

from inferometer.base import status
from inferometer.load.link import Replies
from inferometer.records.records import from_cells
from inferometer.records.spool import Spool
from inferometer.services.answer_checks import AnswerJudge
from inferometer.services.check_plan import AnswerCheck, AnswerChecks
from inferometer.services.traffic import Checker, Reply, Validation

BODY = b'{"outputs":[{"name":"OUT","datatype":"INT32","shape":[1],"data":[%d]}]}'


def replies(share: float = 1.0, *, is_text: bool = False, **more: Any) -> Replies:
    checks = AnswerChecks(
        (AnswerCheck("regex", r"\b1\b"),), share, is_text=is_text, datatypes={"OUT": "INT32"}
    )
    judge = AnswerJudge(checks, (b"",))
    return Replies(more.get("checker"), more.get("spool"), judge=judge, judges_all=share >= 1)


def test_only_the_replies_of_the_sample_are_read() -> None:
    reading = replies(0.1)
    assert reading.is_sampled
    assert not reading.reads_next
    reading.begin_check(0, 0)
    assert reading.reads_next
    assert reading.wants(0)
    reading.end_check()
    assert not reading.reads_next


@pytest.mark.parametrize(
    ("body", "verdict"), [(BODY % 1, status.RIGHT), (BODY % 2, status.FALSE), (b"{", status.FALSE)]
)
def test_a_wrong_answer_is_still_a_good_reply(body: bytes, verdict: int) -> None:
    reading = replies()
    assert reading.wants(0)
    assert reading.judge_http(0, 0, 0, bytearray(body), None) == (status.OK, "")
    found = reading.verdict(0)
    assert found.code == verdict
    assert bool(found.text) == (verdict == status.FALSE)
    assert reading.verdict(0).code == status.UNCHECKED  # of the next request


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(answer="1 and only"), status.RIGHT),
        (Reply(answer=""), status.FALSE),
        (Reply(texts=((0, b"say "), (1, b"1"))), status.RIGHT),  # a server whose replies are plain text
    ],
)
def test_text_is_judged_from_the_answer_or_the_reply(reply: Reply, verdict: int) -> None:
    reading = replies(is_text=True)
    assert reading.wants(0)
    reading.judge_text(0, 0, reply)
    assert reading.verdict(0).code == verdict


def test_the_first_wrong_response_of_a_stream_decides() -> None:
    reading = replies()
    assert reading.wants(0)
    for number in (1, 2, 1):
        reading.judge_http(0, 0, 0, bytearray(BODY % number), None)
    assert reading.verdict(0).code == status.FALSE


def test_every_reply_is_read_for_an_export_but_only_the_sample_is_judged(tmp_path: Any) -> None:
    with (tmp_path / "spool").open("wb") as file:
        reading = replies(0.2, spool=Spool(file.fileno()))
        assert not reading.is_sampled
        codes = []
        for number in range(500):
            if number % 5 == 0:
                reading.begin_check(0, 0)
            assert reading.reads_next
            assert reading.wants(0)
            reading.end_check()
            reading.judge_http(0, 0, 0, bytearray(BODY % 1), None)
            codes.append(reading.verdict(0).code)
    assert codes == [status.RIGHT, *[status.UNCHECKED] * 4] * 100


def test_validation_data_still_fails_its_requests() -> None:
    reading = replies(checker=Checker(Validation(((),))))
    assert not reading.is_sampled
    assert reading.wants(0)


def test_a_verdict_shares_the_cell_of_the_status() -> None:
    from array import array

    from inferometer.records.ring import of_which

    rows = array("q")
    outcomes = [
        (status.OK, status.UNCHECKED),
        (status.OK, status.FALSE),
        (status.HTTP + 503, status.UNCHECKED),
    ]
    for number, (code, verdict) in enumerate(outcomes):
        rows.extend((1, 2, 3, 4, 5 + number, of_which(code, verdict), 0, 7, 1, 0, 0, 0, 0, 0))
    found = from_cells(rows, array("q"))
    assert list(zip(found.status.tolist(), found.checked.tolist(), strict=True)) == outcomes
    assert len(found.good) == 2
