"""Conditions that count as a regression, such as `p99 > +5%, throughput < -3%, snr < 40`."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import plain_number, share, small
from inferometer.compare.comparison import (
    FAILED,
    INCONCLUSIVE,
    PASSED,
    THROUGHPUT,
    Comparison,
    Contrast,
    Difference,
    GateOutcome,
    LevelDifference,
    OutputSimilarity,
    Variant,
)
from inferometer.options.names import option_name
from inferometer.stats.binomial import share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import OUTPUT_METRICS, Metric, Source, named
from inferometer.stats.measurement import UNSTATED, Level
from inferometer.stats.promises import INSIDE
from inferometer.stats.verdict import NOT_SHOWN, SHOWN, percent_words, rule
from inferometer.stats.wrong_answers import checked, pooled, share_words

_WORDS = re.compile(r"\s*(?P<name>[^\s<>=]*)\s*(?P<sign>[<>]?=?)\s*(?P<limit>.*?)\s*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")

_GRAVEST = (FAILED, INCONCLUSIVE, PASSED)

ERRORS, WRONG = "errors", "wrong"
KNOWN = ", ".join(
    (THROUGHPUT, "p50", "p95", "p99", ERRORS, WRONG, *(metric.short for metric in OUTPUT_METRICS))
)


def _metric(name: str) -> Metric | None:
    """Return a comparable figure: throughput, an integer latency percentile, errors, wrong answers, or a figure of
    outputs."""
    found = named(name)
    if found is None or found.source is Source.OUTPUT or name in (THROUGHPUT, ERRORS, WRONG):
        return found
    return found if re.fullmatch(r"p\d+", name) else None


@frozen
class Gate:
    """A condition that fails a variant: a difference in percent, or a limit for its outputs or errors."""

    metric: Metric
    is_above: bool  # fails above the limit, otherwise below it
    limit: float  # percent for speed, a share for errors and wrong answers
    text: str

    @property
    def name(self) -> str:
        return self.metric.short

    def is_beyond(self, value: float) -> bool:
        return value > self.limit if self.is_above else value < self.limit


def _is_speed(metric: Metric) -> bool:
    """Whether the figure is judged by its difference from the baseline."""
    return metric.short == THROUGHPUT or metric.percentile is not None


def parse_gates(text: str) -> tuple[Gate, ...]:
    """Parse conditions separated by commas; any of them fails the variant."""
    gates = []
    position = 0
    for part in text.split(","):
        gates.append(_gate(part, text, position))
        position += len(part) + 1
    return tuple(gates)


def _gate(part: str, whole: str, position: int) -> Gate:
    found = _WORDS.fullmatch(part)
    assert found is not None  # matches any text; errors are raised below
    name, sign, limit = found["name"].lower(), found["sign"], found["limit"]

    def refuse(what: str, group: str, remedy: str) -> UsageError:
        place = position + found.start(group)
        return UsageError(f"{option_name('--fail-if')}: {what}; {remedy}\n  {whole}\n  {' ' * place}^")

    if not name:
        raise refuse("a condition is missing", "name", "write conditions like 'p99 > +5%, snr < 40'")
    metric = _metric(name)
    if metric is None:
        raise refuse(f"'{found['name']}' is not a figure of a comparison", "name", f"use one of {KNOWN}")
    if sign.rstrip("=") not in ("<", ">"):
        raise refuse(f"'{found['name']}' must be followed by < or >", "sign", "write it like 'p99 > +5%'")
    number, is_percent = limit.removesuffix("%").strip(), limit.endswith("%")
    if not _NUMBER.fullmatch(number):
        raise refuse(f"'{limit}' is not a number", "limit", "write it like +5%, -3% or 40")
    is_speed = _is_speed(metric)
    if is_speed and not is_percent:
        what = f"'{name}' is compared with the baseline, so '{limit}' needs a %"
        raise refuse(what, "limit", f"write {limit}%")
    if metric.is_share and not is_percent:
        raise refuse(f"'{name}' is a share, so '{limit}' needs a %", "limit", f"write {limit}%")
    if name in (ERRORS, WRONG, "top1", "exact") and not 0 <= float(number) <= 100:
        raise refuse(f"'{name}' is a share, never '{limit}'", "limit", "write one from 0% to 100%")
    if is_percent and not is_speed and not metric.is_share:
        raise refuse(f"'{name}' does not take a percentage", "limit", f"write {number}")
    value = float(number) / 100 if is_percent and not is_speed else float(number)
    return Gate(metric, sign.startswith(">"), value, " ".join(part.split()))


def judge(
    gates: Sequence[Gate], contrasts: Sequence[Contrast], variants: Sequence[Variant]
) -> tuple[GateOutcome, ...]:
    """Judge every condition for every variant except the baseline."""
    known = {variant.name: variant for variant in variants}
    found = []
    for contrast in contrasts:
        for gate in gates:
            rows = _findings(gate, contrast, known[contrast.variant])
            nothing = (INCONCLUSIVE, f"no {gate.name} was measured")
            outcome, why = min(rows, key=lambda row: _GRAVEST.index(row[0]), default=nothing)
            found.append(GateOutcome(gate.text, contrast.variant, outcome, why))
    return tuple(found)


def _findings(gate: Gate, contrast: Contrast, variant: Variant) -> Iterator[tuple[str, str]]:
    """Yield (outcome, reason) for every level or output."""
    if gate.name == ERRORS:
        yield _of_errors(gate, variant.result.levels)
    elif gate.name == WRONG:
        yield _of_wrong(gate, variant)
    elif gate.metric.source is Source.OUTPUT:
        if not contrast.outputs:
            yield INCONCLUSIVE, contrast.outputs_note or "outputs were not compared"
        for output in contrast.outputs:
            yield from _of_output(gate, output)
    else:
        for level in contrast.levels:
            for difference in level.differences:
                if difference.metric == gate.name:
                    yield _of_difference(gate, level, difference)


def _of_difference(gate: Gate, level: LevelDifference, found: Difference) -> tuple[str, str]:
    percent = found.percent
    where = f"at {_where(level)}"
    if percent.limits is None:
        return INCONCLUSIVE, f"{percent_words(percent)} without an interval {where}: {found.reason}"
    words = f"{percent_words(percent)} {where}"
    ruling = rule(percent, limit=gate.limit, is_above=gate.is_above).ruling
    if ruling == NOT_SHOWN:
        return PASSED, words
    return (FAILED, words) if ruling == SHOWN else (INCONCLUSIVE, f"{words}: {INSIDE}")


def _of_errors(gate: Gate, levels: Sequence[Level]) -> tuple[str, str]:
    """Judge the failures at all levels by the interval of their share; without failures, the share is exactly 0."""
    rows = [row for level in levels if (row := level.measurement) is not None]
    failed = sum(row.failed_count for row in rows)
    ended = failed + sum(row.request_count for row in rows)
    if not ended:
        return INCONCLUSIVE, "no request ended"
    found = share_estimate(failed, ended) if failed else Estimate(0.0, 0.0, 0.0)
    assert found.limits is not None
    words = f"{share(found.value)} of the requests failed"
    if failed:
        words += f" ({' to '.join(map(share, found.limits))})"
    return _of_share(gate, found.limits, words)


def _of_wrong(gate: Gate, variant: Variant) -> tuple[str, str]:
    """Judge the answers that were checked at all levels, which are a sample: their interval decides."""
    found = pooled([row for _, row in checked(variant.result.levels)])
    if found is None:
        return INCONCLUSIVE, "no answer was checked: add --check"
    assert found.share.limits is not None
    return _of_share(gate, found.share.limits, f"wrong answers: {share_words(found)}")


def _of_share(gate: Gate, ends: Sequence[float], words: str) -> tuple[str, str]:
    beyond = [gate.is_beyond(end) for end in ends]
    if all(beyond):
        return FAILED, words
    return (INCONCLUSIVE, f"{words}: {INSIDE}") if any(beyond) else (PASSED, words)


def _of_output(gate: Gate, output: OutputSimilarity) -> Iterator[tuple[str, str]]:
    where = f"output '{output.name}'"
    if output.problem:
        yield FAILED, f"{where}: {output.problem}"
    elif output.non_finite:
        yield FAILED, f"{where} has {output.non_finite:,} elements with NaN or infinity on one side only"
    elif gate.metric.get is not None and (value := gate.metric.get(output)) is not None:
        # A figure that does not apply to this output says nothing about it.
        shown = "identical" if output.is_identical else f"{gate.name} {_figure(value)}"
        yield FAILED if gate.is_beyond(value) else PASSED, f"{shown} in {where}"


def _figure(value: float) -> str:
    """Format a figure of outputs: a cosine needs all digits, a difference may be tiny."""
    return small(value) if abs(value) < 0.001 else plain_number(value)


# --- the comparison with its gates judged, and what makes it invalid


_BROKEN = (
    *(Note.SERVER_GONE, Note.SERVER_ENDED, Note.NO_ANSWER, Note.NO_REPLY),
    *(Note.WORKER_LOST, Note.CLIENT_LOST),  # less load than requested, and not on all variants
)
_LIMITED = (*CLIENT_LIMITS, Note.NOT_OFFERED)


@frozen
class Terms:
    """Conditions and limits for judging a comparison."""

    gates: tuple[Gate, ...] = ()
    max_error_rate: float = 0.0

    @property
    def percentiles(self) -> tuple[int, ...]:
        return tuple(int(p) for gate in self.gates if (p := gate.metric.percentile) is not None)


def conclude(found: Comparison, terms: Terms) -> Comparison:
    """Return the comparison with its conditions judged."""
    is_judged_by_errors = any(gate.name == ERRORS for gate in terms.gates)
    most = math.inf if is_judged_by_errors else terms.max_error_rate
    problems = tuple(problem for variant in found.variants for problem in _problems(variant, most))
    gates = judge(terms.gates, found.contrasts, found.variants)
    limited, others = (
        [said for variant in found.variants for said in _said(variant, notes)]
        for notes in (_LIMITED, (Note.OVERLOADED, Note.HOST_BUSY))
    )
    # Variants that took turns had the same client. In saved runs, one that is at its limit slows only its own variant.
    slowed = {row.name for row in found.variants if not found.is_live and list(_said(row, CLIENT_LIMITS))}
    return replace(
        found,
        gates=_without_trust(gates, terms.gates, slowed) if limited else gates,
        notes=(*found.notes, *limited, *others),
        problems=(*found.problems, *problems),
    )


def _without_trust(
    outcomes: Sequence[GateOutcome], gates: Sequence[Gate], slowed: Collection[str]
) -> tuple[GateOutcome, ...]:
    """Return the outcomes when the client was the limit: passes are inconclusive, since the client hides differences;
    so are failures of the variants in `slowed`, whose slowness may be the client's."""
    speed = {gate.text for gate in gates if _is_speed(gate.metric)}
    return tuple(
        replace(row, outcome=INCONCLUSIVE, found=f"{row.found}, but the client was the limit")
        if row.text in speed and (row.outcome == PASSED or row.variant in slowed)
        else row
        for row in outcomes
    )


def _problems(variant: Variant, max_error_rate: float) -> Iterator[str]:
    result = variant.result
    if result.failed_share > max_error_rate:
        yield f"{variant.name}: {share(result.failed_share)} of the requests failed{_example(result.levels)}"
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


def _where(level: Level | LevelDifference) -> str:
    if level.mode == UNSTATED:
        return "an unstated load"
    return f"{level.mode.replace('_', ' ')} {plain_number(level.value)}"
