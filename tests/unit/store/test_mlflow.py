"""Runs in the layout of an MLflow file store."""

from dataclasses import replace

import pytest
import yaml

from inferometer.base.answer_file import write
from inferometer.stats.estimate import Estimate
from inferometer.store.mlflow import export_run, mlflow_id
from inferometer.store.run import FINISHED, KILLED, Point, Run
from tests.support.reports import sample_result

RUN = Run(
    id="7f3a91c0",
    command="measure",
    words=("measure", "localhost:8000", "simple", "-c", "1,4", "--slo", "p99<5ms"),
    state=FINISHED,
    code=0,
    started_at="2026-11-16T18:00:00.500+00:00",
    ended_at="2026-11-16T18:00:30+00:00",
    model="org/simple",
    server="triton 2.51",
    tags=("nightly", "a/b"),
    commit="abc123+",
    verdict="It takes 1,234 requests/s.",
    figures={"throughput": Estimate(200.0, 190.0, 210.0), "ttft p99": Estimate(7.5)},
    points=(
        Point("concurrency", 1, {"throughput": Estimate(100.0, 95.0, 105.0)}),
        Point("concurrency", 4, {"throughput": Estimate(200.0, 190.0, 210.0)}),
    ),
)
ENDED_MS = 1794852030000


@pytest.fixture
def answer(tmp_path):
    path = tmp_path / "answer.json"
    write(sample_result(), path)
    return path


def test_a_run_has_the_folders_that_mlflow_reads(answer, tmp_path):
    folder = export_run(RUN, answer, tmp_path / "mlruns")
    experiment = folder.parent
    assert experiment.parent == tmp_path / "mlruns"
    about = yaml.safe_load((experiment / "meta.yaml").read_text())
    assert (about["name"], about["experiment_id"], about["lifecycle_stage"]) == (
        "inferometer",
        experiment.name,
        "active",
    )
    assert about["artifact_location"] == experiment.as_uri()
    meta = yaml.safe_load((folder / "meta.yaml").read_text())
    assert meta["run_id"] == folder.name == mlflow_id(RUN)
    assert meta["experiment_id"] == experiment.name
    assert (meta["start_time"], meta["end_time"], meta["status"]) == (1794852000500, ENDED_MS, 3)
    assert meta["artifact_uri"] == (folder / "artifacts").as_uri()
    assert sorted(path.name for path in (folder / "artifacts").iterdir()) == ["answer.json", "report.html"]
    assert (folder / "artifacts" / "answer.json").read_bytes() == answer.read_bytes()
    params = {path.name: path.read_text() for path in (folder / "params").iterdir()}
    assert params == {
        "id": "7f3a91c0",
        "command": "measure",
        "model": "org/simple",
        "server": "triton 2.51",
        "commit": "abc123+",
        "command_line": "inferometer measure localhost:8000 simple -c 1,4 --slo 'p99<5ms'",
    }
    tags = {path.name: path.read_text() for path in (folder / "tags").iterdir()}
    assert tags["mlflow.runName"] == "measure org/simple 7f3a91c0"
    assert tags["mlflow.note.content"] == "It takes 1,234 requests/s."
    assert tags["mlflow.source.git.commit"] == "abc123"
    assert (tags["tag.nightly"], tags["tag.a_b"]) == ("true", "true")


def metrics(folder):
    root = folder / "metrics"
    return {
        str(path.relative_to(root)): [
            tuple(map(float, line.split())) for line in path.read_text().splitlines()
        ]
        for path in root.rglob("*")
        if path.is_file()
    }


def test_levels_are_steps_of_the_metrics(answer, tmp_path):
    found = metrics(export_run(RUN, answer, tmp_path))
    assert found["throughput_per_s"] == [(ENDED_MS, 200.0, 0)]
    assert found["ttft_p99_ms"] == [(ENDED_MS, 7.5, 0)]
    assert found["throughput_per_s_low"] == [(ENDED_MS, 190.0, 0)]
    assert found["levels/throughput_per_s"] == [(ENDED_MS, 100.0, 1), (ENDED_MS, 200.0, 4)]
    assert found["levels/throughput_per_s_high"] == [(ENDED_MS, 105.0, 1), (ENDED_MS, 210.0, 4)]
    assert found["levels/load"] == [(ENDED_MS, 1.0, 1), (ENDED_MS, 4.0, 4)]


@pytest.mark.parametrize(
    ("values", "steps"),
    [((10.5, 20), [1, 2]), ((8, 8), [1, 2]), ((20, 10), [20, 10])],
    ids=["not whole", "twice the same", "as they came"],
)
def test_levels_are_numbered_if_loads_cannot_be_steps(values, steps, answer, tmp_path):
    points = tuple(Point("request_rate", value, {"throughput": Estimate(1.0)}) for value in values)
    found = metrics(export_run(replace(RUN, points=points), answer, tmp_path))
    assert [row[2] for row in found["levels/load"]] == steps
    assert [row[1] for row in found["levels/load"]] == list(values)


def test_variants_of_a_comparison_have_separate_metrics(answer, tmp_path):
    points = tuple(Point("concurrency", 4, {"p99": Estimate(1.0)}, variant) for variant in ("a", "../b"))
    found = metrics(export_run(replace(RUN, command="compare", points=points), answer, tmp_path))
    assert found["levels/a/p99_ms"] == [(ENDED_MS, 1.0, 4)]
    assert found["levels/_b/p99_ms"] == [(ENDED_MS, 1.0, 4)]


def test_a_repeated_export_replaces_only_its_own_run(answer, tmp_path):
    first = export_run(RUN, answer, tmp_path)
    other = export_run(replace(RUN, id="91c07f3a"), answer, tmp_path)
    again = export_run(replace(RUN, tags=()), answer, tmp_path)
    assert first == again != other
    assert not (again / "tags" / "tag.nightly").exists()
    assert (other / "tags" / "tag.nightly").exists()
    assert {path.name for path in first.parent.iterdir()} == {"meta.yaml", first.name, other.name}


def test_an_experiment_created_by_mlflow_is_used(answer, tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "meta.yaml").write_text("name: Default\nexperiment_id: '0'\n")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "meta.yaml").write_text("{: no YAML")
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "meta.yaml").write_text("name: inferometer\nexperiment_id: '17'\n")
    assert export_run(RUN, answer, tmp_path).parent.name == "17"


def test_a_killed_run_is_exported_with_known_fields(tmp_path):
    answer = tmp_path / "answer.json"
    run = replace(RUN, state=KILLED, ended_at=None, points=(), figures={})
    folder = export_run(run, answer, tmp_path / "mlruns")
    meta = yaml.safe_load((folder / "meta.yaml").read_text())
    assert (meta["status"], meta["end_time"]) == (5, None)
    assert list((folder / "artifacts").iterdir()) == []
    answer.write_text('{"half')
    export_run(run, answer, tmp_path / "mlruns")
    assert [path.name for path in (folder / "artifacts").iterdir()] == ["answer.json"]
