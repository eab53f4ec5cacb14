"""Progress with a fake clock."""

import io
import math
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from inferometer.options.effective import Effective
from inferometer.report.format import curve, time_span
from inferometer.report.live_figures import LiveFigures
from inferometer.report.progress import LiveProgress, PlainProgress, Progress
from inferometer.stats.level_progress import LevelProgress
from tests.support.clock import FakeClock
from tests.support.screen import Screen

SECOND = 1_000_000_000


def never() -> bool:
    return False


class Shown:
    """A terminal with progress on it, and a clock that is advanced by hand."""

    def __init__(self, columns: int = 100, rows: int = 30, interrupted=never, **more) -> None:
        self.clock = FakeClock()
        self.stream = io.StringIO()
        self.columns = columns
        console = Console(
            file=self.stream, force_terminal=True, width=columns, height=rows, legacy_windows=False, **more
        )
        self.progress = LiveProgress(interrupted, console, self.clock)
        self.begun_ns = self.clock()

    def start(self, mode: str, value: float) -> None:
        self.begun_ns = self.clock()
        self.progress.level_started(mode, value)

    def tick(self, seconds: float, *latencies_ms: float, **more) -> None:
        self.clock.move_to(self.clock() + round(seconds * SECOND))
        latency_ns = np.array([ms * 1_000_000 for ms in latencies_ms], dtype=np.int64)
        elapsed_s = (self.clock() - self.begun_ns) / SECOND
        self.progress.progressed(LevelProgress(self.clock(), elapsed_s, latency_ns, **more))

    @property
    def lines(self) -> list[str]:
        screen = Screen(self.columns)
        screen.write(self.stream.getvalue())
        assert screen.widest <= self.columns
        return screen.text.splitlines()


def test_the_block_has_a_bar_figures_and_curves() -> None:
    shown = Shown(columns=60)
    shown.progress.planned(4, None)
    shown.start("concurrency", 1)
    shown.start("concurrency", 8)
    for number in range(4):
        fast = [2.0] * 98
        shown.tick(0.5, *fast, 9, 40, outstanding=8, left_s=10 - 0.5 * (number + 1), is_most=True)
    assert shown.lines == [
        "▸ concurrency 8 · level 2 of 4",
        "  ━━━━━━━━━━━───────────────────────────  at most 28 s left",
        "  rate     ████                         200 requests/s",
        "  p50      ████                         2.00 ms",
        "  p99      ████                         9.00 ms",
        "  no errors · 8 outstanding",
    ]


def test_the_block_disappears_and_the_cursor_returns() -> None:
    shown = Shown()
    shown.progress.close()
    assert shown.stream.getvalue() == ""
    shown.start("concurrency", 1)
    shown.tick(1, 2)
    assert shown.lines
    shown.progress.close()
    assert shown.lines == []
    screen = Screen(100)
    screen.write(shown.stream.getvalue())
    assert screen.is_cursor_shown


