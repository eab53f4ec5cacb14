"""Values of the tuner: spaces, variants, trials and studies, and their round trips."""

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.errors import UsageError
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.options.tuning import TuneOptions
from inferometer.stats.estimate import Estimate
from inferometer.tune import model_config
from inferometer.tune.request import settings_of
from inferometer.tune.scoring import (
    Constraint,
    Goal,
    constraints,
    gain,
    objectives,
    passes,
    rank,
    score,
    violation,
)
from inferometer.tune.space import SearchBounds, automatic, doubling, manual
from inferometer.tune.study import Study, recommend
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart
from inferometer.tune.variant import VariantNames

TEXT = """name: "m" max_batch_size: 8 dynamic_batching { preferred_batch_size: [4] }
instance_group { count: 1 kind: KIND_CPU }"""
BASE = model_config.parse_text(TEXT, "config.pbtxt")


def trial(name: str, concurrency: int, *, number: int = 0, **values: float) -> Trial:
    figures = Figures(tuple((tag, Estimate(value)) for tag, value in values.items()))
    return Trial(number, (TrialPart("m", name, ClientLoad(concurrency=concurrency), figures),))


# --- configurations


def test_a_configuration_survives_a_round_trip():
    assert model_config.parse_text(model_config.to_text(BASE), "again") == BASE


def test_mappings_are_merged_and_everything_else_replaced():
    merged = model_config.merge(
        BASE, {"dynamic_batching": {"max_queue_delay_microseconds": 100}, "instance_group": [{"count": 2}]}
    )
    assert merged["dynamic_batching"] == {"preferred_batch_size": [4], "max_queue_delay_microseconds": 100}
    assert merged["instance_group"] == [{"count": 2}]
    assert "max_queue_delay_microseconds" not in BASE["dynamic_batching"]


def test_a_broken_configuration_names_its_file():
    with pytest.raises(UsageError, match=r"there/config\.pbtxt"):
        model_config.parse_text("max_batch_size: eight", "there/config.pbtxt")


# --- spaces


def test_the_automatic_space_varies_instances_then_batch_sizes():
    space = automatic("m", BASE, SearchBounds(instances=(1, 2), batch=(1, 4)), cpu_only=True)
    found = [
        (config["instance_group"][0]["count"], config["max_batch_size"])
        for config in map(space.overrides, space.points())
    ]
    assert found == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]


def test_a_model_that_does_not_batch_only_varies_instances():
    space = automatic("n", {"name": "n"}, SearchBounds(instances=(1, 2)), cpu_only=True)
    assert [space.overrides(point) for point in space.points()] == [
        {"instance_group": [{"count": 1, "kind": "KIND_CPU"}]},
        {"instance_group": [{"count": 2, "kind": "KIND_CPU"}]},
    ]


def test_the_contracts_manual_example_gives_eight_with_batch_fastest():
    swept = {
        "max_batch_size": [6, 8],
        "dynamic_batching": {"max_queue_delay_microseconds": [200, 300]},
        "instance_group": [{"kind": "KIND_GPU", "count": [1, 2]}],
    }
    space = manual("m", BASE, swept, where="w", cpu_only=False)
    found = [space.overrides(point) for point in space.points()]
    assert len(found) == 8
    assert [row["max_batch_size"] for row in found] == [6, 8] * 4
    assert [row["instance_group"][0]["count"] for row in found] == [1, 1, 2, 2] * 2
    assert [row["dynamic_batching"]["max_queue_delay_microseconds"] for row in found] == [200] * 4 + [300] * 4


