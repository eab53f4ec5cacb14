"""Sentences of the classic tool, word by word, where its real 2.51 was asked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers import Act, FakeTriton, Request, Wire, answer_json, both, raw, reply

ACCOUNTED = (
    "Server average accounted time was larger than client average wait time due to small sample size. "
    "Increase the measurement interval with `--measurement-interval`.\n"
)


def test_a_server_that_says_it_took_longer_than_we_waited(run: Callable, tmp_path: Path) -> None:
    def control(request: Request) -> Act | None:
        if not request.path.endswith("/stats"):
            return None
        count = len(fake.inferences)
        names = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
        stats = {name: {"count": count, "ns": count * 3_600_000_000_000} for name in names}
        row = {"name": "fake", "version": "1", "inference_count": count, "execution_count": count}
        return answer_json({"model_stats": [{**row, "inference_stats": stats}]})

    with FakeTriton(control=control) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "-p", "1000", "-s", "999999", "-r", "3")
        ended = run("perf_analyzer", *words, "--concurrency-range", "1:2", "-f", str(tmp_path / "report.csv"))
    assert ended.code == 0, ended.stdout
    assert ended.stderr.count(ACCOUNTED) == 2  # for each row of the file


@pytest.mark.parametrize(("limit", "windows"), [((), 4), (("-l", "1"), 3)])
def test_windows_that_were_measured_are_named(limit: tuple[str, ...], windows: int, run: Callable) -> None:
    """A level over the latency limit ends after three, however many it might have had."""

    def wait(wire: Wire) -> None:
        wire.ended.wait(0.002)

    with FakeTriton(lambda number, request: both(wait, raw(reply(b"{}")))) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "-p", "300", "-s", "0", "-r", "4", *limit)
        ended = run("perf_analyzer", *words)
    assert ended.code == 2
    assert f"stable measurement within {windows} measurement windows for concurrency 1. " in ended.stderr
