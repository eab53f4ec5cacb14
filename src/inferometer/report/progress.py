"""What people see while a run goes on."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, Group
from rich.live import Live

from inferometer.base.text import printable, to_stderr
from inferometer.base.units import NS_PER_S, Clock, monotonic_ns
from inferometer.report.format import duration, level_label, plural, quantity
from inferometer.report.sentences import level_sentence
from inferometer.report.terminal import plain_text
from inferometer.stats.measurement import Level, WindowFigures
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from inferometer.diagnose.diagnosis import ChangeTrial

LIVE_LINES = 8
PLAIN_PERIOD_NS = 5 * NS_PER_S


class Progress(Watcher):
    """`interrupted` says whether they want it to end."""

    def __init__(self, interrupted: Callable[[], bool]) -> None:
        self._interrupted = interrupted
        self._label = ""  # of the level that is measured

    def is_interrupted(self) -> bool:
        return self._interrupted()

    def level_started(self, mode: str, value: float) -> None:
        self._label = level_label(mode, value)
        self._show(f"{self._label}: started")

    def tried(self, trial: "ChangeTrial") -> None:
        from inferometer.report.documents.diagnosis import trial_words

        self.said(trial_words(trial))

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        to_stderr(text)

    def close(self) -> None:
        """Give the terminal back."""

    def _show(self, line: str) -> None:
        """How far it is."""


class PlainProgress(Progress):
    """Lines for a log: each level's start and end, and between them one line every five seconds at most."""

    def __init__(
        self, interrupted: Callable[[], bool], stream: TextIO, clock: Clock, *, every_window: bool = False
    ) -> None:
        super().__init__(interrupted)
        self._stream = stream
        self._clock = clock
        self._every_window = every_window
        self._last_ns = 0

    def window_finished(self, number: int, window: WindowFigures) -> None:
        if self._every_window or self._clock() - self._last_ns >= PLAIN_PERIOD_NS:
            self._show(f"{self._label}: {_window(number, window)}")

    def ticked(self, elapsed_s: float, count: int, failed: int) -> None:
        if self._clock() - self._last_ns >= PLAIN_PERIOD_NS:
            self._show(f"{self._label}: {_tick(elapsed_s, count, failed)}")

    def level_finished(self, level: Level) -> None:
        self._show(level_sentence(level))

    def _show(self, line: str) -> None:
        self._last_ns = self._clock()
        print(line, file=self._stream, flush=True)


class LiveProgress(Progress):
    """A block on a terminal that is gone when the report appears.

    It is redrawn only when told something: a drawing thread would take time from what is being measured.
    """

    def __init__(self, interrupted: Callable[[], bool], console: Console) -> None:
        super().__init__(interrupted)
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._done: tuple[str, ...] = ()
        self._last = ""  # of the window that finished last

    def level_started(self, mode: str, value: float) -> None:
        self._last = ""
        self._live.start()
        super().level_started(mode, value)

    def window_finished(self, number: int, window: WindowFigures) -> None:
        self._last = f"{_window(number, window)}; "
        self._show(f"{self._label}: {_window(number, window)}")

    def ticked(self, elapsed_s: float, count: int, failed: int) -> None:
        self._show(f"{self._label}: {self._last}{_tick(elapsed_s, count, failed)}")

    def level_finished(self, level: Level) -> None:
        self._done = (*self._done, level_sentence(level))[-LIVE_LINES:]
        self._show("")

    def close(self) -> None:
        self._live.stop()

    def _show(self, line: str) -> None:
        lines = [plain_text(done, style="dim", overflow="ellipsis", no_wrap=True) for done in self._done]
        if line:
            lines.append(plain_text(f"▸ {line}", overflow="ellipsis", no_wrap=True))
        self._live.update(Group(*lines), refresh=True)


class RoundProgress(Progress):
    """The rounds of a comparison: a line every five seconds, on a terminal one line that is written over."""

    def __init__(self, interrupted: Callable[[], bool]) -> None:
        super().__init__(interrupted)
        self._last_ns = 0

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        is_last = number == rounds
        if sys.stderr.isatty() or is_last or monotonic_ns() - self._last_ns >= PLAIN_PERIOD_NS:
            figures = ", ".join(f"{name} {quantity(rate)} infer/s" for name, rate in rates)
            self._show(f"{self._label}: round {number} of {rounds}: {figures}", is_last=is_last)

    def _show(self, line: str, *, is_last: bool = False) -> None:
        self._last_ns = monotonic_ns()
        over = sys.stderr.isatty()
        end = "\n" if not over or is_last else ""
        start = "\r\x1b[K" if over else ""
        print(f"{start}{printable(line)}", end=end, file=sys.stderr, flush=True)


def _tick(elapsed_s: float, count: int, failed: int) -> str:
    words = f"{elapsed_s:.0f} s, {plural(count, 'request')} in this window"
    return f"{words}, {failed} failed" if failed else words


def _window(number: int, window: WindowFigures) -> str:
    words = [f"window {number}"]
    if window.request_count:
        words += [f"{quantity(window.infer_per_s)} infer/s", duration(window.latency_ns)]
    else:
        words.append("no request finished")
    if window.failed_count:
        words.append(f"{window.failed_count} failed")
    return ", ".join(words)
