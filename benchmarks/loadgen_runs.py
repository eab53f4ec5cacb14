"""Runs of MLPerf's loadgen with random settings, as JSON lines: settings, latencies, and loadgen's own verdict.

It needs only `mlcommons-loadgen`, in an environment of its own: `.venv-loadgen/bin/python benchmarks/loadgen_runs.py
--runs 100 --seed 1`. The system under test answers at once or after a random pause, so a run takes milliseconds.
"""

import argparse
import json
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import mlperf_loadgen as loadgen  # type: ignore[import-not-found]

SHARES = (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999)
KINDS = {
    "server": loadgen.TestScenario.Server,
    "offline": loadgen.TestScenario.Offline,
    "single-stream": loadgen.TestScenario.SingleStream,
    "multi-stream": loadgen.TestScenario.MultiStream,
}
LOGGED = (
    "result_validity",
    "result_perf_constraints_met",
    "result_min_duration_met",
    "result_min_queries_met",
    "early_stopping_met",
    "early_stopping_latency_ss",
    "early_stopping_latency_ms",
    "result_query_count",
    "result_overlatency_query_count",
    "result_qps_with_loadgen_overhead",
    "generated_query_count",
    "generated_query_duration",
    "effective_min_sample_count",
    "effective_min_query_count",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.runs):
            print(json.dumps(_run(draw, Path(folder))), flush=True)


def _run(draw: random.Random, folder: Path) -> dict[str, Any]:
    kind = draw.choice(["server", "server", *KINDS])
    settings = _settings(draw, kind)
    pause = draw.choice([0.0, 0.0, 2e-6, 2e-5])
    spread = random.Random(draw.random())

    def issue(samples: Any) -> None:
        if pause:
            until = time.perf_counter() + spread.expovariate(1 / pause)
            while time.perf_counter() < until:
                pass
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(row.id, 0, 0) for row in samples])

    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
    log = loadgen.LogSettings()
    log.log_output.outdir = str(folder)
    log.enable_trace = True
    log.log_mode_async_poll_interval_ms = 1
    test = loadgen.TestSettings()
    test.mode = loadgen.TestMode.PerformanceOnly
    test.scenario = KINDS[kind]
    for name, value in settings.items():
        setattr(test, name, value)
    loadgen.StartTestWithLogSettings(system, library, test, log, "")
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    return {"scenario": kind, "settings": settings, **_logs(folder)}


def _settings(draw: random.Random, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "min_duration_ms": draw.choice([0, 1, 2, 5]),
        "min_query_count": draw.choice([1, 50, 200, 500, 800, 1200]),
        "schedule_rng_seed": draw.getrandbits(64),
    }
    share = draw.choice(SHARES)
    if draw.random() < 0.2:
        found["max_query_count"] = draw.randrange(20, 900)  # may end before the rules are met
    if kind == "server":
        found |= {
            "server_target_qps": 10 ** draw.uniform(4, 5.5),
            "server_target_latency_ns": round(10 ** draw.uniform(4, 8.5)),
            "server_target_latency_percentile": share,
        }
    elif kind == "offline":
        found["offline_expected_qps"] = 10 ** draw.uniform(4, 6)
    elif kind == "single-stream":
        found |= {
            "single_stream_expected_latency_ns": round(10 ** draw.uniform(3.5, 5)),
            "single_stream_target_latency_percentile": share,
        }
    else:
        found |= {
            "multi_stream_expected_latency_ns": round(10 ** draw.uniform(3.5, 5)),
            "multi_stream_target_latency_percentile": share,
            "multi_stream_samples_per_query": draw.choice([1, 2, 8]),
        }
    return found


def _logs(folder: Path) -> dict[str, Any]:
    detail = (folder / "mlperf_log_detail.txt").read_text()
    logged = re.findall(r'"key": "(\w+)", "value": (.+?), "time_ms"', detail)
    trace = (folder / "mlperf_log_trace.json").read_text()
    pattern = r'"ph":"b".*?"ts":([\d.]+).*?"query_seq":(\d+).*?"issue_start_ns":(-?\d+),"complete_ns":(\d+)'
    samples = [
        (round(float(at) * 1000), int(query), int(end)) for at, query, _, end in re.findall(pattern, trace)
    ]
    queries: dict[int, list[int]] = {}  # scheduled, latency of the whole query
    for at_ns, query, latency_ns in samples:
        known = queries.setdefault(query, [at_ns, 0])
        known[1] = max(known[1], latency_ns)
    ordered = [queries[number] for number in sorted(queries)]
    return {
        "latencies": [latency for _, latency in ordered],
        "samples": len(samples),
        "scheduled_ns": [at - ordered[0][0] for at, _ in ordered],
        "loadgen": {key: _value(text) for key, text in logged if key in LOGGED},
    }


def _value(text: str) -> Any:
    """Return a logged value; loadgen writes infinity and not-a-number as C++ does."""
    return None if text.strip("-") in ("inf", "nan") else json.loads(text)


if __name__ == "__main__":
    main()
