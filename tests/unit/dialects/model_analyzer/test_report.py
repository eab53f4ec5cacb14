"""`report` and `analyze` on the files of `profile`, and reading and writing of the classic checkpoint."""

import json

import pytest

from inferometer.dialects.model_analyzer import checkpoint
from inferometer.tune import journal as journals
from tests.unit.dialects.model_analyzer.analyzer import BOUNDED


@pytest.fixture
def profiled(tool):
    assert tool.profile(*BOUNDED, "-q", "--skip-summary-reports") == 0
    (tool.folder / "fresh").mkdir()
    return tool


def measured_loads(path):
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    head = next(place for place, line in enumerate(lines) if "Request Concurrency" in line)
    rows = []
    for line in lines[head + 1 :]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].isdigit():
            rows.append((int(cells[0]), float(cells[1])))
        elif rows:
            break
    return rows


def test_a_variant_is_reported_later(profiled):
    words = ["report", "-n", "W_config_3", "-e", "fresh", "-o", "pdf,md,csv"]
    assert profiled.main(words) == 0
    fresh = profiled.folder / "fresh"
    files = sorted(str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file())
    assert files == [
        "plots/detailed/W_config_3/latency_breakdown.svg",
        "plots/simple/W_config_3/cpu_mem_v_latency.svg",
        "reports/detailed/W_config_3/detailed_report.csv",
        "reports/detailed/W_config_3/detailed_report.html",
        "reports/detailed/W_config_3/detailed_report.md",
    ]
    rows = measured_loads(fresh / "reports/detailed/W_config_3/detailed_report.md")
    assert [load for load, _ in rows] == [8, 4, 2, 1]
    assert [p99 for _, p99 in rows] == sorted((p99 for _, p99 in rows), reverse=True)
    table = (fresh / "reports/detailed/W_config_3/detailed_report.csv").read_text().splitlines()
    assert table[0].startswith(
        "Request Concurrency,p99 Latency (ms),Client Response Wait (ms),Server Queue (ms),"
    )
    assert len(table) == 6


def test_the_format_determines_the_files(profiled):
    assert profiled.main(["report", "-n", "W_config_3", "-e", "fresh", "-o", "csv"]) == 0
    fresh = profiled.folder / "fresh"
    assert [path.name for path in fresh.rglob("*") if path.is_file()] == ["detailed_report.csv"]


def test_plots_can_be_chosen(profiled):
    yaml = profiled.folder / "plots.yaml"
    plot = {"title": "Mine", "x_axis": "concurrency", "y_axis": "perf_server_queue"}
    yaml.write_text(
        json.dumps({"report_model_configs": {"W_config_3": {"plots": {"mine": plot}}, "W_config_0": None}})
    )
    assert profiled.main(["report", "-f", yaml, "-e", "fresh"]) == 0
    fresh = profiled.folder / "fresh" / "plots" / "simple"
    assert [path.name for path in (fresh / "W_config_3").iterdir()] == ["mine.svg"]
    assert [path.name for path in (fresh / "W_config_0").iterdir()] == ["cpu_mem_v_latency.svg"]


REFUSED = [
    ("nothing named", ["-e", "fresh"], "report_model_configs"),
    ("an unknown variant", ["-n", "W_config_99", "-e", "fresh"], "'W_config_99'"),
    ("no checkpoint", ["-n", "W_config_3", "-e", "fresh", "-s", "elsewhere"], "elsewhere"),
    ("no export folder", ["-n", "W_config_3", "-e", "missing"], "missing"),
    ("an unknown format", ["-n", "W_config_3", "-e", "fresh", "-o", "doc"], "'doc'"),
]


@pytest.mark.parametrize(("what", "words", "shown"), REFUSED, ids=[row[0] for row in REFUSED])
def test_an_impossible_report_is_refused(profiled, capsys, what, words, shown):
    assert profiled.main(["report", *words]) == 1
    error = capsys.readouterr().err
    assert shown in error
    assert len(error.splitlines()) == 1


def test_a_report_covers_one_model(tool, capsys):
    assert tool.profile(*BOUNDED, "-q", "--skip-summary-reports", models="A,S") == 0
    assert tool.main(["report", "-n", "A_config_0,S_config_0"]) == 1
    assert "A, S" in capsys.readouterr().err


def test_a_checkpoint_contains_every_measurement(profiled):
    found = checkpoint.read(profiled.folder / "checkpoints" / "0.ckpt")
    assert found.is_ours
    assert len(found.trials) == 28
    assert len(found.variants) == 7
    assert all(variant.cpu_only for variant in found.variants)
    again = json.loads(json.dumps(checkpoint.document(found.variants, found.trials, seed=3)))
    assert again["OptunaRunConfigGenerator.seed"] == 3
    assert again["ModelManager.model_variant_name_manager"]["_model_name_index"] == {"W": 5}
    assert list(again["ResultManager.results"]["_results"]) == ["W"]


