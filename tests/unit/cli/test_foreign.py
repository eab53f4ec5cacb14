"""Other tools' files on the command line: viewed, compared, stored, and written."""

import json
from pathlib import Path

import pytest

from inferometer.base.answer_file import write
from inferometer.cli.main import main
from inferometer.report.kinds import TYPES
from inferometer.stats.result import Result
from inferometer.stats.saved import read
from tests.support.foreign import foreign_file
from tests.support.reports import sample_comparison, sample_text

AIPERF, LINES, GUIDELLM = (
    str(foreign_file(name))
    for name in ("profile_export_aiperf.json", "profile_export.jsonl", "guidellm.json")
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(*words: str) -> tuple[int, str, dict]:
    code = main(["compare", *words, "--max-error-rate", "10%", "--json", "it.json", "-q"])
    found = json.loads(Path("it.json").read_text())
    return code, found["contrasts"][0]["verdict"], found


def test_a_summary_never_decides_a_comparison() -> None:
    code, verdict, found = compared(AIPERF, GUIDELLM, "--fail-if", "p99 > +5%")
    rows = found["contrasts"][0]["levels"][0]["differences"]
    assert (code, verdict) == (2, "inconclusive")
    assert {row["metric"] for row in rows} >= {"throughput", "p50", "p99"}
    assert {row["reason"] for row in rows} == {"a file without single requests has no interval"}
    assert all(row["percent"]["low"] is None for row in rows)


def test_single_requests_give_intervals() -> None:
    _, _, found = compared(LINES, GUIDELLM)
    rows = {row["metric"]: row for row in found["contrasts"][0]["levels"][0]["differences"]}
    assert rows["throughput"]["percent"]["low"] is not None
    assert any("does not state its load" in note for note in found["notes"])


def test_different_loads_are_refused_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    server = str(foreign_file("mlperf_server.txt"))
    assert main(["compare", AIPERF, server]) == 3
    assert "kind of load is concurrency and request_rate" in capsys.readouterr().err
    assert compared(AIPERF, server, "--force")[1] == "inconclusive"


@pytest.mark.parametrize("path", sorted(foreign_file("").iterdir()), ids=lambda path: path.name)
def test_every_file_can_be_viewed_in_every_form(path: Path) -> None:
    forms = ("--html", "--markdown", "--csv", "--json", "--junit")
    words = [word for form in forms for word in (form, f"it{form}")]
    assert main(["view", str(path), *words, "-q"]) == 0
    page = Path("it--markdown").read_text()
    assert "Client CPU" not in page.partition("## All levels")[0]
    assert "measured by" in page
    assert "too few" not in page.partition("## More figures")[0]
    assert read(Path("it--json"), Result) == read(path, Result)


def test_imported_files_are_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "import", AIPERF, GUIDELLM, "--store", "kept"]) == 0
    first = capsys.readouterr().out.splitlines()[0].partition(":")[0]
    assert main(["runs", "show", first, "--json", "-", "--store", "kept"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["command"], run["model"], run["state"], run["host"]) == ("aiperf", "m", "finished", "")
    assert run["figures"]["throughput"][0] == pytest.approx(24.962, abs=1e-3)
    assert main(["view", first, "--markdown", "-", "--store", "kept"]) == 0
    assert main(["runs", "import", "--store", "kept"]) == 2


def test_results_are_written_for_other_tools(capsys: pytest.CaptureFixture[str]) -> None:
    write(sample_text(), Path("run.json"))
    assert main(["view", "run.json", "--as", "aiperf", "--output", "out"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "out/concurrency1/profile_export_aiperf.json"
    assert "its requests were not exported: measure with --export" in said.err
    assert not Path("run.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "aiperf"], "--as needs a folder"),
        (["--output", "out"], "--output applies only to --as"),
        (["--requests", "x.json"], "--requests applies only to --as"),
        (["--as", "wrk", "--output", "out"], "aiperf"),
        (["--as", "vllm", "--output", "out", "--requests", "none.json"], "none.json"),
        (
            ["--as", "vllm", "--output", "out", "--requests", "run.json"],
            "'run.json' is not an export of requests",
        ),
    ],
)
def test_mistakes_with_other_tools(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(sample_text(), Path("run.json"))
    assert main(["view", "run.json", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_twin_needs_the_server_s_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "fit", GUIDELLM]) == 2
    assert (
        "was written by guidellm 0.8.1, which does not state the server's own times"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["guidellm.json", "profile_export_aiperf.json"])
def test_a_capacity_plan_takes_any_file(name: str) -> None:
    words = ["--options", str(foreign_file(name)), "--traffic", "50/s", "--slo", "p99<1s"]
    assert main(["capacity", *words, "--json", "plan.json", "-q"]) in (0, 1, 5)
    assert json.loads(Path("plan.json").read_text())["kind"] == "capacity"


def test_only_measurements_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    write(sample_comparison(), Path("it.json"))
    assert main(["view", "it.json", "--as", "aiperf", "--output", "out"]) == 2
    assert "only measurements" in capsys.readouterr().err
    assert Result in TYPES
