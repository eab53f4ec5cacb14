"""Forecasts of a twin next to the measurements: one row per model and load, and the verdicts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inferometer.base.answer_file import read
from inferometer.base.units import duration, quantity
from inferometer.stats.result import Result
from inferometer.twin.check import checked_together
from inferometer.twin.fit import fit_twin, load_part
from inferometer.twin.twin import THROUGHPUT, LoadForecast, Twin, TwinLoad

WITHIN = {THROUGHPUT: 0.15, "p99": 0.30}
COVERED = 0.8
POINTS = 40
FIT = "fit-"
HEAD = ("predicted", "90 % interval", "measured", "off", "inside")


def saved(folder: Path) -> tuple[list[Result], list[list[Result]]]:
    """Results for the fit, with the batch before the loads, and the held-out results."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.[0-9].json")):
        groups.setdefault(path.name.rpartition(".")[0].rpartition(".")[0], []).append(path)
    read_all = {name: [read(path, Result) for path in paths] for name, paths in groups.items()}
    fits = sorted((name for name in read_all if name.startswith(FIT)), key=_batches_first)
    held = [found for name, found in read_all.items() if not name.startswith(FIT)]
    return [row for name in fits for row in read_all[name]], held


def _batches_first(name: str) -> tuple[str, bool]:
    """Sort key that puts batches first: the twin takes the settings of its last run, with one inference per request."""
    model, _, batch = name.rpartition("-b")
    return (model, False) if model and batch.isdecimal() else (name, True)


def judged(folder: Path) -> tuple[Twin, list[LoadForecast], list[Result]]:
    """Fit a twin to the results in a folder, and judge its forecasts of the held-out loads."""
    fits, held = saved(folder)
    twin = fit_twin(fits)
    rows = [row for results in held for row in checked(twin, results)]
    return twin, rows, [*fits, *(result for results in held for result in results)]


def checked(twin: Twin, results: Sequence[Result]) -> list[LoadForecast]:
    load = TwinLoad(tuple(load_part(result, result.levels[-1]) for result in results))
    return checked_together(twin, load, results)


def load_words(row: LoadForecast) -> str:
    beside = "; ".join(f"beside {part.model} {part.text}" for part in row.load.parts if part is not row.part)
    settings = ", ".join(setting.text for setting in row.load.settings)
    return "; ".join(word for word in (row.part.text, beside, settings) if word)


def table(rows: Sequence[LoadForecast]) -> list[str]:
    head = ("model", "load", "data", *(f"{figure} {word}" for figure in WITHIN for word in HEAD))
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [row.model, load_words(row), row.basis]
        for figure in WITHIN:
            cells += _cells(row, figure)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(row: LoadForecast, figure: str) -> tuple[str, ...]:
    error, band = row.error(figure), row.bands.get(figure)
    if error is None or band is None or row.measured is None:
        return "none", "", "", "OFF", "NO"
    text = _per_s if figure == THROUGHPUT else duration
    return (
        text(band.value),
        f"{text(band.low)} to {text(band.high)}",
        text(row.measured[figure]),
        f"{error:+.1%}" + ("" if abs(error) <= WITHIN[figure] else " OFF"),
        "yes" if row.is_covered(figure) else "NO",
    )


def _per_s(value: float) -> str:
    return f"{quantity(value)}/s"


def as_json(rows: Sequence[LoadForecast]) -> list[dict[str, Any]]:
    """One object per point, times in nanoseconds."""
    return [
        {"model": row.model, "load": load_words(row), "data": row.basis, "distance": row.distance}
        | {figure: _figure(row, figure) for figure in WITHIN}
        for row in rows
    ]


def _figure(row: LoadForecast, figure: str) -> dict[str, Any]:
    band = row.bands.get(figure)
    return {
        "predicted": None if band is None else band.value,
        "low": None if band is None else band.low,
        "high": None if band is None else band.high,
        "measured": (row.measured or {}).get(figure),
        "off": row.error(figure),
        "is_inside": row.is_covered(figure),
    }


def verdicts(rows: Sequence[LoadForecast]) -> Iterator[tuple[bool, str]]:
    """The requirements, and whether each is met."""
    for figure, most in WITHIN.items():
        errors = [abs(error) for row in rows if (error := row.error(figure)) is not None]
        good = sum(error <= most for error in errors)
        worst = max(errors, default=0.0)
        yield (
            good == len(rows),
            f"{figure} within {most:.0%}: {good} of {len(rows)} points, at worst off by {worst:.1%}",
        )
    for figure in WITHIN:
        inside = sum(bool(row.is_covered(figure)) for row in rows)
        yield (
            inside >= COVERED * len(rows),
            f"{figure} inside its 90 % interval: {inside} of {len(rows)} points",
        )
