"""The report of a comparison: what differs from the baseline, by how much, and how sure that is."""

from collections.abc import Iterator

from inferometer.base.answer_file import to_json
from inferometer.compare.comparison import (
    FAILED,
    FASTER,
    FINE,
    INVALID,
    MIXED,
    NO_DIFFERENCE,
    PASSED,
    REGRESSION,
    SLOWER,
    THROUGHPUT,
    Comparison,
    Contrast,
    Difference,
)
from inferometer.report import document as blocks
from inferometer.report.document import (
    Block,
    Column,
    Differences,
    Document,
    Facts,
    Figure,
    Message,
    Messages,
    Section,
    Table,
    Tone,
)
from inferometer.report.documents.measurement import when
from inferometer.report.documents.outputs import outputs_section
from inferometer.report.documents.variants import distribution_section, throughput_section, turns_section
from inferometer.report.format import duration, level_label, level_value, plural, quantity, share
from inferometer.stats.result import Result

TONES = {FASTER: Tone.GOOD, SLOWER: Tone.BAD, MIXED: Tone.WARNING, NO_DIFFERENCE: Tone.PLAIN}
_OUTCOMES = {
    FINE: ("fine", Tone.GOOD),
    REGRESSION: ("regression", Tone.BAD),
    INVALID: ("invalid", Tone.BAD),
}


def comparison_document(comparison: Comparison) -> Document:
    """The whole report; the same comparison gives the same document."""
    sections = (
        _problems_section(comparison),
        _gates_section(comparison),
        _differences_section(comparison),
        outputs_section(comparison),
        throughput_section(comparison),
        distribution_section(comparison),
        turns_section(comparison),
        _variants_section(comparison),
        _notes_section(comparison),
    )
    return Document(
        kind="Comparison",
        title=" vs ".join(variant.name for variant in comparison.variants),
        facts=_facts(comparison),
        verdict=verdict(comparison),
        tone=_tone(comparison),
        figures=tuple(_figures(comparison)),
        sections=tuple(section for section in sections if section is not None),
        source=to_json(comparison),
        source_name="comparison.json",
        tool=comparison.tool,
    )


def _facts(comparison: Comparison) -> tuple[str, ...]:
    how = "measured in turns" if comparison.is_live else "from saved results"
    sure = f"all intervals hold together with {share(comparison.confidence)}"
    return (f"baseline {comparison.baseline}", how, sure, when(comparison.started_at))


def verdict(comparison: Comparison) -> str:
    """Each variant in a clause, and what the gates say."""
    clauses = [_clause(contrast, comparison.baseline) for contrast in comparison.contrasts]
    if comparison.problems:
        clauses.insert(0, f"the comparison is not valid: {comparison.problems[0].rstrip('.')}")
    failed = [gate for gate in comparison.gates if gate.outcome == FAILED]
    if failed:
        clauses.append(f"{failed[0].variant} breaks '{failed[0].text}'")
        clauses += [f"and {len(failed) - 1} more"] if len(failed) > 1 else []
    elif comparison.gates and all(gate.outcome == PASSED for gate in comparison.gates):
        clauses.append("every condition is kept")
    elif comparison.gates:
        open_ones = dict.fromkeys(gate.text for gate in comparison.gates if gate.outcome != PASSED)
        clauses.append(f"'{next(iter(open_ones))}' could not be decided")
    return "; ".join(clauses) + "." if clauses else "There is nothing to compare with the baseline."


def _clause(contrast: Contrast, baseline: str) -> str:
    words = {
        FASTER: f"is faster than {baseline}",
        SLOWER: f"is slower than {baseline}",
        MIXED: f"is faster than {baseline} by one figure and slower by another",
        NO_DIFFERENCE: f"shows no difference to {baseline}",
    }[contrast.verdict]
    shown = [row for row in _leading(contrast) if row.verdict != NO_DIFFERENCE]
    figures = ", ".join(f"{row.metric} {signed(row.percent.value)} %" for row in shown[:2])
    return f"{contrast.variant} {words}" + (f" ({figures})" if figures else "")


def _leading(contrast: Contrast) -> tuple[Difference, ...]:
    """At the heaviest load, throughput before percentiles, the tail before the middle."""
    if not contrast.levels:
        return ()
    rows = contrast.levels[-1].differences
    return tuple(sorted(rows, key=lambda row: (row.metric != THROUGHPUT, -_place(row.metric))))


def _place(metric: str) -> float:
    try:
        return float(metric.removeprefix("p"))
    except ValueError:
        return 0.0


def percent(row: Difference) -> str:
    """`+12.3 % (+9.8 to +14.9)`."""
    text = f"{signed(row.percent.value)} %"
    if row.percent.low is None or row.percent.high is None:
        return text
    return f"{text} ({signed(row.percent.low)} to {signed(row.percent.high)})"


def signed(value: float) -> str:
    """One decimal and a sign; small numbers keep a second decimal."""
    text = f"{abs(value):.2f}" if abs(value) < 0.095 else f"{abs(value):.1f}"
    return f"−{text}" if value < 0 else f"+{text}"


