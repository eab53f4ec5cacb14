"""The smart search on several simulated servers: the same result as on one, in part of the time."""

import statistics
from dataclasses import replace

import pytest

from inferometer.tune.scoring import rank
from tests.support.landscape import Landscape, SimulatedTrials
from tests.support.parallel_search import answer, search_in_parallel
from tests.support.samples import sample
from tests.support.simulated_search import LOADINGS, exhaustive, scope_of, search


@pytest.mark.sampled
@pytest.mark.parametrize("loading", sample(LOADINGS[1:2], LOADINGS))
def test_four_servers_find_the_same_result_in_less_than_0_4_of_the_time(loading):
    """A sample; `python -m tests.support.parallel_search` uses a hundred landscapes."""
    one = [answer(seed, loading, servers=1) for seed in range(3)]
    four = [answer(seed, loading, servers=4) for seed in range(3)]
    assert statistics.mean(row.share for row in four) > statistics.mean(row.share for row in one) - 0.02
    assert sum(row.spent_s for row in four) <= 0.4 * sum(row.spent_s for row in one)


def test_the_search_on_one_server_is_unchanged():
    landscape = Landscape.varied(3)
    scope = scope_of(3, exhaustive(landscape, 3)[0])
    plain, _, _ = search(scope, SimulatedTrials(landscape, 3))
    alone, _, _, spent_s = search_in_parallel(scope, [SimulatedTrials(landscape, 3).answer])
    assert [replace(trial, server=None) for trial in alone] == plain
    assert spent_s == pytest.approx(sum(trial.cost_s for trial in plain))


@pytest.mark.parametrize("budget_s", [8.0, 20.0])
def test_all_servers_together_stay_within_a_budget(budget_s):
    simulated = [SimulatedTrials(Landscape.drawn(4), 4).answer for _ in range(4)]
    trials, _, _, spent_s = search_in_parallel(scope_of(4, budget_s=budget_s), simulated)
    assert spent_s <= budget_s
    assert rank(scope_of(4).goals, trials)


def test_configurations_that_cannot_be_loaded_do_not_affect_the_result():
    scope = scope_of(7)
    fails = ("m_config_default", "m_config_3")
    simulated = [SimulatedTrials(Landscape.drawn(7), 7, fails=fails).answer for _ in range(3)]
    trials, _, _, _ = search_in_parallel(scope, simulated)
    failed = [trial.name for trial in trials if not trial.is_measured]
    assert set(failed) <= set(fails)
    assert failed.count("m_config_default") == 1
    assert rank(scope.goals, trials)


def test_the_search_ends_if_nothing_can_be_loaded():
    fails = ("m_config_default", *(f"m_config_{number}" for number in range(200)))
    simulated = [SimulatedTrials(Landscape.drawn(7), 7, fails=fails).answer for _ in range(3)]
    trials, _, ended, _ = search_in_parallel(scope_of(7), simulated)
    assert ended == "no configuration could be measured"
    assert len(trials) < 100
