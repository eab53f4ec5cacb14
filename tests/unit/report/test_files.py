"""Report files: refused early, written beside each other."""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.writing import writable
from inferometer.report.csv import write_csv


def ensemble(build: ModuleType) -> Any:
    step = build.model("addsub", build.counters(100, 50, 10, (5, 20, 5)))
    server = build.ensemble("ens", build.counters(100, 120), step)
    return build.result(build.level(build.measurement(100, 50.0, 300, 1, (1, 2, 3, 4), server=server)))


def test_good_name_passes_and_leaves_nothing(tmp_path: Path) -> None:
    writable(tmp_path / "new.csv")
    assert list(tmp_path.iterdir()) == []


def test_existing_file_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("kept")
    writable(path)
    assert path.read_text() == "kept"


def test_link_to_nowhere_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "target.csv")
    writable(link)
    assert link.is_symlink()
    assert not (tmp_path / "target.csv").exists()


def test_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writable(tmp_path / "pipe")


def test_missing_folder_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"folder '.*no' does not exist; create it with: mkdir -p"):
        writable(tmp_path / "no" / "x.csv")


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        writable(tmp_path)


def test_file_as_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        writable(tmp_path / "file" / "x.csv")


def test_name_the_system_rejects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        writable(tmp_path / ("x" * 300))


def test_folder_without_permission_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        writable(Path("/sys/x.csv"))  # not even root can create a file there


def test_composing_files_lie_beside_the_main_one(tmp_path: Path, build: ModuleType) -> None:
    written = write_csv(ensemble(build), tmp_path / "x.csv")
    assert [path.name for path in written] == ["x.csv", "addsub_v1.x.csv"]
    assert all(path.read_text().startswith("Concurrency,") for path in written)


def test_nothing_is_written_when_nothing_is_reported(tmp_path: Path, build: ModuleType) -> None:
    assert write_csv(build.result(build.level(None)), tmp_path / "x.csv") == ()
    assert list(tmp_path.iterdir()) == []


def test_device_gets_the_main_file_only(build: ModuleType) -> None:
    assert write_csv(ensemble(build), Path("/dev/null")) == (Path("/dev/null"),)


def test_a_folder_lost_during_the_run_is_reported(tmp_path: Path, build: ModuleType) -> None:
    with pytest.raises(LocalError, match="could not be written"):
        write_csv(ensemble(build), tmp_path / "gone" / "x.csv")
