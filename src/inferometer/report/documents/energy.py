"""Energy of each level: power, and joules per request, inference and token."""

from collections.abc import Iterator, Sequence

from inferometer.report.document import Column, Section, Table
from inferometer.report.documents.levels import load_column, longest
from inferometer.report.format import NONE, interval, level_label, level_value, quantity
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import EnergyFigures
from inferometer.stats.result import Result, measured


def energy_section(result: Result) -> Section | None:
    """A row for each level; None if no device reported its power or energy."""
    rows = longest(tuple(row for row in measured(result) if row[1].energy is not None))
    if not rows:
        return None
    known = [found.energy for _, found in rows if found.energy is not None]
    has_batches = any(found.batch > 1 for _, found in rows)
    has_tokens = any(energy.per_token is not None for energy in known)
    columns = (
        load_column(rows[0][0]),
        Column("Power"),
        Column("Idle", rank=2),
        Column("J/request"),
        *((Column("J/inference"),) if has_batches else ()),
        *((Column("J/token"),) if has_tokens else ()),
        Column("Energy", rank=1),
        Column("Valid", is_number=False),
    )
    cells = tuple(
        (
            level_value(level.mode, level.value),
            *_cells(energy, has_batches=has_batches, has_tokens=has_tokens),
        )
        for (level, _), energy in zip(rows, known, strict=True)
    )
    words = [
        "Energy of the devices that the server used. Idle is their power just before the load began, which the energy "
        "includes.",
        *(
            f"Invalid at {level_label(level.mode, level.value)}: {energy.invalid}."
            for (level, _), energy in zip(rows, known, strict=True)
            if energy.invalid
        ),
        *dict.fromkeys(_apart(known)),
    ]
    return Section("energy", "Energy", " ".join(words), (Table("Energy", columns, cells),))


def _cells(energy: EnergyFigures, *, has_batches: bool, has_tokens: bool) -> Iterator[str]:
    yield f"{quantity(energy.power_w.value)} W"
    yield NONE if energy.idle_w is None else f"{quantity(energy.idle_w)} W"
    yield joules(energy.per_request)
    if has_batches:
        yield joules(energy.per_inference)
    if has_tokens:
        yield joules(energy.per_token)
    yield f"{quantity(energy.joules)} J"
    yield "no" if energy.invalid else "yes"


def joules(found: Estimate | None) -> str:
    """Format a figure in joules with its interval."""
    return NONE if found is None else f"{quantity(found.value)} {interval(found)}".rstrip()


def _apart(known: Sequence[EnergyFigures]) -> Iterator[str]:
    for energy in known:
        for device in energy.devices:
            if not device.is_used:
                yield f"{device.name} is not included: the server did not use it, or its share is unknown."
