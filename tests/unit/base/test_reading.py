"""Any file that a user names is read within its limit, or rejected with a message."""

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest

from inferometer.base import reading
from inferometer.base.errors import UsageError
from inferometer.base.reading import check_file, opened, read_file, read_regular, read_text

LIMIT = 1000


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def send(path: Path, data: bytes) -> threading.Thread:
    def write() -> None:
        with path.open("wb", buffering=0) as sink, contextlib.suppress(BrokenPipeError):
            sink.write(data)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, size: int):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert read_file(path, LIMIT, "the file") == b"x" * size


@pytest.mark.parametrize("size", [LIMIT + 1, 1 << 40])
def test_a_file_above_the_limit_is_refused_before_it_is_read(tmp_path: Path, size: int):
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(size)  # sparse: it takes no disk space
    for read in (read_file, read_text, read_regular, check_file):
        with pytest.raises(
            UsageError, match=r"'.*file' cannot be read: it is larger than the limit of 1,000 bytes"
        ):
            read(path, LIMIT, "the file")


def test_a_file_without_a_size_is_read(tmp_path: Path):
    assert b"Name:" in read_file("/proc/self/status", 1 << 20, "the file")
    with pytest.raises(UsageError, match="limit of 10 bytes"):
        read_file("/proc/self/status", 10, "the file")


def test_things_that_are_not_files_are_named(tmp_path: Path):
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        for path, reason in (
            ("/dev/zero", "it is a device"),
            ("/dev/full", "it is a device"),
            (str(tmp_path), "Is a directory"),
            (address, "it is a socket"),
            (str(tmp_path / "none"), "No such file"),
            ("a\0b", "null"),
            ("x" * 5000, "File name too long"),
        ):
            for read in (read_file, read_regular, check_file):
                with pytest.raises(UsageError, match=f"the thing .* cannot be read: .*{reason}"):
                    read(path, LIMIT, "the thing")


def test_a_pipe_is_read_to_its_end(pipe: Path):
    writer = send(pipe, b"x" * LIMIT)
    assert read_file(pipe, LIMIT, "the file") == b"x" * LIMIT
    writer.join()


def test_a_pipe_without_an_end_is_read_up_to_the_limit(pipe: Path):
    send(pipe, b"x" * (1 << 20))
    with pytest.raises(UsageError, match="limit of 1,000 bytes"):
        read_file(pipe, LIMIT, "the file")


def test_a_pipe_without_a_writer_is_announced_and_given_up(pipe: Path, monkeypatch, capsys):
    monkeypatch.setattr(reading, "NOTICE_S", 0.01)
    monkeypatch.setattr(reading, "SILENCE_S", 0.03)
    with pytest.raises(UsageError, match="it is a pipe that has sent nothing for"):
        read_file(pipe, LIMIT, "the trace")
    assert f"Waiting for the trace from '{pipe}'" in capsys.readouterr().err


def test_a_library_that_opens_files_by_name_is_not_given_a_pipe(pipe: Path):
    with pytest.raises(UsageError, match="it is not a regular file; save its content"):
        check_file(pipe, LIMIT, "the journal")


def test_a_regular_file_is_read_with_its_status(tmp_path: Path, pipe: Path):
    path = tmp_path / "file"
    path.write_bytes(b"text")
    data, status = read_regular(path, LIMIT, "the file")
    assert (data, status.st_ino) == (b"text", path.stat().st_ino)
    with pytest.raises(UsageError, match="it is not a regular file; name another"):
        read_regular(pipe, LIMIT, "the file", remedy="name another")
    path.write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(UsageError, match="limit of 1,000 bytes; name another"):
        read_regular(path, LIMIT, "the file", remedy="name another")


def test_the_limit_holds_for_a_file_that_is_read_piece_by_piece(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (LIMIT + 1))
    with opened(path, LIMIT, "the file") as file:
        assert len(file.read(LIMIT)) == LIMIT
        with pytest.raises(UsageError, match="larger than the limit"):
            file.read(64)


def test_text_is_utf_8(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="it is not UTF-8 text"):
        read_text(path, LIMIT, "the file")


@pytest.mark.parametrize(
    ("size", "text"), [(1 << 20, "1 MiB"), (5 << 30, "5 GiB"), (1 << 10, "1 KiB"), (1500, "1,500 bytes")]
)
def test_limits_are_written_in_round_units(size: int, text: str):
    assert reading.size_text(size) == text
