"""How rounds are run, and what the report makes of them; the tools are scripted."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.bar import Bar, BenchError, Contest, Direction, Sample, Setting
from benchmarks.machine import Machine
from benchmarks.report import (
    COLUMNS,
    IN_README,
    MARKS,
    entries_of,
    rows,
    to_markdown,
    to_short_markdown,
    write,
)
from benchmarks.rounds import Outcome, measure_bar
from benchmarks.table import BARS

ROOT = Path(__file__).parents[3]
SETTING = Setting(rounds=3, seconds=1)
MACHINE = Machine("2026-01-01 00:00 UTC", "Some CPU", 2, 8.0, "Linux 6", 0.1, {"wrk": "4"})


def scripted(ours: list[float], theirs: list[float], **more: object) -> tuple[Bar, list[str]]:
    calls: list[str] = []

    def tool(name: str, values: list[float]) -> Sample:
        calls.append(name)
        value = values.pop(0)
        if value < 0:
            raise BenchError("it hung")
        return Sample(value, {"requests/s": value})

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        yield Contest(lambda: tool("ours", ours), lambda: tool("wrk", theirs))

    known = {"name": "b", "title": "a bar", "unit": "us", "target": 0.5, "rival": "wrk", "open": opened}
    return Bar(**{**known, **more}), calls  # type: ignore[arg-type]


def run(bar: Bar, setting: Setting = SETTING) -> Outcome:
    return measure_bar(bar, setting, lambda text: None)


def test_tools_take_turns_and_the_first_one_alternates():
    bar, calls = scripted([1, 1, 1], [2, 2, 2])
    outcome = run(bar)
    assert calls == ["ours", "wrk", "wrk", "ours", "ours", "wrk"]
    assert outcome.verdict == "held"


def test_the_median_ratio_is_judged():
    bar, _ = scripted([1, 9, 1], [2, 9, 4])
    outcome = run(bar)
    assert outcome.judged is not None
    assert (outcome.judged.low, outcome.judged.median, outcome.judged.high) == (0.25, 0.5, 1.0)


def test_one_mishap_is_forgiven():
    bar, calls = scripted([1, 1, 1], [2, -1, 2, 2])
    assert run(bar).verdict == "held"
    assert calls.count("wrk") == 4


def test_a_bar_that_cannot_be_measured_says_why_and_stays_in_the_table():
    bar, _ = scripted([-1, -1], [1])
    outcome = run(bar)
    assert rows([outcome])[0][-1] == "not measured: it hung"


def test_a_missing_part_is_the_reason():
    @contextlib.contextmanager
    def missing(setting: Setting) -> Iterator[Contest]:
        raise BenchError("the program 'wrk' is missing; install wrk")
        yield

    bar, _ = scripted([], [], open=missing)
    assert run(bar).note == "the program 'wrk' is missing; install wrk"


def test_slow_bars_wait_for_full():
    bar, calls = scripted([1], [2], only_full=True, rounds=1)
    assert "--full" in run(bar).note
    assert not calls
    assert run(bar, Setting(is_full=True)).verdict == "held"


def test_a_bar_without_rival_is_judged_by_itself():
    @contextlib.contextmanager
    def alone(setting: Setting) -> Iterator[Contest]:
        yield Contest(lambda: Sample(300.0))

    bar, _ = scripted([], [], open=alone, rival=None, target=250, unit="MiB", rounds=1)
    assert rows([run(bar)])[0][1:] == ("<= 250 MiB", "300 MiB", "-", "300 MiB", "-", "MISSED")


def test_a_later_run_updates_only_the_bars_it_measured(tmp_path):
    held, _ = scripted([1, 1, 1], [2, 2, 2], name="one", direction=Direction.AT_LEAST)
    lost, _ = scripted([-1, -1], [1], name="two")
    names, saved, page = ("one", "two"), tmp_path / "last.json", tmp_path / "page.md"
    readme = tmp_path / "readme.md"
    for file in (page, readme):
        file.write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
    write(entries_of([run(held), run(lost)], MACHINE, SETTING), names, saved, page, readme)
    later, _ = scripted([3, 3, 3], [2, 2, 2], name="two")
    write(entries_of([run(later)], replace(MACHINE, date="later"), SETTING), names, saved, page, readme)
    bars = json.loads(saved.read_text())["bars"]
    assert [(bar["name"], bar["judged"]["median"]) for bar in bars] == [("one", 0.5), ("two", 1.5)]
    start, *lines, end = page.read_text().splitlines()[1:-1]
    assert (start, end) == ("<!-- bench -->", "<!-- /bench -->")
    assert lines[0] == f"| {' | '.join(COLUMNS)} | run |"
    assert [line.count("|") for line in lines[:4]] == [len(COLUMNS) + 2] * 4
    assert [line[-5:] for line in lines[2:4]] == ["| 1 |", "| 2 |"]
    assert lines[5].startswith(f"1. {MACHINE.line}; {SETTING.rounds} rounds")
    assert lines[6].startswith("2. later")


def test_the_pages_have_the_saved_figures():
    bars = json.loads((ROOT / "benchmarks" / "last.json").read_text())["bars"]
    for name, table in (("docs/performance.md", to_markdown(bars)), ("README.md", to_short_markdown(bars))):
        assert f"{MARKS[0]}{table}{MARKS[1]}" in (ROOT / name).read_text()
    assert to_short_markdown(bars).count("\n") == 2 + len(IN_README)


def test_names_of_bars_are_unique():
    assert len({bar.name for bar in BARS}) == len(BARS)
