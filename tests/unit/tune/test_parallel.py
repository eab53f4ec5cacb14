"""A search on several servers at once, with fake servers and a fake clock."""

import heapq
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.units import NS_PER_S
from inferometer.stats.watcher import Watcher
from inferometer.tune import journal as journals
from inferometer.tune.attempt import Attempt
from inferometer.tune.machine import ServerMachine, most_alike
from inferometer.tune.meter import TrialFigures
from inferometer.tune.parallel import ParallelTrials, ServerLost
from inferometer.tune.search.search import Proposal, Wait
from inferometer.tune.search.smart import smart
from inferometer.tune.variant import VariantNames
from tests.support.landscape import Landscape, SimulatedTrials
from tests.support.simulated_search import scope_of

SEED = 5
MACHINE = ServerMachine("10.0.0.1", "Xeon", (0, 1), 16 * 2**30)


@dataclass
class FakeServers:
    """Servers that answer according to the landscape; `losses` is the time after which each server is lost."""

    count: int = 2
    losses: dict[int, float] = field(default_factory=dict)
    dies: tuple[str, ...] = ()  # variants with which the model server dies
    now_s: float = 0.0
    begun: list[tuple[int, str]] = field(default_factory=list)
    is_interrupted: bool = False

    def __post_init__(self) -> None:
        self.machines = [replace(MACHINE, place=f"10.0.0.{number + 1}") for number in range(self.count)]
        self._sims = [SimulatedTrials(Landscape.drawn(SEED), SEED, loading=1.0) for _ in range(self.count)]
        self._events: list[tuple[float, int, Attempt | ServerLost]] = []

    def clock(self) -> int:
        return round(self.now_s * NS_PER_S)

    def begin(self, server: int, proposal: Proposal) -> None:
        assert all(server != other for _, other, _ in self._events), "one trial at a time"
        self.begun.append((server, proposal.key))
        trial = self._sims[server].answer(proposal)
        ends_s = self.now_s + trial.cost_s
        outcome: Attempt | ServerLost = Attempt(
            TrialFigures(tuple(part.figures for part in trial.parts)), trial.loading_s
        )
        if trial.name in self.dies:
            outcome = Attempt(None, reason="the server ended: killed", is_running=False)
        if ends_s > self.losses.get(server, float("inf")):
            ends_s, outcome = max(self.now_s, self.losses[server]), ServerLost("its node was lost")
        heapq.heappush(self._events, (ends_s, server, outcome))

    def ended(self, timeout_s: float) -> list[tuple[int, Attempt | ServerLost]]:
        self.now_s, server, outcome = heapq.heappop(self._events)
        return [(server, outcome)]

    def interrupt(self) -> None:
        self.is_interrupted = True


class Said(Watcher):
    def __init__(self, stop_after: float = float("inf"), servers: FakeServers | None = None) -> None:
        self.lines: list[str] = []
        self._stop_after, self._servers = stop_after, servers

    def said(self, text, *, is_detail=False, is_warning=False) -> None:
        self.lines.append(text)

    def is_interrupted(self) -> bool:
        return self._servers is not None and self._servers.now_s > self._stop_after


def searched(path: Path, servers: FakeServers, watcher: Watcher | None = None, budget_s=None):
    scope = replace(scope_of(SEED, budget_s=budget_s), servers=servers.count)
    names = VariantNames()
    steps, told = smart(scope, names), None
    with journals.opened(path) as journal:
        doing = ParallelTrials(
            servers,
            journal,
            watcher or Said(),
            lambda proposal: proposal.key,
            "m",
            since_ns=0,
            clock=servers.clock,
        )
        while True:
            try:
                event = steps.send(told)
            except StopIteration:
                return doing
            told = None
            if isinstance(event, Proposal):
                doing.start(event)
            elif isinstance(event, Wait):
                told = doing.next_trial()
                if told is None:
                    doing.end()
                    return doing


def test_all_servers_measure_and_every_trial_records_its_server(tmp_path):
    servers = FakeServers(3)
    doing = searched(tmp_path / "j", servers)
    assert {trial.server for trial in doing.trials} == {1, 2, 3}
    by_server = {number: [t for t in doing.trials if t.server == number] for number in (1, 2, 3)}
    for trials in by_server.values():
        assert sum(trial.waited_s + trial.cost_s for trial in trials) <= servers.now_s + 1e-6
    assert max(sum(t.waited_s + t.cost_s for t in rows) for rows in by_server.values()) == pytest.approx(
        servers.now_s
    )


