"""The session around a search, with a fake server and a fake meter."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inferometer.base.errors import PeerError
from inferometer.stats.watcher import Watcher
from inferometer.tune import journal as journals
from inferometer.tune.deployment import ServerDeployment
from inferometer.tune.meter import TrialError, TrialFigures
from inferometer.tune.scoring import Goal
from inferometer.tune.search.brute import brute
from inferometer.tune.search.search import ModelProblem, Proposal, SearchProblem
from inferometer.tune.session import TrialRunner, run
from inferometer.tune.settings import Addresses, LaunchSettings, SearchSettings
from inferometer.tune.space import SearchBounds, automatic
from inferometer.tune.study import Study, recommend
from inferometer.tune.trial import ClientLoad, Trial
from inferometer.tune.variant import VariantNames
from tests.unit.tune.scripted import Formula, W, answer, server

BOUNDS = SearchBounds(instances=(1, 2), batch=(1, 4), concurrency=(1, 8))


@dataclass
class FakeServer:
    """Dies on request."""

    starts: int = 0
    is_up: bool = False
    addresses: Addresses = field(default_factory=Addresses)
    pid: int | None = None

    def start(self) -> None:
        self.starts += 1
        self.is_up = True

    def stop(self) -> None:
        self.is_up = False

    def is_running(self) -> bool:
        return self.is_up

    def end_words(self) -> str:
        return "was killed by SIGKILL; its last line: Aborted"


class FakeDeployment(ServerDeployment):
    """Loads nothing."""

    def __init__(self, server: FakeServer, refused: tuple[str, ...] = (), why: str = "") -> None:
        super().__init__(server, LaunchSettings())
        self.refused = refused
        self.why = why
        self.loaded: list[str] = []

    def apply(self, variants) -> bool:
        name = variants[0].name
        if name in self.refused:
            raise PeerError(f"failed to load '{name}'{self.why}")
        is_fresh = not self.loaded or self.loaded[-1] != name
        if is_fresh:
            self.loaded.append(name)
        return is_fresh


@dataclass
class FakeMeter:
    """Answers by formula, and counts."""

    formula: Formula = server
    sent: str = ""
    runs: list[str] = field(default_factory=list)
    stop_after: int | None = None
    on_measure: Callable[[int], object] | None = None
    rate_unit: str | None = None

    def fingerprint(self, models) -> str:
        return self.sent

    def measure(self, proposal, deployment, *, is_fresh) -> TrialFigures:
        if self.stop_after is not None and len(self.runs) >= self.stop_after:
            raise KeyboardInterrupt
        self.runs.append(proposal.key)
        if self.on_measure is not None:
            self.on_measure(len(self.runs))
        trial = answer(proposal, self.formula, 0)
        if not trial.is_measured:
            raise TrialError("timed out")
        return TrialFigures(tuple(part.figures for part in trial.parts))

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


class Trials(Watcher):
    def __init__(self, stop_after: int | None = None) -> None:
        self.trials: list[Trial] = []
        self.stop_after = stop_after

    def tried(self, trial) -> None:
        self.trials.append(trial)

    def is_interrupted(self) -> bool:
        return self.stop_after is not None and len(self.trials) >= self.stop_after


def study_of(path: Path, meter: FakeMeter, *, deployment=None, watcher=None, has_measured=False) -> Study:
    space = automatic("W", W, BOUNDS, cpu_only=True)
    scope = SearchProblem((ModelProblem(space, Goal("W")),), SearchSettings(bounds=BOUNDS))
    with journals.opened(path) as journal:
        names = VariantNames.of(journal.variants())
        lab = TrialRunner(
            deployment or FakeDeployment(FakeServer()), meter, journal, names, watcher or Trials()
        )
        lab.has_measured = has_measured
        blank = Study("test", "online", "brute", scope.goals)
        return run(lab, brute(scope, names), blank)


def best_of(study: Study) -> tuple[object, ...]:
    found = recommend(study)
    assert found is not None
    return found.best.name, found.best.best.load, found.gain_percent, found.is_sure


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "journal.sqlite"


def test_a_finished_search_is_repeated_without_measuring(path):
    first = study_of(path, FakeMeter())
    again = FakeMeter()
    second = study_of(path, again)
    assert again.runs == []
    assert len(second.trials) == len(first.trials) == 28
    assert recommend(second) == recommend(first)


@pytest.mark.parametrize("after", [0, 1, 7, 27])
def test_a_killed_search_resumes(path, after):
    with contextlib.suppress(KeyboardInterrupt):
        study_of(path, FakeMeter(stop_after=after))
    rest = FakeMeter()
    resumed = study_of(path, rest)
    whole = study_of(path.with_name("other.sqlite"), FakeMeter())
    assert len(rest.runs) == 28 - after
    assert best_of(resumed) == best_of(whole)
    assert [trial.name for trial in resumed.trials] == [trial.name for trial in whole.trials]


def test_an_interrupted_search_ends_after_the_running_trial(path):
    found = study_of(path, FakeMeter(), watcher=Trials(stop_after=5))
    assert (len(found.trials), found.ended) == (5, "interrupted")


def test_a_trial_proposed_twice_is_listed_once(path):
    def twice(names):
        proposal = Proposal(((names.variant("W", W, {}), ClientLoad(2)),))
        yield proposal
        yield proposal
        return "seen twice"

    with journals.opened(path) as journal:
        names = VariantNames()
        lab = TrialRunner(FakeDeployment(FakeServer()), FakeMeter(), journal, names, Watcher())
        found = run(lab, twice(names), Study("test", "online", "", (Goal("W"),)))
    assert [trial.number for trial in found.trials] == [0]


def test_other_payloads_are_measured_again(path):
    study_of(path, FakeMeter())
    other = FakeMeter(sent="other data")
    study_of(path, other)
    assert len(other.runs) == 28


def test_a_variant_that_cannot_be_loaded_does_not_affect_others(path):
    found = study_of(path, FakeMeter(), deployment=FakeDeployment(FakeServer(), refused=("W_config_2",)))
    assert [trial.reason for trial in found.not_done] == ["failed to load 'W_config_2'"]
    assert len(found.measured) == 24


def test_a_dead_server_is_restarted_and_the_reason_recorded(path):
    host = FakeServer(is_up=True)

    def die(number: int) -> None:
        if number == 10:
            host.is_up = False
            raise TrialError("no answer")

    found = study_of(path, FakeMeter(on_measure=die), deployment=FakeDeployment(host))
    (failed,) = found.not_done
    assert failed.reason == "the server was killed by SIGKILL; its last line: Aborted: no answer"
    assert host.starts == 1
    assert len(found.measured) == 28


def test_a_trial_that_times_out_is_recorded_with_its_reason(path):
    def slow(variant, load):
        return None if variant.name == "W_config_2" else server(variant, load)

    found = study_of(path, FakeMeter(slow))
    assert [trial.reason for trial in found.not_done] == ["timed out"]


def test_two_failures_at_the_start_end_the_search(path):
    with pytest.raises(PeerError, match=r"first 2 attempts .* failed; the last: timed out"):
        study_of(path, FakeMeter(lambda variant, load: None))


def test_a_model_that_never_works_does_not_end_a_working_session(path):
    found = study_of(path, FakeMeter(lambda variant, load: None), has_measured=True)
    assert not found.measured
    assert {trial.reason for trial in found.not_done} == {"timed out"}


def test_a_reason_is_one_line(path):
    def broken(variant, load):
        raise TrialError("it broke\nAt:\n  model.py(3)\n")

    found = study_of(path, FakeMeter(broken), has_measured=True)
    assert found.not_done[0].reason == "it broke At: model.py(3)"


def test_failed_trials_are_retried_only_after_the_search_has_ended(path):
    def slow(variant, load):
        return None if variant.name == "W_config_2" else server(variant, load)

    study_of(path, FakeMeter(slow))
    mended = FakeMeter()
    study_of(path, mended)
    assert len(mended.runs) == 4  # the loads of the failed variant


def test_running_out_of_memory_is_a_result_and_the_search_continues(path):
    large = ("W_config_default", "W_config_0")
    full = FakeDeployment(FakeServer(is_up=True), large, ": CUDA out of memory")
    study = study_of(path, FakeMeter(), deployment=full)
    assert {trial.name for trial in study.not_done} == set(large)
    assert all("out of memory" in trial.reason for trial in study.not_done)
    assert study.measured
    broken = FakeDeployment(FakeServer(is_up=True), large)
    with pytest.raises(PeerError, match="the first 2 attempts"):
        study_of(path.with_name("other"), FakeMeter(), deployment=broken)
