"""Progress without a clock that runs."""

import io
from types import ModuleType

from rich.console import Console

from inferometer.report.progress import LiveProgress, PlainProgress


class Hand:
    """A clock that shows what it was set to."""

    def __init__(self) -> None:
        self.now_s = 100

    def __call__(self) -> int:
        return self.now_s * 1_000_000_000


def never() -> bool:
    return False


def test_plain_progress_speaks_every_five_seconds(build: ModuleType) -> None:
    stream, hand = io.StringIO(), Hand()
    progress = PlainProgress(never, stream, hand)
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
        "concurrency 4: window 5, 3,209 infer/s, 308 µs",
        "concurrency 4: window 10, 3,209 infer/s, 308 µs, 1 failed",
        "concurrency 4: 3,209 infer/s ±1.0 %, avg 307 µs, p99 5.00 µs, ok",
    ]


def test_plain_progress_tells_a_window_and_a_level_without_requests(build: ModuleType) -> None:
    stream, hand = io.StringIO(), Hand()
    progress = PlainProgress(never, stream, hand)
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
    progress = LiveProgress(never, Console(file=stream, force_terminal=True, width=100, height=30))
    progress.close()
    assert stream.getvalue() == ""
    for value in (1, 2):
        progress.level_started("concurrency", value)
        progress.window_finished(1, build.window(3208.51, 307))
        progress.level_finished(build.level(build.measurement(9, 50.0, 307, 1, (1, 2, 3, 4)), value))
    progress.close()
    assert "concurrency 2: window 1, 3,209 infer/s" in stream.getvalue()
    assert "concurrency 1: 50.0 infer/s" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("\x1b[2K")


def test_long_windows_are_reported_from_within(build: ModuleType) -> None:
    stream, hand = io.StringIO(), Hand()
    progress = PlainProgress(never, stream, hand)
    progress.level_started("concurrency", 4)
    for second in range(1, 13):
        hand.now_s += 1
        progress.ticked(float(second), 100 * second, second // 10)
    assert stream.getvalue().splitlines() == [
        "concurrency 4: started",
        "concurrency 4: 5 s, 500 requests in this window",
        "concurrency 4: 10 s, 1,000 requests in this window, 1 failed",
    ]


def test_live_progress_keeps_the_last_window_beside_the_one_that_fills(build: ModuleType) -> None:
    stream = io.StringIO()
    progress = LiveProgress(never, Console(file=stream, force_terminal=True, width=100, height=30))
    progress.level_started("concurrency", 1)
    progress.window_finished(1, build.window(3208.51, 307))
    progress.ticked(1.2, 1, 0)
    progress.close()
    assert (
        "concurrency 1: window 1, 3,209 infer/s, 308 µs; 1 s, 1 request in this window" in stream.getvalue()
    )
