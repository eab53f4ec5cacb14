"""The classic folder layout below the export path: results, plots, reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from inferometer.base.answer_file import to_json
from inferometer.dialects.model_analyzer import picture, tables
from inferometer.dialects.model_analyzer.config import LLM, Config
from inferometer.dialects.model_analyzer.report_files import ReportFiles
from inferometer.dialects.model_analyzer.values import Plot
from inferometer.report.document import Chart, Document, Table
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.report import detailed, facts
from inferometer.tune.report.charts import curves
from inferometer.tune.report.study import ACROSS_MODELS, across_document, study_document
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study, recommend

Warn = Callable[[str], None]

ALL_FORMATS = ("pdf", "html", "md")


def sheets(config: Config, studies: Sequence[Study]) -> tuple[tables.Sheet, tables.Sheet, tables.Sheet]:
    return (
        tables.inference(studies, config.inference_output_fields, has_tokens=config.model_type == LLM),
        tables.gpu(studies, config.gpu_output_fields, always=config.always_report_gpu_metrics),
        tables.server(studies, config.server_output_fields),
    )


def write_tables(config: Config, studies: Sequence[Study], files: ReportFiles, warn: Warn) -> None:
    inference, gpu, server = sheets(config, studies)
    kinds = (
        ("Inference", inference, config.filename_model_inference, True),
        ("GPU", gpu, config.filename_model_gpu, False),
        ("Server", server, config.filename_server_only, False),
    )
    for noun, sheet, name, always in kinds:
        if not sheet.rows and not always:
            continue
        for field in sheet.missing:
            warn(f'{noun} output field "{field}", has no data')
        files.text(config.export_path / "results" / name, sheet.csv())


def write_summaries(config: Config, studies: Sequence[Study], files: ReportFiles, warn: Warn) -> None:
    """Plots, reports, the study and the recommended configuration of each model."""
    for study in studies:
        warning = shortage(study, config.num_configs_per_model)
        if warning is not None:
            warn(warning)
        rows = facts.selected(study, config.num_configs_per_model)
        for name, drawing in _summary_plots(study, rows, with_gpus=config.always_report_gpu_metrics):
            path = config.export_path / "plots" / "simple" / study.name / f"{name}.png"
            files.png(path, drawing, width=picture.WIDTH, height=picture.HEIGHT)
        folder = config.export_path / "reports" / "summaries" / study.name
        _write(summary(config, study), folder / "result_summary", ALL_FORMATS, files)
        files.text(folder / "study.json", to_json(study))
        for path, text in _recommended(study, folder):
            files.text(path, text)
    if config.num_top_model_configs and studies:
        folder = config.export_path / "reports" / "summaries" / ACROSS_MODELS
        document = replace(across_document(studies, config.num_top_model_configs), title=title(studies[0]))
        _write(document, folder / "result_summary", ALL_FORMATS, files)


def summary(config: Config, study: Study) -> Document:
    """The study's document under the classic title."""
    document = study_document(
        study,
        config.num_configs_per_model,
        has_own_objectives=config.has("objectives"),
        with_gpus=config.always_report_gpu_metrics,
    )
    words = (f"Model: {facts.models(study)}", *document.facts)
    return replace(document, title=title(study), facts=words)


def title(study: Study) -> str:
    return "Offline Result Summary" if study.mode == "offline" else "Online Result Summary"


def shortage(study: Study, top: int) -> str | None:
    """The warning when there are fewer good variants than asked for."""
    passing = [row for row in study.ranked if row.does_pass]
    if not study.ranked:
        return None  # the sentence says it
    if not passing:
        return (
            f"Requested top {top} configs, but none satisfied constraints. "
            "Showing available constraint failing configs for this model."
        )
    if len(passing) < top:
        if len(passing) == len(study.ranked):
            return (
                f"Requested top {top} configs, but found only {len(passing)}. "
                "Showing all available configs for this model."
            )
        return f"Requested top {top} configs, but found only {len(passing)} that satisfied constraints."
    return None


