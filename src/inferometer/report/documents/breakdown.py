"""Breakdown of a request's time, from the client's send to the last byte, into pieces that add up to the latency.

Bars show the pieces of all levels; a table has the pieces of one level, or the models that work on a request.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.report.document import Bar, Bars, Block, Column, Depth, Section, Segment, Table, text_columns
from inferometer.report.documents.levels import Rows, few, load_column, longest
from inferometer.report.format import (
    NONE,
    bar,
    duration,
    level_label,
    level_value,
    plain_number,
    share,
    significant,
)
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result, best, measured

WAIT = "waiting to be sent"
SEND = "client send"
NETWORK = "network and protocol"
QUEUE = "queue"
CACHE = "cache"
INPUT = "compute input"
INFER = "compute infer"
OUTPUT = "compute output"
OVERHEAD = "server overhead"
RECEIVE = "client receive"
OWN = "own work"
_COLOURS = {
    WAIT: "part-wait",
    SEND: "part-send",
    QUEUE: "part-queue",
    CACHE: "part-cache",
    INPUT: "part-input",
    INFER: "part-infer",
    OUTPUT: "part-output",
    OWN: "part-infer",
    OVERHEAD: "part-overhead",
    RECEIVE: "part-receive",
}
STEP_COLUMN = Column("Step", is_number=False, is_name=True)
MOST_LEVELS = 16  # bars that fit on a page


Pieces = dict[str, float]
"""Mean nanoseconds of one request by piece, in order of occurrence."""


@frozen
class ModelTime:
    """A model that works on the request; its pieces are per request of the top model."""

    name: str
    calls: float
    pieces: Pieces
    batch: float  # inferences per execution, as formed

    @property
    def ns(self) -> float:
        return sum(self.pieces.values())

    @property
    def queue_ns(self) -> float:
        return self.pieces.get(QUEUE, 0.0)


def level_pieces(measurement: Measurement) -> Pieces:
    """Return the pieces of the mean latency, without those that took no time."""
    latency, service = float(measurement.latency.mean_ns), float(measurement.service.mean_ns)
    client = measurement.send_ns + measurement.receive_ns
    inside = server_pieces(measurement.server)
    between = max(0.0, service - client - _server_ns(measurement.server))
    pieces = {
        WAIT: max(0.0, latency - service),
        SEND: float(measurement.send_ns),
        NETWORK if inside else "network and server": between,
        **inside,
        RECEIVE: float(measurement.receive_ns),
    }
    return {name: ns for name, ns in pieces.items() if ns > 0}


def _server_ns(model: ModelStatistics | None) -> float:
    """Return the server's own time per request; for parallel steps, the sum of pieces can exceed it."""
    if model is None or not model.counters.success_count:
        return 0.0
    return model.counters.success_ns / model.counters.success_count


def server_pieces(model: ModelStatistics | None) -> Pieces:
    """Queue and compute time of all models that worked, and the rest of the server's time."""
    if model is None or not model.counters.success_count:
        return {}
    total = Counters()
    for row in model.workers:
        total += row.counters
    return _pieces(total, model.counters.success_ns, model.counters.success_count)


def _pieces(work: Counters, served_ns: int, calls: int) -> Pieces:
    sums = {
        QUEUE: work.queue_ns,
        CACHE: work.cache_hit_ns + work.cache_miss_ns,
        INPUT: work.compute_input_ns,
        INFER: work.compute_infer_ns,
        OUTPUT: work.compute_output_ns,
    }
    pieces = {name: ns / calls for name, ns in sums.items()}
    return {**pieces, OVERHEAD: max(0.0, served_ns / calls - sum(pieces.values()))}


def steps(model: ModelStatistics | None) -> tuple[ModelTime, ...]:
    """The composing models that worked; a model that calls others itself comes first, with its own part."""
    if model is None or not model.members or not model.counters.success_count:
        return ()
    calls = model.counters.success_count
    found = tuple(_step(row, calls) for row in model.working_members)
    if model.is_ensemble:
        return found
    own = model.counters
    work_ns = max(0.0, own.compute_ns / calls - sum(step.ns for step in found))
    return (ModelTime(model.name, 1.0, {QUEUE: own.queue_ns / calls, OWN: work_ns}, _batch(own)), *found)


def _step(model: ModelStatistics, calls: int) -> ModelTime:
    row = model.counters
    pieces = {name: ns for name, ns in _pieces(row, row.success_ns, calls).items() if ns > 0}
    return ModelTime(model.name, row.success_count / calls, pieces, _batch(row))


def _batch(counters: Counters) -> float:
    return counters.inference_count / counters.execution_count if counters.execution_count else 0.0


def slowest_step(measurement: Measurement) -> str:
    """Name the slowest step in the server with its share; empty without server statistics."""
    server = measurement.server
    if server is None or not _server_ns(server):
        return ""
    pieces = server_pieces(server)
    rows = steps(server) or tuple(ModelTime(name, 1.0, {name: ns}, 0.0) for name, ns in pieces.items())
    slowest = max(rows, key=lambda row: row.ns)
    part = share(min(1.0, _ratio(slowest.ns, _server_ns(server))))
    words = f"Slowest step: {slowest.name}, {duration(slowest.ns)} per request, {part} of the server's time"
    waiting = _ratio(slowest.queue_ns, slowest.ns)
    return f"{words}; {share(waiting)} of that is waiting in its queue." if 0.5 < waiting < 1 else f"{words}."


