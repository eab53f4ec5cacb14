"""Runs of real commands are kept: also of those that are killed, and never at the cost of the run."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from inferometer.stats.result import Result
from inferometer.store.process import interrupt
from inferometer.store.run import FINISHED, KILLED, RUNNING, Run
from inferometer.store.store import Store
from tests.support.commands import Ended, fork_server_address
from tests.support.fork_client import ForkedProcess, fork_command
from tests.support.servers import FakeTriton

QUICK = ("-n", "10", "-q")


@pytest.fixture
def fake():
    with FakeTriton() as server:
        yield server.server.address


def measure(run: Callable[..., Ended], address: str, folder: Path, *words: str) -> Ended:
    return run("inferometer", "measure", address, "fake", "--store", str(folder), *words)


def measured(store: Store, run: Run) -> Result:
    found = store.answer(run)
    assert isinstance(found, Result)
    return found


def test_a_run_is_kept_without_its_secrets(run: Callable[..., Ended], fake: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "kept")
    words = ("-c", "1,2", "-d", "200ms", "--tag", "nightly", "-H", "Authorization: Bearer hidden")
    ended = measure(run, fake, store.folder, *words)
    (kept,) = store.runs()
    assert ended.code == kept.code == 0
    assert f"Stored as run {store.short(kept)}" in ended.stderr
    assert (kept.state, kept.model, kept.tags, kept.command) == (FINISHED, "fake", ("nightly",), "measure")
    assert [point.value for point in kept.points] == [1, 2]
    assert len(measured(store, kept).levels) == 2
    texts = [path.read_text("utf-8", "replace") for path in store.folder.rglob("*") if path.is_file()]
    assert not any("hidden" in text for text in texts)
    listed = run("inferometer", "runs", "tag=nightly", "--store", str(store.folder), "--json", "-")
    assert [row["id"] for row in json.loads(listed.stdout)] == [kept.id]
    shown = run("inferometer", "view", store.short(kept), "--store", str(store.folder), "--markdown", "-")
    assert shown.stdout.startswith("# fake")


def test_two_runs_are_compared_by_their_ids(run: Callable[..., Ended], fake: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "kept")
    for _ in range(2):
        assert measure(run, fake, store.folder, "-d", "200ms", "-q").code == 0
    ids = [store.short(kept) for kept in store.runs()]
    ended = run("inferometer", "compare", *ids, "--store", str(store.folder), "--json", "-")
    assert [row["name"] for row in json.loads(ended.stdout)["variants"]] == ids
    ended = run("inferometer", "compare", ids[0], "ffff", "--store", str(store.folder))
    assert (ended.code, "there is no run" in ended.stderr) == (64, True)
    ended = run("inferometer", "compare", *ids, "--store", str(store.folder), "--tag", "x")
    assert "--tag does not apply to saved results" in ended.stderr


def test_nothing_is_kept_of_a_mistake_and_why_of_a_failure(
    run: Callable[..., Ended], tmp_path: Path, fake: str
) -> None:
    store = Store(tmp_path / "kept")
    assert measure(run, fake, store.folder, "--data", "nowhere.json", "-n", "1").code == 2
    assert store.count() == 0
    assert measure(run, "localhost:1", store.folder).code == 3
    (failed,) = store.runs()
    assert (failed.code, failed.model) == (3, "fake")
    assert "cannot be reached" in failed.verdict
    ended = run("inferometer", "view", failed.id, "--store", str(store.folder))
    assert f"run {failed.id} has no result: it failed" in ended.stderr


# --- a disk that takes nothing


@pytest.fixture
def full(tmp_path: Path):
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=64", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("free", [0, 4096, 8192])
def test_a_full_disk_costs_one_warning(
    free: int, run: Callable[..., Ended], fake: str, full: Path, tmp_path: Path
) -> None:
    (full / "filling").write_bytes(bytes(16384 - free))
    ended = measure(run, fake, full / "kept", "-c", "1,2", "-d", "200ms", "--json", str(tmp_path / "it.json"))
    assert ended.code == 0
    assert "p99" in ended.stdout
    assert ended.stderr.count("WARNING") == 1
    assert "No space left on device" in ended.stderr
    assert len(json.loads((tmp_path / "it.json").read_text())["levels"]) == 2
    for kept in Store(full / "kept").runs():
        assert kept.state != FINISHED or len(measured(Store(full / "kept"), kept).levels) == 2


def test_a_folder_that_cannot_be_made_costs_one_warning(
    run: Callable[..., Ended], fake: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = measure(run, fake, tmp_path / "file" / "store", *QUICK)
    assert (ended.code, ended.stderr.count("WARNING")) == (0, 1)


# --- while it goes on


def start(folder: Path, *words: str) -> ForkedProcess:
    with open(os.devnull, "r+") as nothing:
        places = dict.fromkeys(range(3), nothing.fileno())
        given = (*words, "--store", str(folder), "-q")
        return fork_command(fork_server_address(), "inferometer", given, fds=places)


def until(is_so: Callable[[], object], timeout_s: float = 30) -> None:
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_run_in_progress_is_visible_and_can_be_stopped(fake: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "kept")
    process = start(store.folder, "measure", fake, "fake", "-c", "4", "-d", "60s", "--precision", "0.1%")
    until(lambda: store.runs() and store.live_path(store.runs()[0]).exists())
    (going,) = store.runs()
    assert going.state == RUNNING
    with open(store.live_path(going)) as live:
        lines = list[str]()

        def has_samples() -> bool:
            lines.extend(live.readlines())
            return sum('"sample"' in line for line in lines) >= 12

        until(has_samples)
        interrupt(going)
        process.wait()
        lines += live.readlines()
    found = [json.loads(line) for line in lines]
    assert found[-1]["kind"] == "end"
    samples = [line for line in found if line["kind"] == "sample" and line["phase"] == "measuring"]
    gaps = sorted(after["at"] - before["at"] for before, after in pairwise(samples))
    assert gaps[len(gaps) // 2] <= 0.25
    assert samples[-1]["client_cores"] > 0
    assert samples[-1]["outstanding"] == 4
    assert [store.runs()[0].code, store.runs()[0].state] == [130, FINISHED]
    assert not store.live_path(going).exists()


def test_kill_9_at_any_moment_leaves_a_store_in_order(fake: str, tmp_path: Path) -> None:
    store, chance = Store(tmp_path / "kept"), random.Random(7)
    words = ("measure", fake, "fake", "-c", "1,2,3,4", "-d", "60ms")
    codes = []
    for _ in range(12):
        process = start(store.folder, *words)
        time.sleep(chance.uniform(0.0, 1.2))
        process.kill()
        codes.append(process.wait())
        for kept in Store(store.folder).runs():
            assert kept.state in (FINISHED, KILLED)
            if kept.state == FINISHED:
                assert len(measured(store, kept).levels) == len(kept.points) == 4
            elif store.answer_path(kept).exists():
                assert len(measured(store, kept).levels) >= len(kept.points)
    finished = sum(kept.state == FINISHED for kept in store.runs())
    assert finished >= codes.count(0)
    assert start(store.folder, *words).wait() == 0
    assert sum(kept.state == FINISHED for kept in store.runs()) == finished + 1
    before = store.runs()
    store.rebuild()
    assert store.runs() == before
