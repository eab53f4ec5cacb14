"""SLO outcomes in words: for a figure, a level, and all levels."""

from collections.abc import Sequence

from inferometer.report.format import duration, interval, level_label, level_value, quantity, share
from inferometer.stats.measurement import Level
from inferometer.stats.promises import INSIDE, TOO_FEW
from inferometer.stats.result import Result
from inferometer.stats.slo_outcome import Keeping, PromiseOutcome, TermOutcome

Judged = tuple[Level, PromiseOutcome]

_WORDS = {"kept": "met", "broken": "violated"}


def verdict_word(verdict: str) -> str:
    """The word for a verdict as it is stored in files and values."""
    return _WORDS.get(verdict, verdict)


def judged_levels(result: Result) -> tuple[Judged, ...]:
    """Levels that were checked against an SLO, by load."""
    rows = [(level, level.promise) for level in result.levels if level.promise is not None]
    return tuple(sorted(rows, key=lambda row: row[0].value))


def figure_words(term: TermOutcome, rate_unit: str) -> str:
    """A figure with its interval: `63.0 ms ±3 %`, `0.5 % (0.1 % to 1.2 %)`."""
    found = term.found
    if found is None:
        return "unknown"
    if term.name in ("errors", "wrong", "goodput"):
        return share(found.value) + (
            "" if found.limits is None else f" ({' to '.join(map(share, found.limits))})"
        )
    if term.name.startswith("energy"):
        value = f"{quantity(found.value)} J"
    else:
        is_rate = term.name == "throughput"
        value = f"{quantity(found.value)} {rate_unit}" if is_rate else duration(found.value)
    return f"{value} {interval(found)}".rstrip()


def term_words(term: TermOutcome, rate_unit: str) -> str:
    """`p99 63.0 ms ±3 %`, with remarks in parentheses."""
    words = f"{term.name} {figure_words(term, rate_unit)}"
    return f"{words} ({term.reason})" if term.reason else words


def outcome_words(outcome: PromiseOutcome) -> str:
    """`met`, or the terms that are not met: `violated: p99`."""
    words = verdict_word(outcome.verdict)
    names = ", ".join(term.name for term in outcome.of(outcome.verdict))
    return words if outcome.verdict == "kept" or not names else f"{words}: {names}"


def reasons(outcome: PromiseOutcome, rate_unit: str) -> str:
    """The figures that decided the verdict, or why none did."""
    terms = outcome.of(outcome.verdict)
    return outcome.reason or ", ".join(term_words(term, rate_unit) for term in terms)


def promise_sentence(result: Result) -> str:
    """State at which levels the SLO is met or violated, and by which figures; empty without an SLO."""
    rows = judged_levels(result)
    if not rows:
        return ""
    promise, unit = f"'{rows[0][1].promise}'", result.effective.rate_unit
    kept, broken, undecided = (_of(rows, verdict) for verdict in ("kept", "broken", "undecided"))
    said = []
    if kept:
        where = _where(kept, rows, "up to" if kept == rows[: len(kept)] else "at", kept[-1])
        said.append(f"meets {promise} {where}")
        if len(rows) == 1:
            said[-1] += f": {reasons(rows[0][1], unit)}"
    if broken:
        is_last = len(broken) > 1 and broken == rows[-len(broken) :]
        where = _where(broken, rows, "from" if is_last else "at", broken[0])
        said.append(f"{'violated' if kept else f'violates {promise}'} {where}: {reasons(broken[0][1], unit)}")
    if undecided:
        where = _where(undecided, rows, "at")
        words = f"undecided {where}" if said else f"undecided {where} whether {promise} is met"
        said.append(f"{words}: {reasons(undecided[0][1], unit)}")
    words = "; ".join(said)
    advice = (
        " Use longer levels (-d) or more requests (-n) to decide it." if _is_time_short(undecided) else ""
    )
    return f"{words[0].upper()}{words[1:]}.{advice}"


def _of(rows: Sequence[Judged], verdict: Keeping) -> tuple[Judged, ...]:
    return tuple(row for row in rows if row[1].verdict == verdict)


def _where(some: Sequence[Judged], rows: Sequence[Judged], word: str, end: Judged | None = None) -> str:
    """`up to concurrency 8`, `from concurrency 16`, `at concurrency 1, 4`."""
    if len(some) == len(rows) > 1:
        return f"at all levels, {level_label(rows[0][0].mode, rows[0][0].value)} to {_value(rows[-1][0])}"
    if word != "at" and len(some) > 1 and end is not None:
        return f"{word} {level_label(end[0].mode, end[0].value)}"
    first = level_label(some[0][0].mode, some[0][0].value)
    return f"at {', '.join([first, *(_value(level) for level, _ in some[1:])])}"


def _value(level: Level) -> str:
    return level_value(level.mode, level.value)


def _is_time_short(undecided: Sequence[Judged]) -> bool:
    return any(
        term.reason.startswith((TOO_FEW, INSIDE)) for _, outcome in undecided for term in outcome.terms
    )
