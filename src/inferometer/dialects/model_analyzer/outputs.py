"""The classic folder layout below the export path: results, plots, reports."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inferometer.base.answer_file import to_json
from inferometer.base.errors import LocalError
from inferometer.base.writing import Outputs, drop_link, write_file, writing
from inferometer.dialects.model_analyzer import picture, tables
from inferometer.dialects.model_analyzer.config import LLM, Config
from inferometer.dialects.model_analyzer.picture import Drawing
from inferometer.dialects.model_analyzer.values import Plot
from inferometer.report.chromium import Tab, browsing, pdf
from inferometer.report.chromium import picture as png
from inferometer.report.document import Document
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents import variant as detailed
from inferometer.report.documents.study import ACROSS_MODELS, across_document, study_document
from inferometer.report.documents.study_charts import curves
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.scoring import RankedVariant
from inferometer.tune.study import Study, recommend

Warn = Callable[[str], None]

ALL_FORMATS = ("pdf", "html", "md")


@dataclass(slots=True)
class ReportFiles:
    """Writer of report files. Pages for PDF and drawings for PNG wait for `print_all`, which renders all of them in
    one browser, since starting it is slow.

    `outputs` collects the files that cannot be written and reports them when settled.
    """

    written: list[Path] = field(default_factory=list)
    outputs: Outputs = field(default_factory=Outputs)
    _jobs: list[tuple[Path, str | Drawing]] = field(default_factory=list)

    def write(self, path: Path, content: str | bytes) -> None:
        self.outputs.attempt(path, lambda: self._write(path, content))

    def _write(self, path: Path, content: str | bytes) -> None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        drop_link(path)
        write_file(path, content)
        self.written.append(path)

    def later(self, path: Path, content: str | Drawing) -> None:
        """Queue a page for PDF, or a drawing for PNG."""
        self._jobs.append((path, content))

    def print_all(self) -> str | None:
        """Render the queue; return a warning if there is no browser, when drawings stay SVG and reports HTML."""
        jobs, self._jobs = self._jobs, []
        if not jobs:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="inferometer-files-") as folder, browsing() as tab:
                for number, (path, content) in enumerate(jobs):
                    self.write(path, _printed(tab, Path(folder) / f"{number}.html", content))
        except LocalError as error:
            for path, content in jobs:
                if isinstance(content, Drawing) and path not in self.written:
                    self.write(path.with_suffix(".svg"), content.svg)
            return f"{error.message}; pictures are SVG and reports are HTML instead ({error.remedy})"
        return None


def _printed(tab: Tab, page: Path, content: str | Drawing) -> bytes:
    if isinstance(content, str):
        write_file(page, content)
        return pdf(tab, page)
    style = "<!doctype html><meta charset='utf-8'><style>*{margin:0}svg{display:block}</style>"
    write_file(page, style + content.svg)
    return png(tab, page, width=content.width, height=content.height)


def write_tables(
    config: Config, studies: Sequence[Study], files: ReportFiles, warn: Warn
) -> tuple[tables.Sheet, ...]:
    """Write the three tables, the first one even if empty."""
    inference = tables.inference(studies, config.inference_output_fields, has_tokens=config.model_type == LLM)
    gpu = tables.gpu(studies, config.gpu_output_fields, always=config.always_report_gpu_metrics)
    server = tables.server(studies, config.server_output_fields)
    for noun, sheet, name in (
        ("Inference", inference, config.filename_model_inference),
        ("GPU", gpu, config.filename_model_gpu),
        ("Server", server, config.filename_server_only),
    ):
        if not sheet.rows and sheet is not inference:
            continue
        for column in sheet.missing:
            warn(f'{noun} output field "{column}", has no data')
        files.write(config.export_path / "results" / name, sheet.csv())
    return inference, gpu, server


def write_summaries(config: Config, studies: Sequence[Study], files: ReportFiles, warn: Warn) -> None:
    """Write plots, reports, the study and the recommended configuration of each model."""
    for study in studies:
        warning = shortage(study, config.num_configs_per_model)
        if warning is not None:
            warn(warning)
        rows = facts.selected(study, config.num_configs_per_model)
        plots = _summary_plots(study, rows, with_gpus=config.always_report_gpu_metrics)
        _draw(plots, study, rows, config.export_path / "plots" / "simple" / study.name, files)
        folder = config.export_path / "reports" / "summaries" / study.name
        _write(summary(config, study), folder / "result_summary", ALL_FORMATS, files)
        files.write(folder / "study.json", to_json(study))
        _write_recommended(study, folder, files)
    if config.num_top_model_configs and studies:
        folder = config.export_path / "reports" / "summaries" / ACROSS_MODELS
        document = replace(across_document(studies, config.num_top_model_configs), title=title(studies[0]))
        _write(document, folder / "result_summary", ALL_FORMATS, files)


def summary(config: Config, study: Study) -> Document:
    """Return the study's document with the classic title."""
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
    """Return the warning if there are fewer good variants than requested."""
    passing = [row for row in study.ranked if row.does_pass]
    if not study.ranked or len(passing) >= top:
        return None  # the verdict of an empty study says it
    if not passing:
        return (
            f"Requested top {top} configs, but none satisfied constraints. "
            "Showing available constraint failing configs for this model."
        )
    found = f"Requested top {top} configs, but found only {len(passing)}"
    if len(passing) < len(study.ranked):
        return f"{found} that satisfied constraints."
    return f"{found}. Showing all available configs for this model."


