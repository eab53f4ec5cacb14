"""Figures read back from a page: which figure of which subject at which load each tile, table and chart shows."""

import re
from collections.abc import Iterator
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.report.document import Chart, Column, Document, Section, Table

UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
NUMBER = re.compile(r"(?<![\w.,])([+−-]?\d[\d,]*(?:\.\d+)?)(?: (ns|µs|ms|s)(?!\w))?")
LOAD = re.compile(r"(?:concurrency|request rate) [\d,.]*\d|phase [\w-]+|\d+ replicas?")
RATES = {"throughput", "infer/s", "requests/s"}
LOADS = {
    "Conc.": "concurrency {}",
    "Concurrency": "concurrency {}",
    "At concurrency": "concurrency {}",
    "Rate": "request rate {}",
    "Phase": "phase {}",
    "Replicas": "{} replicas",
}
PARTS = ("From (s)", "From", "Turn")  # columns of tables about parts of a level
SUBJECTS = ("Variant", "Model", "Configuration", "Class", "Option", "Change")
SIDES = {
    "Baseline": "{base}",
    "Variant's": "{subject}",
    "Alone": "{subject} alone",
    "Together": "{subject} together",
    "New": "judged",
    "Expected": "expected",
}
MEANS = {"latency": "mean"}
WITHIN = {"latency": "", "time to the first token": "ttft "}
CHANGES = ("Difference", "Change")
IN_TIP = re.compile(
    r"(?P<time>(?:TTFT )?p[\d.]+|mean) (?P<ns>\d[\d,.]* (?:ns|µs|ms|s))(?!\w)"
    r"|(?P<share>[\d.]+) % within (?P<within>\d[\d,.]* (?:ns|µs|ms|s))(?!\w)"
    r"|(?P<rate>\d[\d,.]*) (?:infer|requests)/s"
    r"|(?P<tokens>\d[\d,.]*) tokens/s"
    r"|(?P<user>\d[\d,.]*) per user"
    r"|each (?P<busy>[\d.]+ %) busy"
)


@frozen
class Reading:
    """A figure as some place of the page writes it."""

    place: str  # tile, table or chart
    subject: str
    load: str
    figure: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.subject, self.load, self.figure

    @property
    def value(self) -> float:
        found = NUMBER.search(self.text)
        assert found is not None, self
        number = float(found[1].replace(",", "").replace("−", "-"))
        return float(f"{number * UNITS.get(found[2] or '', 1.0):.9g}")


def figure_of(name: str) -> str:
    """The figure that a tile or a column is about; empty if it is none that is read."""
    found = name.lower().removesuffix(" (infer/s)").removesuffix(" latency").removesuffix(" ms")
    if found in RATES:
        return "throughput"
    if found in ("avg", "mean"):
        return "mean"
    found = found.replace("tokens/s per user", "per user")
    is_read = found in ("tokens/s", "per user", "utilisation") or re.fullmatch(r"(ttft )?p[\d.]+", found)
    return found if is_read else ""


def readings(page: Document) -> Iterator[Reading]:
    """Every figure with its load, but not those of single windows and turns."""
    yield from _tiles(page)
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Table) and not any(column.name in PARTS for column in block.columns):
                yield from _rows(section, block, page.title.partition(" vs ")[0])
            if isinstance(block, Chart) and not block.x.title.startswith("seconds"):
                yield from _points(block)


def _load(text: str) -> str:
    found = LOAD.search(text)
    return "" if found is None else re.sub("replica$", "replicas", found[0])


def _tiles(page: Document) -> Iterator[Reading]:
    subject, load = "", ""
    for tile in page.figures:
        if tile.label in ("Recommended", "Best figures"):
            subject = tile.value
        load = f"{tile.value} replicas" if tile.label == "Replicas" else _load(tile.detail) or load
        if (at := _load(tile.label)) or tile.label.endswith(" throughput"):  # of a gate, or of interference
            figure = tile.label.partition(" at ")[0].split()[-1]
            if re.match(r"[+−-]?\d", tile.value):
                model = tile.label.removesuffix(" throughput") if not at else ""
                yield Reading("tile", model, at, f"change of {figure}", tile.value)
        elif "→" in tile.value and figure_of(tile.label):
            for side, value in zip(page.title.split(" vs "), tile.value.split(" → "), strict=True):
                yield Reading("tile", side, load, figure_of(tile.label), value)
        elif tile.label == "After":
            yield Reading("tile", "after", load, "throughput", tile.value)
        elif figure_of(tile.label) and load:
            yield Reading("tile", subject, load, figure_of(tile.label), tile.value)


