"""A search repeated with its journal: which trials it reuses, and which run paid for them."""

import dataclasses
from pathlib import Path

import pytest

from inferometer.report.document import Facts
from inferometer.report.documents.study import search_section
from inferometer.tune import journal as journals
from inferometer.tune.recall import recalled
from inferometer.tune.scoring import Goal, rank
from inferometer.tune.search.search import ModelProblem, Proposal, SearchProblem
from inferometer.tune.search.smart import smart
from inferometer.tune.session import TrialRunner, key_end, run
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import BATCH, SearchBounds, automatic
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad
from inferometer.tune.variant import VariantNames
from tests.support.landscape import Landscape, SimulatedTrials, driven
from tests.support.samples import sample
from tests.support.simulated_search import scope_of
from tests.unit.tune.scripted import W
from tests.unit.tune.test_run import BOUNDS, FakeDeployment, FakeMeter, FakeServer, Trials


def problem_of(bounds: SearchBounds = BOUNDS, **settings) -> SearchProblem:
    space = automatic("W", W, bounds, cpu_only=True)
    return SearchProblem((ModelProblem(space, Goal("W")),), SearchSettings(bounds=bounds, **settings))


def proposed(names, *wanted):
    """Proposals as (batch or None for the default, concurrency, repeat)."""
    for batch, concurrency, repeat in wanted:
        changes = {} if batch is None else {BATCH: batch}
        yield Proposal(((names.variant("W", W, changes), ClientLoad(concurrency)),), repeat)


def searched(path: Path, wanted, *, sent="", bounds=BOUNDS, budget_s=None) -> Study:
    def steps(names):
        yield from proposed(names, *wanted)
        return "done"

    with journals.opened(path) as journal:
        names = VariantNames.of(journal.variants())
        known = recalled(problem_of(bounds), names, journal.trials(), key_end(sent))
        runner = TrialRunner(
            FakeDeployment(FakeServer()), FakeMeter(sent=sent), journal, names, Trials(), known=known
        )
        runner.budget_s = budget_s
        return run(runner, steps(names), Study("test", "online", "", (Goal("W"),)))


FIRST = [(None, 1, 0), (4, 8, 0), (4, 8, 1), (4, 8, 2), (2, 4, 0)]


@pytest.fixture
def path(tmp_path) -> Path:
    searched(tmp_path / "journal.sqlite", FIRST)
    return tmp_path / "journal.sqlite"


def test_a_resumed_search_returns_the_best_of_its_journal(path):
    resumed = searched(path, [(None, 1, 0), (2, 4, 0)])
    whole = searched(path.with_name("other.sqlite"), FIRST)
    assert [row.best.setting for row in resumed.ranked] == [row.best.setting for row in whole.ranked]
    assert resumed.ranked[0].best.parts == whole.ranked[0].best.parts
    assert sorted(trial.repeat for trial in resumed.trials) == [0, 0, 0, 1, 2]


def test_trials_from_the_journal_cost_nothing(path):
    resumed = searched(path, [*FIRST, (2, 2, 0)])
    assert [trial.is_recalled for trial in resumed.trials] == [True] * 5 + [False]
    assert sum(trial.spent_s for trial in resumed.trials) == resumed.trials[-1].cost_s
    costs = [dataclasses.replace(trial, cost_s=10.0) for trial in resumed.trials]
    facts = search_section(dataclasses.replace(resumed, trials=tuple(costs))).blocks[0]
    assert isinstance(facts, Facts)
    rows = dict(facts.rows)
    assert rows["Time in measurements"] == "10 s"
    assert rows["Taken from the journal"] == "5 measurements of 50 s by earlier runs"


def test_a_budget_covers_new_measurements_only(path):
    with journals.opened(path) as journal:
        spent_s = sum(trial.cost_s for trial in journal.trials())
    resumed = searched(path, [*FIRST, (2, 2, 0)], budget_s=max(spent_s / 2, 1e-9))
    assert resumed.ended == "done"


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, 5),
        ({"sent": "other data"}, 0),
        ({"bounds": SearchBounds(instances=(1, 2), batch=(1, 2), concurrency=(1, 8))}, 2),
        ({"bounds": SearchBounds(instances=(1, 2), batch=(1, 4), concurrency=(1, 4))}, 2),
    ],
)
def test_only_trials_that_the_search_could_make_are_recalled(path, changed, kept):
    found = searched(path, [], **changed)
    assert len(found.trials) == kept


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sample([4], [3, 4, 8]))
def test_a_smart_search_adds_the_trials_in_its_journal(seed):
    """A second run with a small budget is no worse than the first, and only measures new trials."""
    landscape = Landscape.varied(seed)

    def found(budget_s, known=()):
        scope = scope_of(seed, budget_s=budget_s)
        names, simulated = VariantNames(), SimulatedTrials(landscape, seed, loading=5, count=len(known))
        again = {trial.key: dataclasses.replace(trial, is_recalled=True) for trial in known}
        scope = dataclasses.replace(scope, known=tuple(again.values()))
        fresh = []

        def measure(proposal):
            if proposal.key in again:
                return again[proposal.key]
            fresh.append(simulated.answer(proposal))
            return fresh[-1]

        driven(smart(scope, names), measure)
        return scope.goals, [*again.values(), *fresh], fresh

    goals, first, _ = found(90.0)
    _, both, fresh = found(12.0, known=first)
    assert sum(trial.cost_s for trial in fresh) <= 12.0
    best = [rank(goals, trials)[0].best.combined("perf_throughput") for trials in (first, both)]
    assert best[1] >= 0.97 * best[0]
    keys = [trial.key for trial in both]
    assert len(keys) == len(set(keys))
