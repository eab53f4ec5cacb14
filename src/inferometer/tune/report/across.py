"""The best variants of all models in one summary."""

from collections.abc import Sequence

from inferometer.report.document import Column, Document, Section, Table
from inferometer.report.format import plural
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.report import facts
from inferometer.tune.study import Study

NAME = "Best Configs Across All Models"


def across(studies: Sequence[Study], top: int) -> Document:
    """Variants of different models are ordered by throughput, those that keep their constraints first."""
    found = [(study, row) for study in studies for row in study.ranked]
    found.sort(key=lambda pair: (not pair[1].does_pass, -(pair[1].best.combined(THROUGHPUT) or 0.0)))
    shown = found[:top]
    heads = ("Model", "Model Config Name", "Max Batch Size", "Total Instance Count", "p99 Latency (ms)",
             "Throughput (infer/sec)", "Satisfies Constraints")  # fmt: skip
    cells = tuple(
        (
            study.name,
            row.name,
            facts.each(study, row.name, facts.batch_size),
            facts.each(study, row.name, facts.instances),
            facts.number_text(row.best.combined(LATENCY_P99), 2),
            facts.number_text(row.best.combined(THROUGHPUT), 1),
            "Yes" if row.does_pass else "No",
        )
        for study, row in shown
    )
    columns = tuple(Column(head, is_number=place > 1, is_name=place <= 1) for place, head in enumerate(heads))
    names = " and ".join(study.name for study in studies)
    return Document(
        kind="search for a configuration",
        title=facts.title(studies[0]),
        facts=(f"Models: {names}",),
        verdict=f"The best {plural(len(shown), 'configuration')} of all models, out of {len(found)} measured.",
        sections=(Section("best", NAME, "", (Table(NAME, columns, cells),)),),
        tool=studies[0].tool,
    )
