"""Results written in other tools' formats, and read back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer.report.foreign.formats import WRITERS, write_as
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from inferometer.stats.saved import read
from tests.support.foreign import foreign_file
from tests.support.reports import sample_result, sample_text

START, MS = 1_795_008_352_403_189_276, 1_000_000


def answer(*deltas: str, tokens: int, prompt: int) -> list[dict[str, str]]:
    """The outputs of one streamed answer, as our export has them."""
    events = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in deltas]
    usage = {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}
    return [
        *({"response": f"data: {json.dumps(row)}\n\n"} for row in (*events, usage)),
        {"response": "data: [DONE]\n\n"},
    ]


def export(path: Path, mode: str, value: float, count: int = 40) -> Path:
    """Write an export with this many requests, each with a role event, three tokens, usage and an end mark."""
    outputs = answer("", "a", "b", "c", tokens=3, prompt=7)
    rows = [
        {
            "timestamp": START + number * 10 * MS,
            "request_inputs": {},
            "response_timestamps": [
                START + number * 10 * MS + at * MS for at in (4, 5, 7, 10 + number % 3, 20, 20)
            ],
            "response_outputs": outputs,
        }
        for number in range(count)
    ]
    document = {"experiments": [{"experiment": {"mode": mode, "value": value}, "requests": rows}]}
    path.write_text(json.dumps(document))
    return path


def only(result: Result) -> Measurement:
    (level,) = result.levels
    assert level.measurement is not None
    return level.measurement


@pytest.fixture
def one_level() -> Result:
    result = sample_text()
    return replace(result, levels=result.levels[:1])


@pytest.mark.parametrize("tool", WRITERS)
def test_what_is_written_is_read_back(tool: str, one_level: Result, tmp_path: Path) -> None:
    paths, _ = write_as(one_level, tool, tmp_path, None)
    again = read(paths[0], Result)
    before, after = only(one_level), only(again)
    assert after.request_count == before.request_count
    assert after.latency.mean_ns == pytest.approx(before.latency.mean_ns, abs=1)
    assert after.latency.percentile_ns(99.0) == pytest.approx(before.latency.percentile_ns(99.0), abs=1)
    assert after.infer_per_s.value == pytest.approx(before.infer_per_s.value / before.batch, rel=1e-3)
    assert after.infer_per_s.limits is None
    if tool == "mlperf":
        return
    assert (again.levels[0].mode, again.levels[0].value) == (
        one_level.levels[0].mode,
        one_level.levels[0].value,
    )
    assert before.tokens is not None
    assert after.tokens is not None
    assert after.tokens.output_per_s == pytest.approx(before.tokens.output_per_s)
    assert after.tokens.between.mean_ns == pytest.approx(before.tokens.between.mean_ns, abs=1)
    assert before.streaming is not None
    assert after.streaming is not None
    assert after.streaming.first.mean_ns == pytest.approx(before.streaming.first.mean_ns, abs=1)


@pytest.mark.parametrize(
    ("tool", "name"), [("aiperf", "profile_export.jsonl"), ("vllm", "vllm_bench_serve.json")]
)
def test_requests_of_the_export_are_written(tool: str, name: str, one_level: Result, tmp_path: Path) -> None:
    level = one_level.levels[0]
    requests = export(tmp_path / "requests.json", level.mode, level.value)
    paths, missing = write_as(one_level, tool, tmp_path / "out", requests)
    assert not missing
    assert name in {path.name for path in paths}
    found = only(read(tmp_path / "out" / name, Result))
    assert found.streaming is not None
    assert found.tokens is not None
    # The role event, usage and the end mark are no tokens: the first one came after 5 ms, the last after 10 to 12 ms.
    assert found.latency.min_ns == 10 * MS
    assert found.latency.max_ns == 12 * MS
    assert found.tokens.prompt >= 7
    assert dict(found.latency_intervals)["mean"].limits is not None
    lines = found.streaming.first
    assert tool == "vllm" or (lines.min_ns, lines.max_ns, found.streaming.gaps.count) == (5 * MS, 5 * MS, 80)


def test_missing_requests_are_mentioned(one_level: Result, tmp_path: Path) -> None:
    assert "--export" in write_as(one_level, "aiperf", tmp_path, None)[1]
    assert write_as(one_level, "llm-d", tmp_path, None)[1] == ""


def test_several_levels_get_a_folder_each(tmp_path: Path) -> None:
    paths, _ = write_as(sample_result(), "aiperf", tmp_path, None)
    assert [path.parent.name for path in paths] == [f"concurrency{load}" for load in (1, 2, 3, 4)]
    (path,), _ = write_as(sample_result(), "guidellm", tmp_path, None)
    assert [level.value for level in read(path, Result).levels] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["profile_export_aiperf.json", "guidellm.json", "mlperf_server.txt"])
@pytest.mark.parametrize("tool", WRITERS)
def test_one_tool_s_file_in_the_form_of_another(name: str, tool: str, tmp_path: Path) -> None:
    first = read(foreign_file(name), Result)
    (path, *_), _ = write_as(first, tool, tmp_path, None)
    again = read(path, Result)
    assert only(again).latency.percentile_ns(99.0) == pytest.approx(
        only(first).latency.percentile_ns(99.0), abs=1
    )
    assert only(again).request_count == only(first).request_count
