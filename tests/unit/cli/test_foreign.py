"""Other tools' files on the command line: viewed, compared, stored, and written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer.base.answer_file import write
from inferometer.cli.main import main
from inferometer.report.foreign.formats import write_as
from inferometer.report.kinds import TYPES
from inferometer.stats.result import Result
from inferometer.stats.saved import read
from inferometer.twin.twin import Twin
from tests.support.foreign import VLLM, foreign_file
from tests.support.reports import sample_comparison, sample_text
from tests.support.text_runs import short_text_result, short_text_twin

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
    assert {row["reason"] for row in rows} == {"a file without individual requests has no interval"}
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


def test_a_twin_is_fitted_to_files_of_several_tools(capsys: pytest.CaptureFixture[str]) -> None:
    result = short_text_result()
    for level, tool in zip(result.levels, ("aiperf", "guidellm", "vllm"), strict=True):
        write_as(replace(result, levels=(level,)), tool, Path(tool), None)
    files = [str(next(Path(name).rglob("*.json"))) for name in ("aiperf", "guidellm", "vllm")]
    assert main(["twin", "fit", *files]) == 0
    assert "only the mean lengths of prompts and answers are stated" in capsys.readouterr().out
    twin = read(Path("twin.json"), Twin)
    assert [row.load.parts[0].value for row in twin.forecasts] == [1, 3, 8]
    for row in twin.forecasts:
        assert row.bands["tpot"].value == pytest.approx(row.measured["tpot"], rel=0.1)
    assert twin.models[0].text is not None
    assert twin.models[0].text.engine.slots == 4
    assert main(["twin", "check", "-f", "twin.json", "-c", "2", "-q"]) == 2
    assert "'tiny' was measured by vllm, whose settings are not those" in capsys.readouterr().err


WITHOUT_LISTS = {name: value for name, value in VLLM.items() if not isinstance(value, list)}


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize(
    ("document", "missing"),
    [
        (json.loads(Path(LINES).read_text().splitlines()[0]), "the load that was applied"),
        (WITHOUT_LISTS, "the latency of requests"),
        (VLLM | {"request_rate": 9.0, "burstiness": 0.5}, "constant or Poisson arrivals"),
    ],
)
def test_a_twin_names_the_figure_that_a_file_lacks(
    command: str, document: dict, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("it.json").write_text(json.dumps(document))
    write(short_text_twin(), Path("twin.json"))
    assert main(["twin", command, "it.json", "-f", "twin.json"]) == 2
    said = capsys.readouterr().err
    assert "'it.json', which " in said
    assert f"does not state {missing}" in said


def test_random_arrivals_are_not_compared_with_even_ones(capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "poisson": VLLM | {"request_rate": 5.0},
        "unknown": VLLM | {"request_rate": 5.0, "burstiness": 2},
    }
    for name, document in files.items():
        Path(f"{name}.json").write_text(json.dumps(document))
    result = read(Path("poisson.json"), Result)
    even = replace(result, effective=replace(result.effective, distribution="constant"))
    write(even, Path("even.json"))
    assert main(["compare", "poisson.json", "even.json"]) == 3
    assert "distribution of send times is poisson and constant" in capsys.readouterr().err
    assert main(["compare", "poisson.json", "unknown.json", "--max-error-rate", "50%"]) != 3


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
