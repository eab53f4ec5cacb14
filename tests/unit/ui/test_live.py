"""Live lines reach every browser, once and in order."""

import asyncio
import json
from contextlib import closing

import pytest

from inferometer.ui import live
from inferometer.ui.live import LiveLines, events


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0.0)


@pytest.fixture
def lines(tmp_path):
    with closing(LiveLines(tmp_path / "live.jsonl")) as found:
        yield found


def line(number, kind="sample"):
    return json.dumps({"kind": kind, "number": number}).encode()


def test_lines_arrive_once_and_in_order_however_they_are_split(tmp_path, lines):
    path = tmp_path / "live.jsonl"
    assert lines.since(0) == (0, [])  # nothing is written yet
    whole = b"".join(line(number) + b"\n" for number in range(5))
    seen, found = 0, []
    with path.open("wb", buffering=0) as file:
        for byte in whole:
            file.write(bytes((byte,)))
            seen, new = lines.since(seen)
            found += new
    assert found == [line(number) for number in range(5)]
    assert lines.since(2) == (5, [line(number) for number in range(2, 5)])
    assert lines.since(5) == (5, [])


def test_foreign_lines_are_skipped(tmp_path, lines):
    path = tmp_path / "live.jsonl"
    path.write_bytes(b'\n{"kind": "sample"\n[1]\n"x"\n\xff\n' + line(1, "level") + b"\nhalf")
    assert lines.since(0) == (1, [line(1, "level")])


def test_old_samples_are_dropped_and_levels_kept(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(live, "MOST_SAMPLES", 10)
    path = tmp_path / "live.jsonl"
    path.write_bytes(b"".join(line(n, "level" if n % 10 == 0 else "sample") + b"\n" for n in range(100)))
    count, found = lines.since(0)
    assert count == 100
    kinds = [json.loads(row)["kind"] for row in found]
    assert kinds.count("level") == 10
    assert 10 <= kinds.count("sample") <= 20
    assert json.loads(found[-1])["number"] == 99


def gathered(stream):
    async def gather():
        return [piece async for piece in stream]

    return asyncio.run(gather())


def test_a_stream_ends_with_the_run(tmp_path, lines):
    path = tmp_path / "live.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2) + b"\n")
    lines.since(0)
    path.unlink()  # the run has ended
    assert gathered(events(lines, lambda: "finished")) == [
        b"data: " + line(1) + b"\ndata: " + line(2) + b"\nid: 2\n\n",
        b"event: over\ndata: finished\n\n",
    ]
    assert gathered(events(lines, lambda: "killed", after=1))[0] == b"data: " + line(2) + b"\nid: 2\n\n"


def test_a_line_cannot_end_an_event(tmp_path, lines):
    path = tmp_path / "live.jsonl"
    path.write_bytes(b'{"kind": "said",\r"text": "a\\n\\nevent: over"}\n')
    (piece, _) = gathered(events(lines, lambda: "killed"))
    assert piece.count(b"\n") == 3
    assert b"\r" not in piece
