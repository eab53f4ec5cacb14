"""Runs recorded from MLPerf's loadgen (`benchmarks/loadgen_runs.py`), and what our rules say about the same logs."""

from typing import Any

import numpy as np

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.loadgen_arrivals import loadgen_times
from inferometer.stats.mlperf import (
    DURATION_RULE,
    EARLY_STOPPING_RULE,
    LATENCY_RULE,
    QUERIES_RULE,
    MlperfLog,
    MlperfSettings,
    MlperfTarget,
    MlperfVerdict,
    judge_mlperf,
)

# Loadgen logs the issue time of the last query as a rate with six digits (single-stream) or, in its trace, relative to
# the first query (multi-stream).
SPAN_ERROR_S = {"single-stream": 1e-7, "multi-stream": 1e-3}
LOGGED_RULES = {
    DURATION_RULE: "result_min_duration_met",
    QUERIES_RULE: "result_min_queries_met",
    LATENCY_RULE: "result_perf_constraints_met",
    EARLY_STOPPING_RULE: "early_stopping_met",
}


def our_verdict(run: dict[str, Any]) -> MlperfVerdict:
    """Judge a recorded run by our rules."""
    return judge_mlperf(_settings(run), _log(run))


def differences(run: dict[str, Any]) -> list[str]:
    """Name everything about a recorded run that we compute differently from loadgen."""
    ours, theirs = our_verdict(run), run["loadgen"]
    found = []
    if ("VALID" if ours.is_valid else "INVALID") != theirs["result_validity"]:
        found.append("validity")
    for name, key in LOGGED_RULES.items():
        rules = [rule.is_met for rule in ours.rules if rule.name == name]
        if key in theirs and rules and all(rules) is not bool(theirs[key]):
            found.append(name)
    estimate = theirs.get("early_stopping_latency_ss" if run["scenario"] == "single-stream" else _MULTI)
    if ours.early_stopping_ns is not None and ours.early_stopping_ns != estimate:
        found.append("early-stopping estimate")
    if run["scenario"] == "server" and not _is_scheduled_alike(run):
        found.append("schedule")
    return found


def is_borderline(run: dict[str, Any]) -> bool:
    """Whether the times that loadgen logs are too coarse to tell if the last query was issued in time."""
    limit_s = run["settings"]["min_duration_ms"] / 1000
    return bool(limit_s) and abs(_span_s(run) - limit_s) < SPAN_ERROR_S.get(run["scenario"], 0.0)


_MULTI = "early_stopping_latency_ms"


def _settings(run: dict[str, Any]) -> MlperfSettings:
    asked, kind = run["settings"], run["scenario"]
    share = next((value for name, value in asked.items() if name.endswith("_percentile")), 0.99)
    limit_ns = asked.get("server_target_latency_ns")
    samples = asked.get("multi_stream_samples_per_query", 1)
    least = run["loadgen"]["effective_min_sample_count"] // samples
    return MlperfSettings(
        scenario=kind,
        share=share,
        min_duration_s=asked["min_duration_ms"] / 1000,
        min_queries=least,
        samples_per_query=samples,
        targets=() if limit_ns is None else (MlperfTarget("latency", limit_ns),),
    )


def _log(run: dict[str, Any]) -> MlperfLog:
    latencies = np.array(run["latencies"], dtype=np.int64)
    issued = run["samples"] if run["scenario"] == "offline" else len(latencies)
    return MlperfLog({"latency": latencies}, _span_s(run), issued)


def _span_s(run: dict[str, Any]) -> float:
    if run["scenario"] == "server":
        return float(run["scheduled_ns"][-1] / NS_PER_S)
    if run["scenario"] == "offline":
        return float(max(run["latencies"]) / NS_PER_S)
    if (per_s := run["loadgen"].get("result_qps_with_loadgen_overhead")) is not None:
        return float((len(run["latencies"]) - 1) / per_s) if per_s else 0.0
    return float(run["scheduled_ns"][-1] / NS_PER_S)  # a few microseconds less: from the first query on


def _is_scheduled_alike(run: dict[str, Any]) -> bool:
    """Whether our schedule has the same queries, each at the same nanosecond, and its successor at the logged time."""
    asked, logged = run["settings"], run["loadgen"]
    times = loadgen_times(
        asked["server_target_qps"],
        min_duration_ns=asked["min_duration_ms"] * NS_PER_MS,
        min_queries=asked["min_query_count"],
        seed=asked["schedule_rng_seed"],
    )
    one_more = loadgen_times(
        asked["server_target_qps"],
        min_duration_ns=0,
        min_queries=len(times) + 1,
        seed=asked["schedule_rng_seed"],
    )
    issued = run["scheduled_ns"]
    is_alike = list(times[: len(issued)]) == issued and len(times) == logged["generated_query_count"]
    return is_alike and one_more[-1] == logged["generated_query_duration"]
