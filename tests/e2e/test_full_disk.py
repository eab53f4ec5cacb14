"""A disk that is full, read-only or gone when reports are written: the report is on the screen, the other files are
there, nothing half written is left, and a sentence says which file is missing and why."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferometer.base.answer_file import write
from tests.support.reports import sample_diagnosis, sample_result
from tests.support.servers import FakeTriton, Request

LOCAL = 70
COUNT = ("--request-count", "10")
NO_SPACE = "could not be written: No space left on device; free space on that disk"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk without room; where none can be mounted, files in it lead to a device that is always full."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=8", "tmpfs", str(folder)]
    is_mounted = (
        shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    )
    if is_mounted:
        (folder / "filling").write_bytes(bytes(4096))
    else:
        for name in ("it.json", "it.html", "it.csv", "it.md", "it.xml"):
            (folder / name).symlink_to("/dev/full")
    yield folder
    if is_mounted:
        assert os.listdir(folder) == ["filling"]
        subprocess.run(["umount", "-l", str(folder)], check=True)


def measured(run: Callable, command: tuple[str, ...], *words: str):
    with FakeTriton() as fake:
        return run(*command, "-m", "fake", "-u", fake.server.address, *words)


@pytest.mark.parametrize("name", ["it.json", "it.html", "it.csv"])
def test_measure_shows_its_report_and_writes_the_other_files(
    name: str, run: Callable, full: Path, tmp_path: Path
) -> None:
    options = {"it.json": "--json", "it.html": "--html", "it.csv": "-f"}
    words = [
        word
        for file, option in options.items()
        for word in (option, str((full if file == name else tmp_path) / file))
    ]
    ended = measured(run, ("inferometer", "measure"), *COUNT, *words)
    assert ended.code == LOCAL
    assert "p99" in ended.stdout
    assert f"inferometer measure: '{full / name}' {NO_SPACE}" in ended.stderr
    assert "Traceback" not in ended.stderr
    for other in set(options) - {name}:
        assert (tmp_path / other).stat().st_size > 100


def test_every_missing_file_is_named(run: Callable, full: Path) -> None:
    words = ("--json", str(full / "it.json"), "--html", str(full / "it.html"))
    ended = measured(run, ("inferometer", "measure"), *COUNT, *words)
    assert ended.code == LOCAL
    assert f"'{full / 'it.json'}' could not be written" in ended.stderr
    assert f"'{full / 'it.html'}' could not be written" in ended.stderr


def test_the_script_prints_its_summary_first(run: Callable, full: Path, tmp_path: Path) -> None:
    words = ("--json", str(full / "it.json"), "-f", str(tmp_path / "it.csv"))
    ended = measured(run, ("perf_analyzer",), *COUNT, *words)
    assert ended.code == 99
    assert "Inferences/Second vs. Client Average Batch Latency" in ended.stdout
    assert f"error: '{full / 'it.json'}' {NO_SPACE}" in ended.stderr
    assert (tmp_path / "it.csv").read_text().startswith("Concurrency,")


def test_diagnose_shows_its_verdict(run: Callable, full: Path, tmp_path: Path) -> None:
    short = ("--concurrency-range", "1:2", "--duration", "100ms")
    words = ("--json", str(full / "it.json"), "--html", str(tmp_path / "it.html"))
    ended = measured(run, ("inferometer", "diagnose"), *short, *words)
    assert ended.code == LOCAL
    assert ended.stdout
    assert NO_SPACE in ended.stderr
    assert (tmp_path / "it.html").exists()


def test_find_shows_what_it_found(run: Callable, full: Path) -> None:
    words = ("--slo", "p99<10s", "--duration", "1s", "--start", "20", "--json", str(full / "it.json"))
    ended = measured(run, ("inferometer", "find"), *words)
    assert ended.code == LOCAL
    assert ended.stdout
    assert NO_SPACE in ended.stderr


def test_compare_and_view_write_what_they_can(run: Callable, full: Path, tmp_path: Path) -> None:
    saved = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    for name in saved:
        write(sample_result(), Path(name))
    files = (
        "--markdown",
        str(full / "it.md"),
        "--junit",
        str(tmp_path / "it.xml"),
        "--html",
        str(full / "it.html"),
    )
    ended = run("inferometer", "compare", *saved, *files)
    assert ended.code == LOCAL
    assert f"'{full / 'it.md'}' could not be written" in ended.stderr
    assert f"'{full / 'it.html'}' could not be written" in ended.stderr
    assert (tmp_path / "it.xml").read_text().startswith("<?xml")
    write(sample_diagnosis(), tmp_path / "d.json")
    ended = run(
        *("inferometer", "view", str(tmp_path / "d.json"), "--html", str(full / "it.html")),
        *("--markdown", str(tmp_path / "d.md")),
    )
    assert (ended.code, ended.stdout) == (LOCAL, f"{tmp_path / 'd.md'}\n")


def test_a_folder_removed_during_the_run_is_reported(run: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def infer(number: int, request: object) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    with FakeTriton(infer) as fake:
        ended = run(
            *("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *COUNT),
            *("--json", str(folder / "it.json"), "--html", str(tmp_path / "it.html")),
        )
    assert ended.code == LOCAL
    assert "it.json' could not be written: No such file or directory; create its folder first" in ended.stderr
    assert "p99" in ended.stdout
    assert (tmp_path / "it.html").exists()


def test_room_that_comes_back_before_the_end_is_used(run: Callable, tmp_path: Path) -> None:
    """The file is written after every level: what counts is the last time."""
    place = tmp_path / "it.json"
    place.symlink_to("/dev/full")
    connections: set[int] = set()

    def infer(number: int, request: Request) -> None:
        connections.add(request.connection)
        if len(connections) > 1 and place.is_symlink():  # in the second level
            place.unlink()

    with FakeTriton(infer) as fake:
        ended = run(
            *("inferometer", "measure", "-m", "fake", "-u", fake.server.address, "--duration", "200ms"),
            *("--concurrency-range", "1:3", "--json", str(place)),
        )
    assert ended.code == 0, ended.stderr
    assert len(json.loads(place.read_text())["levels"]) == 3


def process(*words: str, **how) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], stderr=subprocess.PIPE, text=True, check=False, **how
    )


def test_files_may_not_grow_beyond_a_limit(tmp_path: Path) -> None:
    started: list[subprocess.Popen[str]] = []

    def infer(number: int, request: object) -> None:
        if number == 1:
            resource.prlimit(started[0].pid, resource.RLIMIT_FSIZE, (2000, 2000))

    with FakeTriton(infer) as fake:
        words = (
            "measure",
            "-m",
            "fake",
            "-u",
            fake.server.address,
            *COUNT,
            "--json",
            str(tmp_path / "it.json"),
        )
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "inferometer.cli.main", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        stdout, stderr = started[0].communicate()
    assert started[0].returncode == LOCAL
    assert "it.json' could not be written: File too large; raise the file size limit" in stderr
    assert "p99" in stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inferometer.cli.main", "measure"), LOCAL),
        (("inferometer.dialects.perf_analyzer.main",), 99),
        (("inferometer.cli.main", "--help"), LOCAL),
    ],
    ids=["measure", "perf_analyzer", "help"],
)
def test_a_screen_that_is_a_full_disk(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    with FakeTriton() as fake, open("/dev/full", "w") as nowhere:
        asked = () if "--help" in words else ("-m", "fake", "-u", fake.server.address, *COUNT)
        page = () if "--help" in words else ("--html", str(tmp_path / "it.html"))
        ended = process(*words, *asked, *page, stdout=nowhere)
    assert ended.returncode == code
    assert NO_SPACE in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    if words[-1] == "measure":
        assert (tmp_path / "it.html").exists()
