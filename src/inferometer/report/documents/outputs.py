"""How alike the outputs of two variants are."""

from collections.abc import Callable

from inferometer.compare.comparison import Comparison, OutputSimilarity
from inferometer.report.document import Column, Section, Table
from inferometer.report.format import share

_NUMBERS = ("Requests", "Same", "Largest error", "Mean error", "Relative", "Cosine", "SNR", "Top-1")


def outputs_section(comparison: Comparison) -> Section | None:
    """One row for each output of each variant; None where outputs were not compared."""
    rows = tuple(
        (contrast.variant, f"{row.name} ({row.datatype})", *_cells(row), _words(row))
        for contrast in comparison.contrasts
        for row in contrast.outputs
    )
    if not rows:
        return None
    columns = (
        *(Column(name, is_number=False) for name in ("Variant", "Output")),
        *map(Column, _NUMBERS),
        Column("Verdict", is_number=False),
    )
    lead = f"The same inputs to {comparison.baseline} and to each variant; errors are against {comparison.baseline}."
    return Section("outputs", "How alike the outputs are", lead, (Table("Outputs", columns, rows),))


def _cells(row: OutputSimilarity) -> tuple[str, ...]:
    return (
        str(row.requests),
        _maybe(row.exact, share),
        _maybe(row.max_abs, _small),
        _maybe(row.mean_abs, _small),
        _maybe(row.relative, _small),
        _maybe(row.cosine, lambda value: f"{value:.6f}"),
        _maybe(row.snr_db, lambda value: f"{value:.1f} dB"),
        _maybe(row.top1, share),
    )


def _maybe(value: float | None, text: Callable[[float], str]) -> str:
    return "-" if value is None else text(value)


def _small(value: float) -> str:
    return f"{value:.3g}"


def _words(row: OutputSimilarity) -> str:
    if row.problem:
        return row.problem
    words = "identical" if row.is_identical else "differs"
    return f"{words}, {row.non_finite} not finite on one side" if row.non_finite else words