@pytest.mark.parametrize(
    ("swept", "choices"),
    [
        ({"instance_group": [[{"count": 1}], [{"count": [2, 3]}]]}, 3),
        ({"dynamic_batching": {"preferred_batch_size": [4, 8]}}, 1),
        ({"dynamic_batching": {"preferred_batch_size": [[4], [4, 8]]}}, 2),
        ({"dynamic_batching": [None, {}, {"max_queue_delay_microseconds": [1, 2]}]}, 4),
        ({"parameters": {"threads": {"string_value": ["1", "2"]}}}, 2),
        (
            {
                "optimization": {
                    "execution_accelerators": {"cpu_execution_accelerator": [{"name": "openvino"}]}
                }
            },
            1,
        ),
        ({"max_batch_size": None}, 1),
    ],
)
def test_sweeps_of_any_depth_are_expanded(swept, choices):
    assert len(list(manual("m", BASE, swept, where="w", cpu_only=True).points())) == choices


@pytest.mark.parametrize(
    ("swept", "words"),
    [
        ({"batch": 1}, r"profile_models\.m\.model_config_parameters\.batch"),
        ({"instance_group": [{"kind": "KIND_TPU"}]}, r"instance_group\[0\]\.kind is 'KIND_TPU'.*KIND_CPU"),
        ({"dynamic_batching": {"delay": 3}}, r"dynamic_batching\.delay"),
        ({"max_batch_size": "big"}, "whole number"),
        ({"max_batch_size": True}, "whole number"),
        ({"max_batch_size": []}, "empty"),
        ({"instance_group": {"count": 1}}, "must be a list"),
        ({"dynamic_batching": {"max_queue_delay_microseconds": -1}}, "from 0"),
    ],
)
def test_an_invalid_sweep_is_reported_with_its_path_and_allowed_values(swept, words):
    with pytest.raises(UsageError, match=words):
        manual("m", BASE, swept, where="profile_models.m.model_config_parameters", cpu_only=True)


def test_doubling_starts_at_the_low_end():
    assert list(doubling(3, 24)) == [3, 6, 12, 24]
    assert list(doubling(0, 2)) == [1, 2]


# --- names


def test_equal_configurations_share_a_name_but_not_with_the_default():
    names = VariantNames()
    first = names.variant("m", BASE, {"max_batch_size": 4})
    second = names.variant("m", BASE, {"max_batch_size": 8})  # equal to the default, but numbered
    default = names.variant("m", BASE, {})
    assert [first.name, second.name, default.name] == ["m_config_0", "m_config_1", "m_config_default"]
    assert names.variant("m", BASE, {"max_batch_size": 4}) is first
    assert names.variant("m", BASE, {}).name == "m_config_default"


def test_numbering_of_names_continues():
    known = VariantNames().variant("m", BASE, {"max_batch_size": 4})
    names = VariantNames.of([known])
    assert names.variant("m", BASE, {"max_batch_size": 4}).name == "m_config_0"
    assert names.variant("m", BASE, {"max_batch_size": 2}).name == "m_config_1"


def test_an_edited_default_has_another_key():
    names = VariantNames()
    before = names.variant("m", BASE, {})
    after = names.variant("m", {**BASE, "max_batch_size": 16}, {})
    assert before.name == after.name
    assert before.key != after.key


def test_an_ensemble_is_the_default_when_all_its_members_are():
    steps = [{"model_name": "m"}, {"model_name": "n"}]
    base = {"name": "e", "max_batch_size": 8, "ensemble_scheduling": {"step": steps}}
    names = VariantNames()
    m, n = names.variant("m", BASE, {}), names.variant("n", BASE, {})
    changed = names.variant("m", BASE, {"max_batch_size": 4})
    assert names.variant("e", base, {"max_batch_size": 8}, composing=(m, n)).name == "e_config_default"
    mixed = names.variant("e", base, {"max_batch_size": 4}, composing=(changed, n))
    assert mixed.title == "e_config_0: m_config_0, n_config_default"
    assert names.variant("e", base, {"max_batch_size": 4}, composing=(m, n)).name == "e_config_1"


# --- scoring


