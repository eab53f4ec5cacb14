"""Figures of each client when several machines send the load, for every level."""

from collections.abc import Iterator

from inferometer.base.units import NS_PER_US
from inferometer.report.document import Column, Depth, Section, Table, Tone, text_columns
from inferometer.report.format import NONE, duration, level_label, quantity, share, size
from inferometer.stats.clients import ClientFigures
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result, best

_PPM = 1e-6


def clients_section(result: Result) -> Section | None:
    """A table for the best level, and folded tables for the other levels; None if one machine sent all load."""
    levels = [level for level in result.levels if level.clients]
    if not levels:
        return None
    found = best(result)
    first = found[0] if found is not None and found[0].clients else levels[-1]
    unit = result.effective.rate_unit
    others = [level for level in levels if level is not first]
    tables = [_table(first, unit, Depth.MAIN), _clock_table(first)]
    tables += [_table(level, unit, Depth.DETAIL) for level in others]
    count = len({client.name for client in first.clients})
    nodes = len({client.place for client in first.clients})
    where = "1 node" if nodes == 1 else f"{nodes} nodes"
    lead = f"The load came from {count} {'client' if count == 1 else 'clients'} on {where}."
    return Section("clients", "By client", lead, tuple(tables))


def _table(level: Level, unit: str, depth: Depth) -> Table:
    columns = (
        *_who_columns(level),
        Column(unit.capitalize()),
        Column("p50"),
        Column("p99"),
        Column("Failed"),
        Column("CPU", rank=1),
        Column("CPU per request", rank=5),
        Column("Late p50", rank=4),
        Column("Late p99", rank=2),
        Column("Sent", rank=7),
        Column("Received", rank=6),
        Column("Clock ±", rank=3),
        *text_columns("State"),
    )
    rows = tuple(map(_row, level.clients))
    tones = tuple(Tone.PLAIN if client.lost is None else Tone.BAD for client in level.clients)
    return Table(f"Clients at {level_label(level.mode, level.value)}", columns, rows, depth, tones)


def _who_columns(level: Level) -> Iterator[Column]:
    yield Column("Client", is_number=False, is_name=True)
    if any(client.class_name for client in level.clients):
        yield Column("Class", is_number=False, is_name=True)


def _who(client: ClientFigures) -> tuple[str, ...]:
    """The client, and its class if there are several."""
    return (client.machine, client.class_name) if client.class_name else (client.machine,)


def _row(client: ClientFigures) -> tuple[str, ...]:
    is_late = bool(client.lag_p50_ns or client.lag_p99_ns)
    return (
        *_who(client),
        quantity(client.infer_per_s),
        *(duration(client.percentile_ns(p)) if client.percentiles else NONE for p in (50.0, 99.0)),
        f"{client.failed_count:,}",
        share(client.cpu_share),
        duration(client.cpu_us_per_request * NS_PER_US) if client.cpu_us_per_request else NONE,
        *(duration(lag) if is_late else NONE for lag in (client.lag_p50_ns, client.lag_p99_ns)),
        size(client.sent_bytes),
        size(client.received_bytes),
        duration(client.clock.uncertainty_ns),
        "ok" if client.lost is None else "lost",
    )


def _clock_table(level: Level) -> Table:
    columns = (
        *_who_columns(level),
        Column("Workers"),
        Column("Fastest answers"),
        Column("Ahead by"),
        Column("Drift"),
        Column("Known to ±"),
        Column("Round trip"),
        Column("Own CPU"),
    )
    rows = tuple(
        (
            *_who(client),
            f"{client.workers:,}",
            duration(client.floor_ns) if client.percentiles else NONE,
            _signed(client.clock.offset_ns),
            f"{client.clock.drift / _PPM:+.1f} ppm",
            duration(client.clock.uncertainty_ns),
            duration(client.clock.round_trip_ns),
            share(client.own_cpu_share),
        )
        for client in level.clients
    )
    return Table(
        f"Clocks and distance at {level_label(level.mode, level.value)}", columns, rows, Depth.DETAIL
    )


def _signed(ns: int) -> str:
    return f"{'−' if ns < 0 else ''}{duration(abs(ns))}"
