"""A store is readable only by its owner, whatever the umask and however it was created."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from inferometer.cli.keep import keeping
from inferometer.options.asides import Asides
from inferometer.store.private import ensure_store, maybe_open_note
from inferometer.store.store import VARIABLE, Store
from inferometer.ui import place, uploads
from inferometer.ui.jobs import Jobs
from tests.support.reports import sample_result


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (folder, *sorted(folder.rglob("*")))
    }


def assert_private(folder: Path) -> None:
    for name, mode in modes(folder).items():
        assert mode == ("0o700" if (folder / name).is_dir() else "0o600"), name


def by_command(folder: Path, monkeypatch) -> None:
    words = ("h:1", "m", "--store", str(folder))
    with keeping("measure", lambda: words, Asides(store=folder), is_quiet=False) as keeper:
        keeper.save(sample_result())
        keeper.end(0)
    Store(folder).count()


def by_environment(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder))
    with keeping("measure", lambda: ("h:1", "m"), Asides(), is_quiet=False) as keeper:
        keeper._tell({"kind": "sample"})  # its live file
        Store(folder).tag(keeper.run, "nightly")
        assert_private(folder / "runs")
        keeper.end(0)


def by_browser(folder: Path, monkeypatch) -> None:
    ensure_store(folder)
    place.write(folder, place.here("http://h:1", "token"))


def by_upload(folder: Path, monkeypatch) -> None:
    async def body():
        yield b"key"

    ensure_store(folder)
    asyncio.run(uploads.keep(folder, "key.pem", body()))


def by_job(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    ensure_store(folder)
    jobs = Jobs(folder, lambda: False, lambda pid: False)
    jobs.add(("measure", "h:1"), "inferometer measure h:1")
    jobs._started[1].wait()


@pytest.mark.parametrize("make", [by_command, by_environment, by_browser, by_upload, by_job])
def test_a_new_store_is_private(make, tmp_path, monkeypatch, umask):
    folder = tmp_path / "new" / "store"
    folder.parent.mkdir()
    make(folder, monkeypatch)
    assert_private(folder)
    assert len(modes(folder)) > 1


@pytest.mark.parametrize("make", [by_command, by_environment, by_upload, by_job])
def test_new_files_in_an_existing_folder_are_private(make, tmp_path, monkeypatch, umask):
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o755)
    make(folder, monkeypatch)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    for inner in folder.iterdir():
        assert_private(inner) if inner.is_dir() else None
        assert stat.S_IMODE(inner.stat().st_mode) & 0o077 == 0


def test_an_open_store_is_reported_and_its_uploads_are_private(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    by_command(folder, monkeypatch)
    assert maybe_open_note(folder) is None
    folder.chmod(0o755)
    assert maybe_open_note(folder) is None  # runs in it are private
    (folder / "runs").chmod(0o755)
    assert f"chmod 700 '{folder}'" in maybe_open_note(folder)
    (folder / "uploads").mkdir(mode=0o755)
    (folder / "index.sqlite").chmod(0o644)
    by_upload(folder, monkeypatch)
    Store(folder).count()
    assert stat.S_IMODE((folder / "uploads").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "index.sqlite").stat().st_mode) == 0o600