@pytest.mark.parametrize("columns", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(build: ModuleType, columns: int) -> None:
    shown = Shown(columns=columns)
    for value in range(1, 30):
        shown.start("request_rate", 1_234_567.5 * value)
        shown.tick(
            1, *[123_456.0] * 9, failed=1_234_567, outstanding=1_234_567, left_s=1e6
        )  # `lines` checks the width
        shown.progress.level_finished(
            build.level(build.measurement(9, 1e7, 307, 1, (1, 2, 3, 4), interval=0.01), value)
        )
        assert shown.lines


def test_the_block_is_drawn_at_most_four_times_a_second() -> None:
    shown = Shown()
    shown.start("concurrency", 1)
    before = len(shown.stream.getvalue())
    drawn = 0
    for _ in range(100):
        shown.tick(0.02, 1)
        after = len(shown.stream.getvalue())
        drawn, before = drawn + (after > before), after
    assert drawn == 7  # 0.26 s apart in 2 s


def test_a_low_terminal_shows_fewer_finished_levels(build: ModuleType) -> None:
    shown = Shown(rows=10)
    for value in range(1, 6):
        shown.start("concurrency", value)
        shown.progress.level_finished(build.level(build.measurement(9, 50.0, 307, 1, (1, 2, 3, 4)), value))
    shown.tick(1, 2)
    assert len(shown.lines) == 8
    assert shown.lines[0].startswith("concurrency 4: 50.0 requests/s")


def test_a_repeated_level_is_listed_once(build: ModuleType) -> None:
    shown = Shown()
    shown.progress.planned(2, None)
    for rate in (50.0, 90.0):
        shown.start("concurrency", 4)
        shown.progress.level_finished(build.level(build.measurement(9, rate, 307, 1, (1, 2, 3, 4)), 4))
    assert [line.partition(",")[0] for line in shown.lines[:2]] == [
        "concurrency 4: 90.0 requests/s",
        "▸ concurrency 4 · level 1 of 2",
    ]


@pytest.mark.parametrize(
    ("planned", "told", "words"),
    [
        ((1, None), {"left_s": 6.0}, "about 6 s left"),
        ((1, None), {"left_s": 6.0, "is_most": True}, "at most 6 s left"),
        ((3, None), {"left_s": 6.0}, "about 26 s left"),  # two more levels of ten seconds
        ((3, 9.0), {"left_s": 6.0}, "at most 5 s left"),  # by the time limit
        ((None, 64.0), {"left_s": 6.0}, "at most 1 min left"),  # a search
        ((None, None), {"left_s": 6.0}, "4 s so far"),  # the number of levels is unknown
        ((1, None), {}, "4 s so far"),
        ((1, None), {"left_s": 0.0}, "almost done"),
    ],
)
def test_remaining_time_follows_from_known_lengths(planned, told, words: str) -> None:
    shown = Shown()
    shown.progress.planned(*planned)
    shown.start("concurrency", 1)
    shown.tick(4, 1, **told)
    assert shown.lines[1].endswith(words)


def test_an_unknown_level_is_assumed_to_last_as_long_as_the_previous_one() -> None:
    shown = Shown(columns=60)
    shown.progress.planned(4, None)
    shown.start("concurrency", 1)
    shown.tick(4, 1, left_s=6.0, is_most=True)
    shown.start("concurrency", 2)
    assert shown.lines[1].endswith("at most 30 s left")
    bar = shown.lines[1].split()[0]
    assert bar.count("━") / len(bar) == pytest.approx(0.25, abs=0.02)


def test_the_bar_works_without_colour() -> None:
    shown = Shown(no_color=True, columns=60)
    shown.progress.planned(1, None)
    shown.start("concurrency", 1)
    shown.tick(5, 1, left_s=5.0)
    bar = shown.lines[1].split()[0]
    assert bar == "━" * bar.count("━") + "─" * bar.count("─")
    assert abs(bar.count("━") - bar.count("─")) <= 1
    screen = Screen(60)
    screen.write(shown.stream.getvalue())
    assert screen.styles <= {"", "0", "1", "2"}  # bold and dim


def test_failures_and_interrupts_are_shown() -> None:
    shown = Shown(interrupted=lambda: True)
    shown.start("request_rate", 50)
    shown.tick(1, 1, 1, 1, failed=1, outstanding=2)
    assert shown.lines[1:] == [
        "  stopping; press Ctrl-C again to stop at once",
        "  rate     " + " " * 40 + "  3.00 requests/s",
        "  p50      " + " " * 40 + "  1.00 ms",
        "  p99      " + " " * 40 + "  1.00 ms",
        "  1 error (25 %) · 2 outstanding",
    ]


def test_the_warm_up_is_separate() -> None:
    shown = Shown()
    shown.start("concurrency", 1)
    shown.tick(3, 100, is_warm_up=True)
    assert shown.lines[0] == "▸ concurrency 1 · level 1 · warming up"
    shown.begun_ns = shown.clock()
    shown.tick(0.5, 2)
    assert shown.lines[0] == "▸ concurrency 1 · level 1"
    assert shown.lines[3].split()[-2:] == ["2.00", "ms"]


def test_a_search_shows_the_bracket_closing_in(build: ModuleType) -> None:
    shown = Shown(columns=60)
    shown.progress.planned(None, 60.0)
    found = build.measurement(9, 50.0, 307, 1, (1, 2, 3, 4))
    shown.start("concurrency", 1)
    shown.progress.level_finished(build.level(found, 1))
    lines = []
    for load, low, high in ((100, 0, math.inf), (1600, 100, math.inf), (400, 100, 1600), (300, 200, 400)):
        shown.progress.bracketed(low, high)
        shown.start("request_rate", load)
        lines.append(shown.lines[-1])
        shown.progress.level_finished(build.level(found, load, mode="request_rate"))
    assert lines == [
        "  not met yet              ◆              not violated yet",
        "  met at 100 ━                          ◆ not violated yet",
        "  met at 100 ━            ◆            ╌ violated at 1,600",
        "  met at 200 ━━━━━━━━   ◆  ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ violated at 400",
    ]
    assert [line.split(", ")[0] for line in shown.lines if line.startswith("request rate")] == [
        "request rate 100: met",
        "request rate 1,600: violated",
        "request rate 400: violated",
        "request rate 300: undecided",
    ]


def test_a_comparison_shows_its_rounds() -> None:
    shown = Shown(columns=60)
    shown.progress.planned(2, None)
    shown.start("concurrency", 4)
    for number in range(1, 11):
        shown.clock.move_to(shown.clock() + SECOND)
        shown.progress.round_finished(number, 20, (("fp32", 50.0), ("a_very_long_name", 12_345.0)))
    assert shown.lines == [
        "▸ concurrency 4 · level 1 of 2 · round 10 of 20",
        "  ━━━━━━━━━━──────────────────────────────  about 30 s left",
        "  fp32          ██████████              50.0 requests/s",
        "  a_ver…g_name  ██████████              12,345 requests/s",
    ]


def test_one_round_is_not_enough_to_estimate_the_rest() -> None:
    shown = Shown(columns=60)
    shown.progress.planned(1, None)
    shown.start("concurrency", 4)
    shown.clock.move_to(shown.clock() + SECOND)
    shown.progress.round_finished(1, 20, (("fp32", 50.0),))
    assert shown.lines[1] == "  1 s so far"


def test_messages_appear_above_the_block() -> None:
    shown = Shown()
    shown.start("concurrency", 4)
    shown.progress.said("Trying: two instances")
    shown.progress.said("a detail", is_detail=True)
    assert shown.lines == ["Trying: two instances", "▸ concurrency 4 · level 1", "  0 s so far"]


# --- figures


def figures_of(*ticks: tuple[float, list[float]]) -> LiveFigures:
    figures, elapsed_s = LiveFigures(), 0.0
    for seconds, latencies_ms in ticks:
        elapsed_s += seconds
        latency_ns = np.array([ms * 1_000_000 for ms in latencies_ms], dtype=np.int64)
        figures.add(LevelProgress(SECOND + round(elapsed_s * SECOND), elapsed_s, latency_ns))
    return figures


def test_figures_cover_the_last_second() -> None:
    figures = figures_of(*[(0.2, [50.0] * 100)] * 20, *[(0.2, [2.0] * 39 + [8.0])] * 5)
    assert figures.per_s == 200
    assert figures.latency_ns(50) == 2_000_000
    assert figures.latency_ns(99) == 8_000_000


def test_figures_of_a_slow_server_use_all_requests() -> None:
    figures = figures_of(*[(1.0, []), (1.0, [900.0])] * 10)
    assert figures.per_s == 0.5
    assert figures.latency_ns(50) == 900_000_000
    assert list(figures.rates) == [0.5, 0.5]  # ten seconds each


def test_simultaneous_answers_cause_no_token_bursts() -> None:
    """Four users in lockstep, answers of 100 tokens in two seconds: nothing ends for a while, then all do."""
    figures, latency_ns = LiveFigures(), np.full(4, 2 * SECOND)
    for tick in range(1, 81):
        ends = tick % 8 == 0
        ended = latency_ns if ends else latency_ns[:0]
        figures.add(
            LevelProgress(
                SECOND + tick * SECOND // 4, tick / 4, ended, outstanding=4, tokens=400 if ends else 0
            )
        )
    assert figures.has_tokens
    assert figures.tokens_per_s == 200
    assert set(figures.rates) == {200}


def test_a_stall_shows_in_the_curve() -> None:
    figures = figures_of(*[(0.5, [1.0] * 100)] * 3, *[(0.5, [])] * 2)
    assert list(figures.rates) == [200, 200, 200, 0, 0]
    assert curve(figures.rates, 10) == "███▁▁"
    assert curve(figures.percentiles[99], 10) == "███  "


def test_without_requests_there_are_no_figures() -> None:
    figures = figures_of((0.5, []))
    assert figures.per_s == 0
    assert figures.latency_ns(99) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.2, "1 s"), (60, "1 min"), (80, "1 min 20 s"), (7500, "2 h 5 min"), (3605, "1 h")],
)
def test_time_spans_are_readable(seconds: float, text: str) -> None:
    assert time_span(seconds) == text


