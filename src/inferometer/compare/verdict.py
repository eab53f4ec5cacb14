"""From measured variants to a Comparison: gates, notes, and what makes it invalid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import inferometer
from inferometer.base.notes import Note
from inferometer.compare.comparison import (
    INCONCLUSIVE,
    PASSED,
    Comparison,
    Contrast,
    GateOutcome,
    Variant,
)
from inferometer.compare.gates import ERRORS, Gate, judge
from inferometer.compare.paired import CONFIDENCE
from inferometer.stats.measurement import Level

_BROKEN = (Note.SERVER_GONE, Note.NO_ANSWER, Note.WORKER_LOST, Note.NO_REPLY)
_LIMITED = (Note.CLIENT_LIMITED, Note.NOT_OFFERED)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a comparison is judged by."""

    gates: tuple[Gate, ...] = ()
    max_error_rate: float = 0.0

    @property
    def percentiles(self) -> tuple[int, ...]:
        return tuple(gate.percentile for gate in self.gates if gate.percentile is not None)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was found out; the first variant is the baseline."""

    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    is_live: bool
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def conclude(found: Findings, terms: Terms, started_at: str) -> Comparison:
    """The comparison with its gates judged."""
    is_judged_by_errors = any(gate.name == ERRORS for gate in terms.gates)
    problems = tuple(
        problem
        for variant in found.variants
        for problem in _problems(variant, None if is_judged_by_errors else terms.max_error_rate)
    )
    gates = judge(terms.gates, found.contrasts, found.variants)
    limited = tuple(note for variant in found.variants for note in _said(variant, _LIMITED))
    overloaded = tuple(note for variant in found.variants for note in _said(variant, (Note.OVERLOADED,)))
    return Comparison(
        tool=f"inferometer {inferometer.__version__}",
        started_at=started_at,
        is_live=found.is_live,
        confidence=CONFIDENCE,
        baseline=found.variants[0].name,
        variants=found.variants,
        contrasts=found.contrasts,
        gates=_without_trust(gates, terms.gates) if limited else gates,
        notes=(*found.notes, *limited, *overloaded),
        problems=(*found.problems, *problems),
    )


def _without_trust(outcomes: Sequence[GateOutcome], gates: Sequence[Gate]) -> tuple[GateOutcome, ...]:
    """A client at its limit hides differences: what it shows counts, what it does not show proves nothing."""
    speed = {gate.text for gate in gates if gate.is_speed}
    return tuple(
        replace(row, outcome=INCONCLUSIVE, found=f"{row.found}; but the client was the limit")
        if row.outcome == PASSED and row.text in speed
        else row
        for row in outcomes
    )


def _problems(variant: Variant, max_error_rate: float | None) -> Iterator[str]:
    result = variant.result
    if max_error_rate is not None and result.failed_share > max_error_rate:
        yield f"{variant.name}: {result.failed_share:.2%} of the requests failed{_example(result.levels)}"
    yield from _said(variant, _BROKEN)


def _said(variant: Variant, notes: Sequence[Note]) -> Iterator[str]:
    for level in variant.result.levels:
        for remark in level.remarks:
            if remark.note in notes:
                yield f"{variant.name} at {_where(level)}: {remark.text}; {remark.note.advice}"


def _example(levels: Sequence[Level]) -> str:
    for level in levels:
        for group in level.measurement.failures if level.measurement is not None else ():
            return f" ({group.kind}: {group.example})" if group.example else f" ({group.kind})"
    return ""


def _where(level: Level) -> str:
    return f"{level.mode.replace('_', ' ')} {level.value:g}"
