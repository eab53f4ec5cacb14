"""Runs in MLflow's folder format ("file store", `mlruns`), so that MLflow shows them next to other runs.

    DIR/<experiment>/meta.yaml                        one experiment, `inferometer`, for all runs
    DIR/<experiment>/<run>/meta.yaml
                          /params/NAME                a text: command, model, server ...
                          /metrics/NAME               a line `milliseconds value step` for each value
                          /tags/NAME
                          /artifacts/                 answer.json, report.html

Figures of the whole run have step 0. Those of its levels are under `levels/`: their step is the load if all loads are
different whole numbers, so that MLflow draws a curve over it, and otherwise the number of the level.
"""

import hashlib
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.reading import CONFIG, read_text
from inferometer.base.writing import write_file, writing
from inferometer.base.yaml_text import YamlError, load_yaml
from inferometer.report.saved import read, write_page
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import named
from inferometer.store.run import FAILED, FINISHED, KILLED, QUEUED, RUNNING, Point, Run

EXPERIMENT = "inferometer"
STATUS = {RUNNING: 1, QUEUED: 2, FINISHED: 3, FAILED: 4, KILLED: 5}
LONGEST = 6000  # most characters of a param
_UNITS = {"infer/sec": "per_s", "%": "percent"}
_Lines = dict[str, list[str]]


def export_run(run: Run, answer: Path, folder: Path) -> Path:
    """Write a run with its answer, if any, to an MLflow folder, which is created if missing. Return the folder of the
    run; an earlier export of it is replaced."""
    with writing(folder):
        experiment = _experiment(folder.resolve(), round(1000 * run.started_s))
        target = experiment / mlflow_id(run)
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        _write(run, answer, partial, target)
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
    return target


def mlflow_id(run: Run) -> str:
    """The id of the run in MLflow, which starts with our id and is the same for every export."""
    identity = f"{run.id} {run.host} {run.started_at}"
    return run.id + hashlib.sha256(identity.encode()).hexdigest()[: 32 - len(run.id)]


def _experiment(folder: Path, started_ms: int) -> Path:
    """The folder of the experiment, which MLflow may have created."""
    for path in sorted(folder.glob("*/meta.yaml")):
        with suppress(YamlError, UsageError):  # a foreign file
            found = load_yaml(read_text(path, CONFIG, "the experiment"))
            if isinstance(found, dict) and found.get("name") == EXPERIMENT:
                return path.parent
    made = folder / str(int(hashlib.sha256(EXPERIMENT.encode()).hexdigest(), 16) % 10**18)
    made.mkdir(parents=True)
    _write_yaml(
        made / "meta.yaml",
        {
            "artifact_location": made.as_uri(),
            "creation_time": started_ms,
            "experiment_id": made.name,
            "last_update_time": started_ms,
            "lifecycle_stage": "active",
            "name": EXPERIMENT,
        },
    )
    return made


def _write(run: Run, answer: Path, folder: Path, target: Path) -> None:
    for part in ("params", "metrics", "tags", "artifacts"):
        (folder / part).mkdir()
    _write_yaml(folder / "meta.yaml", _meta(run, target))
    for name, text in _params(run):
        write_file(folder / "params" / name, text[:LONGEST])
    for name, text in _tags(run):
        write_file(folder / "tags" / name, text)
    for name, lines in _metrics(run).items():
        path = folder / "metrics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, "".join(f"{line}\n" for line in lines))
    if answer.exists():
        shutil.copyfile(answer, folder / "artifacts" / "answer.json")
        with suppress(InferometerError):  # a killed run may only have its answer
            write_page(folder / "artifacts" / "report.html", read(answer))


def _meta(run: Run, target: Path) -> dict[str, Any]:
    return {
        "artifact_uri": (target / "artifacts").as_uri(),
        "end_time": None if run.ended_at is None else _milliseconds(run.ended_at),
        "entry_point_name": "",
        "experiment_id": target.parent.name,
        "lifecycle_stage": "active",
        "run_id": target.name,
        "run_name": _title(run),
        "source_name": "",
        "source_type": 4,  # local
        "source_version": "",
        "start_time": _milliseconds(run.started_at),
        "status": STATUS[run.state],
        "tags": [],
        "user_id": EXPERIMENT,
    }


def _title(run: Run) -> str:
    return " ".join(filter(None, (run.command, run.model, run.id)))


def _params(run: Run) -> Iterator[tuple[str, str]]:
    for name in ("id", "command", "model", "server", "url", "host", "host_class", "commit"):
        if value := getattr(run, name):
            yield name, value
    if run.words:
        yield "command_line", shlex.join(("inferometer", *run.words))


def _tags(run: Run) -> Iterator[tuple[str, str]]:
    yield "mlflow.runName", _title(run)
    yield "mlflow.source.name", EXPERIMENT
    yield "mlflow.source.type", "LOCAL"
    yield "mlflow.user", EXPERIMENT
    if run.commit:
        yield "mlflow.source.git.commit", run.commit.rstrip("+")
    if run.verdict:
        yield "mlflow.note.content", run.verdict
    for tag in run.tags:
        yield f"tag.{_name(tag)}", "true"


# --- figures


def _metrics(run: Run) -> _Lines:
    ended_ms = _milliseconds(run.ended_at or run.started_at)
    found: _Lines = {}
    _add(found, "", run.figures, f"{ended_ms} {{}} 0")
    for step, point in zip(_steps(run.points), run.points, strict=True):
        # Variants of a comparison share the same loads; trials of the tuner are one series.
        under = f"levels/{_name(point.variant)}/" if run.command == "compare" else "levels/"
        line = f"{ended_ms} {{}} {step}"
        found.setdefault(f"{under}load", []).append(line.format(point.value))
        _add(found, under, point.figures, line)
    return found


def _add(found: _Lines, under: str, figures: Mapping[str, Estimate], line: str) -> None:
    for name, estimate in figures.items():
        for end, value in _ends(estimate):
            found.setdefault(f"{under}{_metric_name(name)}{end}", []).append(line.format(value))


def _ends(estimate: Estimate) -> Iterable[tuple[str, float]]:
    yield "", estimate.value
    if estimate.limits is not None:
        yield from zip(("_low", "_high"), estimate.limits, strict=True)


def _steps(points: Sequence[Point]) -> Sequence[int]:
    by_variant: Mapping[str, list[float]] = {row.variant: [] for row in points}
    for row in points:
        by_variant[row.variant].append(row.value)
    are_loads = len({row.mode for row in points}) == 1 and all(
        len(set(values)) == len(values) and all(value.is_integer() for value in map(float, values))
        for values in by_variant.values()
    )
    return [round(row.value) for row in points] if are_loads else range(1, len(points) + 1)


def _metric_name(name: str) -> str:
    metric = named(name)
    unit = "" if metric is None else _UNITS.get(metric.unit, metric.unit)
    return _name("_".join(filter(None, (name, unit)))).replace(" ", "_")


def _name(text: str) -> str:
    """A valid file name that MLflow accepts."""
    return re.sub(r"[^\w.\- ]", "_", text).strip(". ") or "_"


def _milliseconds(moment: str) -> int:
    try:
        return round(1000 * datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return 0


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    write_file(path, yaml.safe_dump(dict(content), allow_unicode=True))
