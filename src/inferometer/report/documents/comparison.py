"""A comparison as a document: what differs from the baseline, by how much, and how sure that is."""

from collections.abc import Iterator

from inferometer.compare.comparison import (
    FAILED,
    FASTER,
    FINE,
    INCONCLUSIVE,
    INVALID,
    MIXED,
    NO_DIFFERENCE,
    PASSED,
    REGRESSION,
    SLOWER,
    THROUGHPUT,
    UNDECIDED,
    Comparison,
    Contrast,
    Difference,
    LevelDifference,
    OutputSimilarity,
)
from inferometer.compare.differences import headline
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Depth,
    DifferenceBar,
    Differences,
    Document,
    Facts,
    Figure,
    Message,
    Section,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.levels import (
    RATE_AXIS,
    distribution_chart,
    line_colour,
    load_points,
    measured,
    throughput_chart,
)
from inferometer.report.format import (
    NONE,
    difference,
    duration,
    first_line,
    level_label,
    plural,
    quantity,
    share,
    signed,
    when,
)
from inferometer.stats.result import Result

CHOSEN = 99  # the percentile of the latency that is drawn
_TONES = {FASTER: Tone.GOOD, SLOWER: Tone.BAD, MIXED: Tone.WARNING, NO_DIFFERENCE: Tone.PLAIN}
_GATE_TONES = {PASSED: Tone.GOOD, FAILED: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
_OUTCOMES = {
    FINE: ("Fine: no condition of --fail-if is met.", Tone.GOOD),
    REGRESSION: ("Regression: a condition of --fail-if is met.", Tone.BAD),
    UNDECIDED: (
        "Inconclusive: the intervals are too wide to tell; measure longer with --duration.",
        Tone.WARNING,
    ),
    INVALID: ("Invalid: this comparison cannot be trusted.", Tone.BAD),
}


def comparison_document(comparison: Comparison) -> Document:
    """The whole report; the same comparison gives the same document."""
    problems = (Message(text, tone=Tone.BAD) for text in comparison.problems)
    gates = (
        Message(f"{gate.variant}: {gate.text}: {gate.outcome}, {gate.found}", tone=_GATE_TONES[gate.outcome])
        for gate in comparison.gates
    )
    sections = (
        message_section("problems", "Why it is not valid", problems),
        message_section("gates", "Conditions of --fail-if", gates),
        _differences_section(comparison),
        _outputs_section(comparison),
        _throughput_section(comparison),
        _distribution_section(comparison),
        _turns_section(comparison),
        _variants_section(comparison),
        _notes_section(comparison),
    )
    return Document(
        kind="Comparison",
        title=" vs ".join(variant.name for variant in comparison.variants),
        facts=_facts(comparison),
        verdict=_verdict(comparison),
        tone=_tone(comparison),
        figures=tuple(_figures(comparison)),
        sections=tuple(section for section in sections if section is not None),
    )


def _facts(comparison: Comparison) -> tuple[str, ...]:
    words = ["from saved results"]
    if comparison.is_live:
        effective = comparison.variants[0].result.effective
        rounds = max((len(level) for level in comparison.variants[0].turns), default=0)
        kind = f"{effective.service_kind} {effective.protocol}".strip()
        words = [kind, f"batch {effective.batch}", f"{plural(rounds, 'round')} in turns"]
    sure = f"all intervals hold together with {share(comparison.confidence)} confidence"
    words = [f"baseline {comparison.baseline}", *words, sure, when(comparison.started_at)]
    return tuple(word for word in words if word)


def _verdict(comparison: Comparison) -> str:
    """What the conditions say, and each variant in a sentence."""
    words = [_OUTCOMES[comparison.outcome][0]] if comparison.gates or comparison.problems else []
    words += sentences(comparison)
    return first_line(" ".join(words), 2000) if words else "There is nothing to compare with the baseline."


def sentences(comparison: Comparison) -> tuple[str, ...]:
    """What was found, one sentence for each variant."""
    return tuple(_sentence(contrast, comparison.baseline) for contrast in comparison.contrasts)


def _sentence(contrast: Contrast, baseline: str) -> str:
    level = _telling_level(contrast)
    found = None if level is None else headline(level)
    if level is None or found is None:
        return f"{contrast.variant} could not be compared with {baseline}."
    where = level_label(level.mode, level.value)
    if contrast.verdict == NO_DIFFERENCE:
        why = "there are too few requests to tell"
        if found.percent.limits is not None:
            most = max(map(abs, found.percent.limits))
            why = f"at {where} {found.metric} differs by {most:.1f} % at most"
        return f"No difference shown between {contrast.variant} and {baseline}: {why}."
    word = "faster by some figures and slower by others" if contrast.verdict == MIXED else contrast.verdict
    shown = [row for row in level.differences if row.verdict != NO_DIFFERENCE] or [found]
    figures = ", ".join(f"{row.metric} {difference(row.percent)}" for row in shown[:2])
    return f"{contrast.variant} is {word} than {baseline}: at {where} {figures}."


def _telling_level(contrast: Contrast) -> LevelDifference | None:
    """The level with a difference that was shown, the last one of them; else the last."""
    for level in reversed(contrast.levels):
        if any(row.verdict != NO_DIFFERENCE for row in level.differences):
            return level
    return contrast.levels[-1] if contrast.levels else None


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
        words, tone = _OUTCOMES[comparison.outcome]
        word = words.partition(":")[0].lower()
        yield Figure("Outcome", word, plural(len(comparison.gates), "condition"), tone)
    for contrast in comparison.contrasts[:3]:
        level = contrast.levels[-1] if contrast.levels else None
        row = None if level is None else headline(level)
        if level is not None and row is not None:
            detail = f"{row.metric} at {level_label(level.mode, level.value)}: {row.verdict}"
            yield Figure(contrast.variant, f"{signed(row.percent.value)} %", detail, _TONES[row.verdict])


def _differences_section(comparison: Comparison) -> Section | None:
    drawn = [_drawn(contrast, comparison.baseline) for contrast in comparison.contrasts if contrast.levels]
    if not drawn:
        return None
    lead = "A difference counts only when its whole interval lies on one side of 0."
    labels = dict.fromkeys(
        level_label(level.mode, level.value) for contrast in comparison.contrasts for level in contrast.levels
    )
    tables = tuple(_level_table(comparison, label) for label in labels)
    return Section("differences", "Differences", lead, (*drawn, *tables))


def _drawn(contrast: Contrast, baseline: str) -> Differences:
    rows = tuple(
        DifferenceBar(
            label=row.metric,
            value=row.percent.value,
            limits=row.percent.limits,
            text=_said(row),
            tone=_TONES[row.verdict],
            group=level_label(level.mode, level.value),
        )
        for level in contrast.levels
        for row in level.differences
    )
    note = "Throughput to the right is faster; latency to the right is slower."
    return Differences(f"{contrast.variant} against {baseline}: {contrast.verdict}", rows, "%", note)


def _said(row: Difference) -> str:
    words = (difference(row.percent), "" if row.verdict == NO_DIFFERENCE else row.verdict, row.reason)
    return ", ".join(word for word in words if word)


def _level_table(comparison: Comparison, label: str) -> Table:
    """One row for each figure of each variant at one load."""
    columns = (
        *text_columns("Variant", "Figure"),
        *map(Column, ("Baseline", "Variant's")),
        *text_columns("Difference", "Verdict"),
    )
    found = [
        (contrast.variant, row)
        for contrast in comparison.contrasts
        for level in contrast.levels
        if level_label(level.mode, level.value) == label
        for row in level.differences
    ]
    rows = tuple(
        (
            variant,
            row.metric,
            *(_figure(row, value) for value in (row.base, row.value)),
            difference(row.percent),
            row.verdict if not row.reason else f"{row.verdict}: {row.reason}",
        )
        for variant, row in found
    )
    return Table(f"At {label}", columns, rows, Depth.DRAWN, tuple(_TONES[row.verdict] for _, row in found))


def _figure(row: Difference, value: float) -> str:
    return f"{quantity(value)} /s" if row.metric == THROUGHPUT else duration(value)


def _outputs_section(comparison: Comparison) -> Section | None:
    """One row for each output of each variant; None where outputs were not compared."""
    outputs = [(contrast.variant, row) for contrast in comparison.contrasts for row in contrast.outputs]
    if not outputs:
        return None
    numbers = ("Max error", "Mean error", "Relative", "Cosine", "SNR", "Top-1", "Same")
    columns = (
        *text_columns("Variant", "Output"),
        Column("Type", is_number=False, rank=2),
        *(Column(name, rank=name in ("Mean error", "Relative")) for name in numbers),
        *text_columns("Verdict"),
    )
    requests = plural(max(row.requests for _, row in outputs), "request")
    rows = tuple((variant, row.name, row.datatype, *_output_cells(row)) for variant, row in outputs)
    baseline = comparison.baseline
    lead = f"The same {requests} to {baseline} and to each variant; errors are against {baseline}."
    title = "How alike the outputs are"
    return Section("outputs", title, lead, (Table(title, columns, rows),))


def _output_cells(row: OutputSimilarity) -> tuple[str, ...]:
    words = row.problem or ("identical" if row.is_identical else "differs")
    if row.non_finite:
        words += f", {plural(row.non_finite, 'element')} with NaN or infinity on one side only"
    return (
        *map(_small, (row.max_abs, row.mean_abs, row.relative)),
        NONE if row.cosine is None else f"{row.cosine:.6f}",
        NONE if row.snr_db is None else f"{row.snr_db:.1f} dB",
        *(NONE if part is None else share(part) for part in (row.top1, row.exact)),
        words,
    )


def _small(value: float | None) -> str:
    return NONE if value is None else "0" if value == 0 else f"{value:.2e}"


def _throughput_section(comparison: Comparison) -> Section | None:
    """One line for each variant, over its levels."""
    lines = []
    for number, variant in enumerate(comparison.variants):
        points = load_points(measured(variant.result), CHOSEN, of=variant.name)
        lines.append(ChartLine(variant.name, (points,), line_colour(number)))
    if not any(line.runs[0] for line in lines):
        return None
    title = f"p{CHOSEN} latency against throughput, one line for each variant"
    note = "The numbers are the load; bars are 95 % intervals."
    chart = throughput_chart(title, f"p{CHOSEN} latency", lines, note)
    return Section("throughput", "Throughput and latency", "", (chart,))


def _distribution_section(comparison: Comparison) -> Section | None:
    """The percentile curves at the heaviest load that every variant was measured at."""
    found = [
        {level.value: (level, row) for level, row in measured(each.result)} for each in comparison.variants
    ]
    common = set.intersection(*(set(rows) for rows in found)) if found else set()
    if not common:
        return None
    level = found[0][max(common)][0]
    whole = [rows[max(common)][1].latency for rows in found]
    if not all(latency.percentiles for latency in whole):
        return None
    curves = [
        (variant.name, latency, line_colour(number))
        for number, (variant, latency) in enumerate(zip(comparison.variants, whole, strict=True))
    ]
    title = f"Share of requests answered within a latency, at {level_label(level.mode, level.value)}"
    return Section("distribution", "Latency distribution", "", (distribution_chart(title, curves),))


def _turns_section(comparison: Comparison) -> Section | None:
    """Throughput of each variant in each round; drift shows as lines that move together."""
    if not any(turns for variant in comparison.variants for turns in variant.turns):
        return None
    lines = []
    for number, variant in enumerate(comparison.variants):
        runs = tuple(
            tuple(
                ChartPoint(
                    turn.start_s,
                    turn.infer_per_s,
                    f"{variant.name}, round {turn.number + 1}: {quantity(turn.infer_per_s)} infer/s, "
                    f"{turn.request_count} requests",
                )
                for turn in turns
            )
            for turns in variant.turns
        )
        lines.append(ChartLine(variant.name, runs, line_colour(number)))
    chart = Chart("Throughput of each turn", ChartAxis("seconds"), RATE_AXIS, tuple(lines), height=270)
    lead = "The variants took turns, so noise of the machine affects all of them equally."
    return Section("turns", "Round by round", lead, (chart,))


def _variants_section(comparison: Comparison) -> Section | None:
    tables = tuple(Facts(variant.name, tuple(_variant(variant.result))) for variant in comparison.variants)
    return Section("variants", "The variants", "", tables, is_detail=True) if tables else None


def _variant(result: Result) -> Iterator[tuple[str, str]]:
    version = result.model.get("version")
    yield "Model", str(result.model.get("name", "")) + (f" version {version}" if version else "")
    yield "Server", " ".join(str(result.server.get(name, "")) for name in ("name", "version", "url")).strip()
    kind, protocol = (result.effective.get(name, "") for name in ("service_kind", "protocol"))
    yield "Load", f"{kind} {protocol}, batch {result.effective.batch}".strip()
    host = ", ".join(str(result.host[name]) for name in ("name", "processor") if name in result.host)
    yield "Client host", host
    yield "Measured", f"{when(result.started_at)}, {plural(len(result.levels), 'level')}"


def _notes_section(comparison: Comparison) -> Section | None:
    rows = [
        Message(f"{contrast.variant}: outputs were not compared: {contrast.outputs_note}")
        for contrast in comparison.contrasts
        if contrast.outputs_note and comparison.is_live
    ]
    rows += [Message(text) for text in comparison.notes]
    return message_section("notes", "Notes", rows)