def _tone(comparison: Comparison) -> Tone:
    if comparison.outcome in (INVALID, REGRESSION):
        return Tone.BAD
    found = {contrast.verdict for contrast in comparison.contrasts}
    if comparison.outcome != FINE or MIXED in found or {FASTER, SLOWER} <= found:
        return Tone.WARNING
    if SLOWER in found:
        return Tone.WARNING if comparison.gates else Tone.BAD
    return Tone.GOOD if FASTER in found else Tone.PLAIN


def _figures(comparison: Comparison) -> Iterator[Figure]:
    if comparison.gates or comparison.problems:
        words, tone = _OUTCOMES.get(comparison.outcome, ("inconclusive", Tone.WARNING))
        yield Figure("Outcome", words, plural(len(comparison.gates), "condition"), tone)
    for contrast in comparison.contrasts[:3]:
        rows = _leading(contrast)
        if rows:
            row, level = rows[0], contrast.levels[-1]
            where = level_label(level.mode, level.value)
            text = f"{signed(row.percent.value)} %"
            yield Figure(
                contrast.variant, text, f"{row.metric} at {where}: {row.verdict}", TONES[row.verdict]
            )


def _problems_section(comparison: Comparison) -> Section | None:
    if not comparison.problems:
        return None
    rows = tuple(Message(text, tone=Tone.BAD) for text in comparison.problems)
    return Section("problems", "Why it is not valid", "", (Messages(rows),))


def _gates_section(comparison: Comparison) -> Section | None:
    if not comparison.gates:
        return None
    names = ("Condition that fails it", "Variant", "Outcome", "Found")
    rows = tuple((gate.text, gate.variant, gate.outcome, gate.found) for gate in comparison.gates)
    columns = tuple(Column(name, is_number=False) for name in names)
    return Section("gates", "Conditions", "", (Table("What --fail-if asked for", columns, rows),))


def _differences_section(comparison: Comparison) -> Section | None:
    figures: list[Block] = [
        _drawn(contrast, comparison.baseline) for contrast in comparison.contrasts if contrast.levels
    ]
    if not figures:
        return None
    lead = (
        "A difference counts only when its whole interval lies on one side of 0. Throughput to the right is faster; "
        "latency to the right is slower."
    )
    return Section("differences", "Differences", lead, (*figures, _table(comparison)))


def _drawn(contrast: Contrast, baseline: str) -> Differences:
    rows = tuple(
        blocks.DifferenceBar(
            label=row.metric,
            value=row.percent.value,
            limits=None
            if row.percent.low is None or row.percent.high is None
            else (row.percent.low, row.percent.high),
            text=_said(row),
            tone=TONES[row.verdict],
            group=level_label(level.mode, level.value),
        )
        for level in contrast.levels
        for row in level.differences
    )
    return Differences(f"{contrast.variant} against {baseline}: {contrast.verdict}", rows, "%")


def _said(row: Difference) -> str:
    words = (percent(row), "" if row.verdict == NO_DIFFERENCE else row.verdict, row.reason)
    return ", ".join(word for word in words if word)


def _table(comparison: Comparison) -> Table:
    words, numbers = ("Variant", "Level", "Figure"), ("Baseline", "Variant's", "Difference", "From", "To")
    columns = (
        *(Column(name, is_number=False) for name in words),
        *map(Column, numbers),
        Column("Verdict", is_number=False),
    )
    rows = tuple(
        (contrast.variant, level_value(level.mode, level.value), row.metric, *_cells(row))
        for contrast in comparison.contrasts
        for level in contrast.levels
        for row in level.differences
    )
    return Table("The differences in numbers", columns, rows)


def _cells(row: Difference) -> tuple[str, ...]:
    write = _rate if row.metric == THROUGHPUT else duration
    ends = tuple("-" if end is None else f"{signed(end)} %" for end in (row.percent.low, row.percent.high))
    return (write(row.base), write(row.value), f"{signed(row.percent.value)} %", *ends, row.verdict)


def _rate(value: float) -> str:
    return f"{quantity(value)} infer/s"


def _variants_section(comparison: Comparison) -> Section | None:
    tables = tuple(Facts(variant.name, tuple(_variant(variant.result))) for variant in comparison.variants)
    return Section("variants", "The variants", "", tables) if tables else None


def _variant(result: Result) -> Iterator[tuple[str, str]]:
    version = result.model.get("version")
    yield "Model", str(result.model.get("name", "")) + (f" version {version}" if version else "")
    yield "Server", " ".join(str(result.server.get(name, "")) for name in ("name", "version", "url")).strip()
    kind, protocol = (result.effective.get(name, "") for name in ("service_kind", "protocol"))
    yield "Load", f"{kind} {protocol}, batch {result.effective.get('batch', 1)}".strip()
    yield (
        "Client host",
        ", ".join(str(result.host[name]) for name in ("name", "processor") if name in result.host),
    )
    yield "Measured", f"{when(result.started_at)}, {plural(len(result.levels), 'level')}"


def _notes_section(comparison: Comparison) -> Section | None:
    rows = [Message(text) for text in comparison.notes]
    rows += [
        Message(f"{contrast.variant}: {contrast.outputs_note}")
        for contrast in comparison.contrasts
        if contrast.outputs_note
    ]
    return Section("notes", "Notes", "", (Messages(tuple(rows)),)) if rows else None
