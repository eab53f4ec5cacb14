"""`inferometer check`: valid files, mistakes, and that nothing a file names is run or opened."""

from pathlib import Path

import pytest

from inferometer.cli import main
from inferometer.scenario.ready import FOLDER
from tests.support.commands import Ended, call_here


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*words: str) -> Ended:
    return call_here(main.main, "check", *words)


def test_the_included_scenarios_are_valid() -> None:
    files = sorted(map(str, FOLDER.glob("*.yaml")))
    ended = check(*files)
    assert ended.code == 0, ended
    assert ended.stdout.splitlines() == [f"{name}: valid scenario" for name in files]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "url: localhost:8000\nconcurrency: [1, 2]\n",
            "valid options file; requires trust, values not checked: url",
        ),
        ("duration: 5s\nfind: {slo: p99<5ms}\n", "valid options file"),
        ("", "valid options file"),
        ("classes: {a: {model: m, rate: 3, slo: p99<5ms}}\n", "valid scenario"),
        ("classes: {a: {visit: 'evil.py:go', steps: [m]}}\n", "valid scenario"),
    ],
)
def test_a_valid_file_is_named_with_its_kind(folder: Path, text: str, said: str) -> None:
    (folder / "inferometer.yaml").write_text(text)
    (folder / "evil.py").write_text("open('was-run', 'w')")
    ended = check()
    assert (ended.code, ended.stdout) == (0, f"inferometer.yaml: {said}\n")
    assert not (folder / "was-run").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concurrancy: 4\n", "did you mean 'concurrency'?"),
        ("concurrency: [1, 2\n", "not YAML"),
        ("duration: soon\n", "soon"),
        ("classes: {a: {rate: 3, slo: p99}}\n", "classes.a.slo: 'p99' in the SLO"),
        ("classes: {a: {shape: climb 3}}\n", "classes.a.shape"),
        ("classes: {a: {rate: 3, concurrency: 2}}\n", "only one load"),
        ("classes: {a: {rate: 3}}\nphases: [{name: x, for: 5 apples}]\n", "phases.0.for"),
        (
            "classes: {a: {}}\nmlperf: {scenario: server, slo: mean<1s}\n",
            "mlperf.slo: 'mean<1s' is not a latency target",
        ),
    ],
)
def test_a_mistake_is_named_with_its_file(folder: Path, text: str, said: str) -> None:
    (folder / "it.yaml").write_text(text)
    (folder / "good.yaml").write_text("duration: 5s\n")
    ended = check("it.yaml", "good.yaml")
    assert ended.code == 2
    assert said in ended.stderr
    assert "it.yaml" in ended.stderr
    assert "good.yaml: valid options file" in ended.stdout  # one mistake does not hide the other files


def test_a_misspelled_key_of_a_scenario_is_corrected(folder: Path) -> None:
    (folder / "inferometer.yaml").write_text(
        "clases: {a: {model: m, rate: 3}}\nphases: [{name: p, for: 1s}]\n"
    )
    ended = check()
    assert ended.code == 2
    assert "clases is not a known key; did you mean 'classes'?" in ended.stderr


def test_a_missing_file_is_named() -> None:
    ended = check("absent.yaml")
    assert ended.code == 2
    assert "absent.yaml" in ended.stderr
