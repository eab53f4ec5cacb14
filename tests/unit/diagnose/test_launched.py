"""Suggestions tried by restarting a server that is started by its command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.diagnose import launched
from inferometer.diagnose.diagnosis import Change, Diagnosis, Suggestion
from inferometer.diagnose.launched import Launch, changed_words, diagnose_launched
from inferometer.diagnose.llm import conclude_llm
from inferometer.diagnose.run import DiagnoseRequest, Outcome
from inferometer.diagnose.serving import KV_CACHE, SLOTS
from inferometer.observe.llm_metrics import VLLM
from inferometer.options.options import Options
from inferometer.server.launcher import ServerCommand, StartError
from inferometer.server.presets import PRESETS, option_value, with_option
from inferometer.stats.watcher import Watcher
from tests.support.llm_engine import EngineSettings, Traffic, simulated_level
from tests.support.reports import sample_diagnosis, sample_result

PARALLEL = PRESETS["llamacpp"].knobs["parallel"]
SEQUENCES = PRESETS["vllm"].knobs["max_num_seqs"]


@pytest.mark.parametrize(
    ("words", "knob", "before", "after"),
    [
        ("llama-server --port 1", PARALLEL, None, "llama-server --port 1 --parallel 8"),
        ("llama-server --parallel 4 -m x", PARALLEL, "4", "llama-server --parallel 8 -m x"),
        ("llama-server -np 4 -m x", PARALLEL, "4", "llama-server -np 8 -m x"),
        ("llama-server --parallel=4 -m x", PARALLEL, "4", "llama-server --parallel=8 -m x"),
        ("vllm serve m --max_num_seqs 4", SEQUENCES, "4", "vllm serve m --max_num_seqs 8"),
        ("s --parallel 2 --parallel 4", PARALLEL, "4", "s --parallel 2 --parallel 8"),  # the last one counts
        ("s --parallel", PARALLEL, "", "s --parallel 8"),
    ],
)
def test_an_option_is_replaced_where_it_is_or_appended(words, knob, before, after):
    assert option_value(words.split(), knob) == before
    assert " ".join(with_option(words.split(), knob, 8)) == after


def suggestion(kind: str) -> Suggestion:
    return Suggestion(Change(kind, "m", "4", "8"), "more", 16, 20.0, 1e9, 0.5, "")


@pytest.mark.parametrize(
    ("preset", "words", "kind", "expected"),
    [
        ("vllm", "vllm serve m", SLOTS, "vllm serve m --max-num-seqs 8"),
        ("sglang", "s", SLOTS, "s --max-running-requests 8"),
        ("trtllm", "t --max_batch_size 4", SLOTS, "t --max_batch_size 8"),
        ("llamacpp", "l", SLOTS, "l --parallel 8"),
        ("vllm", "v", KV_CACHE, "v --gpu-memory-utilization 0.95"),
        ("vllm", "v --gpu-memory-utilization 0.8", KV_CACHE, "v --gpu-memory-utilization 0.85"),
        ("vllm", "v --gpu-memory-utilization 0.95", KV_CACHE, None),
        ("sglang", "s", KV_CACHE, None),  # its default is not fixed
        ("llamacpp", "l", KV_CACHE, None),
        ("transformers", "t", SLOTS, None),
        ("mlserver", "m", SLOTS, None),
        ("vllm", "v", "answer tokens", None),
    ],
)
def test_the_preset_knows_the_option_of_a_suggestion(preset, words, kind, expected):
    found = changed_words(tuple(words.split()), PRESETS[preset], suggestion(kind))
    assert (None if found is None else " ".join(found)) == expected


class Machine:
    """Simulated servers by command line: the engine has as many slots as the command says."""

    def __init__(self, most_slots: int = 1_000, slower_from: int = 1_000) -> None:
        self.started: list[str] = []
        self.stopped = 0
        self.most_slots, self.slower_from = most_slots, slower_from
        self.address = "127.0.0.1:1"
        self.command: Any = None
        self.slots = 0

    def start(self, values: Any, log: Path) -> None:
        self.started.append(" ".join(self.command.words))
        self.slots = int(option_value(self.command.words, SEQUENCES) or 4)
        if self.slots > self.most_slots:
            raise StartError("the server exited with status 1 instead of starting; out of memory")

    def stop(self) -> None:
        self.stopped += 1

    def levels(self, loads: Any) -> list[Any]:
        step_s = 0.1 if self.slots >= self.slower_from else 0.01
        settings = EngineSettings(step_s=step_s, slots=self.slots)
        return [
            simulated_level(settings, Traffic(100, 20), load, seed=1, dialect=VLLM, looks_s=0.05)
            for load in loads
        ]

    def diagnosis(self, asked: DiagnoseRequest) -> Diagnosis:
        levels = self.levels((1, 8, 16))
        found = conclude_llm(levels, "m")
        plain = replace(
            sample_diagnosis("m"), trials=(), after=None, is_restored=None, results=(sample_result("m"),)
        )
        return replace(plain, verdict=found.verdict, suggestions=found.suggestions, serving=found.serving)


def diagnosed(
    monkeypatch,
    tmp_path,
    machine: Machine,
    *,
    preset: str | None = "vllm",
    words: str = "vllm serve m",
    **more: Any,
) -> Diagnosis:
    monkeypatch.setattr(launched, "LaunchedServer", lambda command: machine)
    monkeypatch.setattr(launched, "diagnose_model", lambda asked, watcher: Outcome(machine.diagnosis(asked)))
    monkeypatch.setattr(
        launched, "sweep_llm", lambda options, loads, watcher: (machine.levels(loads), sample_result("m"))
    )
    command = ServerCommand(tuple(words.split()), logs=tmp_path / "logs")
    launch = Launch(command, None if preset is None else PRESETS[preset])
    asked = replace(DiagnoseRequest(Options(), budget_s=60.0), **more)
    return diagnose_launched(asked, launch, Watcher()).diagnosis


def test_changes_that_help_are_kept_and_the_next_one_starts_from_there(monkeypatch, tmp_path):
    machine = Machine()
    found = diagnosed(monkeypatch, tmp_path, machine, words="vllm serve m --max-num-seqs 4")
    assert machine.started[:3] == [f"vllm serve m --max-num-seqs {slots}" for slots in (4, 8, 16)]
    assert [trial.is_kept for trial in found.trials[:2]] == [True, True]
    assert found.best is not None
    assert found.after is not None
    assert f"Run it with: {machine.started[2]}" in found.notes
    assert found.is_stopped
    assert machine.stopped > len(machine.started)  # before each start, and at the end


@pytest.mark.parametrize(
    ("machine", "failure"), [(Machine(most_slots=4), "out of memory"), (Machine(slower_from=8), "")]
)
def test_a_change_that_does_not_help_is_undone(monkeypatch, tmp_path, machine, failure):
    found = diagnosed(monkeypatch, tmp_path, machine)
    (trial,) = found.trials
    assert not trial.is_kept
    assert failure in trial.failure
    assert (trial.gain < 0) is not bool(failure)
    assert found.best is None
    assert not any("Run it with" in note for note in found.notes)


@pytest.mark.parametrize(
    ("preset", "more", "said"),
    [
        (None, {}, "not that of a known server"),
        ("transformers", {}, "no known option of transformers serve"),
    ],
)
def test_the_reason_for_trying_nothing_is_reported(monkeypatch, tmp_path, preset, more, said):
    found = diagnosed(monkeypatch, tmp_path, Machine(), preset=preset, **more)
    assert found.trials == ()
    assert any(said in note for note in found.notes)


def test_a_spent_budget_ends_the_trials(monkeypatch, tmp_path):
    machine = Machine()
    found = diagnosed(monkeypatch, tmp_path, machine, budget_s=1e-9)
    assert len(found.trials) <= 1


def test_without_a_budget_nothing_is_tried(monkeypatch, tmp_path):
    machine = Machine()
    assert diagnosed(monkeypatch, tmp_path, machine, budget_s=None).trials == ()
    assert machine.stopped == 2


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        ("vllm serve m --max-num-seqs {slots}", {}, "starts a server with fixed values"),
        ("vllm serve m", {"keep": True}, "--keep does not apply"),
    ],
)
def test_mistakes_are_named_before_the_server_starts(monkeypatch, tmp_path, words, more, said):
    machine = Machine()
    with pytest.raises(UsageError, match=said):
        diagnosed(monkeypatch, tmp_path, machine, words=words, **more)
    assert machine.started == []
