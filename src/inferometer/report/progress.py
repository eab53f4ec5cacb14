"""Progress of a run on the terminal."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO

from inferometer.base.text import printable
from inferometer.base.units import INFERENCES, NS_PER_MS, NS_PER_S, Clock, monotonic_ns
from inferometer.options.effective import Effective
from inferometer.report.format import (
    NO_BREAK,
    NONE,
    curve,
    duration,
    glued,
    level_label,
    level_value,
    plural,
    quantity,
    share,
    time_span,
)
from inferometer.report.live_figures import STEPS, LiveFigures
from inferometer.report.sentences import level_sentence
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.measurement import Level, WindowFigures
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:  # not needed for plain log lines
    from rich.console import Console
    from rich.text import Text

LIVE_LINES = 8  # finished levels that are shown
OWN_LINES = 8  # lines of the block below them
REDRAW_NS = NS_PER_S // 4
PLAIN_PERIOD_NS = 30 * NS_PER_S
FALLBACK_COLUMNS = 80  # if the terminal does not report its width
SHORT = 80  # units are shortened below this width
LONGEST_NAME = 12
WIDEST_CURVE = 40
WIDEST_FIGURE = 20
BAR = ("━", "─")


def can_draw(stream: TextIO) -> bool:
    """Whether the stream can show a block that is redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and "utf" in (stream.encoding or "").lower()


class Progress(Watcher):
    """Silent progress; `interrupted` returns whether the user has asked to stop."""

    def __init__(self, interrupted: Callable[[], bool]) -> None:
        self._interrupted = interrupted
        self._rate_unit = INFERENCES
        self._trials = TrialsSoFar()

    def prepared(self, effective: Effective) -> None:
        self._rate_unit = self._trials.rate_unit = effective.rate_unit

    def is_interrupted(self) -> bool:
        return self._interrupted()

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        self._trials.propose(proposal, is_known=is_known)

    def led(self, trial: Any, *, does_pass: bool) -> None:
        self._trials.best = f"{self._trials.words(trial)}{'' if does_pass else ', which violates the SLO'}"

    def tried(self, trial: Any) -> None:
        self.said(self._trials.result(trial))

    def close(self) -> None:
        """Restore the terminal."""


@dataclass(slots=True)
class TrialsSoFar:
    """The tuner's current trial and best result."""

    number: int = 0
    title: str = ""  # of the current trial
    is_known: bool = False
    rate_unit: str = INFERENCES
    best: str = ""
    names: dict[str, str] = field(default_factory=dict)  # of configurations whose values are their names

    def propose(self, proposal: Any, *, is_known: bool) -> None:
        from inferometer.report.documents.tuning import shape_words
        from inferometer.tune.knobs import knobs_of

        self.number += 1
        self.is_known = is_known
        trial = proposal.trial(0, "")
        shape = shape_words(proposal.variants)
        if any(knobs_of(variant.config) is not None for variant in proposal.variants):
            self.names[trial.name] = shape
        name = self.names.get(trial.name, f"{trial.name} ({shape})")
        self.title = f"trial {self.number}: {name}, {_load_words(trial)}"

    def words(self, trial: Any) -> str:
        text, name = _trial_words(trial, self.rate_unit), getattr(trial, "name", "")
        return text.replace(name, self.names[name]) if name in self.names else text

    def result(self, trial: Any) -> str:
        return f"{self.words(trial)}{' (from the journal, not measured again)' if self.is_known else ''}"


