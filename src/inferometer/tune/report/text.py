"""A study in a few lines of text."""

from inferometer.report.format import plural
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune import model_config
from inferometer.tune.report.facts import count, load_text, number_text
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study, recommend
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import ModelVariant


def trial_line(trial: Trial) -> str:
    """One trial as it ended."""
    at = f"{trial.name}, {load_text(trial)}"
    if trial.status is not Status.MEASURED:
        return f"{at}: {trial.reason}"
    return f"{at}: {_figures(trial)}"


def _figures(trial: Trial) -> str:
    rate, p99 = trial.combined(THROUGHPUT), trial.combined(LATENCY_P99)
    figures = [f"{rate:.1f} infer/s"] if rate is not None else []
    figures += [f"p99 {p99:.2f} ms"] if p99 is not None else []
    return ", ".join(figures) or "no throughput, no latency"


def summary(study: Study) -> str:
    """The best variants against the default, and the sentence that recommends one."""
    lines = [sentence(study), ""]
    rows = _rows(study)
    if rows:
        lines += _table(study, rows)
    return "\n".join([*lines, *_rest(study)])


def sentence(study: Study) -> str:
    """Which variant, at which load, how much better than the default, and whether that is sure."""
    found = recommend(study)
    if found is None:
        return f"No figures were obtained for {study.name}."
    best = found.best
    measured = plural(len(study.ranked), "configuration")
    head = f"{best.name} is the best of {measured} measured ({plural(count(study), 'measurement')}): "
    head += f"{_figures(best.best)} at {load_text(best.best)}."
    if not found.does_pass:
        return f"No configuration keeps the constraints. {head}"
    if best.name == study.default_name:
        return f"{head} It is the model's own configuration: leave it as it is."
    if found.gain_percent is None:
        why = "does not keep the constraints" if found.has_default else "gave no measurement to compare with"
        return f"{head} The model's own configuration {why}."
    if found.gain_percent <= 0 or not found.is_sure:
        return f"{head} It is not surely better than the model's own configuration."
    return f"{head} That is {found.gain_percent:.0f} % better than the model's own configuration."


def _rows(study: Study) -> list[RankedVariant]:
    ranked = study.ranked
    rows = list(ranked[:3])
    default = next((row for row in ranked if row.name == study.default_name), None)
    return rows if default is None or default in rows else [*rows, default]


def _table(study: Study, rows: list[RankedVariant]) -> list[str]:
    heads = ("configuration", "instances", "max batch", "load", "infer/s", "p99 ms", "constraints")
    cells = [
        (
            row.name,
            *_shape([study.variant(name) for name in row.name.split(",")]),
            load_text(row.best),
            number_text(row.best.combined(THROUGHPUT), 1),
            number_text(row.best.combined(LATENCY_P99), 2),
            "kept" if row.does_pass else "broken",
        )
        for row in rows
    ]
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *cells)
    ]


def _shape(variants: list[ModelVariant]) -> tuple[str, str]:
    counts = ", ".join(str(model_config.total_instances(variant.config)) for variant in variants)
    sizes = ", ".join(str(model_config.max_batch_size(variant.config)) for variant in variants)
    return counts, sizes


def _rest(study: Study) -> list[str]:
    failed = [trial for trial in study.not_done if trial.status is Status.FAILED]
    skipped = [trial for trial in study.not_done if trial.status is Status.SKIPPED]
    lines = [""]
    lines += [f"failed: {trial_line(trial)}" for trial in failed]
    if skipped:
        lines.append(f"not measured: {len(skipped)} (see the study for the reason of each)")
    lines += [f"The search ended because {study.ended}."] if study.ended else []
    return lines
