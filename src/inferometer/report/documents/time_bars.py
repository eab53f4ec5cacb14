"""Where the time goes: one bar for each level, one for each step."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.report import breakdown
from inferometer.report.breakdown import ModelTime, Piece, level_pieces, steps
from inferometer.report.document import Bar, Bars, Block, Column, Section, Segment, Table
from inferometer.report.format import duration, level_label, level_value, share
from inferometer.report.verdict import best, measured
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result

COLOURS = {
    breakdown.WAIT: "part-wait",
    breakdown.SEND: "part-send",
    breakdown.QUEUE: "part-queue",
    breakdown.CACHE: "part-cache",
    breakdown.INPUT: "part-input",
    breakdown.INFER: "part-infer",
    breakdown.OUTPUT: "part-output",
    breakdown.OWN: "part-infer",
    breakdown.OVERHEAD: "part-overhead",
    breakdown.RECEIVE: "part-receive",
}
_ELSE = "part-network"
MOST_LEVELS = 16


def time_section(result: Result) -> Section | None:
    """Averages of one request; None when nothing was answered."""
    rows, top = measured(result), best(result)
    if not rows or top is None:
        return None
    shown = _spread(rows)
    blocks: list[Block] = [_levels(shown, is_part=len(shown) < len(rows))]
    found = in_order(steps(top[1].server), result.model)
    if found:
        blocks.append(_steps(found, top[0]))
    blocks.append(_table(rows))
    if found:
        blocks.append(_step_table(found, top[0]))
    has_server = any(row.server is not None for _, row in rows)
    lead = (
        "Averages of one request."
        if has_server
        else "The server gives no statistics: only our side is known."
    )
    return Section("time", "Where the time goes", lead, tuple(blocks))


def in_order(rows: tuple[ModelTime, ...], model: Mapping[str, Any]) -> tuple[ModelTime, ...]:
    """As requests pass them, as far as the ensemble's configuration tells."""
    places = {name: place for place, name in enumerate(dict.fromkeys(_passed(model)))}
    return tuple(sorted(rows, key=lambda row: places.get(row.name, len(places))))


def _passed(model: Mapping[str, Any]) -> Iterator[str]:
    members = {str(row.get("name")): row for row in model.get("composing") or () if isinstance(row, Mapping)}
    config = model.get("config")
    schedule = config.get("ensemble_scheduling") if isinstance(config, Mapping) else None
    for step in (schedule or {}).get("step") or ():
        name = str(step.get("model_name"))
        yield name
        yield from _passed(members.get(name, {}))


def _spread(rows: tuple[tuple[Level, Measurement], ...]) -> tuple[tuple[Level, Measurement], ...]:
    """All, or so many that the bars fit on a page, evenly chosen with both ends."""
    if len(rows) <= MOST_LEVELS:
        return rows
    last = len(rows) - 1
    return tuple(rows[round(number * last / (MOST_LEVELS - 1))] for number in range(MOST_LEVELS))


def _levels(rows: tuple[tuple[Level, Measurement], ...], *, is_part: bool) -> Bars:
    pieces = [(level, level_pieces(found)) for level, found in rows]
    most = max(sum(piece.ns for piece in row) for _, row in pieces)
    bars = tuple(
        Bar(level_label(level.mode, level.value), _segments(row), duration(sum(piece.ns for piece in row)))
        for level, row in pieces
    )
    note = f"{MOST_LEVELS} of the levels are drawn; the table has all." if is_part else ""
    return Bars("By level", bars, most, note)


def _segments(pieces: tuple[Piece, ...]) -> tuple[Segment, ...]:
    return tuple(
        Segment(piece.name, piece.ns, duration(piece.ns), COLOURS.get(piece.name, _ELSE)) for piece in pieces
    )


def _steps(rows: tuple[ModelTime, ...], level: Level) -> Bars:
    total = sum(row.ns for row in rows)
    bars = tuple(
        Bar(
            row.name,
            _segments(row.pieces),
            f"{duration(row.ns)} · {share(_ratio(row.ns, total))}",
            _calls(row),
        )
        for row in rows
    )
    title = f"By step, at {level_label(level.mode, level.value)}"
    note = "Per request of the whole pipeline; the share is of all steps together."
    return Bars(title, bars, max(row.ns for row in rows), note)


def _calls(step: ModelTime) -> str:
    words = [] if abs(step.calls - 1) < 0.02 else [f"{step.calls:.3g} calls per request"]
    if step.batch > 1.005:
        words.append(f"batches of {step.batch:.3g}")
    return ", ".join(words)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _table(rows: tuple[tuple[Level, Measurement], ...]) -> Table:
    pieces = [(level, level_pieces(found)) for level, found in rows]
    names = list(dict.fromkeys(piece.name for _, row in pieces for piece in row))
    lines = []
    for level, row in pieces:
        times = {piece.name: duration(piece.ns) for piece in row}
        total = duration(sum(piece.ns for piece in row))
        lines.append((level_value(level.mode, level.value), *(times.get(name, "-") for name in names), total))
    is_rate = rows[0][0].mode != "concurrency"
    columns = (Column("Request rate" if is_rate else "Concurrency"), *map(Column, names), Column("Together"))
    return Table("Where the time goes, by level", columns, tuple(lines), is_folded=True)


def _step_table(rows: tuple[ModelTime, ...], level: Level) -> Table:
    names = list(dict.fromkeys(piece.name for row in rows for piece in row.pieces))
    total = sum(row.ns for row in rows)
    lines = []
    for row in rows:
        times = {piece.name: duration(piece.ns) for piece in row.pieces}
        cells = (f"{row.calls:.3g}", *(times.get(name, "-") for name in names))
        lines.append((row.name, *cells, duration(row.ns), share(_ratio(row.ns, total))))
    columns = (Column("ModelTime", is_number=False), *map(Column, ("Calls", *names, "Together", "Share")))
    where = level_label(level.mode, level.value)
    return Table(f"Where the time goes, by step at {where}", columns, tuple(lines), is_folded=True)
