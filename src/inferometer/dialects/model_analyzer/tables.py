"""The three tables of a search: every measurement, the GPUs, the empty server. Pure."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer.dialects.model_analyzer.config import (
    GPU_FIELDS,
    INFERENCE_FIELDS,
    SERVER_FIELDS,
    TOKEN_FIELDS,
)
from inferometer.report.csv import spreadsheet_cell
from inferometer.stats.figures import BY_TAG, known_tag
from inferometer.tune import model_config
from inferometer.tune.report import facts
from inferometer.tune.scoring import passes
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Figures, Trial
from inferometer.tune.variant import ModelVariant

SERVER_NAME = "triton-server"
PARAMETER = "backend_parameter/"

HEADERS = {
    "model_name": "Model",
    "batch_size": "Batch",
    "concurrency": "Concurrency",
    "request_rate": "Request Rate",
    "model_config_path": "Model Config Path",
    "instance_group": "Instance Group",
    "max_batch_size": "Max Batch Size",
    "satisfies_constraints": "Satisfies Constraints",
    "gpu_uuid": "GPU UUID",
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with its ready texts; `missing` are columns nothing is known for."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...] = ()

    def csv(self) -> str:
        """With a blank line at the end."""
        sink = io.StringIO()
        rows = [[spreadsheet_cell(text) for text in row] for row in (self.header, *self.rows)]
        csv.writer(sink, lineterminator="\n").writerows(rows)
        return sink.getvalue() + "\n"

    def text(self) -> str:
        """In columns of fixed width."""
        widths = [
            max(len(row[place]) for row in (self.header, *self.rows)) + 2 for place in range(len(self.header))
        ]
        lines = [
            " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.header, *self.rows)
        ]
        return "\n".join([self.title, *lines, ""])


@dataclass(frozen=True, slots=True)
class _Row:
    """One measurement, with the GPU the line is about."""

    study: Study
    trial: Trial
    gpu: tuple[str, Figures] | None = None


def inference(
    studies: Sequence[Study], fields: Sequence[str] | None = None, *, has_tokens: bool = False
) -> Sheet:
    rows = [_Row(study, trial) for study in studies for trial in ordered(study)]
    classic = (*INFERENCE_FIELDS, *(TOKEN_FIELDS if has_tokens else ()))
    return _sheet("Models (Inference):", _by_load(fields, classic, rows), rows)


def gpu(studies: Sequence[Study], fields: Sequence[str] | None = None, *, always: bool = False) -> Sheet:
    rows = [
        _Row(study, trial, pair)
        for study in studies
        for trial in ordered(study)
        if always or not is_cpu_only(study, trial)
        for pair in trial.gpus
    ]
    return _sheet("Models (GPU Metrics):", _by_load(fields, GPU_FIELDS, rows), rows)


def server(studies: Sequence[Study], fields: Sequence[str] | None = None) -> Sheet:
    rows = [_Row(study, trial, pair) for study in studies[:1] for trial in study.idle for pair in trial.gpus]
    return _sheet("Server Only:", fields or SERVER_FIELDS, rows)


def ordered(study: Study) -> Iterator[Trial]:
    """Variants from best to worst; of each first what keeps the constraints, best first."""
    for ranked in study.ranked:
        yield from ranked.trials


def variants_of(study: Study, trial: Trial) -> tuple[ModelVariant, ...]:
    return tuple(study.variant(part.variant) for part in trial.parts)


def is_cpu_only(study: Study, trial: Trial) -> bool:
    return all(variant.cpu_only for variant in variants_of(study, trial))


def _by_load(given: Sequence[str] | None, classic: Sequence[str], rows: Sequence[_Row]) -> Sequence[str]:
    """The classic columns have the request rate in place of the concurrency where that is the load."""
    if given is not None:
        return given
    by_rate = any(row.trial.load.request_rate is not None for row in rows)
    return ["request_rate" if by_rate and name == "concurrency" else name for name in classic]


def _sheet(title: str, fields: Sequence[str], rows: Sequence[_Row]) -> Sheet:
    columns = {field: [_cell(field, row) for row in rows] for field in fields}
    missing = tuple(
        field
        for field, cells in columns.items()
        if _header(field) is None or (rows and all(cell is None for cell in cells))
    )
    kept = [field for field in columns if field not in missing]
    return Sheet(
        title,
        tuple(_header(field) or field for field in kept),
        tuple(tuple(columns[field][place] or "" for field in kept) for place in range(len(rows))),
        missing,
    )


def _header(field: str) -> str | None:
    if field in HEADERS:
        return HEADERS[field]
    if field.startswith(PARAMETER):
        return field
    metric = BY_TAG.get(known_tag(field))
    return None if metric is None else metric.header


def _cell(field: str, row: _Row) -> str | None:
    maker = _MAKERS.get(field)
    if maker is not None:
        return maker(row)
    if field.startswith(PARAMETER):
        return _parameter(row, field.removeprefix(PARAMETER))
    metric = BY_TAG.get(known_tag(field))
    if metric is None:
        return None
    if metric.of_gpu and row.gpu is not None:
        return _number(row.gpu[1].get(metric.tag))
    combined = row.trial.combined(metric.tag)
    if combined is None or len(row.trial.parts) == 1 or metric.of_gpu:
        return _number(combined)
    each = ",".join(_number(row.trial.value(metric.tag, part)) or "" for part in range(len(row.trial.parts)))
    return f"{_number(combined)}, [{each}]"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _each(row: _Row, text: Callable[[ModelVariant], str]) -> str:
    return ",".join(text(variant) for variant in variants_of(row.study, row.trial))


def _model(row: _Row) -> str:
    return row.trial.models if row.trial.parts else SERVER_NAME


def _loads(row: _Row, value: Callable[[ClientLoad], object]) -> str | None:
    """A number of the load of each model; nothing where the load is of another kind."""
    found = [value(load) for load in row.trial.loads]
    return None if None in found else ",".join(map(str, found))


def _is_ensemble(variant: ModelVariant) -> bool:
    return "ensemble_scheduling" in variant.config


def instance_group(variant: ModelVariant) -> str:
    return facts.instances(variant).replace(", ", ",")


def max_batch(variant: ModelVariant) -> str:
    if _is_ensemble(variant) and variant.composing:
        return ",".join(max_batch(part) for part in variant.composing)
    return str(model_config.max_batch_size(variant.config))


def _parameter(row: _Row, name: str) -> str | None:
    found = [
        variant.config.get("parameters", {}).get(name, {}).get("string_value")
        for variant in variants_of(row.study, row.trial)
    ]
    return None if all(value is None for value in found) else ",".join(value or "" for value in found)


_MAKERS: Mapping[str, Callable[[_Row], str | None]] = {
    "model_name": _model,
    "batch_size": lambda row: _loads(row, lambda load: load.batch),
    "concurrency": lambda row: _loads(row, lambda load: load.concurrency),
    "request_rate": lambda row: _loads(
        row, lambda load: None if load.request_rate is None else f"{load.request_rate:g}"
    ),
    "model_config_path": lambda row: _each(
        row, lambda variant: variant.title if _is_ensemble(variant) else variant.name
    ),
    "instance_group": lambda row: _each(row, instance_group),
    "max_batch_size": lambda row: _each(row, max_batch),
    "satisfies_constraints": lambda row: "Yes" if passes(row.study.goals, row.trial) else "No",
    "gpu_uuid": lambda row: None if row.gpu is None else row.gpu[0],
}
