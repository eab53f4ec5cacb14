"""The rounds of a bar, and their outcome."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.arithmetic import NOT_MEASURED, Spread, ratios, spread, starts_with_ours, verdict
from benchmarks.bar import Bar, BenchError, Contest, Measure, Sample, Setting
from inferometer.base.errors import InferometerError
from inferometer.base.units import quantity

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A bar with all its samples; without any, `note` says why."""

    bar: Bar
    ours: tuple[Sample, ...] = ()
    theirs: tuple[Sample, ...] = ()
    note: str = ""

    @property
    def judged(self) -> Spread | None:
        """The ratio, or our own figure if there is no other tool."""
        if not self.ours:
            return None
        if self.bar.rival is None:
            return spread([sample.value for sample in self.ours])
        return spread(ratios(self.ours, self.theirs))

    @property
    def verdict(self) -> str:
        judged = self.judged
        if judged is None:
            return NOT_MEASURED
        return verdict(judged.median, self.bar.direction, self.bar.target)


def measure_bar(bar: Bar, setting: Setting, say: Say) -> Outcome:
    """Run all rounds of one bar; the outcome of a bar that cannot be measured says why."""
    if bar.only_full and not (setting.is_full or setting.is_smoke):
        return Outcome(bar, note="takes many minutes: measured with --full")
    try:
        with bar.open(setting) as contest:
            if setting.is_smoke:
                return Outcome(replace(bar, rival=None, target=None), (contest.ours(),))
            return _rounds(bar, contest, setting.rounds if bar.rounds is None else bar.rounds, say)
    except (BenchError, InferometerError, OSError) as error:
        return Outcome(bar, note=str(error))


def _rounds(bar: Bar, contest: Contest, count: int, say: Say) -> Outcome:
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for number in range(count):
        turns = [("ours", contest.ours, ours)]
        if contest.theirs is not None:
            turns.append((bar.rival or "theirs", contest.theirs, theirs))
        for name, measure, samples in turns if starts_with_ours(number) else reversed(turns):
            samples.append(_once_more(measure, say))
            shown = ", ".join(f"{key} {quantity(value)}" for key, value in samples[-1].info.items())
            value = samples[-1].value
            say(f"{bar.name} round {number + 1}/{count}: {name} {quantity(value)} {bar.unit} ({shown})")
    return Outcome(bar, tuple(ours), tuple(theirs))


def _once_more(measure: Measure, say: Say) -> Sample:
    """Retry once, so that a single failure (the real perf_analyzer is known to hang) does not lose the whole bar."""
    try:
        return measure()
    except BenchError as error:
        say(f"trying again: {error}")
        return measure()