# --- lines for a log


def plain(**more) -> tuple[io.StringIO, FakeClock, PlainProgress]:
    stream, clock = io.StringIO(), FakeClock()
    return stream, clock, PlainProgress(never, stream, clock, **more)


def test_a_log_has_a_line_per_level(build: ModuleType) -> None:
    stream, clock, progress = plain()
    for value in (4, 8):
        progress.level_started("concurrency", value)
        for number in range(1, 11):
            clock.move_to(clock() + SECOND)
            progress.progressed(LevelProgress(clock(), float(number), np.array([1_000_000])))
            progress.window_finished(number, build.window(3208.51, 307))
        progress.level_finished(
            build.level(build.measurement(9, 3208.51, 307, 1, (1, 2, 3, 4), interval=0.01), value)
        )
    assert stream.getvalue().splitlines() == [
        "concurrency 4: 3,209 requests/s ±1.0 %, p99 5.00 µs, ok",
        "concurrency 8: 3,209 requests/s ±1.0 %, p99 5.00 µs, ok",
    ]


def test_a_long_level_logs_a_line_every_half_minute() -> None:
    stream, clock, progress = plain()
    progress.level_started("concurrency", 4)
    for second in range(1, 41):
        clock.move_to(clock() + SECOND)
        progress.progressed(
            LevelProgress(clock(), float(second), np.array([2_000_000] * 30), failed=1, outstanding=4)
        )
    assert stream.getvalue().splitlines() == [
        "concurrency 4: after 30 s, 30.0 requests/s, p50 2.00 ms, p99 2.00 ms, 30 errors (3.2 %), 4 outstanding",
    ]