# --- as a section


def time_section(result: Result, at: float | None = None) -> Section | None:
    """Averages of one request at the best level, or at load `at`; None if nothing was answered."""
    rows = measured(result)
    top = next((row for row in rows if row[0].value == at), None) or best(result)
    if not rows or top is None:
        return None
    level, found = top
    label = level_label(level.mode, level.value)
    models = in_order(steps(found.server), result.model)
    loads = longest(rows)
    blocks: list[Block] = [_level_bars(few(loads, MOST_LEVELS), is_part=len(loads) > MOST_LEVELS)]
    if models:
        by_step = [(row.name, row.pieces) for row in models]
        caption = f"Where the time goes, by step at {label}"
        blocks += [_model_bars(models, label), _pieces_table(caption, STEP_COLUMN, by_step)]
    title = f"Where the time goes at {label}"
    by_level = [(level_value(level.mode, level.value), level_pieces(row)) for level, row in rows]
    levels = _pieces_table("Where the time goes, by level", load_column(rows[0][0]), by_level)
    return Section("time", title, _lead(found), (*blocks, _request_table(title, found, models), levels))


def _lead(found: Measurement) -> str:
    if not _server_ns(found.server):
        return "Averages of one request. The server provides no statistics, so only the client side is known."
    inside_ns = _server_ns(found.server)
    whole_ns = max(float(found.latency.mean_ns), inside_ns)
    inside, outside, whole = map(duration, (inside_ns, whole_ns - inside_ns, whole_ns))
    return f"Averages of one request: server {inside} + network and client {outside} = {whole}."


def _request_table(title: str, found: Measurement, models: Sequence[ModelTime]) -> Table:
    """A row for each piece; if several models work on a request, their rows replace the server's pieces."""
    pieces, inside_ns = level_pieces(found), _server_ns(found.server)
    inside = server_pieces(found.server).keys() - {OVERHEAD} if models else set()
    rows = [ModelTime(name, 0.0, {name: ns}, 0.0) for name, ns in pieces.items() if name not in inside]
    place = next((n for n, row in enumerate(rows) if row.name in (OVERHEAD, RECEIVE)), len(rows))
    rows[place:place] = models
    whole_ns = sum(pieces.values())
    lines = []
    for row in rows:
        part = _ratio(row.ns, whole_ns)
        queue = duration(row.queue_ns) if row.calls else ""
        own = (_calls(row), duration(row.ns), queue) if models else (duration(row.ns),)
        lines.append((row.name, *own, share(min(1.0, part)), bar(part)))
    numbers = ("Calls", "Time", "Queue", "Share") if models else ("Time", "Share")
    columns = (STEP_COLUMN, *map(Column, numbers), *text_columns(""))
    return Table(title, columns, tuple(lines), Depth.DRAWN if inside_ns else Depth.DETAIL)


def _calls(row: ModelTime) -> str:
    if not row.calls:  # a piece outside the models
        return ""
    return plain_number(row.calls) if row.calls == round(row.calls) else f"{row.calls:,.2f}"


def in_order(rows: tuple[ModelTime, ...], model: Mapping[str, Any]) -> tuple[ModelTime, ...]:
    """Sort the steps in the order of the ensemble's configuration, if it is known."""
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


def _level_bars(rows: Rows, *, is_part: bool) -> Bars:
    bars = []
    for level, found in rows:
        pieces = level_pieces(found)
        total = duration(sum(pieces.values()))
        bars.append(Bar(level_label(level.mode, level.value), _segments(pieces), total))
    note = f"The chart shows {MOST_LEVELS} of the levels; the table has all." if is_part else ""
    return Bars("By level", tuple(bars), note)


def _segments(pieces: Pieces) -> tuple[Segment, ...]:
    return tuple(
        Segment(name, ns, duration(ns), _COLOURS.get(name, "part-network")) for name, ns in pieces.items()
    )


def _model_bars(rows: Sequence[ModelTime], where: str) -> Bars:
    total = sum(row.ns for row in rows)
    bars = []
    for row in rows:
        words = [] if abs(row.calls - 1) < 0.02 else [f"{significant(row.calls, 3)} calls per request"]
        words += [f"batches of {significant(row.batch, 3)}"] if row.batch > 1.005 else []
        text = f"{duration(row.ns)} · {share(_ratio(row.ns, total))}"
        bars.append(Bar(row.name, _segments(row.pieces), text, ", ".join(words)))
    note = "Per request of the whole pipeline; shares are of the total of all steps."
    return Bars(f"By step, at {where}", tuple(bars), note)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _pieces_table(caption: str, first: Column, lines: Sequence[tuple[str, Pieces]]) -> Table:
    """A table with a column for each piece in any line."""
    names = list(dict.fromkeys(name for _, pieces in lines for name in pieces))
    rows = []
    for label, pieces in lines:
        times = (duration(pieces[name]) if name in pieces else NONE for name in names)
        rows.append((label, *times, duration(sum(pieces.values()))))
    return Table(caption, (first, *map(Column, (*names, "Total"))), tuple(rows), Depth.DETAIL)
