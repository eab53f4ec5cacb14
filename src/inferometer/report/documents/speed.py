"""Relative speed of variants in words, and the overall verdict of a comparison."""

import math
from collections.abc import Sequence

from inferometer.base.frozen import frozen
from inferometer.compare.comparison import (
    FAILED,
    FASTER,
    INCONCLUSIVE,
    INVALID,
    MIXED,
    NO_DIFFERENCE,
    REGRESSION,
    SLOWER,
    THROUGHPUT,
    UNDECIDED,
    Comparison,
    Contrast,
    Difference,
    GateOutcome,
    OutputSimilarity,
)
from inferometer.compare.differences import NO_REQUESTS, headline, speedup
from inferometer.report.document import Tone
from inferometer.report.format import first_line, level_label, plural, share
from inferometer.stats.verdict import (
    NOT_SHOWN,
    WIDEST,
    is_too_wide,
    percent_words,
    rule_either_way,
    times_longer,
    wide_words,
)

TONES = {
    FASTER: Tone.GOOD,
    SLOWER: Tone.BAD,
    MIXED: Tone.WARNING,
    NO_DIFFERENCE: Tone.PLAIN,
    INCONCLUSIVE: Tone.WARNING,
}
LOPSIDED = 1.25  # ratio of an interval's arms from which `±` would mislead
NAMED = 4  # most variants that a sentence names
LEAST_SNR_DB = 20.0  # an error of a tenth of the signal: outputs differ
LEAST_TOP1 = 0.99
_PLACES = (0, 1, 2, 3, 4)


@frozen
class Speed:
    """What a variant's figures show over all loads: one direction, or two that contradict each other."""

    kind: str  # FASTER, SLOWER, NO_DIFFERENCE, INCONCLUSIVE or MIXED
    words: str  # `1.8 ± 0.1 times faster by p99`
    where: str = ""  # ` at concurrency 4`, if there are several loads
    but: str = ""  # `, but 1.2 ± 0.1 times slower ...` if mixed
    times: float = 1.0  # speed relative to the baseline, by the figure in the words

    @property
    def whole(self) -> str:
        return f"{self.words}{self.where}{self.but}"

    def than(self, base: str) -> str:
        """Describe a variant relative to the baseline, with the name of the baseline."""
        return f"{self.words} than {base}{self.where}{self.but}"


def speed_of(contrast: Contrast) -> Speed:
    """The speed of a variant: the headline figure first, at the heaviest load that shows a difference."""
    shown: dict[str, list[tuple[bool, int, str, Difference]]] = {FASTER: [], SLOWER: []}
    for place, level in enumerate(contrast.levels):
        where = f" at {level_label(level.mode, level.value)}" if len(contrast.levels) > 1 else ""
        first = headline(level)
        for row in level.differences:
            if row.verdict in shown:
                shown[row.verdict].append((row is first, place, where, row))
    found = [max(rows, key=lambda row: row[:2]) for rows in shown.values() if rows]
    if not found:
        return _nothing_shown(contrast)
    found.sort(key=lambda row: row[:2], reverse=True)
    but = "".join(f", but {_words(row)}{where}" for _, _, where, row in found[1:])
    _, _, where, row = found[0]
    return Speed(MIXED if but else row.verdict, _words(row), where, but, speedup(row).value)


def _words(row: Difference) -> str:
    return times(row) + ("" if row.metric == THROUGHPUT else f" by {row.metric}")


def _nothing_shown(contrast: Contrast) -> Speed:
    rows = [row for level in contrast.levels if (row := headline(level)) is not None]
    if not rows:
        return Speed(INCONCLUSIVE, "no load in common")
    if any(row.reason == NO_REQUESTS for row in rows):
        return Speed(INCONCLUSIVE, "no data on individual requests")
    if not any(row.percent.limits for row in rows):
        return Speed(INCONCLUSIVE, "too few requests to tell")
    if all(verdict_of(row) == NO_DIFFERENCE for row in rows):
        return Speed(NO_DIFFERENCE, NO_DIFFERENCE)
    return Speed(INCONCLUSIVE, INCONCLUSIVE)


def verdict_of(row: Difference) -> str:
    """The verdict that the interval supports: earlier versions call a wide interval "no difference shown"."""
    if row.verdict == NO_DIFFERENCE and rule_either_way(row.percent).ruling != NOT_SHOWN:
        return INCONCLUSIVE
    return row.verdict