def foreign(profiled, **arguments):
    """Make a foreign checkpoint: no journal, unknown keys, configurations completed by a server."""
    folder = profiled.folder / "checkpoints"
    document = json.loads((folder / "0.ckpt").read_text())
    del document[checkpoint.MARK]
    document["Something.else"] = {"_a": 1}
    for run_config, _ in document["ResultManager.results"]["_results"]["W"].values():
        (row,) = run_config["_model_run_configs"]
        row["_perf_config"]["_args"] |= {"percentile": "99", "shape": None, **arguments}
        row["_perf_config"]["_options"]["-i"] = "grpc"
        config = row["_model_config_variant"]["model_config"]
        config |= {
            "versionPolicy": {"latest": {"numVersions": 1}},
            "defaultModelFilename": "model.py",
            "optimization": {"inputPinnedMemory": {"enable": True}, "outputPinnedMemory": {"enable": True}},
        }
        for number, group in enumerate(config["instanceGroup"]):
            group["name"] = f"W_{number}"
    for path in folder.iterdir():
        path.unlink()
    (folder / "7.ckpt").write_text(json.dumps(document))
    return folder


def test_measurements_with_other_data_are_repeated(profiled):
    foreign(profiled, shape=["IN:32"])
    assert profiled.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert len(profiled.runs) == 28


def test_a_classic_checkpoint_replaces_measurements(profiled, capsys):
    folder = foreign(profiled)
    assert profiled.main(["report", "-n", "W_config_3", "-e", "fresh", "-o", "csv"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["7.ckpt"]  # a report only reads
    wider = (*BOUNDED[:2], *BOUNDED[2:3], "3", *BOUNDED[4:])
    assert profiled.profile(*wider, "--override-output-model-repository") == 0
    out = capsys.readouterr().out
    assert "Imported 28 measurements" in out
    assert {name for name, _ in profiled.runs} == {"W_config_6", "W_config_7", "W_config_8"}
    assert sorted(path.name for path in folder.glob("*.ckpt")) == ["7.ckpt", "8.ckpt"]
    assert len(profiled.rows()) == 40


def test_a_broken_checkpoint_is_named(profiled, capsys):
    path = profiled.folder / "checkpoints" / "9.ckpt"
    for text in ("{", "{}", '{"ResultManager.results": {"_results": {"W": {"v": [{}, {}]}}}}'):
        path.write_text(text)
        assert profiled.profile(*BOUNDED, "--override-output-model-repository") == 1
        error = capsys.readouterr().err
        assert "9.ckpt" in error
        assert "Traceback" not in error


def test_a_refused_profile_leaves_nothing_that_hides_a_good_checkpoint(profiled, capsys):
    folder = profiled.folder / "checkpoints"
    for path in folder.glob("journal*"):
        path.unlink()
    (folder / "9.ckpt").write_text("{")
    assert profiled.profile(*BOUNDED, "--override-output-model-repository") == 1
    assert "9.ckpt" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["0.ckpt", "9.ckpt"]
    (folder / "9.ckpt").unlink()
    assert profiled.main(["report", "-n", "W_config_3", "-e", "fresh", "-o", "csv"]) == 0
    assert profiled.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert profiled.runs == []


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_journal_hides_nothing(profiled, content):
    folder = profiled.folder / "checkpoints"
    for path in folder.glob("journal*"):
        path.unlink()
    journal = folder / "journal.sqlite"
    if content is None:
        with journals.opened(journal) as opened:
            opened.remember("gpus", ["GPU-of-another-machine"])
    else:
        journal.write_bytes(content)
    before = journal.read_bytes()
    assert profiled.main(["report", "-n", "W_config_3", "-e", "fresh", "-o", "csv"]) == 0
    assert journal.read_bytes() == before
    assert profiled.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert profiled.runs == []
    assert len(profiled.rows()) == 28


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_analyze_reports_existing_measurements_and_starts_nothing(profiled, capsys):
    started, folder = profiled.started, profiled.folder / "checkpoints"
    before = everything(folder)
    assert profiled.main(["analyze", "-e", "fresh"]) == 0
    text = (profiled.folder / "fresh/results/metrics-model-inference.csv").read_text()
    assert len(text.strip().splitlines()) == 29
    assert (profiled.folder / "fresh/reports/summaries/W/result_summary.md").exists()
    assert (profiled.folder / "fresh/reports/detailed/W_config_5/detailed_report.md").exists()
    assert profiled.started == started
    assert everything(folder) == before
    assert "W_config_5 is" in capsys.readouterr().out


def test_analyze_ranks_by_the_given_limits(profiled):
    words = ["--latency-budget", "4", "--profile-models", "W", "-m", "no/such/repository"]
    assert profiled.main(["analyze", "-e", "fresh", *words]) == 0
    text = (profiled.folder / "fresh/reports/summaries/W/result_summary.md").read_text()
    assert "Max p99 Latency: 4 ms" in text
    rows = (profiled.folder / "fresh/results/metrics-model-inference.csv").read_text()
    assert ",No," in rows
    assert ",Yes," in rows


def test_analyze_without_a_journal_reads_the_checkpoint(profiled):
    for path in (profiled.folder / "checkpoints").glob("journal*"):
        path.unlink()
    assert profiled.main(["analyze", "-e", "fresh"]) == 0
    text = (profiled.folder / "fresh/results/metrics-model-inference.csv").read_text()
    assert len(text.strip().splitlines()) == 29


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-s", "elsewhere"], "no checkpoint in 'elsewhere'"),
        (["--profile-models", "Q"], "'Q' has not been measured"),
    ],
)
def test_analyze_reports_missing_measurements(profiled, capsys, words, said):
    assert profiled.main(["analyze", "-e", "new", *words]) == 1
    assert said in capsys.readouterr().err
    assert not (profiled.folder / "new").exists()
