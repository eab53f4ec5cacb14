"""Swim lanes as a Chrome trace: read back, they are the records."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from inferometer.base import status
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.report import perfetto
from inferometer.report.perfetto import PerfettoTrace
from inferometer.stats.level_progress import LevelProgress

PART: dict[str, Any] = {"seen_ns": 0, "elapsed_s": 0.0, "latency_ns": np.empty(0, dtype=np.int64)}


def made(count: int, *, concurrency: int = 3, seed: int = 1) -> Records:
    """Requests of a closed load: each lane sends again as soon as its request has ended."""
    rng, cells = np.random.default_rng(seed), np.zeros((count, len(COLUMNS)), dtype=np.int64)
    free = [1_000_000_000] * concurrency
    for row in range(count):
        lane = int(np.argmin(free))
        due = free[lane]
        steps = np.cumsum(rng.integers(1, 1000, 4)) * 1000
        times = dict(zip(("sent_ns", "wrote_ns", "first_ns", "end_ns"), (due + steps).tolist(), strict=True))
        free[lane] = times["end_ns"]
        values = {"due_ns": due, **times, "status": status.TIMEOUT if row % 10 == 9 else 0, "step": row % 5}
        for name, value in values.items():
            cells[row, COLUMNS.index(name)] = value
    return from_rows(cells)


def read_back(path):
    found = json.loads(path.read_text())
    slices = [row for row in found["traceEvents"] if row["ph"] == "X"]
    return found, [row for row in slices if "args" in row], [row for row in slices if "args" not in row]


def written(tmp_path, *parts: Records):
    lanes = PerfettoTrace(tmp_path / "lanes.json")
    lanes.level_started("concurrency", 3)
    for part in parts:
        lanes.progressed(LevelProgress(records=part, **PART))
    lanes.write()
    return read_back(lanes.path)


def test_the_file_holds_the_records(tmp_path):
    whole = made(200)
    found, requests, phases = written(tmp_path, whole.where(slice(0, 120)), whole.where(slice(120, None)))
    epoch_ns = int(whole.due_ns.min())

    def expected(begin, end):
        return sorted(zip(((begin - epoch_ns) / 1000).tolist(), ((end - begin) / 1000).tolist(), strict=True))

    assert sorted((row["ts"], row["dur"]) for row in requests) == expected(whole.due_ns, whole.end_ns)
    for name, begin, end in (
        ("waiting", whole.due_ns, whole.sent_ns),
        ("sending", whole.sent_ns, whole.wrote_ns),
        ("server", whole.wrote_ns, whole.first_ns),
        ("receiving", whole.first_ns, whole.end_ns),
    ):
        assert sorted((row["ts"], row["dur"]) for row in phases if row["name"] == name) == expected(
            begin, end
        )
    assert sum(row["name"] == "timeout" for row in requests) == 20
    assert {row["tid"] for row in requests} == {0, 1, 2}
    assert found["otherData"]["levels"] == [
        {"name": "concurrency 3", "requests": 200, "shown": 200, "one_of": 1}
    ]


def test_no_two_requests_of_a_lane_overlap(tmp_path):
    _, requests, _ = written(tmp_path, made(300, concurrency=7))
    for lane in range(7):
        rows = sorted((row["ts"], row["dur"]) for row in requests if row["tid"] == lane)
        assert all(ts + dur <= later + 1e-6 for (ts, dur), (later, _) in pairwise(rows))


def test_a_long_level_is_sampled_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_REQUESTS", 100)
    whole = made(1000)
    parts = [whole.where(slice(at, at + 37)) for at in range(0, 1000, 37)]
    found, requests, _ = written(tmp_path, *parts)
    (level,) = found["otherData"]["levels"]
    assert (level["requests"], level["one_of"]) == (1000, 16)
    assert len(requests) == level["shown"] == 63
    (name,) = [row["args"]["name"] for row in found["traceEvents"] if row["name"] == "process_name"]
    assert name == "concurrency 3 (sampled: 1 of 16 of 1,000 requests)"
    epoch_ns = int(whole.where(slice(None, None, 16)).due_ns.min())
    ends = sorted(round((row["ts"] + row["dur"]) * 1000) + epoch_ns for row in requests)
    assert ends == whole.end_ns[::16].tolist()  # every sixteenth of the whole level, however it arrived


def test_responses_of_a_stream_are_marked_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_RESPONSES", 5)
    one = made(4)
    stamps = np.array([2, 2, 2, 2], dtype=np.int64)
    times = np.repeat(one.first_ns, 2)
    found, _, _ = written(tmp_path, replace(one, stamps=stamps, times=times))
    marks = [row["ts"] for row in found["traceEvents"] if row["ph"] == "i"]
    assert len(marks) == 5
    assert found["otherData"]["responses_left_out"]
    assert marks == [(time - int(one.due_ns.min())) / 1000 for time in times.tolist()[:5]]


@pytest.mark.parametrize("extra", [0, 3])
def test_levels_beyond_the_limit_are_counted(tmp_path, monkeypatch, extra):
    monkeypatch.setattr(perfetto, "MOST_LEVELS", 2)
    lanes = PerfettoTrace(tmp_path / "lanes.json")
    for number in range(2 + extra):
        lanes.level_started("concurrency", number + 1)
        lanes.progressed(LevelProgress(records=made(10, seed=number), **PART))
    lanes.write()
    found, requests, _ = read_back(lanes.path)
    assert (len(requests), found["otherData"]["levels_left_out"]) == (20, extra)
