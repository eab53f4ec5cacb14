"""Which trial is better, and by how much: figures that can be checked by hand."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.scoring import (
    Constraint,
    Goal,
    best_first,
    gain,
    gain_of_runs,
    is_better,
    objectives,
    passes,
    rank,
    score,
    violation,
)
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart


def part(
    throughput: float, p99: float, *, model: str = "m", variant: str = "v", spread: float = 0.0
) -> TrialPart:
    values = (
        (THROUGHPUT, Estimate(throughput, throughput - spread, throughput + spread)),
        (LATENCY_P99, Estimate(p99, p99 - spread, p99 + spread)),
    )
    return TrialPart(model, variant, ClientLoad(concurrency=1), Figures(values))


def trial(*parts: TrialPart, number: int = 1, repeat: int = 0) -> Trial:
    return Trial(number, parts, repeat=repeat)


FAST, SLOW = trial(part(300, 20, variant="fast")), trial(part(100, 10, variant="slow"))


def test_score_is_the_difference_relative_to_the_mean():
    assert score([Goal("m")], FAST, SLOW) == 1.0  # 200 of a mean of 200
    assert score([Goal("m")], SLOW, FAST) == -1.0
    low = Goal("m", ((LATENCY_P99, 10.0),))
    assert score([low], SLOW, FAST) == pytest.approx(2 / 3)  # less is better: 10 of a mean of 15


def test_objectives_are_weighted():
    both = Goal("m", ((THROUGHPUT, 3.0), (LATENCY_P99, 1.0)))
    assert score([both], FAST, SLOW) == pytest.approx(0.75 * 1.0 - 0.25 * 2 / 3)


def test_weights_are_above_zero_and_equal_for_lists():
    assert objectives({THROUGHPUT: 0.5, LATENCY_P99: 2}, "here") == ((THROUGHPUT, 0.5), (LATENCY_P99, 2.0))
    listed = objectives([THROUGHPUT, LATENCY_P99], "here")
    assert len({weight for _, weight in listed}) == 1
    for weight in (0, -1):
        with pytest.raises(UsageError, match=f"has the weight {weight}"):
            objectives({THROUGHPUT: weight}, "here")


def test_models_are_weighted():
    first = trial(part(300, 1, model="a"), part(100, 1, model="b"))
    second = trial(part(100, 1, model="a"), part(300, 1, model="b"))
    assert score([Goal("a", weight=3.0), Goal("b", weight=1.0)], first, second) == pytest.approx(0.5)
    assert score([Goal("a"), Goal("b")], first, second) == 0.0
    assert gain([Goal("a", weight=3.0), Goal("b", weight=1.0)], first, second) == pytest.approx(
        0.75 * 200 - 0.25 * 200 / 3
    )


def test_a_figure_measured_only_once_decides():
    unknown = trial(TrialPart("m", "v", ClientLoad(concurrency=1)))
    assert score([Goal("m")], SLOW, unknown) == 1.0
    assert score([Goal("m")], unknown, SLOW) == -1.0
    assert score([Goal("m")], unknown, unknown) == 0.0


def test_violation_is_in_percent_of_the_bound():
    goal = Goal("m", constraints=(Constraint(LATENCY_P99, high=16.0), Constraint(THROUGHPUT, low=200.0)))
    assert violation([goal], FAST) == 25.0  # 20 instead of 16
    assert violation([goal], SLOW) == 50.0  # 100 instead of 200
    assert violation([Goal("m", constraints=(Constraint(LATENCY_P99, high=20.0),))], FAST) == 0.0
    assert passes([Goal("m", constraints=(Constraint(LATENCY_P99, high=20.0),))], FAST)
    assert Constraint(LATENCY_P99, high=0.0).violation(1.0) == float("inf")


def test_constraints_take_precedence_over_objectives():
    goals = [Goal("m", constraints=(Constraint(LATENCY_P99, high=15.0),))]
    assert is_better(goals, SLOW, FAST)
    assert not is_better(goals, FAST, SLOW)
    assert is_better([Goal("m")], FAST, SLOW)
    assert not is_better([Goal("m")], FAST, FAST)
    assert best_first(goals, [FAST, SLOW]) == [SLOW, FAST]
    assert best_first([Goal("m")], [SLOW, FAST]) == [FAST, SLOW]
    assert [row.name for row in rank(goals, [FAST, SLOW])] == ["slow", "fast"]
    assert [row.does_pass for row in rank(goals, [FAST, SLOW])] == [True, False]


def test_scores_are_discounted_by_luck():
    more, less = trial(part(110, 10, variant="more")), trial(part(100, 10, variant="less"))
    goals = [Goal("m")]
    assert best_first(goals, [less, more], lambda row: 0.2) == [more, less]
    assert best_first(goals, [less, more], lambda row: 0.2 if row is more else 0.0) == [less, more]


def test_of_three_runs_none_is_lucky():
    runs = [trial(part(100 + n, 10, variant="thrice"), number=n + 1, repeat=n) for n in range(3)]
    once = trial(part(90, 10, variant="once"), number=9)
    assert [row.name for row in rank([Goal("m")], [once, *runs])] == ["thrice", "once"]


def test_equal_trials_keep_their_order():
    rows = [trial(part(100, 10, variant=name)) for name in "abcd"]
    assert best_first([Goal("m")], rows) == rows


def test_gain_is_in_percent_of_the_other_with_the_intervals_lower_bound():
    first, second = trial(part(300, 20, spread=30)), trial(part(100, 10, spread=20))
    assert gain([Goal("m")], first, second) == 200.0
    assert gain([Goal("m")], first, second, is_least=True) == pytest.approx(125.0)  # 270 against 120
    low = Goal("m", ((LATENCY_P99, 1.0),))
    assert gain([low], SLOW, FAST) == 100.0  # twice as fast
    assert gain([low], FAST, SLOW) == -50.0


def test_repeats_are_pooled_and_failed_trials_left_out():
    one, two = trial(part(100, 10)), trial(part(200, 10), number=2, repeat=1)
    failed = Trial(3, (part(900, 1),), Status.FAILED)
    (row,) = rank([Goal("m")], [one, two, failed])
    assert row.best.value(THROUGHPUT) == 150.0


def test_a_limit_is_the_upper_bound_of_a_metric():
    rows = (Constraint(THROUGHPUT, low=5.0), Constraint(LATENCY_P99, high=7.0))
    assert Goal("m", constraints=rows).limit(LATENCY_P99) == 7.0
    assert Goal("m", constraints=rows).limit(THROUGHPUT) is None


@pytest.mark.parametrize(
    ("single", "best"),
    [
        (
            105,
            "repeated",
        ),  # a score of 0.049; the repeats, 110 and 90, are 0.14 apart, and of those half is believed
        (135, "single"),
    ],
)
def test_a_single_run_wins_only_by_more_than_repeats_differ(single, best):
    runs = [trial(part(rate, 10, variant="repeated"), repeat=repeat) for repeat, rate in enumerate((110, 90))]
    found = rank([Goal("m")], [*runs, trial(part(single, 10, variant="single"))])
    assert found[0].name == best
    assert [row.name for row in rank([Goal("m")], [runs[0], trial(part(111, 10, variant="single"))])] == [
        "single",
        "repeated",
    ]


@pytest.mark.parametrize("runs", [(100.0,), (100.0, 101.0), (100.0, 130.0)])
def test_a_gain_is_judged_with_the_prior_of_the_throughput(runs):
    """Two repeats that happen to be close, or far apart, do not determine the interval alone."""
    base = [trial(part(rate, 10, variant="base"), repeat=n) for n, rate in enumerate(runs)]
    best = [trial(part(rate * 2, 10, variant="best"), repeat=n) for n, rate in enumerate(runs)]
    first, second = (row.best for row in rank([Goal("m")], [*base, *best]))
    found = gain_of_runs([Goal("m")], [*base, *best], first, second)
    assert found.value == pytest.approx(100)
    assert found.low is not None
    assert found.high is not None
    assert -10 < found.low < 95
    assert 105 < found.high < 350


def test_a_single_run_with_a_wide_interval_shows_no_gain():
    one, other = trial(part(150, 10, variant="a", spread=100)), trial(part(100, 10, variant="b"))
    found = gain_of_runs([Goal("m")], [one, other], one, other)
    assert found.low is not None
    assert found.low < -40


def test_a_gain_adds_up_the_shares_of_a_goal():
    both = Goal("m", ((THROUGHPUT, 3.0), (LATENCY_P99, 1.0)))
    assert gain([both], FAST, SLOW) == pytest.approx(0.75 * 200 - 0.25 * 50)
