"""The three tables of a search: all measurements, the GPUs, the idle server."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.dialects.model_analyzer.config import (
    GPU_FIELDS,
    INFERENCE_FIELDS,
    SERVER_FIELDS,
    TOKEN_FIELDS,
)
from inferometer.report.csv import spreadsheet_cell
from inferometer.report.documents import study_facts as facts
from inferometer.stats.figures import BY_TAG, Metric, known_tag
from inferometer.tune.scoring import passes
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Figures, Trial
from inferometer.tune.variant import ModelVariant

SERVER_NAME = "triton-server"
PARAMETER = "backend_parameter/"


@frozen
class Sheet:
    """A table with formatted cells; `missing` are columns without data."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...] = ()

    def csv(self) -> str:
        """Return the table as CSV, with a blank line at the end."""
        sink = io.StringIO()
        rows = [[spreadsheet_cell(text) for text in row] for row in (self.header, *self.rows)]
        csv.writer(sink, lineterminator="\n").writerows(rows)
        return sink.getvalue() + "\n"

    def text(self) -> str:
        """Return the table in columns of fixed width."""
        widths = [max(map(len, column)) + 2 for column in zip(self.header, *self.rows, strict=True)]
        lines = [
            " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.header, *self.rows)
        ]
        return "\n".join([self.title, *lines, ""])


@frozen
class _Row:
    """One measurement, with the GPU of the row."""

    study: Study
    trial: Trial
    gpu: tuple[str, Figures] | None = None

    @property
    def variants(self) -> tuple[ModelVariant, ...]:
        return tuple(self.study.variant(part.variant) for part in self.trial.parts)


def inference(
    studies: Sequence[Study], fields: Sequence[str] | None = None, *, has_tokens: bool = False
) -> Sheet:
    rows = list(_ordered(studies))
    classic = (*INFERENCE_FIELDS, *(TOKEN_FIELDS if has_tokens else ()))
    return _sheet("Models (Inference):", _by_load(fields, classic, rows), rows)


def gpu(studies: Sequence[Study], fields: Sequence[str] | None = None, *, always: bool = False) -> Sheet:
    rows = [
        replace(row, gpu=pair)
        for row in _ordered(studies)
        if always or not all(variant.cpu_only for variant in row.variants)
        for pair in row.trial.gpus
    ]
    return _sheet("Models (GPU Metrics):", _by_load(fields, GPU_FIELDS, rows), rows)


def server(studies: Sequence[Study], fields: Sequence[str] | None = None) -> Sheet:
    rows = [_Row(study, trial, pair) for study in studies[:1] for trial in study.idle for pair in trial.gpus]
    return _sheet("Server Only:", fields or SERVER_FIELDS, rows)


def _ordered(studies: Sequence[Study]) -> Iterator[_Row]:
    """Yield variants from best to worst; within each, trials that meet the constraints come first."""
    for study in studies:
        yield from (_Row(study, trial) for ranked in study.ranked for trial in ranked.trials)


def _by_load(given: Sequence[str] | None, classic: Sequence[str], rows: Sequence[_Row]) -> Sequence[str]:
    """Return the columns; the classic ones have the request rate instead of the concurrency if that is the load."""
    if given is not None:
        return given
    by_rate = any(row.trial.load.request_rate is not None for row in rows)
    return ["request_rate" if by_rate and name == "concurrency" else name for name in classic]


def _sheet(title: str, fields: Sequence[str], rows: Sequence[_Row]) -> Sheet:
    """Return a table without unknown columns and columns without values."""
    header: list[str] = []
    kept: list[list[str]] = []
    missing: list[str] = []
    for field in dict.fromkeys(fields):
        column = _column(field)
        cells = [] if column is None else [column.cell(row) for row in rows]
        if column is None or (rows and all(text is None for text in cells)):
            missing.append(field)
            continue
        header.append(column.header)
        kept.append([text or "" for text in cells])
    texts = tuple(tuple(column[place] for column in kept) for place in range(len(rows)))
    return Sheet(title, tuple(header), texts, tuple(missing))


# --- columns


@frozen
class _Column:
    """A heading, and a function for a row's cell; None if unknown."""

    header: str
    cell: Callable[[_Row], str | None]


def _column(field: str) -> _Column | None:
    if field in _COLUMNS:
        return _COLUMNS[field]
    if field.startswith(PARAMETER):
        return _Column(field, lambda row: _parameter(row, field.removeprefix(PARAMETER)))
    metric = BY_TAG.get(known_tag(field))
    return None if metric is None else _Column(metric.header, lambda row: _figure(metric, row))


def _figure(metric: Metric, row: _Row) -> str | None:
    if metric.of_gpu and row.gpu is not None:
        return _number(row.gpu[1].get(metric.tag))
    combined = row.trial.combined(metric.tag)
    if combined is None or len(row.trial.parts) == 1 or metric.of_gpu:
        return _number(combined)
    each = ",".join(_number(row.trial.value(metric.tag, part)) or "" for part in range(len(row.trial.parts)))
    return f"{_number(combined)}, [{each}]"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _parameter(row: _Row, name: str) -> str | None:
    found = [
        variant.config.get("parameters", {}).get(name, {}).get("string_value") for variant in row.variants
    ]
    return None if all(value is None for value in found) else ",".join(value or "" for value in found)


def _loads(value: Callable[[ClientLoad], object]) -> Callable[[_Row], str | None]:
    """Return a cell with a number of each model's load; None for another kind of load."""

    def cell(row: _Row) -> str | None:
        found = [value(load) for load in row.trial.loads]
        return None if None in found else ",".join(map(str, found))

    return cell


def _each(text: Callable[[ModelVariant], str]) -> Callable[[_Row], str]:
    """Return a cell with a fact about every variant, or about the members of an ensemble."""
    return lambda row: ",".join(text(part) for variant in row.variants for part in variant.working)


def _config_path(row: _Row) -> str:
    return ",".join(
        variant.title if "ensemble_scheduling" in variant.config else variant.name for variant in row.variants
    )


_COLUMNS: Mapping[str, _Column] = {
    "model_name": _Column("Model", lambda row: row.trial.models if row.trial.parts else SERVER_NAME),
    "batch_size": _Column("Batch", _loads(lambda load: load.batch)),
    "concurrency": _Column("Concurrency", _loads(lambda load: load.concurrency)),
    "request_rate": _Column(
        "Request Rate", _loads(lambda load: None if load.request_rate is None else f"{load.request_rate:g}")
    ),
    "model_config_path": _Column("Model Config Path", _config_path),
    "instance_group": _Column("Instance Group", _each(facts.instances)),
    "max_batch_size": _Column("Max Batch Size", _each(facts.batch_size)),
    "satisfies_constraints": _Column(
        "Satisfies Constraints", lambda row: "Yes" if passes(row.study.goals, row.trial) else "No"
    ),
    "gpu_uuid": _Column("GPU UUID", lambda row: None if row.gpu is None else row.gpu[0]),
}
