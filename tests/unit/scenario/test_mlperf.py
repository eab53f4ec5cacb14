"""`--scenario mlperf-...`: which rules apply, what is refused, and the verdict of a whole run."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.cli import main
from inferometer.load.loadgen_arrivals import loadgen_times
from inferometer.options.options import Options
from inferometer.records.records import COLUMNS, from_rows
from inferometer.scenario.mlperf import QueryLog, mlperf_settings
from inferometer.scenario.ready import open_scenario, ready_names
from inferometer.scenario.spec import checked_scenario
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.mlperf import SCENARIOS, MlperfSettings, MlperfTarget
from tests.support.commands import Ended, call_here
from tests.support.servers import FakeModel, FakeTriton

BATCHES = FakeModel("simple", max_batch_size=8)


@pytest.fixture
def server() -> Iterator[FakeTriton]:
    with FakeTriton(model=BATCHES) as fake:
        yield fake


def measure(server: FakeTriton, *words: str) -> Ended:
    return call_here(main.main, "measure", server.server.address, "simple", *words, "--max-error-rate", "1")


def settings(slo: str | None = None, name: str = "server", **changes: object) -> MlperfSettings:
    spec = checked_scenario({"classes": {"a": {}}, "mlperf": {"scenario": name, **changes}}, "it").mlperf
    assert spec is not None
    return mlperf_settings(spec, Options(slo=None if slo is None else parse_slo(slo)), None)


def test_every_scenario_of_mlperf_is_included() -> None:
    included = [name.removeprefix("mlperf-") for name in ready_names() if name.startswith("mlperf-")]
    assert sorted(included) == sorted(SCENARIOS)
    for name in included:
        spec = open_scenario(f"mlperf-{name}").mlperf
        assert spec is not None
        assert (spec.scenario, spec.min_duration) == (name, 600)


@pytest.mark.parametrize(
    ("slo", "share", "targets"),
    [
        ("p99<15ms", 0.99, (("latency", 15 * NS_PER_MS),)),
        ("p(90)<5ms", 0.9, (("latency", 5 * NS_PER_MS),)),
        ("p90<=1s", 0.9, (("latency", 1000 * NS_PER_MS),)),
        ("ttft p99<2s, tpot p99<200ms", 0.99, (("ttft", 2000 * NS_PER_MS), ("tpot", 200 * NS_PER_MS))),
    ],
)
def test_the_slo_is_the_target(slo: str, share: float, targets: tuple[tuple[str, int], ...]) -> None:
    found = settings(slo)
    assert found.share == pytest.approx(share)
    assert found.targets == tuple(MlperfTarget(*target) for target in targets)


@pytest.mark.parametrize(
    ("name", "slo", "said"),
    [
        ("server", None, "needs a latency target"),
        ("server", "mean<5ms", "'mean<5ms' is not a latency target"),
        ("server", "throughput>5", "'throughput>5' is not a latency target"),
        ("server", "p99<5ms, ttft p99<5ms", "several percentiles or times"),
        ("server", "ttft p99<5ms, tpot p90<5ms", "several percentiles or times"),
        ("offline", "p99<5ms", "has no latency target"),
    ],
)
def test_other_slos_are_refused(name: str, slo: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings(slo, name)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"classes": {"a": {}, "b": {}}}, "has 2 classes and mlperf"),
        ({"classes": {"a": {}}, "phases": [{"name": "x", "for": "1s"}]}, "phases and mlperf"),
        ({"classes": {"a": {"concurrency": 2}}}, "needs a model and a rate"),
        ({"classes": {"a": {"slo": "p99<1s"}}}, "the SLO is mlperf.slo"),
        ({"classes": {"a": {}}, "mlperf": {"scenario": "server", "min-queries": 0}}, "mlperf.min-queries"),
        ({"classes": {"a": {}}, "mlperf": {"scenario": "servers"}}, "mlperf.scenario"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused(document: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked_scenario({"mlperf": {"scenario": "server"}, **document}, "it")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mlperf-server -c 4", "not -c"),
        ("mlperf-offline -r 4", "has no rate"),
        ("mlperf-single-stream -c 4", "one query in flight"),
        ("mlperf-multi-stream --slo p99", "SLO"),
        ("mlperf-server -r 1000000 -d 10h", "are more than"),
        ("mlperf-servers", "did you mean 'mlperf-server'"),
    ],
)
def test_a_load_of_another_scenario_is_refused(server: FakeTriton, words: str, said: str) -> None:
    ended = measure(server, "--scenario", *words.split())
    assert ended.code == 2
    assert said in ended.stderr
    assert not server.inferences


@pytest.mark.parametrize(
    ("words", "code", "validity", "problem"),
    [
        ("mlperf-server -r 400 -d 500ms --slo p50<1h", 0, True, ""),
        ("mlperf-server -r 400 -d 500ms --slo p99<1us", 4, False, "failures"),
        ("mlperf-server -r 400 -d 100ms --slo p99<1h", 5, False, "skipped"),  # too few for 99 %
        ("mlperf-single-stream -d 200ms -n 80", 0, True, ""),
        ("mlperf-multi-stream -d 100ms -n 80 --slo p90<1h", 0, True, ""),
        ("mlperf-offline -d 200ms -n 80 -c 8", 0, True, ""),
    ],
)
def test_a_run_is_valid_or_not(
    server: FakeTriton, tmp_path: Path, words: str, code: int, validity: bool, problem: str
) -> None:
    path, cases = tmp_path / "it.json", tmp_path / "it.xml"
    ended = measure(server, "--scenario", *words.split(), "--json", str(path), "--junit", str(cases))
    assert ended.code == code, ended
    name = words.split(maxsplit=1)[0].removeprefix("mlperf-")
    assert f"MLPerf {name}: {'VALID' if validity else 'INVALID'}" in ended.stdout
    verdict = json.loads(path.read_text())["mlperf"]
    assert (verdict["scenario"], verdict["is_valid"]) == (name, validity)
    assert bool(verdict["sequential"]) is ("--slo" in words)
    suite = ET.parse(cases).getroot()
    assert {key for key in ("failures", "skipped") if suite.get(key) != "0"} == (
        {problem} if problem else set()
    )


def test_the_server_scenario_sends_exactly_the_queries_of_loadgen(server: FakeTriton, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    words = "--scenario mlperf-server -r 300 -d 400ms --slo p99<1h -q --json"
    measure(server, *words.split(), str(path))
    times = loadgen_times(300.0, min_duration_ns=400 * NS_PER_MS, min_queries=100)
    assert len(server.inferences) == len(times) == json.loads(path.read_text())["mlperf"]["queries"]


def test_a_first_query_that_ends_last_still_begins_the_run() -> None:
    """Queries are collected in the order of their ends."""
    log = QueryLog(MlperfSettings("server", 0.9, 1.0, 1, targets=(MlperfTarget("latency", 10),)))
    log.level_started("request_rate", 1)
    for due_ns, end_ns in ((2 * NS_PER_S, 2 * NS_PER_S + 5), (NS_PER_S, 9 * NS_PER_S)):
        rows = np.zeros((1, len(COLUMNS)), dtype=np.int64)
        rows[0, [COLUMNS.index(name) for name in ("due_ns", "sent_ns", "end_ns")]] = due_ns, due_ns, end_ns
        log.progressed(LevelProgress(0, 0.0, rows[:, 0], records=from_rows(rows)))
    assert log.log().span_s == 1.0
    assert log.log().latency_ns.tolist() == [5, 8 * NS_PER_S]
