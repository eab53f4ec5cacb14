"""`inferometer gate` on planted stores: its verdict, its exit code, and its tags in the store."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from inferometer.base.answer_file import write
from inferometer.cli.main import main
from inferometer.compare.regression import ACCEPTED_TAG, FAILED_TAG, SUSPECTED_TAG, RegressionCheck
from inferometer.options.command_line import Request
from inferometer.options.command_line import read as read_words
from inferometer.report.saved import read
from inferometer.store.run import Point, Run
from inferometer.store.run_folder import RunFolder
from inferometer.store.store import Store
from tests.support.planted_store import noisy, planted_figures, planted_history
from tests.support.reports import sample_result

FINE, REGRESSION, INCONCLUSIVE, INVALID, USAGE = 0, 1, 2, 3, 64


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFEROMETER_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def plant(folder: Path, good: int = 20, new: int = 1, step: float = 0.0, seed: int = 1) -> list[Run]:
    return planted_history(folder, planted_figures(good + new, seed=seed, step=step, at=good))


def tags(folder: Path, run: Run) -> tuple[str, ...]:
    return Store(folder).get(run.id).tags


def test_a_run_like_the_earlier_ones_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = plant(folder)
    assert main(["gate", "-q"]) == FINE
    said = capsys.readouterr().out
    assert re.match(
        f"Run {runs[-1].id[:4]} shows no regression of [^(]*or more.*against the last 20 good runs", said
    )
    assert tags(folder, runs[-1]) == ()


def test_a_regression_fails_and_no_longer_counts_as_good(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = plant(folder, step=-0.12)
    assert main(["gate", "-q"]) == REGRESSION
    said = capsys.readouterr().out
    assert said.startswith(f"Regression in run {runs[-1].id[:4]}, against the last 20 good runs (")
    assert "throughput -1" in said
    assert "at concurrency 4" in said
    assert tags(folder, runs[-1]) == (FAILED_TAG,)


def test_a_regression_never_becomes_the_baseline(folder: Path) -> None:
    plant(folder, step=-0.12, new=15)
    ids = [run.id for run in reversed(Store(folder).runs(limit=15))]
    assert [main(["gate", run, "-q"]) for run in ids] == [REGRESSION] * 15


def test_an_unjudged_regression_does_not_become_the_baseline(folder: Path) -> None:
    plant(folder, good=12, step=-0.12, new=8)
    assert main(["gate", "-q", "--no-tags"]) == REGRESSION


def test_a_new_baseline_can_be_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = plant(folder, step=-0.12, new=3)
    assert main(["gate", runs[20].id, "-q"]) == REGRESSION
    assert main(["gate", "--accept", runs[20].id]) == FINE
    assert tags(folder, runs[20]) == (ACCEPTED_TAG,)
    assert "the new baseline" in capsys.readouterr().out
    assert main(["gate", runs[22].id, "-q"]) == FINE


def test_an_improvement_passes_and_becomes_the_baseline(folder: Path) -> None:
    planted_history(folder, planted_figures(18, seed=1, step=0.15, at=12))
    figures = ["--figure", "throughput", "--figure", "p50"]
    assert main(["gate", "-q", *figures]) == FINE
    planted_history(folder, planted_figures(1, seed=5), first=18)  # as slow as before
    assert main(["gate", "-q", *figures]) == REGRESSION


def test_a_suspicious_run_is_settled_by_the_next_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = plant(folder, good=10, step=-0.028, new=2)
    first, second = runs[-2:]
    Store(folder).remove(second)
    assert main(["gate", "-q", "--figure", "throughput"]) == INCONCLUSIVE
    assert "measure once more" in capsys.readouterr().out
    assert tags(folder, first) == (SUSPECTED_TAG,)
    planted_history(folder, {"throughput": [first.figures["throughput"].value]}, first=11)
    assert main(["gate", "-q", "--figure", "throughput"]) == REGRESSION
    assert f"runs {first.id[:4]}, {second.id[:4]}" in capsys.readouterr().out
    assert tags(folder, first) == tags(folder, second) == (FAILED_TAG,)


def test_a_suspicious_run_is_cleared_by_a_good_one(folder: Path) -> None:
    runs = plant(folder, good=10, step=-0.028)
    assert main(["gate", "-q", "--figure", "throughput"]) == INCONCLUSIVE
    planted_history(folder, {"throughput": [1000.0]}, first=11)
    assert main(["gate", "-q", "--figure", "throughput"]) == FINE
    assert tags(folder, runs[-1]) == ()


def test_a_gate_without_the_power_to_fail_is_inconclusive(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted_history(folder, {"throughput": noisy(21, seed=1, sd=0.2)})
    assert main(["gate", "-q"]) == INCONCLUSIVE
    assert "a pass would mean nothing" in capsys.readouterr().out
    assert main(["gate", "-q", "--allow-inconclusive"]) == FINE
    assert main(["gate", "-q", "--matters", "90%"]) == FINE


OLD_STEP: dict[str, Any] = {
    "step": -0.05,
    "at": 17,
}  # of 21 runs, the three before the judged one are slower


def codes(figures: Callable[[int], list[float]], folder: Path) -> list[int]:
    found = []
    for seed in range(20):
        planted_history(folder / str(seed), {"throughput": figures(seed)})
        words = ["gate", "-q", "--store", str(folder / str(seed)), "--figure", "throughput"]
        found.append(main(words))
    return found


def test_an_old_step_is_named_or_inconclusive(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = codes(lambda seed: noisy(21, seed=seed, **OLD_STEP), folder)
    assert FINE not in found
    assert found.count(REGRESSION) >= 15
    assert "since run" in capsys.readouterr().out


def test_a_drift_is_named_or_inconclusive(folder: Path) -> None:
    def drifting(seed: int) -> list[float]:
        return [value * 0.95 ** (n / 20) for n, value in enumerate(noisy(21, seed=seed, sd=0.01))]

    found = codes(drifting, folder)
    assert FINE not in found
    assert found.count(REGRESSION) >= 10


def test_unchanged_histories_do_not_fail(folder: Path) -> None:
    found = codes(lambda seed: noisy(21, seed=seed), folder)
    assert found.count(REGRESSION) <= 1  # 1 % of all gates fail by chance
    assert found.count(FINE) >= 17


@pytest.mark.parametrize("good", [0, 5])
def test_too_little_history_is_inconclusive(
    folder: Path, good: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder, good=good)
    assert main(["gate", "-q"]) == INCONCLUSIVE
    assert "8 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("step", "condition", "code"),
    [
        (0.0, "throughput < -20%", FINE),
        (0.0, "throughput < -2%", INCONCLUSIVE),
        (-0.12, "throughput < -2%", REGRESSION),
        (-0.12, "throughput < -30%, p50 > +40%", FINE),
        (-0.3, "p50 > +10%", REGRESSION),
    ],
)
def test_conditions_override_the_default_rule(folder: Path, step: float, condition: str, code: int) -> None:
    plant(folder, step=step)
    assert main(["gate", "-q", "--fail-if", condition]) == code


def test_runs_measured_differently_do_not_count(folder: Path) -> None:
    plant(folder, good=6)
    for number, known in enumerate(({"host_class": "another"}, {"model": "other"}, {"command": "find"})):
        planted_history(folder, planted_figures(10, seed=number), first=50 * (number + 1), **known)
    ids = [
        run.id
        for run in Store(folder).runs()
        if (run.host_class, run.model, run.command) == ("x86_64, 4 x a processor", "simple", "measure")
    ]
    assert main(["gate", ids[0], "-q"]) == INCONCLUSIVE


def test_throughput_is_not_judged_at_a_rate(folder: Path) -> None:
    figures = planted_figures(12, seed=1)
    for number in range(12):
        row = {name: values[number : number + 1] for name, values in figures.items()}
        (run,) = planted_history(folder, row, first=number)
        point = Point("request_rate", 100.0, run.figures)
        RunFolder(folder / "runs" / run.id).write(replace(run, points=(point,)))
    assert main(["gate", "-q", "--json", "gate.json"]) == FINE
    assert [row["figure"] for row in json.loads(Path("gate.json").read_text())["judgements"]] == [
        "p50",
        "p99",
    ]


def test_a_saved_result_is_judged_by_the_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(folder)
    for number in range(10):
        with store.begin("measure", ["measure"]) as keeper:
            keeper.save(sample_result(speed=1 + 0.01 * (number % 3)))
            keeper.end(0)
    write(sample_result(speed=0.7), Path("slow.json"))
    write(replace(sample_result(), started_at="2099-01-01T00:00:00+00:00"), Path("same.json"))
    slow = replace(sample_result(speed=0.7), started_at="2099-01-01T00:00:00+00:00")
    write(slow, Path("slow.json"))
    assert main(["gate", "same.json", "-q"]) == FINE
    assert main(["gate", "slow.json", "-q"]) == REGRESSION
    assert "run slow.json" in capsys.readouterr().out
    batch = replace(slow, effective=replace(slow.effective, batch=8))
    write(batch, Path("batch.json"))
    assert main(["gate", "batch.json"]) == INCONCLUSIVE
    assert "batch size is 1 and 8" in capsys.readouterr().out


def test_a_run_whose_requests_failed_is_invalid(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from inferometer.stats.measurement import FailureGroup

    failing = sample_result(failures=(FailureGroup("http 503", 500, "", 0.0, 1.0),))
    write(failing, Path("failing.json"))
    plant(folder)
    assert main(["gate", "failing.json", "-q"]) == INVALID
    assert "of the requests failed" in capsys.readouterr().out


def test_every_report_form_is_written_and_read_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(folder, step=-0.12)
    forms = [
        "--json",
        "g.json",
        "--junit",
        "g.xml",
        "--markdown",
        "g.md",
        "--html",
        "g.html",
        "--csv",
        "g.csv",
    ]
    assert main(["gate", *forms]) == REGRESSION
    check = read(Path("g.json"))
    assert isinstance(check, RegressionCheck)
    assert check.outcome == "regression"
    cases = ET.parse("g.xml").getroot()
    assert (cases.get("tests"), cases.get("name")) == ("4", "inferometer gate")
    assert int(str(cases.get("failures"))) >= 1
    assert "Regression in run" in Path("g.md").read_text()
    assert "Regression in run" in Path("g.html").read_text()
    assert Path("g.csv").read_text().startswith("figure,mode,value,outcome")
    assert main(["view", "g.json", "--markdown", "again.md"]) == 0
    assert Path("again.md").read_text() == Path("g.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ffff"], "there is no run"),
        (["missing.json"], "cannot be read"),
        (["--figure", "p98"], "'p98' is not a figure of a run's history"),
        (["--figure", "p50", "--fail-if", "p99 > +5%"], "names a figure that is not judged"),
        (["--fail-if", "p99 > 5"], "needs a %"),
        (["--accept", "ffff"], "there is no run"),
        (["--runs", "3"], "--runs"),
    ],
)
def test_wrong_usage_is_refused(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder, good=2)
    assert main(["gate", *words]) == USAGE
    assert said in capsys.readouterr().err


def test_an_empty_store_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate"]) == USAGE
    assert "no finished run" in capsys.readouterr().err


WORKFLOW = Path(__file__).parents[3] / "docs" / "examples" / "inferometer-gate.yml"


def test_the_workflow_of_the_docs_has_only_commands_and_options_that_exist() -> None:
    document = yaml.safe_load(WORKFLOW.read_text())
    scripts = [step["run"] for job in document["jobs"].values() for step in job["steps"] if "run" in step]
    lines = re.findall(r"inferometer (measure|gate|serve)\b([^;|&>}]*)", "\n".join(scripts))
    assert {name for name, _ in lines} == {"measure", "gate", "serve"}
    for name, words in lines:
        command = import_module(f"inferometer.cli.{name}").COMMAND
        assert isinstance(read_words(shlex.split(words), command), Request)


def test_the_workflow_passes_on_the_verdict(folder: Path, tmp_path: Path) -> None:
    """Run its script with a gate that is inconclusive once and then fails or passes."""
    document = yaml.safe_load(WORKFLOW.read_text())
    (script,) = [
        step["run"] for step in document["jobs"]["gate"]["steps"] if step.get("name") == "Measure and judge"
    ]
    for codes, expected, measured in (
        ((0,), 0, 1),
        ((1,), 1, 1),
        ((2, 1), 1, 2),
        ((2, 2), 0, 2),
        ((3,), 1, 1),
    ):
        (tmp_path / "codes").write_text("\n".join(map(str, codes)) + "\n")
        shim = (
            "inferometer() { case $1 in measure) echo x >> measured;; gate) : > gate.md; "
            "code=$(head -n1 codes); sed -i 1d codes; return $code;; esac; }\n"
        )
        (tmp_path / "measured").write_text("")
        done = subprocess.run(
            ["bash", "-ec", shim + script],
            env={**os.environ, "GITHUB_STEP_SUMMARY": "summary", "GITHUB_REF_NAME": "main"},
            check=False,
        )
        assert (done.returncode, len((tmp_path / "measured").read_text().split())) == (expected, measured)