class PlainProgress(Progress):
    """Lines for a log: the end of each level, a line every 30 seconds, and with `-v` every window."""

    def __init__(
        self, interrupted: Callable[[], bool], stream: TextIO, clock: Clock, *, every_window: bool = False
    ) -> None:
        super().__init__(interrupted)
        self._stream = stream
        self._clock = clock
        self._is_verbose = every_window
        self._label = ""
        self._figures = LiveFigures()
        self._last_ns = self._begun_ns = clock()
        self._longest_s: float | None = None

    def planned(self, levels: int | None, longest_s: float | None) -> None:
        self._begun_ns, self._longest_s = self._clock(), longest_s

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        super().proposed(proposal, is_known=is_known)
        if is_known:
            return
        self._label = self._trials.title
        self._figures = LiveFigures()
        words = [f"{self._label} ..."]
        words += [f"best so far: {self._trials.best}"] if self._trials.best else []
        if self._longest_s is not None:
            left_s = self._longest_s - (self._clock() - self._begun_ns) / NS_PER_S
            words.append(f"at most {time_span(left_s)} left" if left_s > 0 else "almost done")
        self._show("; ".join(words))

    def level_started(self, mode: str, value: float) -> None:
        self._label = level_label(mode, value)
        self._figures = LiveFigures()
        if self._is_verbose:
            self._show(f"{self._label}: started")

    def window_finished(self, number: int, window: WindowFigures) -> None:
        if self._is_verbose:
            self._show(f"{self._label}: {_window(number, window, self._rate_unit)}")

    def progressed(self, progress: LevelProgress) -> None:
        self._figures.add(progress)
        if self._clock() - self._last_ns >= PLAIN_PERIOD_NS:
            words = ["warming up"] if progress.is_warm_up else []
            words += [f"after {time_span(progress.elapsed_s)}", *_words(self._figures)]
            self._show(f"{self._label}: {', '.join(words)}")

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        if number == rounds or self._is_verbose or self._clock() - self._last_ns >= PLAIN_PERIOD_NS:
            figures = ", ".join(f"{name} {quantity(rate)} requests/s" for name, rate in rates)
            self._show(f"{self._label}: round {number} of {rounds}: {figures}")

    def level_finished(self, level: Level) -> None:
        self._show(level_sentence(level))

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        if self._is_verbose or not is_detail:
            self._show(text)

    def _show(self, line: str) -> None:
        self._last_ns = self._clock()
        line = printable(line)
        if self._stream.isatty():
            columns = os.get_terminal_size(self._stream.fileno()).columns or FALLBACK_COLUMNS
            line = fill(glued(line), columns, subsequent_indent="  ", break_on_hyphens=False)
            line = line.replace(NO_BREAK, " ")
        print(line, file=self._stream, flush=True)


@dataclass(slots=True)
class _Outlook:
    """Finished and remaining part of a run."""

    begun_ns: int
    levels: int | None = None
    longest_s: float | None = None
    number: int = 0  # of the current level
    level: LevelProgress | None = None
    length_s: float | None = None  # of that level, or of the last one with a known length
    is_most: bool = False  # the length is an upper bound
    rounds: tuple[int, int] = (0, 0)  # of a comparison: finished, and total at this level
    round_s: float = 0.0  # length of a round; 0 while only the first is finished, whose start is unknown

    def update(self, level: LevelProgress) -> None:
        """Update the progress of the current level."""
        self.level = level
        if level.left_s is not None:
            self.length_s, self.is_most = level.elapsed_s + level.left_s, level.is_most

    def left_s(self, elapsed_s: float) -> tuple[float | None, bool]:
        """Remaining time, and whether it is an upper bound. Future levels are assumed to be as long as known ones."""
        left_s, is_most = None, False
        to_come = None if self.levels is None or self.number > self.levels else self.levels - self.number
        done, rounds = self.rounds
        if done and to_come is not None:
            left_s = self.round_s * (rounds - done + rounds * to_come) if self.round_s else None
        elif self.length_s is not None and to_come is not None:
            left_s, is_most = self._level_left_s + to_come * self.length_s, self.is_most
        limit_s = math.inf if self.longest_s is None else max(0.0, self.longest_s - elapsed_s)
        if limit_s < (math.inf if left_s is None else left_s):
            return limit_s, True
        return left_s, is_most

    @property
    def _level_left_s(self) -> float:
        known = None if self.level is None else self.level.left_s
        return (self.length_s or 0.0) if known is None else known

    def part(self, elapsed_s: float) -> float | None:
        """The finished share by time; in a sweep, finished levels count as whole ones."""
        left_s, _ = self.left_s(elapsed_s)
        if left_s is None:
            return None
        if self.levels and self.longest_s is None and self.length_s and not self.rounds[1]:
            return (self.number - self._level_left_s / self.length_s) / self.levels
        return elapsed_s / max(elapsed_s + left_s, 1e-9)


