"""Conditions of a regression: parsing, errors with their position, and judgement."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.compare.comparison import (
    FAILED,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    PASSED,
    Contrast,
    Difference,
    LevelDifference,
    OutputSimilarity,
)
from inferometer.compare.gates import judge, parse_gates
from inferometer.stats.binomial import share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.slo_outcome import CheckFigures


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99 > +5%", [("p99", True, 5.0)]),
        ("p99>5 %", [("p99", True, 5.0)]),
        ("throughput < -3%", [("throughput", False, -3.0)]),
        ("P50 >= 1.5%, snr<40", [("p50", True, 1.5), ("snr", False, 40.0)]),
        ("top1 < 99%, exact < 100%", [("top1", False, 0.99), ("exact", False, 1.0)]),
        ("errors > 0.1%", [("errors", True, pytest.approx(0.001))]),
        ("max_abs > 1e-3", [("max_abs", True, 0.001)]),
    ],
)
def test_conditions_are_read(text, expected):
    assert [(gate.name, gate.is_above, gate.limit) for gate in parse_gates(text)] == expected


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("sped < 4", 0, "'sped' is not a figure"),
        ("p99 > +5%, sped < 4", 11, "'sped' is not a figure"),
        ("p99 5%", 4, "must be followed by < or >"),
        ("p99 > fast", 6, "'fast' is not a number"),
        ("p99 > 5", 6, "needs a %"),
        ("snr < 40%", 6, "does not take a percentage"),
        ("errors > 1", 9, "'errors' is a share, so '1' needs a %; write 1%"),
        ("relative > 0.01", 11, "needs a %"),
        ("wrong > 1", 8, "'wrong' is a share, so '1' needs a %; write 1%"),
        ("errors > -1%", 9, "'errors' is a share, never '-1%'; write one from 0% to 100%"),
        ("top1 < 150%", 7, "never '150%'"),
        ("p99 > 5%,", 9, "a condition is missing"),
        ("", 0, "a condition is missing"),
        ("p100 > 5%", 0, "'p100' is not a figure"),
        ("p99 > nan%", 6, "'nan%' is not a number"),
    ],
)
def test_errors_point_at_the_mistake(text, place, words):
    with pytest.raises(UsageError) as caught:
        parse_gates(text)
    message = str(caught.value)
    assert words in message
    *_, shown, caret = message.split("\n")
    assert shown == f"  {text}"
    assert caret == " " * (2 + place) + "^"


def outcome(text, *, percent=None, outputs=(), metric="p99", levels=()):
    row = Difference(metric, 1.0, 1.0, percent or Estimate(0.0), NO_DIFFERENCE)
    contrast = Contrast("b", (LevelDifference("concurrency", 1, (row,)),), NO_DIFFERENCE, tuple(outputs))

    variant: Any = SimpleNamespace(name="b", result=SimpleNamespace(failed_share=0.01, levels=levels))
    (found,) = judge(parse_gates(text), [contrast], [variant])
    return found.outcome


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("p99 > +5%", 6, 9, FAILED),
        ("p99 > +5%", 4, 9, INCONCLUSIVE),
        ("p99 > +5%", -4, 4, PASSED),
        ("p99 > +5%", None, None, INCONCLUSIVE),
        ("throughput < -3%", -9, -4, FAILED),
        ("throughput < -3%", -9, -1, INCONCLUSIVE),
        ("throughput < -3%", -2, 30, PASSED),
    ],
)
def test_speed_is_judged_by_the_whole_interval(text, low, high, expected):
    middle = 0.0 if low is None else (low + high) / 2
    assert outcome(text, percent=Estimate(middle, low, high), metric=text.split()[0]) == expected


def test_a_figure_that_was_not_measured_is_inconclusive():
    assert outcome("p90 > 5%") == INCONCLUSIVE
    assert outcome("snr < 40") == INCONCLUSIVE


@pytest.mark.parametrize(
    ("text", "output", "expected"),
    [
        ("snr < 40", {"snr_db": 30.0}, FAILED),
        ("snr < 40", {"snr_db": 50.0}, PASSED),
        ("snr < 40", {"exact": 1.0}, PASSED),  # identical: without noise
        ("snr < 40", {"problem": "shape 2 became 1"}, FAILED),
        ("snr < 40", {"snr_db": 50.0, "non_finite": 1}, FAILED),
        ("snr < 40", {"exact": 0.5}, INCONCLUSIVE),  # strings have no noise ratio
        ("exact < 100%", {"exact": 0.5}, FAILED),
        ("top1 < 99%", {"top1": 0.995}, PASSED),
        ("max_abs > 0.1", {"max_abs": 0.2}, FAILED),
    ],
)
def test_outputs_are_judged_by_their_value(text, output, expected):
    assert outcome(text, outputs=[OutputSimilarity("OUT", "FP32", 1, 2, **output)]) == expected


@pytest.mark.parametrize(
    ("text", "counts", "expected"),
    [
        ("errors > 0.1%", ((0, 500), (10, 490)), FAILED),  # of all levels together
        ("errors > 2%", ((0, 5000), (20, 4980)), PASSED),
        ("errors > 0.1%", ((0, 30),), PASSED),  # without failures, there is nothing to judge
        ("errors > 1%", ((1, 49),), INCONCLUSIVE),  # 0.05 to 11 %
        ("errors > 5%", ((1, 49),), INCONCLUSIVE),
        ("errors > 0%", ((1, 49),), FAILED),
        ("errors > 1%", (), INCONCLUSIVE),
    ],
)
def test_errors_are_judged_by_the_interval_of_their_share(text, counts, expected):
    levels = [
        SimpleNamespace(measurement=SimpleNamespace(failed_count=failed, request_count=good))
        for failed, good in counts
    ]
    assert outcome(text, levels=levels) == expected


@pytest.mark.parametrize(
    ("text", "counts", "expected"),
    [
        ("wrong > 1%", ((0, 400), (40, 600)), FAILED),  # of all levels together
        ("wrong > 1%", ((0, 400), (0, 600)), PASSED),
        ("wrong > 1%", ((0, 100),), INCONCLUSIVE),  # up to 3.6 % may be wrong
        ("wrong > 1%", ((12, 1000),), INCONCLUSIVE),
        ("wrong > 1%", (), INCONCLUSIVE),
    ],
)
def test_wrong_answers_are_judged_by_the_interval_of_their_share(text, counts, expected):
    levels = [
        SimpleNamespace(
            value=number,
            measurement=SimpleNamespace(checks=CheckFigures(total, wrong, share_estimate(wrong, total))),
        )
        for number, (wrong, total) in enumerate(counts)
    ]
    assert outcome(text, levels=levels) == expected
