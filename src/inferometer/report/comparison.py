"""A comparison for people, for pull requests and for CI: folds over the same value."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

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
    GateOutcome,
    LevelDifference,
    OutputSimilarity,
)
from inferometer.compare.differences import headline
from inferometer.report.escape import markdown, terminal, xml
from inferometer.report.format import duration, first_line, level_label, plural, quantity, share
from inferometer.stats.measurement import Estimate

WIDTH = 100
_STYLES = {FASTER: "green", SLOWER: "red", MIXED: "yellow"}
_MARKS = {PASSED: "✓", FAILED: "✗", INCONCLUSIVE: "?"}
_GATE_STYLES = {PASSED: "green", FAILED: "red", INCONCLUSIVE: "yellow"}
_OUTCOMES = {
    FINE: "Fine: no condition of --fail-if is met.",
    REGRESSION: "Regression: a condition of --fail-if is met.",
    UNDECIDED: "Inconclusive: the intervals are too wide to tell; measure longer with --duration.",
    INVALID: "Invalid: this comparison cannot be trusted.",
}

Row = tuple[str, ...]
SPEED_HEAD: Row = ("Load", "Variant", "Figure", "Baseline", "Variant's", "Difference", "Verdict")
OUTPUT_HEAD: Row = (
    *("Variant", "Output", "Type", "Max error", "Mean error", "Relative", "Cosine", "SNR", "Top-1", "Exact"),
)


# --- cells, the same in every format


def speed_rows(comparison: Comparison) -> Iterator[Row]:
    """One row for each figure of each variant at each level."""
    for contrast in comparison.contrasts:
        for level in contrast.levels:
            for row in level.differences:
                yield (
                    level_label(level.mode, level.value),
                    contrast.variant,
                    row.metric,
                    _figure(row, row.base),
                    _figure(row, row.value),
                    percent(row.percent),
                    row.verdict if not row.reason else f"{row.verdict}: {row.reason}",
                )


def _figure(row: Difference, value: float) -> str:
    return f"{quantity(value)} /s" if row.metric == THROUGHPUT else duration(value)


def percent(estimate: Estimate) -> str:
    """`+3.1 % (+1.9 to +4.4)`."""
    words = f"{_signed(estimate.value)} %"
    if estimate.low is None or estimate.high is None:
        return words
    return f"{words} ({_signed(estimate.low)} to {_signed(estimate.high)})"


def _signed(value: float) -> str:
    places = 0 if abs(value) >= 99.95 else 1
    return f"{value:+.{places}f}" if abs(value) >= 0.05 else "0.0"


def output_rows(comparison: Comparison) -> Iterator[Row]:
    """One row for each output of each variant."""
    for contrast in comparison.contrasts:
        for output in contrast.outputs:
            yield (contrast.variant, output.name, output.datatype, *_output_cells(output))


def _output_cells(output: OutputSimilarity) -> Row:
    return (
        _small(output.max_abs),
        _small(output.mean_abs),
        _small(output.relative),
        "-" if output.cosine is None else f"{output.cosine:.6f}",
        _snr(output),
        "-" if output.top1 is None else _whole_share(output.top1),
        "-" if output.exact is None else _whole_share(output.exact),
    )


def _small(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.2e}"


def _snr(output: OutputSimilarity) -> str:
    if output.is_identical:
        return "identical"
    return "-" if output.snr_db is None else f"{output.snr_db:.1f} dB"


def _whole_share(part: float) -> str:
    """Never 100 % when it is not."""
    return "100 %" if part == 1 else "> 99.9 %" if part > 0.999 else share(part)


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
        ends = (found.percent.low, found.percent.high)
        if None in ends:
            return f"No difference shown between {contrast.variant} and {baseline}: there are too few requests to tell."
        most = max(abs(end) for end in ends if end is not None)
        return (
            f"No difference shown between {contrast.variant} and {baseline}: at {where} {found.metric} differs by "
            f"{most:.1f} % at most."
        )
    word = "faster by some figures and slower by others" if contrast.verdict == MIXED else contrast.verdict
    shown = [row for row in level.differences if row.verdict not in (NO_DIFFERENCE,)] or [found]
    figures = ", ".join(f"{row.metric} {percent(row.percent)}" for row in shown[:2])
    return f"{contrast.variant} is {word} than {baseline}: at {where} {figures}."


def _telling_level(contrast: Contrast) -> LevelDifference | None:
    """The level with a difference that was shown, the last one of them; else the last."""
    shown = [
        level for level in contrast.levels if any(row.verdict != NO_DIFFERENCE for row in level.differences)
    ]
    candidates = shown or list(contrast.levels)
    return candidates[-1] if candidates else None


def title(comparison: Comparison) -> str:
    """What was compared, and how."""
    if not comparison.is_live:
        return f"Saved results against {comparison.baseline}"
    effective = comparison.variants[0].result.effective
    rounds = max((len(level) for level in comparison.variants[0].turns), default=0)
    words = [
        f"{plural(len(comparison.contrasts), 'variant')} against {comparison.baseline}",
        f"{effective.get('service_kind', '')} {effective.get('protocol', '')}".strip(),
        f"batch {effective.get('batch', 1)}",
        f"{plural(rounds, 'round')} in turns",
    ]
    return " · ".join(word for word in words if word)


def _footnote(comparison: Comparison) -> str:
    return f"All intervals hold together with {share(comparison.confidence)} confidence."


def _remarks(comparison: Comparison) -> Iterator[str]:
    for contrast in comparison.contrasts:
        if contrast.outputs_note and comparison.is_live:
            yield f"{contrast.variant}: outputs were not compared: {contrast.outputs_note}"
        for output in contrast.outputs:
            where = f"{contrast.variant}: output '{output.name}'"
            if output.problem:
                yield f"{where}: {output.problem}"
            if output.non_finite:
                yield f"{where}: {plural(output.non_finite, 'element')} with NaN or infinity on one side only"
    yield from comparison.notes


# --- console


def render(comparison: Comparison, console: Console) -> None:
    """The whole report of a comparison."""
    width = max(WIDTH, console.width) if not console.is_terminal else console.width
    console.print(terminal(first_line(title(comparison)), style="bold"), width=width)
    for label in dict.fromkeys(row[0] for row in speed_rows(comparison)):
        console.print(terminal(f"At {label}"), width=width)
        console.print(_speed_table(comparison, label), width=width)
    if any(contrast.outputs for contrast in comparison.contrasts):
        compared = max(output.requests for row in comparison.contrasts for output in row.outputs)
        console.print(
            terminal(f"Outputs of the same {plural(compared, 'request')}", style="bold"), width=width
        )
        console.print(_output_table(comparison), width=width)
    for sentence in sentences(comparison):
        console.print(terminal(first_line(sentence), style="bold"), width=width)
    for gate in comparison.gates:
        console.print(terminal(_gate_line(gate), style=_GATE_STYLES[gate.outcome]), width=width)
    for problem in comparison.problems:
        console.print(terminal(f"✗ {first_line(problem)}", style="red"), width=width)
    for remark in _remarks(comparison):
        console.print(terminal(f"! {first_line(remark, 400)}", style="yellow"), width=width)
    console.print(terminal(_footnote(comparison), style="dim"), width=width)
    if comparison.gates or comparison.problems:
        console.print(terminal(_OUTCOMES[comparison.outcome], style="bold"), width=width)


def _gate_line(gate: GateOutcome) -> str:
    return first_line(
        f"{_MARKS[gate.outcome]} {gate.variant}: {gate.text}: {gate.outcome}, {gate.found}", 400
    )


def _speed_table(comparison: Comparison, label: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in SPEED_HEAD[1:]:
        table.add_column(name, justify="right" if name in ("Baseline", "Variant's") else "left")
    before = ""
    for _, variant, *cells, verdict in (row for row in speed_rows(comparison) if row[0] == label):
        name, before = "" if variant == before else variant, variant
        shown = (terminal(first_line(cell)) for cell in (name, *cells))
        table.add_row(*shown, terminal(verdict, style=_STYLES.get(verdict, "")))
    return table


def _output_table(comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in OUTPUT_HEAD:
        table.add_column(name, justify="left" if name in OUTPUT_HEAD[:3] else "right")
    for row in output_rows(comparison):
        table.add_row(*(terminal(first_line(cell)) for cell in row))
    return table


# --- Markdown


def to_markdown(comparison: Comparison) -> str:
    """Tables for a pull request."""
    lines = [f"**{_safe(title(comparison))}**", ""]
    lines += _markdown_table(SPEED_HEAD, speed_rows(comparison))
    if any(contrast.outputs for contrast in comparison.contrasts):
        lines += _markdown_table(OUTPUT_HEAD, output_rows(comparison))
    lines += [_safe(sentence) + "  " for sentence in sentences(comparison)]
    lines += [""] if comparison.contrasts else []
    lines += [f"- {_safe(_gate_line(gate))}" for gate in comparison.gates]
    lines += [f"- ✗ {_safe(problem)}" for problem in comparison.problems]
    lines += [f"- {_safe(remark)}" for remark in _remarks(comparison)]
    if comparison.gates or comparison.problems:
        lines += ["", f"**{_OUTCOMES[comparison.outcome]}**"]
    lines += ["", f"<sub>{_footnote(comparison)}</sub>"]
    return "\n".join(lines) + "\n"


def _markdown_table(head: Row, rows: Iterator[Row]) -> list[str]:
    body = ["| " + " | ".join(_safe(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body, ""]


def _safe(text: str) -> str:
    """Names of models are text, whatever is in them."""
    return markdown(first_line(text, 400))


# --- JUnit


def to_junit(comparison: Comparison) -> str:
    """One test case for each condition and variant, one for the validity of the whole."""
    cases = [_validity(comparison), *map(_gate_case, comparison.gates)]
    count = {
        kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")
    }
    suite = ET.Element(
        "testsuite",
        name="inferometer compare",
        tests=str(len(cases)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
        timestamp=xml(comparison.started_at),
    )
    suite.extend(cases)
    output = ET.SubElement(suite, "system-out")
    output.text = xml("\n".join(sentences(comparison)))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _validity(comparison: Comparison) -> ET.Element:
    case = ET.Element("testcase", classname=xml(comparison.baseline), name="the comparison is valid")
    if comparison.problems:
        text = xml("\n".join(comparison.problems))
        ET.SubElement(case, "error", message=xml(first_line(comparison.problems[0]))).text = text
    return case


def _gate_case(gate: GateOutcome) -> ET.Element:
    case = ET.Element("testcase", classname=xml(gate.variant), name=xml(f"not {gate.text}"))
    if gate.outcome == FAILED:
        ET.SubElement(case, "failure", message=xml(f"{gate.text}: {gate.found}"))
    elif gate.outcome == INCONCLUSIVE:
        ET.SubElement(case, "skipped", message=xml(f"inconclusive: {gate.found}"))
    return case
