"""A comparison as a document: differences from the baseline, their size, and their certainty."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from inferometer.compare.comparison import (
    FAILED,
    INCONCLUSIVE,
    INVALID,
    LESS,
    MIXED,
    MORE,
    NO_DIFFERENCE,
    PASSED,
    THROUGHPUT,
    Comparison,
    Contrast,
    Difference,
    EnergyDifference,
    GateOutcome,
    OutputSimilarity,
)
from inferometer.compare.differences import NO_REQUESTS, speedup
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
from inferometer.report.documents.energy import joules
from inferometer.report.documents.levels import (
    distribution_chart,
    line_colour,
    load_points,
    rate_axis,
    time_axis,
)
from inferometer.report.documents.speed import (
    TONES,
    difference_words,
    one_sentence,
    output_difference,
    speed_of,
    verdict,
    verdict_of,
)
from inferometer.report.format import (
    NONE,
    difference,
    duration,
    level_label,
    plural,
    quantity,
    share,
    small,
    when,
)
from inferometer.stats.result import Result, measured

CHOSEN = 99  # latency percentile in charts
TITLED = 3  # most names in a title
CARDS = 4
VARIANT = Column("Variant", is_number=False, is_name=True)
_ENERGY_TONES = {LESS: Tone.GOOD, MORE: Tone.BAD, INVALID: Tone.WARNING}
_GATE_TONES = {PASSED: Tone.GOOD, FAILED: Tone.BAD, INCONCLUSIVE: Tone.WARNING}


def comparison_document(comparison: Comparison) -> Document:
    """Return the report; the same comparison gives the same document."""
    problems = (Message(text, tone=Tone.BAD) for text in comparison.problems)
    sections = (
        message_section("problems", "Why it is invalid", problems),
        message_section("gates", "Failure conditions", map(_gate, comparison.gates)),
        _variants_section(comparison),
        _differences_section(comparison),
        _energy_section(comparison),
        _outputs_section(comparison),
        _throughput_section(comparison),
        _distribution_section(comparison),
        _turns_section(comparison),
        _measured_section(comparison),
        _notes_section(comparison),
    )
    words, tone = verdict(comparison)
    return Document(
        kind="Comparison",
        title=_title(comparison),
        facts=_facts(comparison),
        verdict=words,
        tone=tone,
        figures=tuple(_figures(comparison)),
        sections=tuple(section for section in sections if section is not None),
    )


def _title(comparison: Comparison) -> str:
    names = [variant.name for variant in comparison.variants]
    if len(names) <= TITLED:
        return " vs ".join(names)
    return f"{names[0]} vs {len(names) - 1} variants"


def _facts(comparison: Comparison) -> tuple[str, ...]:
    words = ["from saved results"]
    if comparison.is_live:
        effective = comparison.variants[0].result.effective
        rounds = max((len(level) for level in comparison.variants[0].turns), default=0)
        kind = f"{effective.service_kind} {effective.protocol}".strip()
        words = [kind, effective.batch_words, f"{plural(rounds, 'round')} in turns"]
    sure = f"all differences hold simultaneously with {share(comparison.confidence)} confidence"
    words = [f"baseline {comparison.baseline}", *words, sure, when(comparison.started_at)]
    return tuple(word for word in words if word)


def sentences(comparison: Comparison) -> tuple[str, ...]:
    """One sentence for each variant."""
    return tuple(one_sentence(contrast, comparison.baseline) for contrast in comparison.contrasts)


def _gate(gate: GateOutcome) -> Message:
    is_open = gate.outcome == INCONCLUSIVE and "interval" in gate.found and NO_REQUESTS not in gate.found
    advice = "A longer measurement narrows the interval." if is_open else ""
    words = f"{gate.variant}: {gate.text}: {gate.outcome}, {gate.found}"
    return Message(words, advice, _GATE_TONES[gate.outcome])


def _figures(comparison: Comparison) -> Iterator[Figure]:
    """The speed of each variant relative to the baseline; many variants are only in the table."""
    if len(comparison.contrasts) > CARDS:
        return
    for contrast in comparison.contrasts:
        speed = speed_of(contrast)
        number, _, rest = speed.whole.partition(f" times {speed.kind}")
        value, detail = f"{number}× {speed.kind}", rest.strip()
        if speed.kind in (MIXED, NO_DIFFERENCE, INCONCLUSIVE):
            value = speed.kind.removesuffix(" shown")
            detail = "" if speed.whole == speed.kind == INCONCLUSIVE else speed.whole
        yield Figure(contrast.variant, value, detail, TONES[speed.kind])
    if len(comparison.contrasts) == 1:
        yield from _before_and_after(comparison.contrasts[0], comparison.rate_unit)


def _before_and_after(contrast: Contrast, rate_unit: str) -> Iterator[Figure]:
    for level in contrast.levels[-1:]:
        where = f"at {level_label(level.mode, level.value)}"
        for row in level.differences:
            if row.metric in (THROUGHPUT, f"p{CHOSEN}"):
                name = rate_unit.capitalize() if row.metric == THROUGHPUT else row.metric
                value = f"{_figure(row.metric, row.base)} → {_figure(row.metric, row.value)}"
                found = verdict_of(row)
                yield Figure(name, value, f"{where}, {found}", TONES[found])
    if contrast.outputs:
        is_unlike = any(map(output_difference, contrast.outputs))
        value, tone = ("different", Tone.WARNING) if is_unlike else ("alike", Tone.PLAIN)
        yield Figure("Outputs", value, _outputs_word(contrast).removeprefix("alike, "), tone)


def _variants_section(comparison: Comparison) -> Section | None:
    """A row for each variant: its relative speed, its figures at the heaviest load, its outputs."""
    if not comparison.contrasts:
        return None
    base, per_s = comparison.baseline, comparison.rate_unit.capitalize()
    labels = [level_label(level.mode, level.value) for row in comparison.contrasts for level in row.levels]
    at = {
        row.variant: {cell.metric: cell for cell in row.levels[-1].differences}
        for row in comparison.contrasts
        if row.levels
    }
    metrics = list(dict.fromkeys(name for cells in at.values() for name in cells))
    has_outputs = any(row.outputs for row in comparison.contrasts)
    energy = _last_energies(comparison)
    columns = (
        VARIANT,
        *(
            Column(per_s if name == THROUGHPUT else name, rank=int(name not in (THROUGHPUT, "p99")))
            for name in metrics
        ),
        *(Column(f"J/{unit}") for unit in energy),
        *text_columns(*(("Outputs",) if has_outputs else ()), f"Against {base}"),
    )
    first = next(iter(at.values()), {})
    joules_of_base = (joules(next(iter(cells.values())).base) for cells in energy.values())
    rows = [
        (base, *_cells(first, metrics, "base"), *joules_of_base, *(("",) if has_outputs else ()), "baseline")
    ]
    tones = [Tone.PLAIN]
    for contrast in comparison.contrasts:
        speed = speed_of(contrast)
        outputs = (_outputs_word(contrast),) if has_outputs else ()
        cells = _cells(at.get(contrast.variant, {}), metrics, "value")
        used = [by_variant.get(contrast.variant) for by_variant in energy.values()]
        drawn = (
            NONE if row is None else INVALID if row.verdict == INVALID else joules(row.other) for row in used
        )
        rows.append((contrast.variant, *cells, *drawn, *outputs, speed.whole))
        tones.append(TONES[speed.kind])
    lead = f"Figures at {labels[-1]}." if len(set(labels)) > 1 else f"At {labels[-1]}." if labels else ""
    table = Table("The variants", columns, tuple(rows), tones=tuple(tones))
    return Section("variants", "The variants", lead, (table,))


def _last_energies(comparison: Comparison) -> dict[str, dict[str, EnergyDifference]]:
    """Return the energy of each variant at the heaviest load, by unit and variant."""
    found: dict[str, dict[str, EnergyDifference]] = {}
    for contrast in comparison.contrasts:
        for row in contrast.energy:
            if contrast.levels and (row.mode, row.value) == (
                contrast.levels[-1].mode,
                contrast.levels[-1].value,
            ):
                found.setdefault(row.metric.removeprefix("energy per "), {})[contrast.variant] = row
    return found


def _cells(cells: Mapping[str, Difference], metrics: Sequence[str], field: str) -> Iterator[str]:
    for name in metrics:
        yield _figure(name, getattr(cells[name], field)) if name in cells else NONE


def _outputs_word(contrast: Contrast) -> str:
    """Summarize all outputs of a variant in a few words."""
    if not contrast.outputs:
        return NONE
    wrong = [f"{row.name}: {why}" for row in contrast.outputs if (why := output_difference(row))]
    if wrong:
        return "; ".join(wrong)
    if all(row.is_identical for row in contrast.outputs):
        return "identical"
    noise = [row.snr_db for row in contrast.outputs if row.snr_db is not None]
    return f"alike, SNR {min(noise):.0f} dB" if noise else "alike"


def _differences_section(comparison: Comparison) -> Section | None:
    """A chart for each figure, with a row for each variant and load."""
    found = [
        (contrast.variant, level_label(level.mode, level.value), row)
        for contrast in comparison.contrasts
        for level in contrast.levels
        for row in level.differences
    ]
    if not found:
        return None
    labels = list(dict.fromkeys(label for _, label, _ in found))
    metrics = dict.fromkeys(row.metric for _, _, row in found)
    drawn = tuple(
        Differences(
            "Throughput" if metric == THROUGHPUT else f"{metric} latency",
            tuple(
                _bar(variant, label if len(labels) > 1 else "", row)
                for label in labels
                for variant, where, row in found
                if where == label and row.metric == metric
            ),
        )
        for metric in metrics
    )
    where = f" at {labels[0]}" if len(labels) == 1 else ""
    lead = (
        f"Speed relative to {comparison.baseline}{where}. A difference counts only if its whole interval "
        "lies on one side."
    )
    drawn = (replace(drawn[0], note="Further right is faster, for throughput and latency alike."), *drawn[1:])
    tables = tuple(_level_table(comparison, label) for label in labels)
    return Section("differences", "Differences", lead, (*drawn, *tables))


def _bar(variant: str, group: str, row: Difference) -> DifferenceBar:
    speed = speedup(row)
    return DifferenceBar(
        variant, speed.value, speed.limits, difference_words(row), TONES[verdict_of(row)], group
    )


def _level_table(comparison: Comparison, label: str) -> Table:
    """A row for each figure of each variant at one load."""
    columns = (
        VARIANT,
        *text_columns("Figure"),
        *(Column(name, rank=1) for name in ("Baseline", "Variant's")),
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
            *(_figure(row.metric, value, " /s") for value in (row.base, row.value)),
            difference(row.percent),
            difference_words(row).partition(" (")[0] if row.percent.limits else difference_words(row),
        )
        for variant, row in found
    )
    return Table(f"At {label}", columns, rows, Depth.DRAWN, tuple(TONES[verdict_of(row)] for _, row in found))


def _figure(metric: str, value: float, per_s: str = "") -> str:
    return f"{quantity(value)}{per_s}" if metric == THROUGHPUT else duration(value)


def _energy_section(comparison: Comparison) -> Section | None:
    """A row for each load and figure of each variant; None if no result has energy figures."""
    found = [(contrast.variant, row) for contrast in comparison.contrasts for row in contrast.energy]
    if not found:
        return None
    columns = (
        VARIANT,
        *text_columns("Load", "Figure"),
        Column("Baseline, J"),
        Column("Variant's, J"),
        *text_columns("Difference", "Verdict"),
    )
    rows = tuple(
        (
            variant,
            level_label(row.mode, row.value),
            row.metric,
            joules(row.base),
            joules(row.other),
            NONE if row.percent is None else difference(row.percent),
            f"{row.verdict}: {row.reason}" if row.reason else row.verdict,
        )
        for variant, row in found
    )
    tones = tuple(_ENERGY_TONES.get(row.verdict, Tone.PLAIN) for _, row in found)
    lead = (
        "Energy of the devices that the server used, idle power included. Invalid figures are not compared."
    )
    return Section("energy", "Energy", lead, (Table("Energy", columns, rows, tones=tones),))


def _outputs_section(comparison: Comparison) -> Section | None:
    """A row for each output of each variant; None if outputs were not compared."""
    outputs = [(contrast.variant, row) for contrast in comparison.contrasts for row in contrast.outputs]
    if not outputs:
        return None
    numbers = ("Max error", "Mean error", "Relative", "Cosine", "SNR", "Top-1", "Same")
    columns = (
        VARIANT,
        *text_columns("Output"),
        Column("Type", is_number=False, rank=2),
        *(Column(name, rank=name in ("Mean error", "Relative")) for name in numbers),
        *text_columns("Verdict"),
    )
    requests = plural(max(row.requests for _, row in outputs), "request")
    rows = tuple((variant, row.name, row.datatype, *_output_cells(row)) for variant, row in outputs)
    baseline = comparison.baseline
    lead = f"The same {requests} went to {baseline} and each variant; errors are relative to {baseline}."
    title = "Similarity of the outputs"
    return Section("outputs", title, lead, (Table(title, columns, rows),))


def _output_cells(row: OutputSimilarity) -> tuple[str, ...]:
    return (
        *map(_small, (row.max_abs, row.mean_abs, row.relative)),
        NONE if row.cosine is None else f"{row.cosine:.6f}",
        NONE if row.snr_db is None else f"{row.snr_db:.1f} dB",
        *(NONE if part is None else share(part) for part in (row.top1, row.exact)),
        output_difference(row) or ("identical" if row.is_identical else "alike"),
    )


def _small(value: float | None) -> str:
    return NONE if value is None else small(value)


def _throughput_section(comparison: Comparison) -> Section | None:
    """A line for each variant over its levels."""
    lines, unit = [], comparison.rate_unit
    for number, variant in enumerate(comparison.variants):
        points = load_points(measured(variant.result), CHOSEN, unit, of=variant.name)
        lines.append(ChartLine(variant.name, (points,), line_colour(number)))
    if not any(line.runs[0] for line in lines):
        return None
    title = f"p{CHOSEN} latency against throughput, one line for each variant"
    note = "The numbers are the load."
    times = time_axis(f"p{CHOSEN} latency", lines)
    chart = Chart(title, rate_axis(unit), times, tuple(lines), note=note)
    return Section("throughput", "Throughput and latency", "", (chart,))


def _distribution_section(comparison: Comparison) -> Section | None:
    """Latency percentiles at the heaviest load that all variants have."""
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
    """Throughput of each variant in each round; drift of the machine moves all lines together."""
    if not any(turns for variant in comparison.variants for turns in variant.turns):
        return None
    lines, unit = [], comparison.rate_unit
    for number, variant in enumerate(comparison.variants):
        runs = tuple(
            tuple(
                ChartPoint(
                    turn.start_s,
                    turn.infer_per_s,
                    f"{variant.name}, round {turn.number + 1}: {quantity(turn.infer_per_s)} {unit}, "
                    f"{plural(turn.request_count, 'request')}",
                )
                for turn in turns
            )
            for turns in variant.turns
        )
        lines.append(ChartLine(variant.name, runs, line_colour(number)))
    chart = Chart("Throughput of each turn", ChartAxis("seconds"), rate_axis(unit), tuple(lines), height=270)
    lead = "The variants took turns, so machine noise affects all of them equally."
    return Section("turns", "Round by round", lead, (chart,))


def _measured_section(comparison: Comparison) -> Section | None:
    tables = tuple(Facts(variant.name, tuple(_variant(variant.result))) for variant in comparison.variants)
    return Section("measured", "What was measured", "", tables, is_detail=True) if tables else None


def _variant(result: Result) -> Iterator[tuple[str, str]]:
    version = result.model.get("version")
    yield "Model", str(result.model.get("name", "")) + (f" version {version}" if version else "")
    yield "Server", " ".join(str(result.server.get(name, "")) for name in ("name", "version", "url")).strip()
    kind, protocol = (result.effective.get(name, "") for name in ("service_kind", "protocol"))
    load = (f"{kind} {protocol}".strip(), result.effective.batch_words)
    yield "Load", ", ".join(filter(None, load))
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