def test_a_lost_server_is_reported_and_another_measures_its_trial(tmp_path):
    said, servers = Said(), FakeServers(3, losses={1: 4.0})
    doing = searched(tmp_path / "j", servers, said)
    assert doing.lost == {1: "its node was lost"}
    (line,) = [line for line in said.lines if "was lost" in line]
    assert line.startswith(
        "Server 2 at 10.0.0.2 was lost: its node was lost; its trial is retried on another server"
    )
    key = [key for server, key in servers.begun if server == 1][-1]
    assert [server for server, begun in servers.begun if begun == key][-1] != 1
    (trial,) = [trial for trial in doing.trials if trial.key == key]
    assert trial.is_measured
    assert trial.server != 2
    after = [trial.server for trial in doing.trials[doing.trials.index(trial) :]]
    assert set(after) == {1, 3}


def test_losing_all_servers_ends_with_a_message_and_keeps_the_journal(tmp_path):
    with pytest.raises(LocalError, match="all servers were lost") as caught:
        searched(tmp_path / "j", FakeServers(2, losses={0: 6.0, 1: 9.0}))
    assert "journal" in caught.value.remedy
    with journals.read(tmp_path / "j") as journal:
        assert journal.trials()


class Deadly(FakeServers):
    """The first proposal makes every server that measures it fail."""

    def begin(self, server: int, proposal: Proposal) -> None:
        if not self.begun or proposal.key == self.begun[0][1]:
            self.losses[server] = self.now_s + 0.1
        super().begin(server, proposal)


def test_a_trial_that_loses_two_servers_is_considered_the_reason(tmp_path):
    servers = Deadly(4)
    doing = searched(tmp_path / "j", servers)
    assert len(doing.lost) == 2
    (trial,) = [trial for trial in doing.trials if trial.key == servers.begun[0][1]]
    assert not trial.is_measured
    assert trial.reason.startswith("2 servers were lost while measuring it")


def test_a_killed_search_continues_with_the_same_trials(tmp_path):
    whole = searched(tmp_path / "whole", FakeServers(3))
    with pytest.raises(LocalError):
        searched(tmp_path / "j", FakeServers(3, losses=dict.fromkeys(range(3), 14.0)))
    with journals.read(tmp_path / "j") as journal:
        known = len(journal.trials())
    assert known > 5
    servers = FakeServers(3)
    again = searched(tmp_path / "j", servers)
    keys = [trial.key for trial in whole.trials[:known]]
    assert [trial.key for trial in again.trials[:known]] == keys
    assert not set(keys) & {key for _, key in servers.begun}


def test_an_interrupted_search_keeps_trials_that_end_soon(tmp_path):
    servers = FakeServers(2)
    doing = searched(tmp_path / "j", servers, Said(8.0, servers))
    assert servers.is_interrupted
    with journals.read(tmp_path / "j") as journal:
        assert [trial.key for trial in journal.trials()] == [trial.key for trial in doing.trials]
    assert len(doing.trials) == len(servers.begun)


def test_a_budget_is_elapsed_time_on_all_servers(tmp_path):
    servers = FakeServers(4)
    doing = searched(tmp_path / "j", servers, budget_s=15.0)
    assert servers.now_s <= 15.0
    assert sum(trial.cost_s for trial in doing.trials) > 30.0


def test_a_dead_model_server_is_retried_once_before_the_variant_is_dropped(tmp_path):
    name = "m_config_0"
    servers = FakeServers(2, dies=(name,))
    doing = searched(tmp_path / "j", servers)
    failed = [trial for trial in doing.trials if not trial.is_measured]
    assert [trial.name for trial in failed] in ([], [name, name])


def test_user_mistakes_and_models_that_never_work_end_the_search(tmp_path):
    class Refusing(FakeServers):
        mistake: UsageError | None = None

        def ended(self, timeout_s):
            return [
                (server, Attempt(None, reason="no", mistake=self.mistake)) for server, _ in super().ended(0)
            ]

    with pytest.raises(PeerError, match="attempts to measure failed"):
        searched(tmp_path / "j", Refusing(2))
    refusing = Refusing(2)
    refusing.mistake = UsageError("no such input", remedy="give another")
    with pytest.raises(UsageError, match="m: no such input"):
        searched(tmp_path / "k", refusing)


def test_only_machines_of_the_most_common_kind_take_part():
    other = replace(MACHINE, gpus={"GPU-1": {"name": "H200", "total_memory": 1}})
    nearly = replace(MACHINE, memory_bytes=MACHINE.memory_bytes - 2**26, place="10.0.0.9")
    assert most_alike([other, MACHINE, nearly]) == [1, 2]
    assert most_alike([other, MACHINE]) == [0]
    assert nearly.digest == MACHINE.digest != other.digest
    assert other.kind == "2 x Xeon, 16 GiB, 1 x H200"
    assert replace(MACHINE, cores=(0,)).kind != MACHINE.kind
