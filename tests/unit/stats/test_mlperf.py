"""The rules of MLPerf's loadgen, against runs recorded from loadgen itself, and the sequential test."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inferometer.load.loadgen_arrivals import loadgen_times
from inferometer.stats.mlperf import (
    DURATION_RULE,
    EARLY_STOPPING_RULE,
    ERROR,
    LATENCY_RULE,
    NEVER_NS,
    QUERIES_RULE,
    MlperfLog,
    MlperfSettings,
    MlperfTarget,
    early_stopping_estimate,
    fewest_queries,
    is_early_stop,
    judge_mlperf,
    sequential_answer,
)
from tests.support.loadgen import differences, is_borderline

RUNS = [json.loads(line) for line in Path(__file__).with_name("loadgen_runs.jsonl").read_text().splitlines()]
SERVER = MlperfSettings("server", 0.99, 10.0, 500, targets=(MlperfTarget("latency", 1000),))


def log(*latencies: int, span_s: float = 10.0) -> MlperfLog:
    return MlperfLog({"latency": np.array(latencies, dtype=np.int64)}, span_s, len(latencies))


def failed_rules(settings: MlperfSettings, found: MlperfLog) -> list[str]:
    return [rule.name for rule in judge_mlperf(settings, found).failed]


def test_recorded_runs_of_loadgen_have_the_same_verdict_rules_estimates_and_schedule() -> None:
    known = {(run["scenario"], run["loadgen"]["result_validity"]) for run in RUNS}
    assert len(known) == 8  # every scenario, VALID and INVALID
    assert [
        (run["settings"], found) for run in RUNS if (found := differences(run)) and not is_borderline(run)
    ] == []


def test_a_changed_log_is_noticed() -> None:
    """The comparison with loadgen can fail: other latencies, times or settings give other answers."""
    valid = next(r for r in RUNS if r["scenario"] == "server" and r["loadgen"]["result_validity"] == "VALID")
    slow = {**valid, "latencies": [latency + 10**9 for latency in valid["latencies"]]}
    assert "validity" in differences(slow)
    other = {**valid, "settings": {**valid["settings"], "schedule_rng_seed": 1}}
    assert differences(other) == ["schedule"]


@pytest.mark.parametrize(
    ("over", "share", "queries"),
    [(0, 0.99, 459), (1, 0.99, 662), (10, 0.99, 2010), (1, 0.9, 64), (351, 0.9, 3948), (0, 0.5, 7)],
)
def test_early_stopping_needs_as_many_queries_as_loadgen_prints(
    over: int, share: float, queries: int
) -> None:
    assert fewest_queries(over, share) == queries
    assert is_early_stop(over, queries, share)
    assert not is_early_stop(over, queries - 1, share)


@pytest.mark.parametrize(
    ("latencies", "span_s", "failed"),
    [
        ([900] * 600, 10.0, []),
        ([900] * 600, 9.9, [DURATION_RULE]),
        ([900] * 499, 10.0, [QUERIES_RULE]),
        ([900] * 590 + [2000] * 10, 10.0, [LATENCY_RULE, EARLY_STOPPING_RULE]),
        (
            [900] * 597 + [2000] * 3,
            10.0,
            [EARLY_STOPPING_RULE],
        ),  # p99 is within, but not with 99 % confidence
        ([1000] * 600, 10.0, []),  # the target itself is allowed
        ([900] * 594 + [NEVER_NS] * 6, 10.0, [LATENCY_RULE, EARLY_STOPPING_RULE]),  # failed queries
        ([], 0.0, [DURATION_RULE, QUERIES_RULE, LATENCY_RULE, EARLY_STOPPING_RULE]),
    ],
)
def test_the_rules_that_fail_are_named(latencies: list[int], span_s: float, failed: list[str]) -> None:
    assert failed_rules(SERVER, log(*latencies, span_s=span_s)) == failed


@pytest.mark.parametrize(
    ("over", "queries", "is_shown"),
    [(3, 270, False), (10, 600, False), (30, 600, True), (9, 60, True), (60, 60, True), (1, 50, False)],
)
def test_a_percentile_over_the_target_by_chance_is_no_violation(
    over: int, queries: int, is_shown: bool
) -> None:
    latencies = np.full(queries, 900)
    latencies[:: queries // over][:over] = 2000
    verdict = judge_mlperf(SERVER, log(*latencies))
    assert LATENCY_RULE in [rule.name for rule in verdict.failed]
    assert verdict.is_too_slow is is_shown


def test_token_targets_are_judged_one_by_one() -> None:
    targets = (MlperfTarget("ttft", 1000), MlperfTarget("tpot", 50))
    times = {"latency": np.full(1000, 9), "ttft": np.full(1000, 900), "tpot": np.full(1000, 60)}
    verdict = judge_mlperf(replace(SERVER, targets=targets), MlperfLog(times, 10.0, 1000))
    assert [rule.is_met for rule in verdict.rules if rule.name == LATENCY_RULE] == [True, False]
    assert [(row.figure, row.answer) for row in verdict.sequential] == [("ttft", "met"), ("tpot", "violated")]


def test_a_stream_has_an_estimate_instead_of_a_target() -> None:
    settings = MlperfSettings("single-stream", 0.9, 10.0, 10)
    assert failed_rules(settings, log(*range(63))) == [EARLY_STOPPING_RULE]
    assert judge_mlperf(settings, log(*range(64))).early_stopping_ns == 63
    assert early_stopping_estimate(np.arange(1000), 0.9) == 922  # 78 of 1,000 may be above


def test_offline_counts_samples() -> None:
    settings = MlperfSettings("offline", 0.99, 10.0, 400, samples_per_query=4)
    verdict = judge_mlperf(settings, log(*[5] * 100, span_s=20.0))
    assert verdict.is_valid
    assert verdict.samples_per_s == 20
    assert not verdict.sequential


def test_arrivals_end_with_the_first_query_that_is_due_late_enough() -> None:
    times = loadgen_times(100.0, min_duration_ns=10**9, min_queries=1)
    assert times[0] == 0
    assert times[-2] < 10**9 <= times[-1]
    assert len(loadgen_times(100.0, min_duration_ns=0, min_queries=5000)) == 5000
    assert loadgen_times(200.0, min_duration_ns=10**9, min_queries=1) != times


@pytest.mark.parametrize(("factor", "truth"), [(0.4, "met"), (2.5, "violated")])
def test_the_sequential_test_needs_fewer_queries(factor: float, truth: str) -> None:
    share, queries = 0.95, 20_000
    limit = -np.log((1 - share) * factor)
    used = []
    for seed in range(20):
        times = np.random.default_rng(seed).exponential(1.0, queries)
        found = sequential_answer(
            MlperfLog({"latency": (times * 1e6).astype(np.int64)}, 1.0, queries),
            MlperfTarget("latency", round(limit * 1e6)),
            share,
        )
        assert found.answer == truth
        assert found.error == ERROR
        used.append(found.queries)
    assert np.mean(used) < queries / 2


def test_correlated_queries_decide_later() -> None:
    """The same values in long groups are worth fewer queries."""
    values = np.random.default_rng(1).exponential(1.0, 400)
    target = MlperfTarget("latency", round(-np.log(0.02) * 1e6))

    def answer(repeats: int) -> str:
        times = (np.repeat(values, repeats) * 1e6).astype(np.int64)
        return sequential_answer(MlperfLog({"latency": times}, 1.0, len(times)), target, 0.99).answer

    assert answer(40) == answer(1) == "undecided"


def test_a_run_at_the_boundary_stays_undecided() -> None:
    times = np.tile(np.r_[np.full(99, 1), [3]], 200)
    found = sequential_answer(
        MlperfLog({"latency": times}, 1.0, len(times)), MlperfTarget("latency", 2), 0.99
    )
    assert (found.answer, found.queries, found.over) == ("undecided", 20_000, 200)


def test_only_offline_has_samples_per_second() -> None:
    assert judge_mlperf(SERVER, log(*[900] * 600)).samples_per_s is None