def test_the_contracts_example_is_scored():
    goal = Goal("m", objectives=(("perf_latency_p99", 2), ("perf_throughput", 3)))
    first = trial("a", 1, perf_latency_p99=10, perf_throughput=100)
    second = trial("b", 1, perf_latency_p99=20, perf_throughput=150)
    assert score([goal], first, second) == pytest.approx(0.4 * 10 / 15 - 0.6 * 50 / 125)


def test_a_metric_missing_on_both_sides_is_left_out():
    goal = Goal("m", objectives=(("gpu_used_memory", 10), ("perf_throughput", 10)))
    better, worse = trial("a", 1, perf_throughput=110), trial("b", 1, perf_throughput=90)
    assert score([goal], better, worse) == pytest.approx(0.2)
    assert score([goal], trial("c", 1), better) == -1


def test_violations_are_relative_to_the_bound_and_equality_passes():
    goal = Goal(
        "m", constraints=(Constraint("perf_latency_p99", high=10), Constraint("perf_throughput", low=100))
    )
    assert violation([goal], trial("a", 1, perf_latency_p99=15, perf_throughput=50)) == pytest.approx(100)
    assert passes([goal], trial("a", 1, perf_latency_p99=10, perf_throughput=100))
    assert passes([goal], trial("a", 1))  # unmeasured figures violate nothing


def test_passing_variants_rank_first():
    goal = Goal("m", constraints=(Constraint("perf_latency_p99", high=10),))
    rows = rank(
        [goal],
        [
            trial("fast", 8, perf_throughput=900, perf_latency_p99=30),
            trial("slow", 1, perf_throughput=100, perf_latency_p99=5),
            trial("slow", 2, perf_throughput=190, perf_latency_p99=8),
            trial("fast", 4, perf_throughput=800, perf_latency_p99=20),
        ],
    )
    assert [(row.name, row.best.load.concurrency, row.does_pass) for row in rows] == [
        ("slow", 2, True),
        ("fast", 8, False),
    ]


def test_repeats_are_pooled():
    goal = Goal("m")
    rows = rank([goal], [trial("a", 1, perf_throughput=90), trial("a", 1, perf_throughput=110)])
    found = rows[0].best.parts[0].figures.estimate("perf_throughput")
    assert found is not None
    assert found.limits is not None
    assert found.value == 100
    assert found.limits[0] < 90
    assert found.limits[1] > 110


@pytest.mark.parametrize("spread", [0.01, 0.04, 0.08])
@pytest.mark.parametrize("runs", [1, 2, 4])
def test_another_run_is_within_the_interval_of_a_throughput(spread, runs):
    """In 95 of 100 cases, and in fewer only if runs differ much and were repeated only a few times."""
    draw = random.Random(f"{spread} {runs}")

    def run(name, repeat):
        rate = 1000 * math.exp(draw.gauss(0, spread))
        return replace(trial(name, 1, perf_throughput=rate), repeat=repeat)

    kept = 0
    for _ in range(400):
        trials = [run(name, repeat) for name in "ab" for repeat in range(runs)]
        found = next(row for row in rank([Goal("m")], trials) if row.name == "a").best.parts[0].figures
        promised = found.estimate("perf_throughput")
        assert promised is not None
        assert promised.limits is not None
        kept += promised.limits[0] <= 1000 * math.exp(draw.gauss(0, spread)) <= promised.limits[1]
    assert kept / 400 > (0.93 if spread < 0.08 else 0.85)
    assert kept / 400 < 0.99 or spread < 0.08