def test_windows_are_logged_only_if_verbose(build: ModuleType) -> None:
    stream, _, progress = plain(every_window=True)
    progress.level_started("request_rate", 50.5)
    progress.window_finished(1, build.window(0.0, 0, count=0))
    progress.window_finished(2, build.window(3208.51, 307, failed=1))
    progress.level_finished(build.level(None, 50.5, mode="request_rate"))
    assert stream.getvalue().splitlines() == [
        "request rate 50.5: started",
        "request rate 50.5: window 1, no request finished",
        "request rate 50.5: window 2, 3,209 infer/s, 308 µs, 1 failed",
        "request rate 50.5: no request finished",
    ]


def test_quiet_progress_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(never)
    progress.level_started("concurrency", 1)
    progress.said("a warning", is_warning=True)
    progress.close()
    assert capsys.readouterr() == ("", "")


def test_plain_requests_are_not_called_inferences(build: ModuleType) -> None:
    level = build.level(build.measurement(100, 3209, 307, 10, (251, 534, 719, 5)))
    shown, stream = Shown(), io.StringIO()
    plain = PlainProgress(never, stream, FakeClock(), every_window=True)
    for progress in (plain, shown.progress):
        progress.prepared(Effective(service_kind="http"))
        progress.level_started("concurrency", 1)
        progress.window_finished(1, build.window(3209, 308_000))
        progress.level_finished(level)
        progress.round_finished(1, 1, (("old", 50.0),))
    for text in (stream.getvalue(), "\n".join(shown.lines)):
        assert "infer/s" not in text
        assert "3,209 requests/s" in text
        assert "50.0 requests/s" in text


