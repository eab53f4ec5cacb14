"""Outcomes as a table on the terminal, as Markdown, and as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.arithmetic import HELD, MISSED, NOT_MEASURED, Spread, middle_info, spread
from benchmarks.bar import Sample, Setting
from benchmarks.machine import Machine
from benchmarks.rounds import Outcome

FORMAT = 2
MARKS = ("<!-- bench -->\n", "<!-- /bench -->")
COLUMNS = ("bar", "target", "found", "lowest-highest", "ours", "theirs", "verdict")
IN_README = ("http-cpu-8", "grpc-cpu-8", "nginx-rate-64")
_COLOURS = {HELD: "green", MISSED: "bold red", NOT_MEASURED: "yellow"}
_PLAIN_WIDTH = 160


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """One tuple of texts per bar, in the order of COLUMNS."""
    return [_row(outcome) for outcome in outcomes]


def _row(outcome: Outcome) -> tuple[str, ...]:
    bar, judged = outcome.bar, outcome.judged
    unit = "" if bar.rival is not None else f" {bar.unit}"
    target = "-" if bar.target is None else f"{bar.direction.value} {bar.target:g}{unit}"
    if judged is None:
        return (bar.title, target, "-", "-", "-", "-", f"{NOT_MEASURED}: {outcome.note}")
    return (
        bar.title,
        target,
        _number(judged.median) + unit,
        f"{_number(judged.low)}-{_number(judged.high)}" if len(outcome.ours) > 1 else "-",
        _side(outcome.ours, bar.unit),
        f"{bar.rival}: {_side(outcome.theirs, bar.unit)}" if bar.rival is not None else "-",
        outcome.verdict,
    )


def _side(samples: Sequence[Sample], unit: str) -> str:
    middle = spread([sample.value for sample in samples]).median
    beside = [f"{_number(value)} {name}" for name, value in middle_info(samples).items()]
    return ", ".join([f"{_number(middle)} {unit}", *beside])


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.2f}"


def show(outcomes: Sequence[Outcome], machine: Machine, console: Console) -> None:
    """Print the table, in colour on a terminal and wide enough elsewhere."""
    table = Table(*COLUMNS, title="inferometer against the tools it replaces", title_justify="left")
    for outcome, row in zip(outcomes, rows(outcomes), strict=True):
        colour = _COLOURS.get(outcome.verdict)
        cells = [escape(cell) for cell in row]
        table.add_row(*cells[:-1], cells[-1] if colour is None else f"[{colour}]{cells[-1]}[/]")
    console.print(table)
    console.print(escape(machine.line), highlight=False)
    if not machine.is_quiet:
        console.print("Other work was running on this machine: treat the ratios with care.", style="yellow")


def console() -> Console:
    found = Console()
    return found if found.is_terminal else Console(width=_PLAIN_WIDTH)


def to_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all bars; those measured at different times name their run by its number."""
    runs = list(dict.fromkeys(entry["measured"] for entry in entries))
    lines = [f"| {' | '.join((*COLUMNS, 'run'))} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    for entry in entries:
        cells = (*(cell.replace("|", "/") for cell in entry["cells"]), str(runs.index(entry["measured"]) + 1))
        lines.append(f"| {' | '.join(cells)} |")
    how = (
        "Found is our figure divided by theirs, or ours alone: the median of interleaved rounds, more of them where "
        "figures are unsteady. CPU per request is marginal (a long run minus a short one) and covers all processes; "
        "requests are counted by the server. To nginx, the load has one core (our worker process; wrk with one "
        "thread) and nginx the other."
    )
    return "\n".join([*lines, "", *(f"{place}. {run}." for place, run in enumerate(runs, 1)), "", how, ""])


def to_short_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the README's table: a few bars with the main figure of each side."""
    columns = [name for name in COLUMNS if name != "lowest-highest"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for entry in entries:
        if entry["name"] in IN_README:
            cells = dict(zip(COLUMNS, entry["cells"], strict=True))
            cells |= {side: cells[side].split(", ")[0] for side in ("ours", "theirs")}
            lines.append(f"| {' | '.join(cells[name] for name in columns)} |")
    return "\n".join([*lines, ""])


def entries_of(outcomes: Sequence[Outcome], machine: Machine, setting: Setting) -> list[dict[str, Any]]:
    measured = f"{machine.line}; {setting.rounds} rounds"
    return [_entry(outcome) | {"measured": measured} for outcome in outcomes]


def _entry(outcome: Outcome) -> dict[str, Any]:
    bar = outcome.bar
    return {
        "name": bar.name,
        "title": bar.title,
        "target": bar.target,
        "direction": bar.direction.value,
        "unit": bar.unit,
        "rival": bar.rival,
        "cells": _row(outcome),
        "verdict": outcome.verdict,
        "note": outcome.note or None,
        "judged": _spread_entry(outcome.judged),
        "ours": [_sample_entry(sample) for sample in outcome.ours],
        "theirs": [_sample_entry(sample) for sample in outcome.theirs],
    }


def _spread_entry(judged: Spread | None) -> Mapping[str, float] | None:
    return None if judged is None else asdict(judged)


def _sample_entry(sample: Sample) -> dict[str, Any]:
    return {"value": sample.value, "info": dict(sample.info)}


def write(
    entries: Sequence[Mapping[str, Any]], names: Sequence[str], saved: Path, page: Path, readme: Path
) -> None:
    """Update the saved entries and the tables of both pages; bars that were not measured now keep theirs."""
    document = json.loads(saved.read_text()) if saved.exists() else {}
    kept = document["bars"] if document.get("format") == FORMAT else []
    by_name = {entry["name"]: entry for entry in (*kept, *entries)}
    bars = [by_name[name] for name in names if name in by_name]
    saved.write_text(json.dumps({"format": FORMAT, "bars": bars}, indent=2) + "\n")
    _replace(page, to_markdown(bars))
    _replace(readme, to_short_markdown(bars))


def _replace(page: Path, table: str) -> None:
    before, _, rest = page.read_text().partition(MARKS[0])
    page.write_text(f"{before}{MARKS[0]}{table}{MARKS[1]}{rest.partition(MARKS[1])[2]}")