def _recommended(study: Study, folder: Path) -> Iterator[tuple[Path, str]]:
    """`config.pbtxt` of the best variant; of several models in a folder each."""
    found = recommend(study)
    if found is None:
        return
    variants = [part for row in facts.variants_of(study, found.best.name) for part in row.with_members]
    for variant in variants:
        place = folder / variant.model if len(variants) > 1 else folder
        yield place / "config.pbtxt", variant.text


def _summary_plots(
    study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool
) -> Iterator[tuple[str, str]]:
    if study.mode == "offline":
        wanted = [Plot("through_v_batch_size", "Throughput vs. Batch Size", "batch_size", THROUGHPUT)]
    else:
        wanted = [
            Plot("throughput_v_latency", "Throughput vs. Latency", LATENCY_P99, THROUGHPUT, monotonic=True)
        ]
        is_cpu = all(variant.cpu_only for row in rows for variant in facts.variants_of(study, row.name))
        if is_cpu and not with_gpus:
            wanted.append(Plot("cpu_mem_v_latency", "CPU Memory vs. Latency", LATENCY_P99, "cpu_used_ram"))
        else:
            wanted.append(Plot("gpu_mem_v_latency", "GPU Memory vs. Latency", LATENCY_P99, "gpu_used_memory"))
    yield from _drawn(study, rows, wanted)


def _drawn(study: Study, rows: Sequence[RankedVariant], wanted: Sequence[Plot]) -> Iterator[tuple[str, str]]:
    for row in wanted:
        drawing = picture.plot(study, rows, row.title, row.x, row.y, monotonic=row.monotonic)
        if drawing is not None:
            yield row.name, drawing


def write_detailed(
    config: Config,
    study: Study,
    name: str,
    files: ReportFiles,
    *,
    plots: Sequence[Plot] | None = None,
    formats: Sequence[str] = ALL_FORMATS,
) -> None:
    """Report and pictures of one variant."""
    export, with_gpus = config.export_path, config.always_report_gpu_metrics
    plots = config.plots if plots is None else plots
    ranked = detailed.find(study, name)
    wants_pictures = bool({"pdf", "html", "png", "md"} & set(formats))
    (variant,) = facts.variants_of(study, name)
    usual = detailed.plots(study, with_gpus=with_gpus or not variant.cpu_only)
    chosen = [Plot(*row) for row in usual] if plots is None else plots
    if wants_pictures:
        for plot_name, drawing in _drawn(study, [ranked], chosen):
            path = export / "plots" / "simple" / name / f"{plot_name}.png"
            files.png(path, drawing, width=picture.WIDTH, height=picture.HEIGHT)
        breakdown = picture.latency_breakdown(ranked) if study.mode != "offline" else None
        if breakdown is not None:
            path = export / "plots" / "detailed" / name / "latency_breakdown.png"
            files.png(path, breakdown, width=picture.BREAKDOWN_WIDTH, height=picture.BREAKDOWN_HEIGHT)
    extra: list[Chart] = []
    for row in plots or ():
        chart = curves(study, [ranked], row.x, row.y, row.title, monotonic=row.monotonic)
        extra += [chart] if chart is not None else []
    document = detailed.detailed(study, name, with_gpus=with_gpus, extra=extra)
    stem = export / "reports" / "detailed" / name / "detailed_report"
    _write(document, stem, formats, files)
    if "csv" in formats:
        table = detailed.measurements(study, ranked, with_gpus=with_gpus or not variant.cpu_only)
        files.text(stem.with_suffix(".csv"), _csv(table))


def _csv(table: Table) -> str:
    sheet = tables.Sheet("", tuple(column.name for column in table.columns), table.rows)
    return sheet.csv()


def _write(document: Document, stem: Path, formats: Sequence[str], files: ReportFiles) -> None:
    """The page is written with the PDF too, so that there is a report where no browser is installed."""
    if {"pdf", "html"} & set(formats):
        page = render(document)
        files.text(stem.with_suffix(".html"), page)
        if "pdf" in formats:
            files.pdf(stem.with_suffix(".pdf"), page)
    if "md" in formats:
        files.text(stem.with_suffix(".md"), markdown(document))


def best_names(study: Study, top: int) -> tuple[str, ...]:
    """Variants that get a detailed report: the best ones, not when models were loaded together."""
    if len(study.models) > 1:
        return ()
    return tuple(row.name for row in facts.selected(study, top)[:top])
