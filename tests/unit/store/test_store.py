"""A store: runs start, grow, end, and are found, tagged and removed; the index follows the files."""

import gc
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.stats.estimate import Estimate
from inferometer.store.filter import RunFilter
from inferometer.store.index import FILE
from inferometer.store.keeper import Keeper
from inferometer.store.run import FAILED, FINISHED, KILLED, RUNNING, Run
from inferometer.store.run_folder import RunFolder
from inferometer.store.store import Store, where_kept
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result, sample_study


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def plant(store: Store, name: str, **known: Any) -> Run:
    """A finished run, written without running anything."""
    folder = RunFolder(store.folder / "runs" / name)
    folder.path.mkdir(parents=True)
    usual: dict[str, Any] = {
        "command": "measure",
        "state": FINISHED,
        "started_at": "2026-11-01T10:00:00+00:00",
    }
    run = Run(name, **(usual | known))
    folder.write(run)
    return run


def ids(runs: Sequence[Run]) -> list[str]:
    return [run.id for run in runs]


# --- a run


def test_a_run_is_listed_from_start_to_end(store: Store) -> None:
    with store.begin("measure", ["measure", "h"], tags=["a", "a"]) as keeper:
        (run,) = store.runs()
        assert (run.state, run.tags, run.words, run.pid) == (RUNNING, ("a",), ("measure", "h"), os.getpid())
        assert not store.answer_path(run).exists()
        keeper.about(url="http://me:secret@h:1", model="m")
        assert (store.runs()[0].model, store.runs()[0].url) == ("m", "http://***@h:1")
        keeper.save(sample_result())
        assert store.runs()[0].points
        assert store.answer(run) == sample_result()
        assert store.live_path(run).exists()
        keeper.end(0)
    (run,) = store.runs()
    assert (run.state, run.code, run.model) == (FINISHED, 0, "pipeline")
    assert run.verdict
    assert run.duration_s is not None
    assert run.figures == run.points[2].figures  # the level that its page is about
    assert not store.live_path(run).exists()


@pytest.mark.parametrize("answer", [sample_diagnosis(), sample_comparison(), sample_study()])
def test_every_answer_has_points_and_a_headline(store: Store, answer: Any) -> None:
    with store.begin("any", []) as keeper:
        keeper.save(answer)
        keeper.end(0)
    (run,) = store.runs()
    assert run.points
    assert run.figures["throughput"].value > 0
    assert run.model
    assert run.verdict
    assert store.answer(run) == answer


def test_a_usage_error_leaves_no_run(store: Store) -> None:
    with pytest.raises(UsageError), store.begin("measure", []):
        raise UsageError("no such option")
    assert store.runs() == []
    assert os.listdir(store.folder / "runs") == []


def test_a_failed_run_records_its_reason(store: Store) -> None:
    with pytest.raises(PeerError), store.begin("measure", []):
        raise PeerError("nobody answers", remedy="start it")
    (run,) = store.runs()
    assert (run.state, run.code, run.verdict) == (FAILED, 3, "nobody answers; start it")


def test_a_failure_after_the_answer_leaves_a_finished_run(store: Store) -> None:
    keeper = store.begin("measure", [])
    keeper.save(sample_result())
    with pytest.raises(LocalError), keeper:
        raise LocalError("a report could not be written")
    (run,) = store.runs()
    assert (run.state, run.code) == (FINISHED, 70)
    assert "infer/s" in run.verdict


