"""Pairing of variants, and options that a comparison does not support."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.compare.live import CompareRequest, check_request, variants_of
from inferometer.compare.turns import FEWEST_ROUNDS, ROUNDS, PilotRun, TimeBudget, round_plans
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.checks import changed
from inferometer.measure.instrument import LoadPoint
from inferometer.options.options import Options


@pytest.mark.parametrize(
    ("models", "urls", "expected"),
    [
        (["a", "b"], [], [("a", "a", None), ("b", "b", None)]),
        (["a", "b"], ["h:1"], [("a", "a", "h:1"), ("b", "b", "h:1")]),
        (["a"], ["h:1", "h:2"], [("h:1", "a", "h:1"), ("h:2", "a", "h:2")]),
        (["a", "a"], [], [("a", "a", None), ("a (2)", "a", None)]),
        (["a@h:1", "a@h:2"], [], [("h:1", "a", "h:1"), ("h:2", "a", "h:2")]),
        (
            ["a@h:1", "b@h:2", "a@h:2"],
            [],
            [("a@h:1", "a", "h:1"), ("b@h:2", "b", "h:2"), ("a@h:2", "a", "h:2")],
        ),
        (["a", "a@h:1"], [], [("default server", "a", None), ("h:1", "a", "h:1")]),
    ],
)
def test_variants_get_the_shortest_distinct_names(models, urls, expected):
    assert [(row.name, row.model, row.url) for row in variants_of(models, urls)] == expected


@pytest.mark.parametrize(
    ("models", "urls", "words"),
    [
        (["a"], [], "two variants"),
        (["a"], ["h:1"], "two variants"),
        (["a", "b"], ["h:1", "h:2"], "MODEL@URL"),
        (["a@h:1", "b"], ["h:2"], "leave out -u"),
    ],
)
def test_invalid_comparisons_are_refused(models, urls, words):
    with pytest.raises(UsageError, match=words):
        variants_of(models, urls)


@pytest.mark.parametrize(
    "given",
    [
        {"replay": "x"},
        {"shape_load": "x"},
        {"fixed_schedule": True},
        {"workers": "auto"},
        {"precision": 0.1},
        {"binary_search": True},
        {"latency_limit_ms": 5},
        {"duration_s": None},
    ],
)
def test_unsupported_options_are_refused(given):
    with pytest.raises(UsageError):
        check_request(
            CompareRequest(
                variants_of(["a", "b"], []), changed(Options(), model="a", **{"duration_s": 1.0, **given})
            )
        )


def look(per_s, latency_ns=NS_PER_S // 100):
    return PilotRun(per_s, latency_ns)


def closed(concurrency=1):
    return LoadPoint("concurrency", concurrency, Closed(concurrency))


def test_about_equal_lanes_send_the_same_number_and_others_their_own():
    base, near, far = round_plans(
        closed(), TimeBudget(100 * NS_PER_S), [look(100), look(400), look(10)], steps=1
    )
    assert base.rounds == near.rounds == far.rounds == ROUNDS
    assert base.count == near.count == pytest.approx(200, abs=1)
    assert far.count == 10


def test_every_turn_goes_through_the_data_a_whole_number_of_times():
    (plan, _) = round_plans(closed(), TimeBudget(100 * NS_PER_S), [look(100), look(100)], steps=8)
    assert plan.count == 104
    (plan, _) = round_plans(closed(), TimeBudget(100 * NS_PER_S), [look(6), look(6)], steps=8)
    assert plan.count == 6


def test_slow_models_get_fewer_rounds_but_never_too_few():
    (plan, _) = round_plans(closed(4), TimeBudget(10 * NS_PER_S), [look(32), look(32)], steps=1)
    assert (plan.rounds, plan.count) == (20, 16)
    (plan, _) = round_plans(closed(4), TimeBudget(NS_PER_S), [look(1), look(1)], steps=1)
    assert (plan.rounds, plan.count) == (FEWEST_ROUNDS, 16)


def test_a_number_of_requests_is_divided_among_the_rounds():
    (plan, _) = round_plans(
        closed(), TimeBudget(10 * NS_PER_S, request_count=2000), [look(1), look(1)], steps=1
    )
    assert (plan.rounds, plan.count) == (ROUNDS, 20)


def test_turns_with_a_staggered_start_have_a_fixed_length():
    budget = TimeBudget(96 * NS_PER_S, ramp_ns=2 * NS_PER_S)
    plans = round_plans(closed(4), budget, [look(4, NS_PER_S), look(8, NS_PER_S // 2)], steps=1)
    assert {(plan.count, plan.turn_ns, plan.ramp_ns) for plan in plans} == {
        (None, 4 * NS_PER_S, 2 * NS_PER_S)
    }
    assert plans[0].rounds == 24


def test_turns_at_a_rate_have_a_fixed_length():
    point = LoadPoint("request_rate", 50, Open(Constant(50.0)))
    (plan, _) = round_plans(point, TimeBudget(100 * NS_PER_S), [look(50), look(50)], steps=1)
    assert (plan.count, plan.turn_ns) == (None, NS_PER_S)
    (plan, _) = round_plans(point, TimeBudget(10 * NS_PER_S), [look(50), look(50, NS_PER_S)], steps=1)
    assert (plan.rounds, plan.turn_ns) == (
        FEWEST_ROUNDS,
        4 * NS_PER_S,
    )  # replies must arrive within a turn
