"""The servers of a study that used several."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.report.document import Column, Section, Table, Tone
from inferometer.report.format import plural
from inferometer.tune.study import Study

TITLE = "The servers"


def servers_section(study: Study) -> Iterator[Section]:
    """A table of the servers; nothing if one server measured all trials."""
    rows = _rows(study)
    if not rows:
        return
    columns = (
        Column("Server", is_name=True),
        Column("At", is_number=False),
        Column("Machine", is_number=False),
        Column("Cores", is_number=False, rank=1),
        Column("Trials"),
        Column("Outcome", is_number=False),
    )
    cells = tuple(
        (
            str(number),
            str(row.get("place", "")),
            str(row.get("machine", "")),
            ", ".join(map(str, row.get("cores", ()))) or "-",
            str(row.get("trials", 0)),
            _outcome(row),
        )
        for number, row in enumerate(rows, 1)
    )
    tones = tuple(Tone.WARNING if _outcome(row) != "ok" else Tone.PLAIN for row in rows)
    used = [row for row in rows if not row.get("left_out")]
    lead = f"{plural(len(used), 'server')} of the same kind measured in parallel, one trial each."
    if len(used) < len(rows):
        lead += " Trials on different machines cannot be compared, so the others were not used."
    yield Section("servers", TITLE, lead, (Table(TITLE, columns, cells, tones=tones),), is_detail=True)


def _rows(study: Study) -> list[Mapping[str, Any]]:
    found = study.server.get("servers", ())
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def _outcome(row: Mapping[str, Any]) -> str:
    if row.get("left_out"):
        return "not used: different kind of machine"
    return f"lost: {row['lost']}" if row.get("lost") else "ok"
