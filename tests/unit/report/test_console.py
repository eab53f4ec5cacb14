"""The console report as golden text without colour, and progress without a clock that runs."""

import io
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from inferometer.base.notes import Note, Remark
from inferometer.measure.measurement import FailureGroup
from inferometer.report.console import LiveProgress, PlainProgress, closing_sentence, render

Golden = Callable[[str, str], None]


def text_of(result: Any, width: int = 100) -> str:
    stream = io.StringIO()
    render(result, Console(file=stream, no_color=True, width=width))
    return stream.getvalue()


def plain_sweep(build: ModuleType) -> Any:
    server = build.model("simple", build.counters(8300, 147, 14, (11, 93, 27)))
    first = build.measurement(8300, 3208.51, 307, 374, (223, 443, 708, 1979), server=server, interval=0.014)
    busy = build.measurement(
        12345, 15208.5, 1307, 374, (1223, 2443, 3708, 12979), server=server, interval=0.031, cpu=0.97
    )
    limited = Remark(Note.CLIENT_LIMITED, "the busiest worker used 97 % of a core")
    levels = (
        build.level(first),
        build.level(busy, 16, remarks=[limited]),
        build.level(None, 32, is_stable=False),
    )
    return build.result(*levels, model={"name": "simple"})


def image_ensemble(build: ModuleType) -> Any:
    server = build.ensemble(
        "ensemble_image",
        build.counters(400, 31_000),
        build.model("classifier", build.counters(400, 4_000, 100, (50, 3_800, 50))),
        build.model("postprocessing", build.counters(800, 300, 20, (20, 240, 20))),
        build.model("preprocessing", build.counters(400, 26_000, 18_000, (100, 7_800, 100))),
    )
    row = build.measurement(
        400, 120.4, 32_500, 900, (31_000, 36_000, 39_000, 52_000), server=server, interval=0.02
    )
    return build.result(build.level(row, 4), model={"name": "ensemble_image"})


def troubled(build: ModuleType) -> Any:
    groups = (
        FailureGroup("http 503", 12, "[red]queue is full[/red]\nsecond line", 0.1, 3.2),
        FailureGroup("timeout", 1, "", 2.0, 2.0),
    )
    row = build.measurement(900, 320.5, 2307, 374, (223, 443, 708, 1979), failures=groups)
    remarks = [
        Remark(Note.NOT_STABLE, "throughput of the last 3 windows spans 31 %, more than 10 %"),
        Remark(Note.FAILURES, "13 of 913 requests failed"),
    ]
    level = build.level(row, 8, is_stable=False, is_over_limit=True, remarks=remarks)
    missing = Remark(Note.STATISTICS_MISSING, "the server has no statistics extension")
    return build.result(level, remarks=[missing])


def request_rate(build: ModuleType) -> Any:
    row = build.measurement(900, 99.5, 2307, 374, (223, 443, 708, 1979), interval=0.001)
    return build.result(build.level(row, 100.5, mode="request_rate"), mode="request_rate")


@pytest.mark.parametrize(
    "run", [plain_sweep, image_ensemble, troubled, request_rate], ids=lambda run: run.__name__
)
def test_console_report_is_the_golden_one(
    run: Callable[[ModuleType], Any], build: ModuleType, golden: Golden
) -> None:
    text = text_of(run(build))
    golden(f"console_{run.__name__}.txt", text)
    assert max(len(line) for line in text.splitlines()) <= 100


def test_figures_survive_a_narrow_terminal(build: ModuleType) -> None:
    text = text_of(plain_sweep(build), width=80)
    assert "15208" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_words_of_the_server_are_not_markup(build: ModuleType) -> None:
    assert "[red]queue is full[/red]" in text_of(troubled(build))


def test_slowest_step_is_named_with_its_share_and_waiting(build: ModuleType) -> None:
    level = image_ensemble(build).levels[0]
    assert closing_sentence(level) == (
        "Slowest step: preprocessing, 26.0 ms per request, 84 % of the server's time; "
        "69 % of that is waiting in its queue."
    )


def test_without_server_statistics_there_is_no_closing_sentence(build: ModuleType) -> None:
    assert closing_sentence(build.level(build.measurement(9, 9.0, 9, 9, (1, 2, 3, 4)))) == ""
    assert closing_sentence(build.level(None)) == ""


class Hand:
    """A clock that shows what it was set to."""

    def __init__(self) -> None:
        self.now_s = 100

    def __call__(self) -> int:
        return self.now_s * 1_000_000_000


def test_plain_progress_speaks_every_five_seconds(build: ModuleType) -> None:
    stream, hand = io.StringIO(), Hand()
    progress = PlainProgress(stream, hand)
    progress.level_started("concurrency", 4)
    for number in range(1, 13):
        hand.now_s += 1
        progress.window_finished(number, build.window(3208.51, 307, failed=number // 10))
    progress.level_finished(
        build.level(build.measurement(9, 3208.51, 307, 1, (1, 2, 3, 4), interval=0.01), 4)
    )
    progress.close()
    assert stream.getvalue().splitlines() == [
        "concurrency 4: started",
        "concurrency 4: window 5, 3209 infer/s, 308 µs",
        "concurrency 4: window 10, 3209 infer/s, 308 µs, 1 failed",
        "concurrency 4: 3209 infer/s ±1.0 %, avg 307 µs, p99 5.00 µs, ok",
    ]


def test_plain_progress_tells_a_window_and_a_level_without_requests(build: ModuleType) -> None:
    stream, hand = io.StringIO(), Hand()
    progress = PlainProgress(stream, hand)
    progress.level_started("request_rate", 50.5)
    hand.now_s += 5
    progress.window_finished(1, build.window(0.0, 0, count=0))
    progress.level_finished(build.level(None, 50.5, mode="request_rate"))
    assert stream.getvalue().splitlines()[1:] == [
        "request rate 50.5: window 1, no request finished",
        "request rate 50.5: no request finished",
    ]


def test_live_progress_shows_the_level_and_leaves_the_screen_clean(build: ModuleType) -> None:
    stream = io.StringIO()
    progress = LiveProgress(Console(file=stream, force_terminal=True, width=100, height=30))
    progress.close()
    assert stream.getvalue() == ""
    for value in (1, 2):
        progress.level_started("concurrency", value)
        progress.window_finished(1, build.window(3208.51, 307))
        progress.level_finished(build.level(build.measurement(9, 50.0, 307, 1, (1, 2, 3, 4)), value))
    progress.close()
    assert "concurrency 2: window 1, 3209 infer/s" in stream.getvalue()
    assert "concurrency 1: 50.0 infer/s" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("\x1b[2K")
