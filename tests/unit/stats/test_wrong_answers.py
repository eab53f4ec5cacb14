"""Wrong answers of a run: the level at which they begin, their SLO, and no alarms about servers that are right."""

import random
from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.notes import Note
from inferometer.base.slo import parse_slo
from inferometer.stats.binomial import share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import Level
from inferometer.stats.promises import judge
from inferometer.stats.series import Series
from inferometer.stats.slo_outcome import CheckFigures
from inferometer.stats.windows import Window
from inferometer.stats.wrong_answers import maybe_onset, onset_words, with_onset, wrong_answers
from tests.support.reports import sample_result

FOUND = sample_result().levels[0].measurement


def level(
    value: float, wrong: int, checked: int, mode: str = "concurrency", *, is_exact: bool = True
) -> Level:
    assert FOUND is not None
    share = share_estimate(wrong, checked) if is_exact and checked else Estimate(0.0)
    checks = CheckFigures(checked, wrong, share) if checked else None
    return Level(mode, value, replace(FOUND, checks=checks), (), True, False)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            ((8, 0, 400), (16, 19, 620)),
            "wrong answers begin at 16 in flight: 3.1 % (1.9 % to 4.7 %) of 620 checked; none of 400 at 8",
        ),
        (
            ((1, 0, 100), (16, 19, 620), (4, 0, 200), (8, 0, 100)),
            "wrong answers begin at 16 in flight: 3.1 % (1.9 % to 4.7 %) of 620 checked; none of 400 up to 8",
        ),
        (
            ((8, 4, 400), (16, 62, 620)),
            "wrong answers begin at 16 in flight: 10 % (7.8 % to 13 %) of 620 checked; 1.0 % of 400 at 8",
        ),
        (((8, 0, 400), (16, 1, 620)), ""),  # one wrong answer may be chance
        (((8, 12, 400), (16, 19, 620)), ""),  # as wrong at the lower level
        (((8, 0, 0), (16, 19, 620)), ""),  # nothing is known about lower levels
        (((16, 19, 620),), ""),
        (((8, 40, 400), (16, 0, 620)), ""),
        ((), ""),
    ],
)
def test_the_level_at_which_wrong_answers_begin(rows: tuple[tuple[int, int, int], ...], words: str) -> None:
    levels = [level(*row) for row in rows]
    onset = maybe_onset(levels)
    assert ("" if onset is None else onset_words(onset)) == words
    remarks = {
        row.value: [remark.text for remark in row.remarks] for row in with_onset(levels) if row.remarks
    }
    assert remarks == ({16: [words]} if words else {})


def test_levels_of_a_rate_are_named_by_it() -> None:
    onset = maybe_onset([level(50, 0, 500, "request_rate"), level(100, 50, 500, "request_rate")])
    assert onset is not None
    assert onset_words(onset).startswith("wrong answers begin at 100 requests/s: ")


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_servers_that_are_equally_right_at_every_load_raise_no_alarm(share: float) -> None:
    source = random.Random(36)
    for _ in range(100):
        rows = [(value, source.randrange(1, 300)) for value in (1, 2, 4, 8, 16)]
        counts = [(value, sum(source.random() < share for _ in range(n)), n) for value, n in rows]
        levels = [level(*row, is_exact=False) for row in counts]
        assert maybe_onset(levels) is None
        assert not list(wrong_answers(levels))


def test_servers_that_become_wrong_under_load_are_found() -> None:
    source = random.Random(36)
    for _ in range(100):
        wrong = sum(source.random() < 0.1 for _ in range(300))
        rows = ((4, 0, 200), (8, 0, 200), (16, wrong, 300))
        onset = maybe_onset([level(*row, is_exact=False) for row in rows])
        assert onset is not None
        assert onset.level.value == 16


# --- the SLO


@pytest.mark.parametrize(
    ("text", "wrong", "checked", "verdict", "reason"),
    [
        ("wrong<1%", 0, 1000, "kept", ""),
        ("wrong<1%", 0, 100, "undecided", "100 answers were checked"),  # a sample: none is no proof
        ("wrong<1%", 30, 1000, "broken", ""),
        ("wrong<1%", 12, 1000, "undecided", "inside the interval"),
        ("wrong<=0%", 0, 10, "kept", ""),
        ("wrong<=0%", 1, 10, "broken", ""),
        ("wrong<1%", 0, 0, "undecided", "no answer was checked"),
        ("wrong answers < 1%", 30, 1000, "broken", ""),
    ],
)
def test_an_slo_on_wrong_answers(text: str, wrong: int, checked: int, verdict: str, reason: str) -> None:
    window = Window(0, 10**9, Series(), Series(), checked=checked, wrong=wrong)
    term = judge(parse_slo(text), window, {}).terms[0]
    assert term.verdict == verdict
    assert reason in term.reason
    assert term.name == "wrong"


@pytest.mark.parametrize("text", ["wrong>1%", "wrong<1", "wrong<0%", "wrong<100%"])
def test_an_slo_on_wrong_answers_is_a_share_with_an_upper_limit(text: str) -> None:
    with pytest.raises(UsageError):
        parse_slo(text)


def test_a_run_that_violates_the_slo_is_named_for_the_gate() -> None:
    window = Window(0, 10**9, Series(), Series(), checked=1000, wrong=100)
    broken = replace(level(4, 100, 1000), promise=judge(parse_slo("wrong<1%"), window, {}))
    assert list(wrong_answers([broken])) == ["wrong answers at 4: 10 % (8.2 % to 12 %) of 1,000 checked"]
    assert Note.WRONG_ANSWERS.advice