def test_the_commit_of_the_working_directory_is_recorded(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        return subprocess.run(
            ["git", *who, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    for text, found in (("1", commit), ("2", f"{commit}+")):
        (tmp_path / "file").write_text(text)
        with store.begin("measure", []) as keeper:
            keeper.save(sample_result())
            keeper.end(0)
        assert store.runs()[0].commit == found


def test_an_interrupted_run_has_ended(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.begin("measure", []):
        raise KeyboardInterrupt
    assert [(run.state, run.code) for run in store.runs()] == [(FAILED, 130)]


def test_a_tag_added_during_the_run_is_kept(store: Store) -> None:
    with store.begin("measure", [], tags=["a"]) as keeper:
        store.tag(keeper.run, "b")
        keeper.save(sample_result())
        keeper.end(0)
    assert store.runs()[0].tags == ("a", "b")


def test_a_run_without_a_process_was_killed(store: Store) -> None:
    here = os.uname().nodename
    plant(
        store, "1111aaaa", state=RUNNING, host=here, pid=os.getpid(), process_started=1.0
    )  # its id was reused
    plant(store, "2222aaaa", state=RUNNING, host="elsewhere", pid=1)
    assert {run.id: run.state for run in store.runs()} == {"1111aaaa": KILLED, "2222aaaa": RUNNING}
    assert store.get("1111").state == KILLED
    assert ids(store.runs(RunFilter(state=KILLED))) == ["1111aaaa"]
    # It ran in another container, and ends later.
    RunFolder(store.folder / "runs" / "1111aaaa").change(lambda run: replace(run, state=FINISHED))
    assert store.get("1111").state == store.runs(RunFilter(state=FINISHED))[0].state == FINISHED


# --- existing runs


def test_runs_are_filtered_sorted_and_limited(store: Store) -> None:
    for number in range(6):
        plant(
            store,
            f"{number}000aaaa",
            started_at=f"2026-11-0{number + 1}T10:00:00+02:00",
            model="a" if number % 2 else "a,b",
            tags=("even",) if number % 2 == 0 else (),
            command="find" if number == 5 else "measure",
            words=("measure", f"host{number}"),
            figures={} if number == 3 else {"p99": Estimate(float(10 - number))},
        )
    assert ids(store.runs(limit=2)) == ["5000aaaa", "4000aaaa"]
    assert ids(store.runs(limit=2, offset=4)) == ["1000aaaa", "0000aaaa"]
    assert ids(store.runs(order="p99")) == [f"{n}000aaaa" for n in (5, 4, 2, 1, 0, 3)]
    assert ids(store.runs(order="-p99", limit=1)) == ["0000aaaa"]
    assert ids(store.runs(RunFilter(model="b", tags=("even",)), limit=1)) == ["4000aaaa"]
    assert ids(store.runs(RunFilter(text="HOST3"))) == ["3000aaaa"]
    since_s = store.get("4000").started_s
    assert ids(store.runs(RunFilter(since_s=since_s))) == ["5000aaaa", "4000aaaa"]
    assert store.count() == 6
    assert store.count(RunFilter(command="find")) == 1
    with pytest.raises(UsageError, match="cannot be sorted"):
        store.runs(order="1; drop table runs")


def test_a_prefix_identifies_a_run(store: Store) -> None:
    first, second = plant(store, "1111aaaa"), plant(store, "11112222")
    assert store.get("1111a") == first
    assert (store.short(first), store.short(second)) == ("1111a", "11112")
    store.remove(second)
    assert store.short(first) == "1111"
    for wrong in ("111", "2222", "../..", "zzzz"):
        with pytest.raises(UsageError, match="no run"):
            store.get(wrong)
    plant(store, "11113333")
    with pytest.raises(UsageError, match="2 runs"):
        store.get("1111")


def test_last_is_the_newest_run(store: Store) -> None:
    assert not store.has("last")
    with pytest.raises(UsageError, match="no run is stored"):
        store.get("last")
    newest = plant(store, "1111aaaa", started_at="2026-11-05T10:00:00+00:00")
    plant(store, "2222bbbb", started_at="2026-11-04T10:00:00+00:00")
    assert store.has("last")
    assert store.get("last") == newest


def test_tags_and_removal(store: Store) -> None:
    run = plant(store, "1111aaaa", tags=("old",))
    assert store.runs() == [run]
    assert store.tag(run, "new").tags == ("old", "new")
    assert store.untag(store.get("1111"), "old").tags == ("new",)
    assert store.runs(RunFilter(tags=("new",)))[0].tags == ("new",)
    store.remove(run)
    assert store.runs() == []
    assert os.listdir(store.folder / "runs") == []


def test_a_missing_store_is_empty(store: Store) -> None:
    assert (store.runs(), store.count(), store.exists) == ([], 0, False)
    assert not store.folder.exists()


# --- the index


def damage(path: Path) -> None:
    path.write_bytes(b"no database" * 100)


def other_schema(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("create table runs (other)")
        connection.execute("pragma user_version = 99")
    connection.close()


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("spoil", [Path.unlink, damage, other_schema, shorten])
def test_an_unusable_index_is_rebuilt(store: Store, spoil) -> None:
    for number in range(60):
        plant(store, f"{number:04x}aaaa", words=("x" * 200,))
    before = store.runs()
    spoil(store.folder / FILE)
    assert store.runs() == Store(store.folder).runs() == before


def test_the_index_follows_added_and_removed_folders(store: Store, tmp_path: Path) -> None:
    plant(store, "1111aaaa")
    assert store.count() == 1
    shutil.copytree(store.folder / "runs/1111aaaa", tmp_path / "backup/runs/1111aaaa")
    plant(store, "2222aaaa")
    shutil.rmtree(store.folder / "runs/1111aaaa")
    assert ids(store.runs()) == ["2222aaaa"]
    assert ids(Store(tmp_path / "backup").runs()) == ["1111aaaa"]


def test_folders_that_are_not_runs_are_not_listed(store: Store) -> None:
    plant(store, "1111aaaa")
    for name, text in (("2222aaaa", ""), ("3333aaaa", '{"kind": "run"'), ("4444aaaa", "[]")):
        (store.folder / "runs" / name).mkdir()
        (store.folder / "runs" / name / "run.json").write_text(text)
    shutil.copytree(store.folder / "runs/1111aaaa", store.folder / "runs/5555aaaa")  # contains another id
    (store.folder / "runs/6666aaaa").mkdir()
    (store.folder / "runs/else").mkdir()
    assert ids(store.runs()) == ["1111aaaa"]


def test_a_read_only_folder_can_be_listed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(store, "1111aaaa")

    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    connect = sqlite3.connect
    monkeypatch.setattr(
        "inferometer.store.index.sqlite3.connect",
        lambda path, **how: connect(path, **how) if path == ":memory:" else refuse(),
    )
    assert ids(store.runs()) == ["1111aaaa"]
    plant(store, "2222aaaa")
    assert store.count() == 2


def test_an_index_in_memory_is_closed_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    connect = sqlite3.connect

    def only_in_memory(path: str, **how: Any) -> sqlite3.Connection:
        if path != ":memory:":
            raise sqlite3.OperationalError("attempt to write a readonly database")
        opened.append(connect(path, **how))
        return opened[-1]

    monkeypatch.setattr("inferometer.store.index.sqlite3.connect", only_in_memory)
    plant(Store(tmp_path), "1111aaaa")
    assert Store(tmp_path).count() == 1
    gc.collect()
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("select 1")


def test_concurrent_writers_do_not_conflict(store: Store) -> None:
    def one(number: int) -> None:
        with Store(store.folder).begin("measure", [str(number)]) as keeper:
            store.count()
            Store(store.folder).tag(keeper.run, f"t{number}")
            keeper.end(0)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(40)))
    assert {(run.words, run.tags) for run in store.runs()} == {
        ((str(number),), (f"t{number}",)) for number in range(40)
    }


# --- location


@pytest.mark.parametrize(
    ("given", "is_off", "named", "folder"),
    [
        (None, False, None, Path(".inferometer")),
        (None, False, "elsewhere", Path("elsewhere")),
        (None, False, "", None),
        (Path("here"), False, "", Path("here")),
        (Path("here"), True, "elsewhere", None),
    ],
)
def test_location_of_the_store(given, is_off: bool, named, folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFEROMETER_STORE", raising=False)
    if named is not None:
        monkeypatch.setenv("INFEROMETER_STORE", named)
    assert where_kept(given, is_off=is_off) == folder


@pytest.mark.parametrize("is_named", [False, True])
def test_a_file_is_not_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("INFEROMETER_STORE", str(file) if is_named else "elsewhere")
    with pytest.raises(UsageError, match="is not a folder"):
        where_kept(None if is_named else file)
    assert not Store(file).has("abcd")


def test_an_unwritable_store_causes_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with Store(tmp_path / "file").begin("measure", []) as keeper:
        assert not keeper.is_kept
        keeper.save(sample_result())
        keeper.end(0)
    assert capsys.readouterr().err.count("WARNING") == 1


def test_a_full_disk_causes_one_warning(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with store.begin("measure", []) as keeper:
        shutil.rmtree(store.folder)
        keeper.save(sample_result())
        keeper.save(sample_result())
        keeper.end(0)
    assert capsys.readouterr().err.count("WARNING") == 1


def test_a_keeper_without_a_folder_is_silent() -> None:
    keeper = Keeper(Run("", "measure"), None)
    with keeper:
        keeper.about(url="", model="m")
        keeper.save(sample_result())
        keeper.end(0)
