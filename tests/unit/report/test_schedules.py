"""Reports of open-loop load, with three rates and service time beside latency, and of ramps of streams."""

from dataclasses import replace
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.notes import Note, Remark
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.report.csv import main_csv
from inferometer.report.saved import document
from inferometer.report.terminal import show
from inferometer.stats.measurement import Rates
from inferometer.stats.result import Result
from tests.support.reports import classic_report

SCHEDULE = {"request_count": 90, "schedule_s": 2.5, "schedule": "hold 50 for 2.5s", "speed": 1.0}


def run(build: ModuleType, mode: str, *notes: Note, **effective: Any) -> Any:
    row = build.measurement(90, 36.0, 9000, 800, (8800, 9500, 9900, 20000), transport=700)
    level = build.level(
        row,
        36.123,
        mode="request_rate",
        remarks=[Remark(note, f"about {note.name}") for note in notes],
    )
    level = replace(level, rates=Rates(36.123, 35.5, 34.25))
    return build.result(level, mode=mode, **{**SCHEDULE, **effective})


def shown(result: Any) -> str:
    out = StringIO()
    show(document(result), Console(file=out, width=100))
    return out.getvalue()


@pytest.mark.parametrize(
    "mode", ["request_rate", "request_intervals", "fixed_schedule", "replay", "shape_load"]
)
def test_due_sent_and_answered_rates_are_shown_with_service_time(mode: str, build: ModuleType) -> None:
    text = shown(run(build, mode))
    assert "Due/s  Sent/s  Answered/s" in text
    (line,) = (line for line in text.splitlines() if line.split()[:3] == ["36.1", "35.5", "34.2"])
    assert line.split()[3:] == ["9.00", "ms", "20.0", "ms", "700", "µs", "20.0", "ms"]


def test_the_title_names_the_schedule(build: ModuleType) -> None:
    assert "hold 50 for 2.5s: 90 requests in 2.50 s" in shown(run(build, "shape_load"))
    replay = run(build, "replay", schedule="replay of t.jsonl", speed=2.0)
    assert "replay of t.jsonl at speed 2: 90 requests in 2.50 s" in shown(replay)


@pytest.mark.parametrize(
    ("mode", "notes", "is_told"),
    [
        ("request_rate", (), False),
        ("request_rate", (Note.OVERLOADED,), True),
        ("request_rate", (Note.NOT_OFFERED,), True),
        ("shape_load", (), True),
        ("replay", (), True),
        ("fixed_schedule", (), True),
    ],
)
def test_the_classic_report_has_rates_if_they_vary(
    mode: str, notes: tuple[Note, ...], is_told: bool, build: ModuleType
) -> None:
    text = classic_report(run(build, mode, *notes))
    assert ("    Request rate: asked 36.123, sent 35.5, answered 34.25 requests/sec\n" in text) == is_told
    assert "    Avg service time: 700 usec\n" in text


def test_overload_is_in_both_reports(build: ModuleType) -> None:
    result = run(build, "shape_load", Note.OVERLOADED)
    assert "overloaded" in shown(result)
    assert "[WARNING] about OVERLOADED" in classic_report(result)


def test_a_fixed_schedule_is_rate_1_for_scripts_and_has_no_header(build: ModuleType) -> None:
    result = run(build, "fixed_schedule")
    text = classic_report(result)
    assert "Request Rate: 1, throughput: 36 infer/sec, latency 9000 usec\n" in text
    assert "inference requests per seconds" not in text
    assert main_csv(result).splitlines()[1].startswith("1,36,")
    assert main_csv(run(build, "shape_load")).splitlines()[1].startswith("36.123,36,")


def test_a_ramp_of_streams_is_only_in_our_own_report(build: ModuleType) -> None:
    row = build.level(build.measurement(6, 36.0, 9000, 800, (8800, 9500, 9900, 20000)))
    result = build.result(row, mode="periodic_concurrency", periodic=[2, 6, 2], request_period=3)
    assert classic.level_block(result, row) == classic.summary(result) == main_csv(result) == ""
    assert "2..6" in shown(result)
    without_end = build.result(row, mode="periodic_concurrency", periodic=[2, None, 1], request_period=3)
    assert "2..2" in shown(without_end)


def test_rates_are_in_the_file(build: ModuleType) -> None:
    result = run(build, "replay")
    assert from_json(to_json(result), "r.json", Result).levels[0].rates == Rates(36.123, 35.5, 34.25)