# --- the tuner


class TunedTrials:
    """A proposal and its trial, as the session reports them."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def tell(
        self,
        name: str,
        concurrency: int,
        rate: float,
        *,
        is_known: bool = False,
        tag: str = "perf_throughput",
    ) -> None:
        from inferometer.stats.estimate import Estimate
        from inferometer.tune.search.search import Proposal
        from inferometer.tune.trial import ClientLoad, Figures, Status
        from inferometer.tune.variant import ModelVariant

        config = {"name": "m", "max_batch_size": 8, "instance_group": [{"count": 2, "kind": "KIND_CPU"}]}
        proposal = Proposal(((ModelVariant("m", name, {}, config), ClientLoad(concurrency=concurrency)),))
        self.progress.proposed(proposal, is_known=is_known)
        bare = proposal.trial(0, Status.MEASURED)
        figures = Figures(((tag, Estimate(rate)),))
        trial = replace(bare, parts=tuple(replace(part, figures=figures) for part in bare.parts))
        self.progress.led(trial, does_pass=True)
        self.progress.tried(trial)


def test_a_trial_of_a_text_server_shows_tokens() -> None:
    stream = io.StringIO()
    tuner = TunedTrials(PlainProgress(never, stream, FakeClock()))
    tuner.tell("m_config_1", 4, 80.0, tag="output_token_throughput")
    assert "concurrency=4: 80.0 tokens/s" in stream.getvalue()


def test_a_search_shows_trial_best_and_remaining_time() -> None:
    stream, clock = io.StringIO(), FakeClock()
    tuner = TunedTrials(PlainProgress(never, stream, clock))
    tuner.progress.planned(None, 60.0)
    tuner.tell("m_config_default", 4, 100.0, is_known=True)
    clock.move_to(clock() + 20 * SECOND)
    tuner.tell("m_config_3", 8, 250.0)
    tuner.tell("m_config_4", 8, 240.0)
    old, second, figures, third, _ = stream.getvalue().splitlines()
    assert old == "m_config_default, concurrency=4: 100 infer/s (from the journal, not measured again)"
    assert second == (
        "trial 2: m_config_3 (2 CPU instances, batches up to 8), concurrency=8 ...; "
        "best so far: m_config_default, concurrency=4: 100 infer/s; at most 40 s left"
    )
    assert figures == "m_config_3, concurrency=8: 250 infer/s"
    assert "best so far: m_config_3, concurrency=8: 250 infer/s" in third


def test_the_block_of_a_search_has_the_best_so_far() -> None:
    shown = Shown(columns=110)
    shown.progress.planned(None, 60.0)
    tuner = TunedTrials(shown.progress)
    tuner.tell("m_config_3", 8, 250.0)
    tuner.tell("m_config_4", 8, 240.0)
    assert any("best so far: m_config_3, concurrency=8: 250 infer/s" in line for line in shown.lines)
    assert any("trial 2: m_config_4 (2 CPU instances" in line for line in shown.lines)
