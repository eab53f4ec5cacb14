"""Proposals of brute, quick and optuna, against the contract's acceptance cases."""

import math
from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.tune.prepare import choose
from inferometer.tune.scoring import Constraint, Goal, passes, rank
from inferometer.tune.search import candidates
from inferometer.tune.search.brute import brute
from inferometer.tune.search.optuna_search import limits, optuna_search
from inferometer.tune.search.quick import knobs, quick
from inferometer.tune.search.search import ModelProblem, SearchProblem, formula
from inferometer.tune.settings import OptunaLimits, SearchSettings
from inferometer.tune.space import SearchBounds, automatic, manual
from inferometer.tune.variant import VariantNames
from tests.unit.tune.scripted import N, W, drive, server

BOUNDED = SearchBounds(instances=(1, 2), batch=(1, 4), concurrency=(1, 8))


def scope_of(base=W, bounds=BOUNDED, *, swept=None, constraints=(), **settings) -> SearchProblem:
    name = base["name"]
    if swept is None:
        space = automatic(name, base, bounds, cpu_only=True)
    else:
        space = manual(name, base, swept, where="w", cpu_only=True)
    task = ModelProblem(
        space, Goal(name, constraints=constraints), settings.pop("batches", (1,)), settings.pop("loads", None)
    )
    return SearchProblem((task,), SearchSettings(bounds=bounds, **settings))


def limit(ms: float) -> tuple[Constraint, ...]:
    return (Constraint("perf_latency_p99", high=ms),)


# --- brute


def test_brute_covers_the_contracts_space():
    found = drive(brute(scope_of(), VariantNames()), server)
    assert found.names == ["W_config_default", *(f"W_config_{number}" for number in range(6))]
    assert len(found.trials) == 28
    settings = [
        (
            proposal.variants[0].config["instance_group"][0]["count"],
            proposal.variants[0].config["max_batch_size"],
        )
        for proposal in found.proposals[4::4]
    ]
    assert settings == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]
    assert all(found.loads(name) == [1, 2, 4, 8] for name in found.names)


def test_a_load_sweep_stops_on_a_plateau():
    bounds = SearchBounds(instances=(1, 1), batch=(1, 1))
    found = drive(brute(scope_of(bounds=bounds), VariantNames()), lambda variant, load: (100.0, 1.0))
    assert all(found.loads(name) == [1, 2, 4, 8] for name in found.names)
    assert "No longer increasing concurrency as throughput has plateaued" in found.said


@pytest.mark.parametrize(("ends", "loads"), [(True, [1, 2]), (False, [1, 2, 4, 8])])
def test_a_load_sweep_ends_at_a_violated_limit_if_allowed(ends, loads):
    scope = scope_of(
        bounds=SearchBounds(instances=(1, 1), batch=(1, 1), concurrency=(1, 8)),
        constraints=limit(15.0),
        ends_at_limit=ends,
        binary_steps=0,
    )
    found = drive(brute(scope, VariantNames()), lambda variant, load: (100 * load.value, 10 * load.value))
    assert found.loads("W_config_default") == loads


def test_batch_sizes_stop_at_falling_throughput_and_restart_for_the_next_count():
    def falling(variant, load):
        return 100.0 * load.value / max(1, variant.config["max_batch_size"] - 1), 1.0

    bounds = SearchBounds(instances=(1, 2), batch=(1, 8), concurrency=(1, 2))
    found = drive(brute(scope_of(bounds=bounds), VariantNames()), falling)
    tried = [
        (
            proposal.variants[0].config["instance_group"][0]["count"],
            proposal.variants[0].config["max_batch_size"],
        )
        for proposal in found.proposals[2::2]
    ]
    assert tried == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert any("max_batch_size" in text for text in found.said)


def test_a_manual_sweep_covers_every_combination_with_every_listed_load():
    swept = {
        "max_batch_size": [4, 8],
        "dynamic_batching": {"max_queue_delay_microseconds": [100, 200]},
        "instance_group": [{"kind": "KIND_CPU", "count": [1, 2]}],
    }
    found = drive(
        brute(scope_of(swept=swept, loads=(4, 2)), VariantNames()), lambda variant, load: (100.0, 1.0)
    )
    assert len(found.names) == 9
    assert len(found.trials) == 18
    assert all(found.loads(name) == [2, 4] for name in found.names)


def test_with_the_search_off_only_the_default_runs():
    found = drive(brute(scope_of(is_search_on=False, loads=(2, 4, 6)), VariantNames()), server)
    assert found.names == ["W_config_default"]
    assert found.loads("W_config_default") == [2, 4, 6]


def test_client_batches_above_the_models_are_skipped():
    scope = scope_of(is_search_on=False, batches=(1, 2, 16))
    found = drive(brute(scope, VariantNames()), server)
    assert [trial.load.batch for trial in found.trials] == [1, 2]
    assert found.skipped == ["the client batch size 16 is larger than max_batch_size 8"]
    assert "Skipping illegal run configuration" in found.said