def _write_recommended(study: Study, folder: Path, files: ReportFiles) -> None:
    """Write the `config.pbtxt` of the best variant; several models get a folder each."""
    found = recommend(study)
    if found is None:
        return
    variants = [part for row in facts.variants_of(study, found.best.name) for part in row.with_members]
    for variant in variants:
        place = folder / variant.model if len(variants) > 1 else folder
        files.write(place / "config.pbtxt", variant.text)


def _summary_plots(study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool) -> list[Plot]:
    if study.mode == "offline":
        return [Plot("through_v_batch_size", "Throughput vs. Batch Size", "batch_size", THROUGHPUT)]
    is_cpu = all(variant.cpu_only for row in rows for variant in facts.variants_of(study, row.name))
    memory = (
        Plot("cpu_mem_v_latency", "CPU Memory vs. Latency", LATENCY_P99, "cpu_used_ram")
        if is_cpu and not with_gpus
        else Plot("gpu_mem_v_latency", "GPU Memory vs. Latency", LATENCY_P99, "gpu_used_memory")
    )
    return [
        Plot("throughput_v_latency", "Throughput vs. Latency", LATENCY_P99, THROUGHPUT, monotonic=True),
        memory,
    ]


def _draw(
    plots: Sequence[Plot], study: Study, rows: Sequence[RankedVariant], folder: Path, files: ReportFiles
) -> None:
    for row in plots:
        drawing = picture.plot(study, rows, row)
        if drawing is not None:
            files.later(folder / f"{row.name}.png", drawing)


def write_detailed(
    config: Config,
    study: Study,
    name: str,
    files: ReportFiles,
    *,
    plots: Sequence[Plot] | None = None,
    formats: Sequence[str] = ALL_FORMATS,
) -> None:
    """Write the report and plots of one variant."""
    export, with_gpus = config.export_path, config.always_report_gpu_metrics
    plots = config.plots if plots is None else plots
    ranked = detailed.find(study, name)
    (variant,) = facts.variants_of(study, name)
    usual = detailed.plots(study, with_gpus=with_gpus or not variant.cpu_only)
    chosen = [Plot(*row) for row in usual] if plots is None else plots
    if set(formats) != {"csv"}:
        _draw(chosen, study, [ranked], export / "plots" / "simple" / name, files)
        breakdown = picture.latency_breakdown(ranked) if study.mode != "offline" else None
        if breakdown is not None:
            files.later(export / "plots" / "detailed" / name / "latency_breakdown.png", breakdown)
    charts = [
        curves(study, [ranked], row.x, row.y, row.title, monotonic=row.monotonic) for row in plots or ()
    ]
    extra = [chart for chart in charts if chart is not None]
    document = detailed.detailed(study, name, with_gpus=with_gpus, extra=extra)
    stem = export / "reports" / "detailed" / name / "detailed_report"
    _write(document, stem, formats, files)
    if "csv" in formats:
        table = detailed.measurements(study, ranked, with_gpus=with_gpus or not variant.cpu_only)
        sheet = tables.Sheet("", tuple(column.name for column in table.columns), table.rows)
        files.write(stem.with_suffix(".csv"), sheet.csv())


def _write(document: Document, stem: Path, formats: Sequence[str], files: ReportFiles) -> None:
    """Write a report; PDF also gets an HTML page, in case no browser is installed."""
    if {"pdf", "html"} & set(formats):
        page = render(document)
        files.write(stem.with_suffix(".html"), page)
        if "pdf" in formats:
            files.later(stem.with_suffix(".pdf"), page)
    if "md" in formats:
        files.write(stem.with_suffix(".md"), markdown(document))


def best_names(study: Study, top: int) -> tuple[str, ...]:
    """Return the variants with a detailed report: the best ones; none if models were loaded together."""
    if len(study.models) > 1:
        return ()
    return tuple(row.name for row in facts.selected(study, top)[:top])
