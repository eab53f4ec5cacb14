"""Files of other load testers: every figure that both know is kept, and nothing is added."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.notes import Note
from inferometer.stats.measurement import UNSTATED, Measurement
from inferometer.stats.result import Result
from inferometer.stats.saved import from_text, read
from tests.support.foreign import LLM_D, VLLM, foreign_file


def of_file(name: str) -> Result:
    return read(foreign_file(name), Result)


def of(document: Any) -> Result:
    return from_text(json.dumps(document), "it.json", Result)


def only(result: Result) -> Measurement:
    (level,) = result.levels
    assert level.measurement is not None
    return level.measurement


def is_close(ns: float | None, stated: float, unit: float) -> bool:
    return ns is not None and abs(ns - stated * unit) <= 2  # rounded twice


# --- every stated figure, from files that the tools wrote


PERCENTILES = {1: "p1", 5: "p5", 10: "p10", 25: "p25", 50: "p50", 75: "p75", 90: "p90", 95: "p95", 99: "p99"}
Times = Callable[[Measurement], Any]
OF_AIPERF: dict[str, Times] = {
    "request_latency": lambda found: found.latency,
    "time_to_first_token": lambda found: found.streaming.first,
    "inter_token_latency": lambda found: found.tokens.between,
    "inter_chunk_latency": lambda found: found.streaming.gaps,
}


@pytest.mark.parametrize("name", OF_AIPERF)
def test_aiperf_summary_keeps_the_statistics_of_times(name: str) -> None:
    stated = json.loads(foreign_file("profile_export_aiperf.json").read_text())[name]
    times = OF_AIPERF[name](only(of_file("profile_export_aiperf.json")))
    assert times.count == stated["count"]
    for own, key in (("mean_ns", "avg"), ("std_ns", "std"), ("min_ns", "min"), ("max_ns", "max")):
        assert is_close(getattr(times, own), stated[key], 1e6)
    for p, key in PERCENTILES.items():
        assert is_close(times.percentile_ns(float(p)), stated[key], 1e6)


def test_aiperf_summary_keeps_counts_rates_and_load() -> None:
    stated = json.loads(foreign_file("profile_export_aiperf.json").read_text())
    result = of_file("profile_export_aiperf.json")
    (level,), found = result.levels, only(result)
    assert (level.mode, level.value) == ("concurrency", 4)
    assert (found.request_count, found.failed_count) == (57, 3)
    assert found.infer_per_s.value == stated["request_throughput"]["avg"]
    assert found.tokens is not None
    assert found.tokens.per_user is not None
    assert found.tokens.output == stated["total_osl"]["avg"]
    assert found.tokens.prompt == stated["total_isl"]["avg"]
    assert found.tokens.output_per_s == stated["output_token_throughput"]["avg"]
    assert found.tokens.per_user.mean.value == stated["e2e_output_token_throughput"]["avg"]
    assert [(row.kind, row.count) for row in found.failures] == [("http 503", 3)]
    assert (result.tool, result.model["name"], result.source) == ("aiperf 0.13.0", "m", "aiperf")
    assert result.started_at == stated["start_time"]


def test_aiperf_lines_give_the_figures_of_its_summary_with_intervals() -> None:
    stated = json.loads(foreign_file("profile_export_aiperf.json").read_text())
    result = of_file("profile_export.jsonl")
    found = only(result)
    assert result.levels[0].mode == UNSTATED
    assert (found.request_count, found.failed_count) == (57, 3)
    for name, times_of in OF_AIPERF.items():
        times = times_of(found)
        assert times.count == stated[name]["count"]
        assert is_close(times.mean_ns, stated[name]["avg"], 1e6)
        assert is_close(times.min_ns, stated[name]["min"], 1e6)
        assert is_close(times.max_ns, stated[name]["max"], 1e6)
    assert found.tokens is not None
    assert found.tokens.output == 809
    assert found.infer_per_s.limits is not None
    assert dict(found.latency_intervals)["mean"].limits is not None
    assert not result.levels[0].has_remark(Note.SUMMARY_ONLY)


def test_guidellm_keeps_stated_figures_with_intervals_from_its_requests() -> None:
    stated = json.loads(foreign_file("guidellm.json").read_text())["benchmarks"][0]["metrics"]
    result = of_file("guidellm.json")
    found = only(result)
    assert (result.levels[0].mode, result.levels[0].value) == ("concurrency", 4)
    assert (found.request_count, found.failed_count) == (38, 2)
    assert found.streaming is not None
    assert found.tokens is not None
    for times, name, unit in (
        (found.latency, "request_latency", 1e9),
        (found.streaming.first, "time_to_first_token_ms", 1e6),
        (found.tokens.between, "inter_token_latency_ms", 1e6),
    ):
        row = stated[name]["successful"]
        assert is_close(times.mean_ns, row["mean"], unit)
        assert is_close(times.std_ns, row["std_dev"], unit)
        for p, key in ((50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p999"), (0.1, "p001")):
            assert is_close(times.percentile_ns(p), row["percentiles"][key], unit)
    assert found.infer_per_s.value == stated["requests_per_second"]["successful"]["mean"]
    assert found.tokens.output_per_s == stated["output_tokens_per_second"]["successful"]["mean"]
    assert found.tokens.output == 608
    low, high = found.infer_per_s.limits or (0, 0)
    assert low <= found.infer_per_s.value <= high
    assert not found.streaming.gaps.count  # it does not have the time of every token


def test_vllm_keeps_stated_figures() -> None:
    result = of(VLLM)
    found = only(result)
    assert (result.levels[0].mode, result.levels[0].value) == ("concurrency", 2)
    assert (found.request_count, found.failed_count, found.infer_per_s.value) == (3, 1, 12.0)
    assert found.streaming is not None
    assert found.tokens is not None
    for times, name in (
        (found.streaming.first, "ttft"),
        (found.tokens.between, "tpot"),
        (found.streaming.gaps, "itl"),
    ):
        assert is_close(times.mean_ns, VLLM[f"mean_{name}_ms"], 1e6)
        assert is_close(times.percentile_ns(50.0), VLLM[f"median_{name}_ms"], 1e6)
        assert is_close(times.percentile_ns(99.0), VLLM[f"p99_{name}_ms"], 1e6)
    assert (found.tokens.output, found.tokens.prompt, found.tokens.output_per_s) == (9, 30, 36.0)
    # Latency is only in the lists: the first response and the gaps after it.
    assert (found.latency.min_ns, found.latency.max_ns) == (60_000_000, 80_000_000)
    assert [(row.kind, row.count) for row in found.failures] == [("http 503", 1)]
    assert result.started_at == "2026-11-18T13:25:52"


def test_vllm_s_own_files_keep_their_figures() -> None:
    stated = json.loads(foreign_file("vllm_detailed.json").read_text())
    found = only(of_file("vllm_detailed.json"))
    assert (found.request_count, found.infer_per_s.value) == (40, stated["request_throughput"])
    assert found.infer_per_s.limits is not None
    assert is_close(found.latency.mean_ns, sum(stated["latencies"]) / 40, 1e9)
    assert is_close(found.latency.max_ns, max(stated["latencies"]), 1e9)
    assert found.streaming is not None
    assert found.streaming.gaps.count == 600
    assert is_close(found.streaming.gaps.percentile_ns(99.0), stated["p99_itl_ms"], 1e6)


def test_vllm_lists_latencies_even_in_a_summary() -> None:
    stated = json.loads(foreign_file("vllm.json").read_text())
    result = of_file("vllm.json")
    found = only(result)
    assert is_close(found.latency.min_ns, min(stated["latencies"]), 1e9)
    assert found.infer_per_s.limits is None
    assert dict(found.latency_intervals)["p99"].limits is None
    assert result.levels[0].has_remark(Note.SUMMARY_ONLY)


def test_vllm_without_lists_has_no_latency_and_no_intervals() -> None:
    result = of({name: value for name, value in VLLM.items() if not isinstance(value, list)})
    found = only(result)
    assert not found.latency.count
    assert found.latency_intervals == ()
    assert found.streaming is not None
    assert found.streaming.first.max_ns is None
    assert found.streaming.first.maybe_percentile_ns(90.0) is None
    assert found.infer_per_s.limits is None
    assert result.levels[0].has_remark(Note.SUMMARY_ONLY)


@pytest.mark.parametrize(
    ("fields", "load"),
    [
        ({"request_rate": 5.0, "max_concurrency": 2}, ("request_rate", 5.0)),
        ({"request_rate": "inf", "max_concurrency": None}, (UNSTATED, 0.0)),
        ({"request_rate": "inf", "max_concurrency": 7}, ("concurrency", 7.0)),
    ],
)
def test_load_of_vllm(fields: dict[str, Any], load: tuple[str, float]) -> None:
    (level,) = of(VLLM | fields).levels
    assert (level.mode, level.value) == load


@pytest.mark.parametrize(
    ("fields", "arrivals"),
    [({"burstiness": 1.0}, "poisson"), ({"burstiness": 0.5}, UNSTATED), ({"burstiness": None}, UNSTATED)],
)
def test_arrivals_of_vllm(fields: dict[str, Any], arrivals: str) -> None:
    assert of(VLLM | {"request_rate": 5.0} | fields).effective.distribution == arrivals


@pytest.mark.parametrize(("kind", "known"), [("poisson", True), ("constant", True), ("user_centric", False)])
def test_arrivals_of_aiperf_and_guidellm(kind: str, known: bool) -> None:
    phase = {"name": "profiling", "kind": "profiling", "type": kind, "rate": 5.0}
    config = AIPERF["input_config"] | {"phases": [phase]}
    found = of(AIPERF | {"input_config": config})
    assert (found.levels[0].mode, found.levels[0].value) == ("request_rate", 5.0)
    assert found.effective.distribution == (kind if known else UNSTATED)
    guidellm = json.loads(foreign_file("guidellm.json").read_text())
    guidellm["benchmarks"][0]["config"]["strategy"] = {"type_": kind, "rate": 5.0}
    assert of(guidellm).effective.distribution == (kind if known else UNSTATED)


def test_a_rate_that_was_not_reached_is_remarked() -> None:
    detailed = json.loads(foreign_file("vllm_detailed.json").read_text())
    for rate, is_reached in ((25.0, True), (80.0, False)):
        (level,) = of(detailed | {"request_rate": rate}).levels
        assert level.has_remark(Note.OVERLOADED) is not is_reached
        assert level.is_as_asked is is_reached


def test_llm_d_report_keeps_its_figures_in_any_unit() -> None:
    result = of(LLM_D)
    found = only(result)
    assert (result.levels[0].mode, result.levels[0].value) == ("request_rate", 10)
    assert (found.request_count, found.failed_count) == (498, 2)
    assert (found.latency.mean_ns, found.latency.std_ns, found.latency.min_ns) == (
        4_950_000_000,
        400_000_000,
        None,
    )
    assert found.latency.percentiles == ((99.0, 5_800_000_000),)
    assert found.streaming is not None
    assert found.tokens is not None
    assert found.streaming.first.percentile_ns(99.9) == 57_000_000
    assert found.tokens.between.mean_ns == 4_900_000
    assert found.tokens.output_per_s == 9960.0
    assert (found.duration_ns, result.model["name"]) == (49_970_000_000, "Qwen/Qwen3-0.6B")


def test_llm_d_report_as_yaml(tmp_path: Path) -> None:
    import yaml

    path = tmp_path / "report.yaml"
    text = yaml.safe_dump(LLM_D).replace("'2025-11-05T18:00:42Z'", "2025-11-05T18:00:42Z")
    path.write_text(text)
    assert only(read(path, Result)) == only(of(LLM_D))
    assert read(path, Result).started_at == "2025-11-05T18:00:42+00:00"


@pytest.mark.parametrize(
    ("name", "load", "count", "per_s", "p90_ns"),
    [
        ("server", ("request_rate", 60.0), 58, 56.34, 9046525),
        ("singlestream", ("concurrency", 1.0), 271, 267.77, 6598917),
        ("offline", (UNSTATED, 0.0), 110, 640.185, 163196176),
        ("multistream", ("concurrency", 1.0), 143, 4 * 1e9 / 6979314, 12449830),
    ],
)
def test_loadgen_summary(name: str, load: tuple[str, float], count: int, per_s: float, p90_ns: int) -> None:
    result = of_file(f"mlperf_{name}.txt")
    found = only(result)
    assert (result.levels[0].mode, result.levels[0].value) == load
    assert found.request_count == count
    assert found.infer_per_s.value == pytest.approx(per_s)
    assert found.latency.percentile_ns(90.0) == p90_ns
    assert found.latency.percentile_ns(97.0)
    assert found.latency.std_ns is None
    assert result.asked["Result is"] in ("VALID", "INVALID")


def test_a_file_states_no_client_cost_and_no_settings() -> None:
    result = of_file("profile_export_aiperf.json")
    assert only(result).is_foreign
    assert result.host == {}


# --- errors


LINE = json.loads(foreign_file("profile_export.jsonl").read_text().splitlines()[0])
AIPERF = json.loads(foreign_file("profile_export_aiperf.json").read_text())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(AIPERF | {"request_count": {"avg": "many"}}), "request_count.avg is not a number"),
        (json.dumps(AIPERF | {"request_latency": [1]}), "request_latency is not an object"),
        (
            json.dumps(AIPERF | {"request_latency": {"avg": 1e12}}),
            "request_latency.avg is 1000000000000.0, outside",
        ),
        (json.dumps(LINE) + "\n{", "line 2 is not JSON"),
        (json.dumps(LINE) + '\n{"metrics": {}}', "line 2:.metadata is missing"),
        (json.dumps(LINE) + "\n[1]", "line 2 is not an object"),
        (json.dumps(VLLM | {"ttfts": [0.1]}), "ttfts has 1 entries, but input_lens has 4"),
        (json.dumps(VLLM | {"itls": [[-1], [], [], []]}), "request 0.itls is -1, outside the range"),
        (json.dumps(LLM_D | {"version": "0.9"}), "version is 0.9, but this reader knows 0.2"),
        ("MLPerf Results Summary\nScenario : Server\n", "Mean latency (ns) is missing"),
        ("MLPerf Results Summary\n", "Scenario is missing"),
    ],
)
def test_errors_name_the_file_the_place_and_the_rule(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_text(text, "it.json", Result)
    assert words in str(caught.value)
    assert "'it.json'" in str(caught.value)


def test_an_unknown_file_is_refused_as_before() -> None:
    with pytest.raises(UsageError, match=r"'it\.json'"):
        from_text('{"some": "thing"}', "it.json", Result)
    with pytest.raises(UsageError, match="is not JSON"):
        from_text("plain words", "it.json", Result)
