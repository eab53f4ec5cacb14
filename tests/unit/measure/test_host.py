"""Load of this machine during a level, and the end of a server: exactly, on fakes; and once with real parts."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import Any

import pytest

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_S
from inferometer.measure.host import HostWatch, LocalServer, ProcessTable, Used, host_remarks, together
from inferometer.observe.host import Gpu, HostSample
from inferometer.stats.machine_figures import CoreUse, HostUse
from tests.unit.report import builders as build

OURS, WORKER, SERVER, STUB = os.getpid(), 11, 20, 21
MEASURED = build.measurement(10, 900.0, 30, 2, (1, 2, 3, 4))


@dataclass
class Machine:
    """Two cores, a manual clock, and processes with prescribed CPU use."""

    now_s: float = 0.0
    busy_s: float = 0.0
    used: dict[int, Used] = field(default_factory=lambda: {OURS: Used(), WORKER: Used(), SERVER: Used()})
    pids: tuple[int, ...] = (SERVER,)
    end: str = ""
    finds: int = 0
    held_bytes: dict[int, int] = field(default_factory=dict)  # of the GPU's memory
    allowed: frozenset[int] = frozenset(os.sched_getaffinity(0))  # to the server
    watched: frozenset[int] = frozenset()

    # --- as the server, the processes, the meter and the clock

    def find(self):
        self.finds += 1
        self.end = ""

    def ended(self):
        return self.end

    def family(self, pids):
        return frozenset({SERVER, STUB} if SERVER in pids else ())

    def read(self, *, waits=False):
        gpu = Gpu(self.busy_s / 100, memory_used_bytes=900, held_bytes=self.held_bytes)
        return HostSample(self.busy_s, 2 * self.now_s, 0, {"gpu": gpu})

    def choose(self, cores):
        self.watched = cores

    def clock(self):
        return round(self.now_s * NS_PER_S)

    def watch(self, *, is_local=True):
        machine: Any = self
        table: Any = _Table(self)
        watch = HostWatch(
            machine if is_local else None,
            lambda: (WORKER,),
            cores=2,
            meter=machine,
            table=table,
            clock=self.clock,
        )
        watch.begin()
        return watch

    def run(self, seconds, busy, **cores):
        """Advance the time with this many cores busy in total, by this tool, the worker, the server and its stub."""
        names = {"ours": OURS, "worker": WORKER, "server": SERVER, "stub": STUB, "waiting": WORKER}
        self.now_s += seconds
        self.busy_s += busy * seconds
        for name, count in cores.items():
            was = self.used.get(names[name], Used(model="step" if name == "stub" else None))
            core_s = 0.0 if name == "waiting" else count * seconds
            wait_s = count * seconds if name == "waiting" else 0.0
            self.used[names[name]] = Used(was.core_s + core_s, was.wait_s + wait_s, was.model)


@dataclass
class _Table:
    machine: Machine

    def family(self, pids):
        return self.machine.family(pids)

    def used(self, pids):
        return {pid: self.machine.used[pid] for pid in pids if pid in self.machine.used}

    def allowed(self, pids):
        return self.machine.allowed if pids else frozenset()

    def cores(self, pids):
        return {pid: Used(row.core_s) for pid, row in self.used(pids).items()}


def said(use):
    return [remark.text for remark in host_remarks(use, MEASURED)]


def test_cores_used_by_neither_us_nor_the_server_belong_to_other_programs():
    machine = Machine()
    watch = machine.watch()
    for _ in range(4):
        machine.run(1.0, 2.0, ours=0.1, worker=0.2, server=0.3, stub=0.4, waiting=0.5)
        watch.look()
    use = watch.end()
    assert use.busy == pytest.approx(2.0)
    assert use.server == pytest.approx(0.7)
    assert astuple(use.ours) == pytest.approx((0.3, 0.5, 0.0))
    assert astuple(use.workers) == pytest.approx((0.2, 0.5, 0.0))
    assert list(use.models) == ["step"]
    assert astuple(use.models["step"]) == pytest.approx((0.4, 0.0, 0.0))
    assert use.others == pytest.approx(1.0)
    assert said(use) == ["other programs used 1 of this machine's 2 cores for the whole level"]
    assert [remark.note for remark in host_remarks(use, MEASURED)] == [Note.HOST_BUSY]


def test_waits_for_a_core_are_counted_with_their_number():
    """A sleeping thread is scheduled when it wakes up."""
    before = ProcessTable().used((os.getpid(),))[os.getpid()]
    time.sleep(0.001)
    after = ProcessTable().used((os.getpid(),))[os.getpid()]
    assert after.runs > before.runs
    assert after.wait_s >= before.wait_s


def test_a_server_restricted_to_other_cores_is_watched_there_too():
    ours = frozenset(os.sched_getaffinity(0))
    machine = Machine(allowed=frozenset({4000, 4001}))
    watch = machine.watch()
    machine.run(2.0, 2.5, worker=0.5, server=0.1, stub=1.9)
    use = watch.end()
    assert machine.watched == ours | {4000, 4001}
    assert use.cores == len(ours) + 2
    assert use.server_cores == 2
    assert use.is_full
    assert together([use]).server_cores == 2


def test_a_server_on_our_cores_is_not_reported_separately():
    machine = Machine()
    watch = machine.watch()
    machine.run(2.0, 1.0, server=0.5)
    assert watch.end().server_cores is None
    assert machine.watched == frozenset()


def test_gpus_are_seen_while_the_level_runs_and_not_before():
    machine = Machine(busy_s=90.0)
    watch = machine.watch()
    for _ in range(2):
        machine.run(1.0, -44.0)
        watch.look()
    use = watch.end()
    assert [gpu.utilization for gpu in use.gpus] == [pytest.approx((0.46 + 0.02 + 0.02) / 3)]
    assert use.gpu_share == use.gpus[0].utilization


@pytest.mark.parametrize(
    ("held_bytes", "servers"), [({SERVER: 100, STUB: 300, 77: 500}, 400), ({77: 900}, None), ({}, None)]
)
def test_the_servers_share_of_gpu_memory_is_separate(held_bytes, servers):
    machine = Machine(held_bytes=held_bytes)
    watch = machine.watch()
    machine.run(1.0, 1.0)
    (gpu,) = watch.end().gpus
    assert (gpu.memory_used_bytes, gpu.memory_server_bytes) == (900, servers)


@pytest.mark.parametrize(
    ("held_bytes", "strangers"), [({SERVER: 100, 77: 500}, (77,)), ({SERVER: 100}, ()), ({77: 900}, ())]
)
def test_other_programs_on_a_gpu_are_known_if_the_server_is(held_bytes, strangers):
    machine = Machine(held_bytes=held_bytes)
    watch = machine.watch()
    machine.run(1.0, 1.0)
    (gpu,) = watch.end().gpus
    assert gpu.strangers == strangers


def test_crowded_time_is_separate_from_the_rest():
    machine = Machine()
    watch = machine.watch()
    for busy in (0.5, 0.5, 0.5, 1.7):
        machine.run(2.0, busy, server=0.4)
        watch.look()
    assert said(watch.end()) == ["other programs used 1.3 of this machine's 2 cores for 25 % of the level"]


@pytest.mark.parametrize(
    ("busy", "server", "is_said"),
    [
        pytest.param(2.0, 1.9, False, id="the server alone fills it"),
        pytest.param(2.0, 1.7, True, id="a full machine, and a little of it is theirs"),
        pytest.param(1.0, 0.7, False, id="the same on a machine with a free core"),
        pytest.param(1.0, 0.3, True, id="much is theirs"),
    ],
)
def test_a_busy_host_is_reported_when_it_matters(busy, server, is_said):
    machine = Machine()
    watch = machine.watch()
    machine.run(3.0, busy, server=server)
    assert bool(said(watch.end())) == is_said


def test_with_a_remote_server_it_matters_only_if_we_are_short_of_a_core():
    machine = Machine()
    watch = machine.watch(is_local=False)
    machine.run(3.0, 1.9, worker=0.3)
    assert said(watch.end()) == []
    watch.begin()
    machine.run(3.0, 1.9, worker=0.3, waiting=0.4)
    assert said(watch.end()) == ["other programs used 1.6 of this machine's 2 cores for the whole level"]


def test_an_invisible_server_does_not_count_as_other_programs():
    machine = Machine(pids=())
    watch = machine.watch()
    machine.run(3.0, 2.0, worker=0.3)
    use = watch.end()
    assert (use.server, use.others, said(use)) == (None, None, [])
    assert machine.finds == 1, "it may have come up since"


def test_a_server_that_ended_does_not_count_as_other_programs():
    machine = Machine()
    watch = machine.watch()
    machine.run(3.0, 2.0, server=1.9)
    del machine.used[SERVER]
    watch.look()
    use = watch.end()
    assert (use.server, use.crowded_s) == (None, 0.0)


def test_a_level_without_duration_has_no_figures():
    assert Machine().watch().end() is None


def test_a_restarted_server_is_found_again():
    machine = Machine()
    watch = machine.watch()
    machine.end = "the server's process 20 has ended"
    assert watch.ended() == machine.end
    watch.begin()
    assert (watch.ended(), machine.finds) == ("", 1)


def test_turns_are_weighted_by_their_duration():
    one = HostUse(
        *(2, 2.0, 0.5),
        ours=CoreUse(0.5, 0.1),
        seconds=1.0,
        crowded_s=1.0,
        crowded_cores=1.0,
        workers=CoreUse(0.4, 0.0, 8.0),
    )
    other = HostUse(2, 1.0, 0.5, ours=CoreUse(0.5, 0.1), seconds=3.0, workers=CoreUse(0.0, 0.4, 4.0))
    use = together([one, None, other])
    assert (use.busy, use.server, use.seconds) == (1.25, 0.5, 4.0)
    assert astuple(use.workers) == pytest.approx((0.1, 0.3, 5.0))
    assert said(use) == ["other programs used 1 of this machine's 2 cores for 25 % of the level"]
    assert together([None]) is None


# --- with real parts

LISTENING = """
import socket, sys, time
sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
print("a last word\\n\\n", file=sys.stderr, flush=True)
sys.stdin.readline()
sys.exit(7)
"""


@pytest.fixture
def server(tmp_path) -> Iterator[subprocess.Popen[str]]:
    with (
        (tmp_path / "server.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", LISTENING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield process
        process.kill()


def kill(process):
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def end(process):
    process.stdin.write("\n")
    process.stdin.flush()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def end_and_wait(process):
    """Reap the server, so that its exit status is unknown to others."""
    process.communicate("\n")


@pytest.mark.parametrize(
    ("ended", "words"),
    [(kill, "was killed by SIGKILL"), (end, "exited with status 7"), (end_and_wait, "has ended")],
)
def test_how_a_real_server_ended_and_its_last_line(server, ended, words):
    found = LocalServer(int(server.stdout.readline()))
    before = found.pids
    found.find()
    assert (before, found.pids) == ((), (server.pid,))
    assert found.ended() == ""
    ended(server)
    assert found.ended() == f"the server's process {server.pid} {words}; its last line: a last word"


def test_a_real_busy_loop_beside_a_server_belongs_to_others(server):
    port = int(server.stdout.readline())
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as loop:
        try:
            watch = HostWatch(LocalServer(port), tuple)
            watch.begin()
            deadline = time.monotonic() + 60
            while (use := watch.end()) is None or not use.others or use.others < 0.05:
                assert time.monotonic() < deadline, use
                watch.begin()
                time.sleep(0.2)
        finally:
            loop.kill()
    assert use.server is not None
    assert use.busy >= use.others


def test_a_short_reading_of_processes_finds_the_same_cores():
    table = ProcessTable()
    whole, brief = table.used((os.getpid(), 2**31 - 1)), table.cores((os.getpid(), 2**31 - 1))
    assert list(whole) == list(brief) == [os.getpid()]
    assert 0 < whole[os.getpid()].core_s < brief[os.getpid()].core_s + 0.001  # sums of hundredths
    assert brief[os.getpid()].core_s < whole[os.getpid()].core_s + 1
