"""A store from a cloned repository, with links, pipes and tables chosen by its author."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from inferometer.store.commit import CommitReader
from inferometer.store.private import ensure_folder
from inferometer.store.store import Store
from inferometer.ui.live import LiveLines
from inferometer.ui.place import UiPlace, maybe_read, write
from tests.support.reports import sample_result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = tmp_path / "clone" / ".inferometer"
    (store / "runs").mkdir(parents=True)
    return store


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def keep_run(folder: Path) -> None:
    with Store(folder).begin("measure", []) as keeper:
        keeper.save(sample_result())
        keeper.end(0)


def test_a_new_store_follows_no_links(folder, victim):
    os.rmdir(folder / "runs")
    (folder / ".gitignore").symlink_to(victim)
    keep_run(folder)
    assert victim.read_text() == "precious"
    assert len(Store(folder).runs()) == 1


def test_the_index_follows_no_links(folder, tmp_path):
    keep_run(folder)
    database = tmp_path / "places.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("create table runs (a)")
    connection.close()
    before = database.read_bytes()
    for target in (database, tmp_path / "missing"):
        (folder / "index.sqlite").unlink(missing_ok=True)
        (folder / "index.sqlite").symlink_to(target)
        assert len(Store(folder).runs()) == 1
    assert database.read_bytes() == before
    assert not (tmp_path / "missing").exists()


def test_pipes_do_not_block(folder):
    keep_run(folder)
    (folder / "runs" / "abcd1234").mkdir()
    for name in ("runs/abcd1234/run.json", "index.sqlite", "ui.json"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    assert len(Store(folder).runs()) == 1
    assert maybe_read(folder) is None


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
FOREIGN = (
    f"drop table documents; create view documents as {ENDLESS}",
    "create table other (a)",
    "create trigger t after insert on runs begin delete from documents; end",
    "update documents set document = '[' || replace(hex(zeroblob(50000)), '00', '[')",
    "update documents set document = 7",
    "update runs set command = 7, model = 8; delete from documents",
    "delete from listed",
)


@pytest.mark.parametrize("changes", FOREIGN)
def test_a_foreign_index_is_rebuilt(folder, changes):
    keep_run(folder)
    Store(folder).runs()
    with sqlite3.connect(folder / "index.sqlite") as connection:
        connection.executescript(changes)
    connection.close()
    store = Store(folder)
    assert [run.command for run in store.runs()] == ["measure"]
    assert store.choices()["command"] == ("measure",)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[" * 100_000,
        '{"url": 1, "token": 2, "pid": "x", "process_started": 1}',
        '{"url": "", "token": "", "pid": 1e400, "process_started": NaN}',
        '{"pid": 1}',
    ],
)
def test_a_foreign_address_file_is_ignored(folder, text):
    (folder / "ui.json").write_text(text)
    assert maybe_read(folder) is None


def test_the_address_file_follows_no_links(folder, victim):
    (folder / f"ui.json.{os.getpid()}").symlink_to(victim)
    (folder / "ui.json").symlink_to(victim)
    write(folder, UiPlace("http://localhost", "token", os.getpid(), 0.0))
    assert victim.read_text() == "precious"


def test_a_link_is_not_made_private(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (folder / "uploads").symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError):
        ensure_folder(folder / "uploads")
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_an_answer_that_is_a_pipe_is_refused(folder):
    from inferometer.base.errors import UsageError

    keep_run(folder)
    store = Store(folder)
    (run,) = store.runs()
    store.answer_path(run).unlink()
    os.mkfifo(store.answer_path(run))
    with pytest.raises(UsageError, match="not a regular file"):
        store.answer(run)


@pytest.mark.parametrize("kind", ["pipe", "link", "device"])
def test_live_lines_are_read_from_files_only(kind, tmp_path, victim):
    path = tmp_path / "live.jsonl"
    victim.write_text('{"kind": "sample"}\n')
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(victim if kind == "link" else "/dev/zero")
    assert LiveLines(path).since(0) == (0, [])


def test_live_lines_are_read_in_pieces_and_long_ones_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("inferometer.ui.live.POLL_S", 0)
    monkeypatch.setattr("inferometer.ui.live.MOST_READ", 64)
    monkeypatch.setattr("inferometer.ui.live.MOST_LINE", 100)
    path = tmp_path / "live.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * 1000 + b'{"b": 2}\n' + b"[" * 90 + b'\n{"c": 3}\n')
    lines = LiveLines(path)
    found: list[bytes] = []
    for _ in range(40):
        found += lines.since(len(found))[1]
    lines.close()
    assert found == [b'{"a": 1}', b'{"c": 3}']


def test_reading_the_commit_fetches_nothing_for_a_partial_clone(tmp_path, monkeypatch):
    """git runs `uploadpack` of the remote to fetch a missing tree."""
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    clone = tmp_path / "clone"
    clone.mkdir()

    def git(*words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        done = subprocess.run(["git", *who, *words], cwd=clone, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    (clone / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "first")
    tree = git("rev-parse", "HEAD^{tree}")
    (clone / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\nexit 1\n")
    program.chmod(0o755)
    for name, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(clone)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(program)),
    ):
        git("config", name, value)
    commit = git("rev-parse", "HEAD")
    monkeypatch.setattr("inferometer.store.commit.PATIENCE_S", 30)
    assert CommitReader(clone).result() == commit
    assert not (tmp_path / "pwned").exists()