@pytest.mark.parametrize(
    ("values", "percent"), [((150.0, 10.0), 50.0), ((100.0, 10.0), 0.0), ((90.0, 10.0), -10.0)]
)
def test_gain_is_in_percent_of_the_default(values, percent):
    best = trial("a", 1, perf_throughput=values[0], perf_latency_p99=values[1])
    assert gain([Goal("m")], best, trial("d", 1, perf_throughput=100)) == pytest.approx(percent)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"perf_latency_p99": {"min": 3}}, r"constraints\.perf_latency_p99"),
        ({"perf_throughput": {"max": 3}}, r"constraints\.perf_throughput"),
        ({"gpu_power_usage": {"max": 3}}, r"constraints\.gpu_power_usage"),
        ({"perf_latency_p99": {"max": "ten"}}, r"perf_latency_p99\.max"),
        ({"nonsense": {"max": 3}}, r"constraints\.nonsense"),
        ({"perf_latency_p99": 3}, r"constraints\.perf_latency_p99"),
        ({"nonsense": {"max": 3}}, r"with limits are perf_throughput, perf_latency_avg"),
    ],
)
def test_an_invalid_constraint_is_named(given, words):
    with pytest.raises(UsageError, match=words):
        constraints(given, "constraints")


def test_limits_may_be_fractions():
    assert constraints({"perf_latency_p99": {"max": 3.7}}, "c") == (Constraint("perf_latency_p99", high=3.7),)


def test_an_unknown_objective_is_named():
    with pytest.raises(UsageError, match=r"objectives\.speed"):
        objectives(["speed"], "objectives")


# --- studies


def study() -> Study:
    names = VariantNames()
    default = names.variant("m", BASE, {})
    changed = names.variant("m", BASE, {"max_batch_size": 4})
    return Study(
        tool="inferometer",
        mode="online",
        search="smart",
        goals=(Goal("m", constraints=(Constraint("perf_latency_p99", high=10),)),),
        variants=(default, changed),
        trials=(
            trial(default.name, 1, perf_throughput=100.0, perf_latency_p99=5.0),
            trial(changed.name, 1, number=1, perf_throughput=150.0, perf_latency_p99=6.0),
            Trial(2, (TrialPart("m", changed.name, ClientLoad(concurrency=2)),), Status.FAILED, "no memory"),
        ),
    )


def test_a_study_survives_a_round_trip():
    assert from_json(to_json(study()), "study.json", Study) == study()


def test_other_files_are_not_studies():
    with pytest.raises(UsageError, match=r"x\.json.*schema"):
        from_json('{"kind": "study", "schema": 99}', "x.json", Study)


def test_the_recommendation_names_the_best_and_its_gain():
    found = recommend(study())
    assert found is not None
    assert (found.best.name, found.gain_percent, found.is_sure) == ("m_config_0", 50.0, True)


def test_numbers_are_unique():
    numbers = [row.number for row in study().trials]
    assert all(low < high for low, high in pairwise(numbers))


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        ("p99<10ms", (Constraint("perf_latency_p99", high=10.0), Constraint("perf_error_rate", high=0.1))),
        (
            "ttft<200ms, errors<1%",
            (Constraint("time_to_first_token_avg", high=200.0), Constraint("perf_error_rate", high=1.0)),
        ),
    ],
)
def test_an_slo_limits_the_figures_it_names(slo, expected):
    settings = settings_of(TuneOptions(slo=slo), changed(Options(), model="m"))
    assert settings.models[0].goal.constraints == expected


def test_an_slo_on_an_unavailable_percentile_is_rejected():
    with pytest.raises(UsageError, match=r"--slo names p99\.9"):
        settings_of(TuneOptions(slo="p99.9<10ms"), changed(Options(), model="m"))


@pytest.mark.parametrize(
    ("url", "protocol", "found"),
    [
        ("localhost:9", "http", "localhost:9"),
        (":9/v2", "http", "localhost:9"),
        ("grpc://h:9", "grpc", "http://h:9"),
        ("grpcs://h", "grpc", "https://h:8001"),
        ("https://h/x/v2/models/m", "http", "https://h:443/x"),
    ],
)
def test_the_address_of_a_server_to_tune_is_parsed(url: str, protocol: str, found: str) -> None:
    launch = settings_of(TuneOptions(url=url), changed(Options(), model="m")).launch
    assert (launch.control.protocol, launch.addresses.http, launch.addresses.grpc) == (protocol, found, found)