def test_a_failed_run_ends_only_the_loads_of_its_variant():
    def broken(variant, load):
        return None if load.value == 4 and variant.name == "W_config_1" else server(variant, load)

    found = drive(brute(scope_of(), VariantNames()), broken)
    assert found.loads("W_config_1") == [1, 2, 4]
    assert found.loads("W_config_4") == [1, 2, 4, 8]


def test_a_latency_limit_is_bisected():
    def linear(variant, load):
        return 100.0 * load.value, load.value  # p99 is the concurrency

    scope = scope_of(
        bounds=SearchBounds(instances=(1, 1), batch=(1, 1), concurrency=(1, 32)), constraints=limit(11.0)
    )
    found = drive(brute(scope, VariantNames()), linear)
    for name in found.names:
        extra = [value for value in found.loads(name) if value not in (1, 2, 4, 8, 16, 32)]
        assert extra == [12, 10, 11]
        assert all(8 < value < 16 for value in extra)
    best = rank(scope.goals, found.trials)[0].best
    assert best.load.concurrency == 11


@pytest.mark.parametrize("highest", [1, 2, 3, 8])
def test_an_unreachable_limit_ends_cleanly(highest):
    bounds = SearchBounds(instances=(1, 1), batch=(1, 1), concurrency=(1, highest))
    found = drive(brute(scope_of(bounds=bounds, constraints=limit(0.001)), VariantNames()), server)
    assert found.trials
    assert not any(passes([Goal("W", constraints=limit(0.001))], trial) for trial in found.trials)
    assert any("cannot meet the constraints" in text for text in found.said)


def test_rates_replace_concurrencies():
    bounds = SearchBounds(instances=(1, 1), batch=(1, 2), request_rate=(64, 512))
    found = drive(
        brute(scope_of(bounds=bounds, by_rate=True), VariantNames()), lambda variant, load: (load.value, 1.0)
    )
    assert found.loads("W_config_default") == [64, 128, 256, 512]
    assert len(found.trials) == 12


def test_a_model_that_does_not_batch_has_a_variant_per_count():
    found = drive(brute(scope_of({**N, "name": "N"}), VariantNames()), server)
    assert found.names == ["N_config_default", "N_config_0", "N_config_1"]
    changed = [proposal.variants[0].config for proposal in found.proposals[4:]]
    assert not any("max_batch_size" in config or "dynamic_batching" in config for config in changed)


# --- quick


def test_quick_finds_the_best_corner_in_few_runs():
    scope = scope_of(bounds=SearchBounds(instances=(1, 2), batch=(1, 4), concurrency=(1, 32)))
    found = drive(quick(scope, VariantNames()), server)
    best = rank(scope.goals, found.trials)[0]
    config = next(row.variants[0] for row in found.proposals if row.variants[0].name == best.name).config
    assert (config["instance_group"][0]["count"], config["max_batch_size"]) == (2, 4)
    assert len(found.trials) <= 20
    assert max(found.loads(best.name)) >= 16


def test_quick_stays_within_the_users_bounds():
    found = drive(quick(scope_of(), VariantNames()), server)
    assert max(trial.load.value for trial in found.trials) <= 8
    assert {row.variants[0].config["max_batch_size"] for row in found.proposals} <= {1, 2, 4, 8}


def test_quick_varies_the_members_of_an_ensemble():
    ensemble = {"name": "E", "platform": "ensemble", "max_batch_size": 4, "ensemble_scheduling": {"step": []}}
    members = tuple(
        ModelProblem(automatic(name, {**W, "name": name}, BOUNDED, cpu_only=True), Goal(name))
        for name in "AS"
    )
    task = ModelProblem(automatic("E", ensemble, BOUNDED, cpu_only=True), Goal("E"), members=members)
    scope = SearchProblem((task,), SearchSettings(bounds=BOUNDED))
    assert [knob.model for knob in knobs(scope)] == ["A", "A", "S", "S"]

    def slowest(variant, load):
        return min(server(part, load) for part in variant.composing)

    name, steps = choose("brute", scope, VariantNames())
    found = drive(steps, slowest)
    assert name == "quick"
    for proposal in found.proposals[1:]:
        (variant,) = proposal.variants
        if not variant.is_default:
            assert variant.config["max_batch_size"] == min(
                part.config["max_batch_size"] for part in variant.composing
            )
    assert any(row.variants[0].title.startswith("E_config_0: A_config_") for row in found.proposals)


