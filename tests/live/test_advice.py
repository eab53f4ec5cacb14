"""What is said when the machine is busy, a server ends by itself, or the run is stopped: with the real Triton."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from inferometer import api
from inferometer.base.notes import Note
from inferometer.cli.demo import write_input
from inferometer.diagnose.diagnosis import CPU
from inferometer.options.options import DataOptions
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from tests.support.commands import call

pytestmark = pytest.mark.live

DEADLINE_S = 60
LOOP = f"import time\nend = time.monotonic() + {DEADLINE_S}\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_loops() -> Iterator[None]:
    """Twice as many as there are cores: whatever else runs, they get most of them."""
    count = 2 * len(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def texts(result: Result, note: Note) -> list[str]:
    return [remark.text for level in result.levels for remark in level.remarks if remark.note is note]


@pytest.mark.machine(reason="reads how busy the cores are, which other processes change")
def test_a_busy_machine_is_named_with_the_cores_and_the_time(triton: EmbeddedTriton, tmp_path: Path) -> None:
    words = ("-m", "ens", "-u", triton.http_address, "--duration", "1s", "--json", str(tmp_path / "r.json"))
    with busy_loops():
        done = call("inferometer", "measure", *words)
    assert done.code == 0, done.stderr
    result = api.load(str(tmp_path / "r.json"))
    (text,) = texts(result, Note.HOST_BUSY)
    found = re.fullmatch(
        r"other programs used ([\d.]+) of this machine's (\d+) cores for (?:the whole|(\d\d) % of the) level",
        text,
    )
    assert found is not None, text
    assert 0.25 * int(found[2]) < float(found[1]) <= int(found[2]) + 0.1
    assert found[3] is None or int(found[3]) > 50
    for shown in (done.stdout, api.to_markdown(result), api.to_html(result)):
        assert "of this machine's" in " ".join(shown.replace("&#x27;", "'").split())
    assert "Slowest step" not in done.stdout


@pytest.mark.machine(reason="reads how busy the cores are, which other processes change")
def test_no_step_is_blamed_on_a_busy_machine(triton: EmbeddedTriton, tmp_path: Path) -> None:
    data = DataOptions(sources=(str(write_input(tmp_path)),))
    with busy_loops():
        found = api.diagnose(
            "ensemble_image", url=triton.http_address, data=data, concurrency=(2, 2), duration_s=1.0
        )
    assert (found.verdict.kind, found.verdict.step, found.suggestions) == (CPU, None, ())
    assert "The machine is busy with other programs: they use" in found.verdict.sentence
    assert "preprocessing" not in found.verdict.sentence


class Killer(Watcher):
    """Ends a process once a level is under way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def window_finished(self, number: int, window: object) -> None:
        if number == 3:
            os.kill(self._pid, signal.SIGKILL)


def test_a_server_that_we_started_and_that_ended_is_quoted() -> None:
    with EmbeddedTriton(load_models=("simple",)) as server:
        result = api.measure("simple", url=server.http_address, duration_s=20, watcher=Killer(server.pid))
        log = server.log_path.read_text().splitlines()
        (text,) = texts(result, Note.SERVER_ENDED)
        last = next(line.strip() for line in reversed(log) if line.strip())
        assert text == f"the server's process {server.pid} was killed by SIGKILL; its last line: {last}"
        assert last in " ".join(api.to_markdown(result).replace("\\", "").split())
        server.log_path.unlink()


def inferences(triton: EmbeddedTriton) -> int:
    with urlopen(f"http://{triton.http_address}/v2/models/simple/stats") as reply:
        return int(json.load(reply)["model_stats"][0]["inference_count"])


@pytest.mark.machine(
    reason="the run is stopped after two windows of its second level, which take longer on busy cores"
)
def test_a_level_that_was_stopped_is_in_the_files_and_marked(triton: EmbeddedTriton, tmp_path: Path) -> None:
    csv, page, saved = (tmp_path / name for name in ("r.csv", "r.html", "r.json"))
    command = [
        sys.executable,
        "-m",
        "inferometer.cli.main",
        "measure",
        "-m",
        "simple",
        "-u",
        triton.http_address,
    ]
    words = ("--concurrency-range", "1:2", "--duration", "5s", "--precision", "0.001%", "--json", str(saved))
    process = subprocess.Popen(
        [*command, *words, "-f", str(csv), "--html", str(page)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:  # the first level is over
            if "precise" in line:
                break
        before = inferences(triton)
        while inferences(triton) < before + 50:  # of the second level
            time.sleep(0.02)
        time.sleep(2 * 5 / 20)  # two windows of the second level
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, stderr
    header, *rows = csv.read_text().splitlines()
    assert header.endswith(",Verdict")
    marks = {row.split(",")[0]: row.rsplit(",", 1)[1] for row in rows}
    assert list(marks) == ["1", "2"] or list(marks) == ["2", "1"]
    assert ("interrupted" in marks["1"], "interrupted" in marks["2"]) == (False, True)
    assert "interrupted" in stdout
    assert "interrupted" in page.read_text()
    assert [level.has_remark(Note.INTERRUPTED) for level in api.load(str(saved)).levels] == [False, True]