class LiveProgress(Progress):
    """A block on a terminal that disappears when the report is printed.

    It is redrawn only on events, at most four times a second: a drawing thread would take time from the
    measurement.
    """

    def __init__(
        self, interrupted: Callable[[], bool], console: "Console", clock: Clock = monotonic_ns
    ) -> None:
        from rich.live import Live

        super().__init__(interrupted)
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._clock = clock
        self._drawn_ns = 0
        self._outlook = _Outlook(clock())
        self._level = ("", 0.0)
        self._title = ""
        self._done: list[tuple[tuple[str, float], str]] = []
        self._figures = LiveFigures()
        self._bracket: _Scale | None = None
        self._rates: dict[str, deque[float]] = {}  # by variant and round
        self._first_round_ns = 0  # when the first round ended

    def planned(self, levels: int | None, longest_s: float | None) -> None:
        self._outlook = _Outlook(self._clock(), levels, longest_s)
        self._level = ("", 0.0)

    def level_started(self, mode: str, value: float) -> None:
        if (mode, value) != self._level:
            self._outlook.number += 1
        self._level, self._title = (mode, value), level_label(mode, value)
        self._outlook.level, self._outlook.rounds = None, (0, 0)
        self._figures = LiveFigures()
        self._rates = {}
        if self._bracket is not None:
            self._bracket.trying = value
        self._draw(is_due=True)

    def progressed(self, progress: LevelProgress) -> None:
        before = self._outlook.level
        self._outlook.update(progress)
        if before is not None and before.is_warm_up and not progress.is_warm_up:
            self._figures = LiveFigures()
        self._figures.add(progress)
        self._draw()

    def bracketed(self, low: float, high: float) -> None:
        if self._bracket is None:
            self._bracket = _Scale()
        self._bracket.low, self._bracket.high = low, high

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        for name, rate in rates:
            self._rates.setdefault(name, deque(maxlen=STEPS)).append(rate)
        outlook = self._outlook
        if number == 1:
            self._first_round_ns = self._clock()
        outlook.rounds = (number, rounds)
        outlook.round_s = (self._clock() - self._first_round_ns) / NS_PER_S / max(1, number - 1)
        self._draw(is_due=number == rounds)

    def level_finished(self, level: Level) -> None:
        key = (level.mode, level.value)
        if self._done and self._done[-1][0] == key:  # measured again, with more workers or for longer
            self._done.pop()
        said = level_sentence(level, with_ok=self._bracket is None)
        self._done = [*self._done, (key, said)][-LIVE_LINES:]
        self._draw(is_due=True)

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        super().proposed(proposal, is_known=is_known)
        if not is_known:
            self._title = self._trials.title
            self._outlook.level, self._figures = None, LiveFigures()
            self._draw(is_due=True)

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        from rich.console import Group

        from inferometer.report.terminal import plain_text

        if not is_detail:
            self._live.console.print(Group(plain_text(text)), soft_wrap=False)

    def close(self) -> None:
        self._live.stop()

    # --- the block

    def _draw(self, *, is_due: bool = False) -> None:
        from rich.console import Group

        now_ns = self._clock()
        if not is_due and now_ns - self._drawn_ns < REDRAW_NS:
            return
        self._drawn_ns = now_ns
        if not self._live.is_started:
            self._live.start()
            self._live.console.show_cursor()  # so that it is visible however the process ends
        self._live.update(Group(*self._lines()), refresh=True)

    def _lines(self) -> "Iterator[Text]":
        from inferometer.report.terminal import WIDTH

        room, width = self._live.console.height - OWN_LINES, min(WIDTH, self._live.console.width)
        for (mode, load), words in self._done[-room:] if room > 0 else ():
            done = words if width >= SHORT else words.replace(" requests/s", "/s")
            if self._bracket is None:
                yield _line(done, "dim")
            elif mode == self._level[0]:  # a probe with one request at a time is not a load of the search
                yield _line(done.replace(":", f": {self._bracket.verdict(load)},", 1), "dim")
        yield _line(f"▸ {' · '.join(self._heading())}", "bold")
        yield self._bar(width)
        if self._trials.best:
            yield _line(f"  best so far: {self._trials.best}")
        for name, values in self._rates.items():
            names = min(LONGEST_NAME, max(map(len, self._rates)))
            yield _curve_line(f"{_short(name):<{names}}", values, f"{quantity(values[-1])} requests/s", width)
        if self._bracket is not None:
            yield from self._bracket.lines(self._level[0], width)
        if not self._rates and self._outlook.level is not None:
            yield from self._figure_lines(width)

    def _heading(self) -> Iterator[str]:
        outlook = self._outlook
        yield self._title
        if outlook.levels is not None and 1 < outlook.levels >= outlook.number:
            yield f"level {outlook.number} of {outlook.levels}"
        elif self._level[0] and (outlook.levels is None or outlook.number > 1):
            yield f"level {outlook.number}"
        if outlook.rounds[1]:
            yield f"round {outlook.rounds[0]} of {outlook.rounds[1]}"
        if outlook.level is not None and outlook.level.is_warm_up:
            yield "warming up"

    def _bar(self, width: int) -> "Text":
        from rich.text import Text

        elapsed_s = (self._clock() - self._outlook.begun_ns) / NS_PER_S
        left_s, is_most = self._outlook.left_s(elapsed_s)
        part = self._outlook.part(elapsed_s)
        if self.is_interrupted():
            words = "stopping; press Ctrl-C again to stop at once"
        elif left_s is None:
            words = f"{time_span(elapsed_s)} so far"
        else:
            words = (
                f"{'at most' if is_most else 'about'} {time_span(left_s)} left" if left_s else "almost done"
            )
        if part is None:
            return _line(f"  {words}")
        room = max(0, width - len(words) - 5)
        filled = min(room, round(room * part))
        line = Text("  ", no_wrap=True, overflow="crop")
        line.append(BAR[0] * filled, "green").append(BAR[1] * (room - filled), "dim")
        return line.append(f"  {words}")

    def _figure_lines(self, width: int) -> "Iterator[Text]":
        figures = self._figures
        rate = figures.tokens_per_s if figures.has_tokens else figures.per_s
        unit = "tokens/s" if figures.has_tokens else "requests/s"
        yield _curve_line("rate   ", figures.rates, f"{quantity(rate)} {unit}", width)
        for p, values in figures.percentiles.items():
            latency_ns = figures.latency_ns(p)
            yield _curve_line(
                f"p{p}    ", values, NONE if latency_ns is None else duration(latency_ns), width
            )
        line = _line(f"  {_errors(figures)}", "red" if figures.failed else "")
        yield line.append(f" · {figures.outstanding:,} outstanding", "not red")