def times(row: Difference) -> str:
    """`1.8 ± 0.1 times faster`; if the interval is lopsided, `2.0 times faster (1.3 to 3.1)`."""
    speed = speedup(row)
    is_faster = row.verdict == FASTER or (row.verdict != SLOWER and speed.value >= 1)
    ends = [end if is_faster else 1 / end for end in (speed.value, *(speed.limits or ()))]
    word, value = "faster" if is_faster else "slower", ends[0]
    if speed.limits is None:
        return f"{value:,.2f} times {word}"
    low, high = sorted(ends[1:])
    short, long = sorted((value - low, high - value))
    # As many decimals as the first digit of the error, at least one, and enough to distinguish the low end from 1.
    places = next((p for p in _PLACES if (p or value >= 10) and long >= 0.95 * 10.0**-p), _PLACES[-1])
    if long <= LOPSIDED * short and value - long > 1 and round(long, places) > 0:
        return f"{value:,.{places}f} ± {long:,.{places}f} times {word}"
    places = max(places, next((p for p in _PLACES[1:] if round(low, p) > 1), _PLACES[-1]))
    if high > WIDEST * low:
        return f"at least {low:,.{places}f} times {word}"
    return f"{value:,.{places}f} times {word} ({low:,.{places}f} to {high:,.{places}f})"


def difference_words(row: Difference) -> str:
    """One figure relative to the baseline's."""
    found = verdict_of(row)
    if found in (FASTER, SLOWER):
        return times(row)
    limits = speedup(row).limits
    if limits is None:
        return f"{found}: {row.reason}" if row.reason else found
    if is_too_wide(row.percent):
        return f"{found} (interval wider than a factor of {WIDEST:.0f})"
    places = 2 if max(abs(end - 1) for end in limits) >= 0.05 else 3
    return f"{found} ({limits[0]:,.{places}f} to {limits[1]:,.{places}f})"


# --- outputs


def output_difference(row: OutputSimilarity) -> str:
    """Say how an output differs from the baseline's; empty if it matches up to rounding."""
    if row.problem:
        return row.problem
    if row.non_finite:
        return f"{plural(row.non_finite, 'element')} with NaN or infinity on one side only"
    if row.top1 is not None:
        return "" if row.top1 >= LEAST_TOP1 else f"only {share(row.top1)} have the same top class"
    if row.snr_db is not None:
        return "" if row.snr_db >= LEAST_SNR_DB else f"SNR {row.snr_db:.1f} dB"
    if row.exact is None or row.exact == 1:
        return ""
    return f"only {share(row.exact)} of the elements are the same"


def _caveat(comparison: Comparison) -> str:
    """Name the first output that differs from the baseline's."""
    for contrast in comparison.contrasts:
        for row in contrast.outputs:
            if why := output_difference(row):
                return f"but output '{row.name}' of {contrast.variant} differs from the baseline's: {why}"
    return ""


# --- the verdict


def verdict(comparison: Comparison) -> tuple[str, Tone]:
    """One sentence and its tone. Invalid and failed comparisons come first; red means a failing exit code, and green
    means that no figure, output or condition is negative."""
    if comparison.outcome == INVALID:
        return _sentence(f"Invalid: {comparison.problems[0]}"), Tone.BAD
    if comparison.outcome == REGRESSION:
        return _sentence(f"Regression: {_failed(comparison)}"), Tone.BAD
    if comparison.outcome == UNDECIDED:
        return _sentence(f"Inconclusive: {_undecided(comparison)}"), Tone.WARNING
    speeds = [speed_of(contrast) for contrast in comparison.contrasts]
    words, caveat = _speeds(comparison, speeds), _caveat(comparison)
    if comparison.gates and words.startswith("Inconclusive"):
        words = f"No failure condition is met; {words[0].lower()}{words[1:]}"
    elif comparison.gates:
        words += "; no failure condition is met"
    return _sentence(f"{words}, {caveat}" if caveat else words), _tone(comparison, speeds, caveat)


def _sentence(words: str) -> str:
    return first_line(words, 1000).rstrip(".") + "."


def _tone(comparison: Comparison, speeds: Sequence[Speed], caveat: str) -> Tone:
    kinds = {speed.kind for speed in speeds}
    has_levels = all(contrast.levels for contrast in comparison.contrasts)
    if caveat or kinds & {SLOWER, MIXED} or not has_levels:
        return Tone.WARNING
    if INCONCLUSIVE in kinds and not comparison.gates:
        return Tone.WARNING
    is_good = FASTER in kinds or (comparison.gates and INCONCLUSIVE not in kinds)
    return Tone.GOOD if is_good else Tone.PLAIN