def _rows(section: Section, table: Table, base: str) -> Iterator[Reading]:
    around = _load(table.caption) or _load(section.lead) or _load(section.title)
    names = [column.name for column in table.columns]
    for row in table.rows:
        cells = dict(zip(names, row, strict=True)) if len(set(names)) == len(names) else {}
        cells = cells or dict(reversed(list(zip(names, row, strict=True))))
        named = [cells[name] for name in SUBJECTS if name in cells and _is_text(table, name)]
        subject = next(iter(named), "").partition(",")[0].strip("· ")
        own = [form.format(cells[name]) for name, form in LOADS.items() if name in cells]
        load = next(iter(own), _load(cells.get("Load", cells.get("At", "")))) or around
        for column, cell in zip(table.columns, row, strict=True):
            found = Reading("table", subject, load, cells.get("Figure", ""), cell)
            yield from _cell(column, cell, found, base)


def _is_text(table: Table, name: str) -> bool:
    return any(column.name == name and not column.is_number for column in table.columns)


def _cell(column: Column, cell: str, found: Reading, base: str) -> Iterator[Reading]:
    if re.match(r"[+−-]?\d", cell) is None or (not found.load and not found.figure):
        return
    name, _, side = column.name.partition(" ")
    if found.figure and column.name in CHANGES:
        yield replace(found, figure=f"change of {found.figure}")
    elif found.figure and column.name in SIDES:
        yield replace(found, subject=SIDES[column.name].format(base=base, subject=found.subject))
    elif side in ("predicted", "measured"):
        yield replace(
            found, subject=f"{found.subject} {side}".removesuffix(" predicted"), figure=figure_of(name)
        )
    elif name in ("Measured", "Model") and (figure := MEANS.get(side, figure_of(side))):
        yield replace(found, subject=found.subject if name == "Measured" else "model", figure=figure)
    elif not found.figure and (figure := figure_of(column.name)):
        yield replace(found, figure=figure, text=f"{cell} ms" if column.name.endswith(" ms") else cell)


def _points(chart: Chart) -> Iterator[Reading]:
    for series in chart.series:
        for run in series.runs:
            for point in run:
                if series.name == "judged":  # by a gate
                    text = point.tip.partition(": ")[2].partition(" · ")[0]
                    yield Reading("chart", "judged", _load(chart.title), chart.title.split()[0], text)
                else:
                    yield from _tip(chart, point.tip)


def _tip(chart: Chart, tip: str) -> Iterator[Reading]:
    """The figures of a tooltip: `fp16, concurrency 4: 40.0 infer/s ±3 %, p99 50 ms`."""
    head, _, rest = tip.rpartition(": ")
    load = _load(head) or _load(tip) or _load(chart.title)
    subject = LOAD.sub("", head).removesuffix(" at ").strip(", ")
    if " at " in rest:  # a study: `config 2: 840 infer/s (823 to 857) with p99 7.62 ms at concurrency 4`
        load = _load(rest)
    if not load:
        return
    if rest.startswith("model "):
        subject, rest = "model", rest.removeprefix("model ")
    if tip.endswith("measured") and " measured" not in subject:
        subject = f"{subject} measured"
    for found in IN_TIP.finditer(re.sub(r"\([^)]*\)", "", rest)):
        for name, figure in (("rate", "throughput"), ("tokens", "tokens/s"), ("user", "per user")):
            if found[name]:
                yield Reading("chart", subject, load, figure, found[name])
        if found["busy"]:
            yield Reading("chart", subject, load, "utilisation", found["busy"])
        if found["time"]:
            yield Reading("chart", subject, load, found["time"].lower(), found["ns"])
        if found["share"] and (of := WITHIN.get(chart.y.title.partition(" (")[0])) is not None:
            yield Reading("chart", subject, load, f"{of}p{found['share']}", found["within"])