@dataclass(slots=True)
class _Scale:
    """The bracket of a search on a line, on a logarithmic scale of the load."""

    low: float = 0.0
    high: float = math.inf
    trying: float = 0.0
    seen: list[float] = field(default_factory=list)

    def verdict(self, load: float) -> str:
        return "met" if load <= self.low else "violated" if load >= self.high else "undecided"

    def lines(self, mode: str, width: int) -> "Iterator[Text]":
        if not self.trying:
            return
        low = "not met yet" if not self.low else f"met at {level_value(mode, self.low)}"
        high = "not violated yet" if math.isinf(self.high) else f"violated at {level_value(mode, self.high)}"
        room = width - len(low) - len(high) - 6
        self.seen = [load for load in {*self.seen, self.low, self.trying, self.high} if 0 < load < math.inf]
        if room < 5:
            yield _line(f"  {low}, {high}")
            return
        start, end = math.log(min(self.seen)), math.log(max(self.seen))
        cells = [" "] * room
        for place in range(room):
            load = math.exp(start + (end - start) * place / (room - 1)) if end > start else self.trying
            cells[place] = (
                "━" if load <= self.low * 1.000001 else "╌" if load >= self.high * 0.999999 else " "
            )
        at = round((math.log(self.trying) - start) / (end - start) * (room - 1)) if end > start else room // 2
        cells[at] = "◆"
        yield _line(f"  {low} {''.join(cells)} {high}")


def _line(text: str, style: str = "") -> "Text":
    from inferometer.report.terminal import plain_text

    return plain_text(text, style=style, overflow="ellipsis", no_wrap=True)


def _short(name: str) -> str:
    """Both ends of a name, because names of variants often start alike."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def _curve_line(name: str, values: deque[Any], figure: str, width: int) -> "Text":
    room = min(WIDEST_CURVE, width - len(name) - WIDEST_FIGURE - 6)
    return _line(f"  {name}  ").append(f"{curve(values, room):<{room}}", "cyan").append(f"  {figure}")


def _words(figures: LiveFigures) -> Iterator[str]:
    if figures.has_tokens:
        yield f"{quantity(figures.tokens_per_s)} tokens/s"
    yield f"{quantity(figures.per_s)} requests/s"
    latencies = [(p, figures.latency_ns(p)) for p in figures.percentiles]
    yield from (f"p{p} {duration(ns)}" for p, ns in latencies if ns is not None)
    yield _errors(figures)
    yield f"{figures.outstanding:,} outstanding"


def _errors(figures: LiveFigures) -> str:
    if not figures.failed:
        return "no errors"
    return f"{plural(figures.failed, 'error')} ({share(figures.failed / figures.ended)})"


def _window(number: int, window: WindowFigures, rate_unit: str) -> str:
    words = [f"window {number}"]
    if window.request_count:
        words += [f"{quantity(window.infer_per_s)} {rate_unit}", duration(window.latency_ns)]
    else:
        words.append("no request finished")
    if window.failed_count:
        words.append(f"{window.failed_count:,} failed")
    return ", ".join(words)


def _trial_words(trial: Any, rate_unit: str) -> str:
    """Describe a trial of a diagnosis or of the tuner."""
    from inferometer.diagnose.diagnosis import ChangeTrial
    from inferometer.stats.figures import LATENCY_P99, THROUGHPUT, TOKENS

    if isinstance(trial, ChangeTrial):
        from inferometer.report.documents.diagnosis import trial_words

        return trial_words(trial, rate_unit)

    rates = ((trial.combined(TOKENS), "tokens/s"), (trial.combined(THROUGHPUT), rate_unit))
    p99_ms = trial.combined(LATENCY_P99)
    figures = [f"{quantity(rate)} {unit}" for rate, unit in rates if rate is not None][:1]
    figures += [] if p99_ms is None else [f"p99 {duration(p99_ms * NS_PER_MS)}"]
    found = ", ".join(figures) or "no throughput, no latency"
    return f"{trial.name}, {_load_words(trial)}: {found if trial.is_measured else trial.reason}"


def _load_words(trial: Any) -> str:
    from inferometer.report.documents.study_facts import load_text

    return load_text(trial)