def _of(comparison: Comparison, outcome: str) -> tuple[GateOutcome, str, Speed | None]:
    """The first condition with this outcome, the number of others, and the speed of its variant."""
    first, *others = (gate for gate in comparison.gates if gate.outcome == outcome)
    more = f"; {plural(len(others), 'more condition')} like this" if others else ""
    contrast = next((row for row in comparison.contrasts if row.variant == first.variant), None)
    return first, more, None if contrast is None else speed_of(contrast)


def _failed(comparison: Comparison) -> str:
    gate, more, speed = _of(comparison, FAILED)
    words = f"{gate.variant} fails on '{gate.text}' ({gate.found})"
    if speed is not None and speed.kind == FASTER:
        words += f", although it is {speed.than(comparison.baseline)}"
    return words + more


def _undecided(comparison: Comparison) -> str:
    gate, more, speed = _of(comparison, INCONCLUSIVE)
    words = f"whether {gate.variant} fails on '{gate.text}' is undecided ({gate.found})"
    if speed is not None and speed.kind in (FASTER, SLOWER):
        words += f", but it is {speed.than(comparison.baseline)}"
    return words + more


def _speeds(comparison: Comparison, speeds: Sequence[Speed]) -> str:
    """All variants in one clause, without a full stop."""
    base, contrasts = comparison.baseline, comparison.contrasts
    if not contrasts:
        return f"There is nothing to compare with {base}"
    if len(contrasts) == 1:
        return one_sentence(contrasts[0], base).rstrip(".")
    if len(contrasts) <= NAMED:
        parts = [
            f"{contrast.variant} {_is(speed)}" for contrast, speed in zip(contrasts, speeds, strict=True)
        ]
        return f"Against {base}, {'; '.join(parts)}"
    counts = {kind: sum(speed.kind == kind for speed in speeds) for kind in TONES}
    counted = ", ".join(
        f"{counts[kind]} {words}"
        for kind, words in (
            (FASTER, "faster"),
            (SLOWER, "slower"),
            (MIXED, "faster by one figure and slower by another"),
            (NO_DIFFERENCE, "without a difference shown"),
            (INCONCLUSIVE, "inconclusive"),
        )
        if counts[kind]
    )
    words = f"Of {len(contrasts)} variants against {base}, {counted}"
    place = max(range(len(speeds)), key=lambda n: (speeds[n].kind == FASTER, speeds[n].times))
    if speeds[place].kind == FASTER:
        words += f"; {contrasts[place].variant} leads, {speeds[place].whole}"
    return words


def _is(speed: Speed) -> str:
    if speed.kind == NO_DIFFERENCE:
        return "shows no difference"
    return f"is {speed.whole}" if speed.kind != INCONCLUSIVE else f"is inconclusive{_why(speed)}"


def _why(speed: Speed) -> str:
    return "" if speed.words == INCONCLUSIVE else f" ({speed.words})"


def one_sentence(contrast: Contrast, base: str) -> str:
    """A variant relative to the baseline."""
    speed = speed_of(contrast)
    if speed.kind == INCONCLUSIVE and speed.words != INCONCLUSIVE:
        return f"{contrast.variant} against {base}: {speed.words}."
    if speed.kind == INCONCLUSIVE:
        return f"Inconclusive whether {contrast.variant} differs from {base}{_range(contrast)}."
    if speed.kind == NO_DIFFERENCE:
        return f"No difference shown between {contrast.variant} and {base}{_at_most(contrast)}."
    return f"{contrast.variant} is {speed.than(base)}."


def _at_most(contrast: Contrast) -> str:
    """The largest possible difference, at the heaviest load that rules out a relevant one."""
    found = _heaviest(contrast, NO_DIFFERENCE)
    if found is None:
        return ""
    where, row = found
    most = max(map(abs, row.percent.limits or (row.percent.value,)))
    return f": {row.metric} differs by at most {most:,.1f} % at {where}"


def _range(contrast: Contrast) -> str:
    """What the interval leaves open, and how to narrow it."""
    found = _heaviest(contrast, INCONCLUSIVE)
    if found is None:
        return ""
    where, row = found
    longer = times_longer(row.percent)
    advice = "measure longer" if longer is None else f"measure about {math.ceil(longer)} times as long"
    if (wide := wide_words(row.percent)) is not None:
        return f": {row.metric} at {where} has an {wide}; {advice}"
    return f": {row.metric} {percent_words(row.percent)} at {where}; {advice}"


def _heaviest(contrast: Contrast, verdict: str) -> tuple[str, Difference] | None:
    """The headline figure at the heaviest load with this verdict and an interval."""
    for level in reversed(contrast.levels):
        row = headline(level)
        if row is not None and row.percent.limits is not None and verdict_of(row) == verdict:
            return level_label(level.mode, level.value), row
    return None