def test_smart_expects_more_from_an_ensemble_with_more_instances():
    ensemble = {"name": "E", "platform": "ensemble", "max_batch_size": 4, "ensemble_scheduling": {"step": []}}
    members = tuple(
        ModelProblem(automatic(name, {**W, "name": name}, BOUNDED, cpu_only=True), Goal(name))
        for name in "AS"
    )
    space = replace(automatic("E", ensemble, BOUNDED, cpu_only=True), parameters=())
    task = ModelProblem(space, Goal("E"), members=members)
    made = candidates.make(SearchProblem((task,), SearchSettings(bounds=BOUNDED)), VariantNames())
    for number, instances in zip(made.which, made.points.instances, strict=True):
        counts = [
            part.config["instance_group"][0]["count"]
            for part in made.configurations[number].variants[0].composing
        ]
        assert instances == pytest.approx(math.prod(counts) ** 0.5)


def _endless(variant, load):
    """Throughput that always grows: only the bounds end the climb."""
    room = variant.config["instance_group"][0]["count"] * variant.config["max_batch_size"]
    return float(room), 1.0


def test_quick_stays_within_the_default_bounds():
    found = drive(quick(scope_of(bounds=SearchBounds()), VariantNames()), _endless)
    configs = [row.variants[0].config for row in found.proposals]
    assert max(config["instance_group"][0]["count"] for config in configs) == 5
    assert max(config["max_batch_size"] for config in configs) == 128
    assert max(trial.load.value for trial in found.trials) == 1024


@pytest.mark.parametrize("counts", [(1, 4), (4, 1)])
def test_the_load_of_an_ensemble_covers_all_its_members(counts):
    names, base = VariantNames(), {"name": "E", "platform": "ensemble", "ensemble_scheduling": {"step": []}}
    members = tuple(
        names.variant(
            name, {**W, "name": name}, {"instance_group": [{"count": count}], "max_batch_size": 2 * count}
        )
        for name, count in zip("AS", counts, strict=True)
    )
    ensemble = names.variant("E", base, {"max_batch_size": 2}, composing=members)
    assert formula(scope_of(bounds=SearchBounds()), ensemble) == 2 * (1 * 2 + 4 * 8)


@pytest.mark.parametrize(
    ("counts", "values"), [([1, 4], (1, 2, 4)), ([2, 3, 4], (2, 3, 4)), ([1, 3], None), ([5], (5,))]
)
def test_listed_counts_of_a_member_are_powers_or_consecutive(counts, values):
    swept = {"instance_group": [{"kind": "KIND_CPU", "count": counts}]}
    scope = scope_of(swept=swept)
    if values is None:
        with pytest.raises(UsageError, match="neither powers of two nor consecutive"):
            knobs(scope)
    else:
        assert knobs(scope)[-1].values == values


# --- optuna


def test_optuna_respects_its_limits_and_never_measures_twice():
    bounds = SearchBounds(instances=(1, 3), batch=(1, 4), concurrency=(1, 8))
    scope = scope_of(bounds=bounds, optuna=OptunaLimits(max_trials=6), sweep_after=False)
    found = drive(optuna_search(scope, VariantNames()), server)
    assert "Number of configs in search space: 36" in found.said
    assert len(found.trials) <= 7
    assert len({proposal.key for proposal in found.proposals}) == len(found.proposals)


def test_optuna_is_deterministic_with_a_seed():
    scope = scope_of(optuna=OptunaLimits(max_trials=5), sweep_after=False, seed=3)
    once, again = (drive(optuna_search(scope, VariantNames()), server) for _ in range(2))
    assert [row.key for row in once.proposals] == [row.key for row in again.proposals]


def test_optuna_prefers_configurations_that_meet_the_constraints():
    scope = scope_of(
        bounds=SearchBounds(instances=(1, 4), batch=(1, 16), concurrency=(1, 64)),
        constraints=limit(15.0),
        optuna=OptunaLimits(max_trials=30),
    )
    found = drive(optuna_search(scope, VariantNames()), server)
    assert rank(scope.goals, found.trials)[0].does_pass


@pytest.mark.parametrize(
    ("given", "total", "expected"),
    [
        (OptunaLimits(), 1000, (50, 100)),
        (OptunaLimits(), 36, (1, 3)),
        (OptunaLimits(), 4, (1, 1)),
        (OptunaLimits(max_trials=6), 36, (1, 6)),
        (OptunaLimits(max_trials=60, is_percent_given=True), 100, (5, 10)),
        (OptunaLimits(min_trials=2, max_trials=20), 100, (2, 20)),
    ],
)
def test_trial_limits(given, total, expected):
    assert limits(given, total) == expected


def test_the_formula_stays_within_the_bounds():
    scope = scope_of(optuna=OptunaLimits(max_trials=6, use_formula=True), sweep_after=False)
    found = drive(optuna_search(scope, VariantNames()), server)
    assert max(trial.load.value for trial in found.trials) <= 8


def test_an_unknown_search_is_named():
    with pytest.raises(UsageError, match="'fast'"):
        choose("fast", scope_of(), VariantNames())
