"""Files are written atomically; failures name the file and a remedy."""

import errno
import os
from pathlib import Path

import pytest

from inferometer.base import writing as writing_module
from inferometer.base.errors import LocalError
from inferometer.base.writing import Outputs, replacing, unwritten, write_file, writing


def test_the_obstacle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(LocalError, match=r"missing/file' could not be written: No such file"), writing(path):
        path.write_text("x")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/dev/full", "No space left on device; free space on that disk"),
        ("/proc/none", "; create its folder first"),
        ("{tmp}", "Is a directory; give the name of a file"),
        ("{tmp}/file/x", "Not a directory; choose a path in an existing folder"),
        ("{tmp}/" + "x" * 300, "File name too long; give a shorter name"),
        ("/sys/kernel/none", "; choose a folder that you can write to"),
    ],
    ids=["full", "nowhere", "folder", "file as folder", "long", "forbidden"],
)
def test_every_kind_of_failure_has_its_remedy(path: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError) as caught:
        write_file(Path(path.format(tmp=tmp_path)), "text")
    assert says in str(caught.value)
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EDQUOT, errno.EPERM, errno.EFBIG, errno.EIO])
def test_other_failures_have_a_remedy_too(number: int) -> None:
    assert unwritten("x", OSError(number, os.strerror(number))).remedy


def test_a_failure_leaves_the_old_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "report"
    write_file(path, "old")
    with pytest.raises(LocalError), replacing(path) as place:  # noqa: PT012
        place.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    write_file(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "report")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "report").read_text() == "new"


def test_a_link_with_the_name_of_the_partial_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".inferometer-{os.getpid()}.partial").symlink_to(victim)
    write_file(tmp_path / "file", "text")
    assert (victim.read_text(), (tmp_path / "file").read_text()) == ("precious", "text")
    assert not (tmp_path / "file").is_symlink()


def test_text_without_a_utf8_form_is_still_written(tmp_path: Path) -> None:
    write_file(tmp_path / "report", "a\ud800b")
    assert (tmp_path / "report").read_text() == "a?b"


def test_text_is_written_to_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_file(path, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert path.is_fifo()


def test_outputs_continue_after_a_failure_and_name_all_failures(tmp_path: Path) -> None:
    outputs = Outputs()
    for name in ("/dev/full", "/proc/none", str(tmp_path / "good")):
        outputs.attempt(name, lambda name=name: write_file(Path(name), "text"))  # type: ignore[misc]
    assert (tmp_path / "good").read_text() == "text"
    assert outputs.has(str(tmp_path / "good"))
    assert not outputs.has("/dev/full")
    with pytest.raises(LocalError, match=r"'/dev/full' could .*; '/proc/none' could not be written"):
        outputs.settle()


def test_a_later_success_clears_a_failure(tmp_path: Path) -> None:
    outputs = Outputs()
    outputs.attempt("x", lambda: write_file(Path("/dev/full"), "text"))
    outputs.attempt("x", lambda: write_file(tmp_path / "x", "text"))
    outputs.settle()


def test_a_file_that_is_not_requested_is_not_written(tmp_path):
    outputs = Outputs()
    written: list[Path] = []
    outputs.file(None, written.append)
    outputs.file(str(tmp_path / "x.json"), written.append)
    outputs.settle()
    assert written == [tmp_path / "x.json"]


def test_a_named_pipe_without_a_reader_is_announced_and_given_up(tmp_path, monkeypatch, capsys):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(writing_module, "READER_S", 0.2)
    monkeypatch.setattr(writing_module, "NOTICE_S", 0)
    with pytest.raises(
        LocalError, match=r"pipe' could not be written: it is a named pipe, and no reader opened it"
    ):
        write_file(tmp_path / "pipe", "the answer")
    assert "Waiting for a reader of the named pipe" in capsys.readouterr().err
