"""Live lines: events become lines, samples are limited per second, and a full disk causes one warning."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.watcher import Watcher, together
from inferometer.store.live import LiveFeed
from inferometer.store.live_file import LiveFile
from inferometer.store.store import Store
from tests.support.clock import FakeClock
from tests.support.reports import sample_diagnosis, sample_level, sample_study


class Told:
    """A feed and its lines."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lines: list[Mapping[str, Any]] = []
        self.feed = LiveFeed(self.lines.append, self.clock)

    def go_on(self, seconds: float, *, per_s: int, step_s: float = 0.05, **more: Any) -> None:
        """Progress by steps, each with requests of 1 ms to 100 ms."""
        for step in range(1, round(seconds / step_s) + 1):
            self.clock.now_ns += round(step_s * NS_PER_S)
            count = round(per_s * step_s)
            latency_ns = (np.linspace(1, 100, count) * NS_PER_MS).astype(np.int64)
            self.feed.progressed(LevelProgress(self.clock(), step * step_s, latency_ns, **more))

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]


def test_samples_come_at_least_four_and_at_most_about_five_times_a_second() -> None:
    for step_s in (0.02, 0.05, 0.2):
        told = Told()
        told.feed.level_started("concurrency", 4)
        told.go_on(
            10, per_s=1000, step_s=step_s, outstanding=4, left_s=3.0, cpu_ns=round(step_s * NS_PER_S / 2)
        )
        samples = told.of("sample")
        assert 40 <= len(samples) <= 53
        last = samples[-1]
        assert (last["number"], last["phase"], last["outstanding"], last["left_s"]) == (
            1,
            "measuring",
            4,
            3.0,
        )
        assert last["per_s"] == pytest.approx(1000, rel=0.01)
        assert last["client_cores"] == pytest.approx(0.5, rel=0.01)
        assert [last[f"p{p}_ms"] for p in (50, 90, 95, 99)] == pytest.approx([51, 91, 96, 100], abs=6)
        assert last["ended"] == pytest.approx(10_000, abs=210)
        assert (last["server_waiting"], last["gpu"], last["tokens_per_s"]) == (None, None, None)


def test_the_warm_up_is_not_in_the_figures() -> None:
    told = Told()
    told.feed.level_started("request_rate", 100)
    told.go_on(1, per_s=2000, is_warm_up=True)
    told.go_on(1, per_s=100, tokens=30, failed=1)
    first, last = told.of("sample")[0], told.of("sample")[-1]
    assert (first["phase"], first["per_s"]) == ("warm-up", pytest.approx(2000))
    assert last["per_s"] == pytest.approx(100, rel=0.02)
    assert last["tokens_per_s"] == pytest.approx(600, rel=0.02)
    assert last["failed"] > 10


def test_levels_rounds_brackets_and_messages() -> None:
    told = Told()
    told.feed.planned(2, None)
    told.feed.level_started("concurrency", 1)
    told.feed.level_started("concurrency", 1)  # measured again with more workers
    told.feed.level_finished(sample_level(1, 1.0))
    told.feed.level_started("concurrency", 2)
    told.feed.bracketed(100.0, float("inf"))
    told.feed.round_finished(1, 5, (("a", 10.0), ("b", 20.0)))
    told.feed.turn_progressed("a", LevelProgress(NS_PER_S, 1.0, np.array([NS_PER_MS])))
    told.feed.said("hello", is_warning=True)
    told.feed.said("a detail", is_detail=True)
    assert [line["kind"] for line in told.lines] == [
        *("planned", "level", "level", "level_end", "level", "bracket", "round", "sample", "said"),
    ]
    assert [line["number"] for line in told.of("level")] == [1, 1, 2]
    assert told.of("level_end")[0]["per_s"][0] > 0
    assert "concurrency" in told.of("level_end")[0]["sentence"]
    assert told.of("bracket")[0]["high"] is None
    assert told.of("sample")[0]["variant"] == "a"
    json.dumps(told.lines, allow_nan=False)


def test_trials_of_the_tuner_and_of_a_diagnosis() -> None:
    told, study = Told(), sample_study()
    trial = study.measured[0]
    told.feed.proposed(SimpleNamespace(variants=(study.variants[0],)), is_known=True)
    told.feed.led(trial, does_pass=True)
    told.feed.tried(trial)
    told.feed.tried(sample_diagnosis().trials[0])
    first, second = told.of("trial")
    assert (first["number"], first["name"], first["is_known"], first["is_best"]) == (
        1,
        trial.name,
        True,
        True,
    )
    assert first["per_s"] > 0
    assert second["predicted_per_s"] > 0
    json.dumps(told.lines, allow_nan=False)


def test_all_watchers_are_notified_and_any_can_interrupt() -> None:
    told = Told()

    class Other(Watcher):
        texts: tuple[str, ...] = ()

        def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
            self.texts += (text,)

        def is_interrupted(self) -> bool:
            return bool(self.texts)

    other = Other()
    both = together(other, told.feed)
    assert not both.is_interrupted()
    both.said("hello")
    both.planned(1, 2.0)
    assert (other.texts, len(told.lines), both.is_interrupted()) == (("hello",), 2, True)


def test_the_file_grows_by_whole_lines_and_is_removed_at_the_end(tmp_path: Path) -> None:
    warnings: list[Exception] = []
    file = LiveFile(tmp_path / "live.jsonl", warnings.append)
    file.tell({"kind": "said", "text": "ä\n"})
    with open(tmp_path / "live.jsonl") as reader:
        assert json.loads(reader.readline())["text"] == "ä\n"
        file.end(0)
        assert json.loads(reader.readline())["kind"] == "end"
    assert not (tmp_path / "live.jsonl").exists()
    assert warnings == []


def test_a_full_disk_is_reported_once(tmp_path: Path) -> None:
    warnings: list[Exception] = []
    (tmp_path / "live.jsonl").symlink_to("/dev/full")
    file = LiveFile(tmp_path / "live.jsonl", warnings.append)
    for _ in range(3):
        file.tell({"kind": "said"})
    file.end(0)
    assert len(warnings) == 1


def test_the_live_page_learns_the_model_and_the_limits_of_the_slo(tmp_path):
    told: list[Mapping[str, Any]] = []
    with Store(tmp_path).begin("measure", ("measure", "localhost:8000")) as keeper:
        keeper.tell_also(told.append)
        keeper.about(
            url="localhost:8000", model="simple", slo=parse_slo("p99<50ms, mean<2s, throughput>100, ttft<1s")
        )
        keeper.end(0, "over")
    (line,) = (row for row in told if row["kind"] == "prepared")
    assert line["model"] == "simple"
    assert [(row["figure"], row["value"], row["text"]) for row in line["limits"]] == [
        ("p99", 50.0, "p99<50ms"),
        ("mean", 2000.0, "mean<2s"),
        ("throughput", 100.0, "throughput>100"),
    ]
