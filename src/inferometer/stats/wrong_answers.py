"""Wrong answers of a run: their share at a level, and the level at which they begin.

A server may answer wrongly only under load. The levels are taken in ascending order, and each is compared with all
lower ones together (Fisher's exact test, one-sided). Wrong answers begin at the lowest level with significantly more of
them; a server that is wrong equally often at every load has no such level. The significance level is divided among the
levels, so that all comparisons of a run together raise a false alarm in one of a thousand runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.units import plain_number, share
from inferometer.stats.binomial import share_estimate
from inferometer.stats.measurement import Level
from inferometer.stats.slo_outcome import CheckFigures

FALSE_ALARMS = 0.001  # share of runs of a server that is equally often wrong at every load


@frozen
class Onset:
    """The level at which wrong answers begin, and the checked answers at lower levels."""

    level: Level
    found: CheckFigures
    lower: CheckFigures
    most_value: float  # highest of the lower levels
    is_single: bool  # there is only one


def checked(levels: Sequence[Level]) -> tuple[tuple[Level, CheckFigures], ...]:
    """Return the levels whose answers were checked, by load."""
    rows = [
        (level, found.checks)
        for level in levels
        if (found := level.measurement) is not None and found.checks is not None
    ]
    return tuple(sorted(rows, key=lambda row: row[0].value))


def pooled(rows: Sequence[CheckFigures]) -> CheckFigures | None:
    """Return the figures of several levels together; None if nothing was checked."""
    total, wrong = sum(row.checked for row in rows), sum(row.wrong for row in rows)
    if not total:
        return None
    example = next((row.example for row in rows if row.example), "")
    return CheckFigures(total, wrong, share_estimate(wrong, total), example)


def maybe_onset(levels: Sequence[Level]) -> Onset | None:
    """Return the level at which wrong answers begin; None if there are none, or if they already occur at the lowest
    level."""
    rows = checked(levels)
    if len({level.mode for level, _ in rows}) != 1:
        return None
    for number in range(1, len(rows)):
        level, found = rows[number]
        below = [row for _, row in rows[:number]]
        checked_below, wrong_below = sum(row.checked for row in below), sum(row.wrong for row in below)
        if _more(found, checked_below, wrong_below) < FALSE_ALARMS / (len(rows) - 1):
            lower = pooled(below)
            assert lower is not None
            return Onset(level, found, lower, rows[number - 1][0].value, is_single=number == 1)
    return None


def _more(found: CheckFigures, checked_below: int, wrong_below: int) -> float:
    """Return the probability of at least as many wrong answers at a level if all levels are equally often wrong."""
    if found.wrong * checked_below <= wrong_below * found.checked:
        return 1.0  # not more often than below
    wrong = found.wrong + wrong_below
    whole = _ways(found.checked + checked_below, wrong)
    possible = range(found.wrong, min(wrong, found.checked) + 1)
    return sum(
        math.exp(_ways(found.checked, count) + _ways(checked_below, wrong - count) - whole)
        for count in possible
        if wrong - count <= checked_below
    )


def _ways(total: int, chosen: int) -> float:
    """Return the logarithm of the binomial coefficient."""
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


# --- in words


def share_words(found: CheckFigures) -> str:
    """`3.1 % (2.0 % to 4.6 %) of 620 checked`, or `none of 400 checked`."""
    if not found.wrong:
        return f"none of {found.checked:,} checked"
    assert found.share.limits is not None
    low, high = map(share, found.share.limits)
    return f"{share(found.share.value)} ({low} to {high}) of {found.checked:,} checked"


def onset_words(onset: Onset) -> str:
    """`wrong answers begin at 16 in flight: 3.1 % (2.0 % to 4.6 %) of 620 checked; none of 400 at 8`."""
    noun = {"concurrency": " in flight", "request_rate": " requests/s"}.get(onset.level.mode, "")
    lower = onset.lower
    below = "none" if not lower.wrong else share(lower.share.value)
    where = "at" if onset.is_single else "up to"
    return (
        f"wrong answers begin at {plain_number(onset.level.value)}{noun}: {share_words(onset.found)}; "
        f"{below} of {lower.checked:,} {where} {plain_number(onset.most_value)}"
    )


def maybe_remark(found: CheckFigures | None) -> Remark | None:
    """Return the remark on a level with wrong answers."""
    if found is None or not found.wrong:
        return None
    example = f"; the first of the run: {found.example}" if found.example else ""
    return Remark(Note.WRONG_ANSWERS, f"wrong answers: {share_words(found)}{example}")


def with_onset(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels, with a first remark on the level at which wrong answers begin."""
    onset = maybe_onset(levels)
    if onset is None:
        return tuple(levels)
    remark = Remark(Note.WRONG_ANSWERS, onset_words(onset))
    return tuple(
        replace(level, remarks=(remark, *level.remarks)) if level is onset.level else level
        for level in levels
    )


def wrong_answers(levels: Sequence[Level]) -> Iterator[str]:
    """Yield the evidence of wrong answers: the level at which they begin, and violated SLOs."""
    onset = maybe_onset(levels)
    if onset is not None:
        yield onset_words(onset)
    for level, found in checked(levels):
        terms = () if level.promise is None else level.promise.of("broken")
        if any(term.name == "wrong" for term in terms) and (onset is None or level is not onset.level):
            yield f"wrong answers at {plain_number(level.value)}: {share_words(found)}"
