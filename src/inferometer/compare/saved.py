"""Results that were saved with --json, compared with the first of them."""

from collections.abc import Sequence

from inferometer.base.errors import UnlikeError, UsageError
from inferometer.compare.comparison import Comparison, Contrast, LevelDifference, Variant
from inferometer.compare.differences import of_levels, overall
from inferometer.compare.likeness import unlike
from inferometer.compare.metrics import metrics
from inferometer.compare.verdict import Findings, Terms, conclude
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result

_NOT_IN_TURNS = (
    "these results were measured apart: what changed on the machine in between counts as a difference "
    "(measured live, variants take turns)"
)


def compare_saved(
    results: Sequence[tuple[str, Result]], terms: Terms, *, is_forced: bool = False
) -> Comparison:
    """(name, result) of each; the first is the baseline. Unlike ones are refused unless forced."""
    if len(results) < 2:
        raise UsageError("a comparison needs two results or more", remedy="give the files of two runs")
    (_, base), *others = results
    notes = [_NOT_IN_TURNS]
    for name, other in others:
        differing = unlike(base, other)
        if differing and not is_forced:
            raise UnlikeError(
                f"'{name}' was measured otherwise than '{results[0][0]}': {'; '.join(differing)}",
                remedy="measure both alike, or say --force",
            )
        notes += [f"{name}: {difference}" for difference in differing]
    matched = [_matched(base, other) for _, other in others]
    for (name, _), pairs in zip(others, matched, strict=True):
        if not pairs:
            raise UnlikeError(
                f"'{name}' and '{results[0][0]}' have no level of load in common",
                remedy="measure both at the same levels",
            )
    wanted = metrics(base.effective.percentile, terms.percentiles)
    looks = len(wanted) * sum(map(len, matched))
    contrasts = tuple(
        _contrast(
            name,
            [LevelDifference(one.mode, one.value, of_levels(one, two, wanted, looks)) for one, two in pairs],
        )
        for (name, _), pairs in zip(others, matched, strict=True)
    )
    found = Findings(
        variants=tuple(Variant(name, result) for name, result in results),
        contrasts=contrasts,
        is_live=False,
        notes=tuple(notes),
    )
    return conclude(found, terms, base.started_at)


def _contrast(name: str, levels: Sequence[LevelDifference]) -> Contrast:
    note = "saved results hold no outputs"
    return Contrast(name, tuple(levels), overall(levels), outputs_note=note)


def _matched(base: Result, other: Result) -> list[tuple[Level, Level]]:
    known = {(level.mode, level.value): level for level in other.levels if level.measurement is not None}
    return [
        (level, known[level.mode, level.value])
        for level in base.levels
        if level.measurement is not None and (level.mode, level.value) in known
    ]
