"""Every throughput and latency on a page or in its charts is in the answer file, and written the same everywhere."""

import dataclasses
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from inferometer.report.document import Chart, Document, Table
from inferometer.report.format import duration, quantity, share, signed
from inferometer.report.kinds import TYPES
from inferometer.report.saved import document, to_html
from tests.support import reports
from tests.support.capacity_plans import constant_capacity, sample_capacity
from tests.support.page_readings import Reading, readings
from tests.support.twins import sample_twin

TIME = re.compile(r"(?<![\w.,±<≤])(\d[\d,]*(?:\.\d+)?) (ns|µs|ms)(?!\w)")
NAMED_TIME = re.compile(r"(?<=p50 |p90 |p95 |p99 |avg )(\d[\d,]*(?:\.\d+)?) (ns|µs|ms)(?!\w)")
RATE = re.compile(r"(?<![\w.,±])(\d[\d,]*(?:\.\d+)?) infer/s")


def numbers(value: object) -> Iterator[float]:
    """Every number of an answer, at any depth."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def texts(value: object) -> Iterator[str]:
    """Every text of an answer: saved sentences contain their figures."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


def shown(page: str) -> str:
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", "|", body.replace("<title>", " ").replace("</title>", " "))
    return html.unescape(text).replace("\u00a0", " ")


SAMPLES: dict[str, tuple[Callable[[], Any], re.Pattern[str]]] = {
    "comparison": (reports.sample_comparison, TIME),
    "gate": (reports.sample_regression, TIME),
    "interference": (reports.sample_interference, TIME),
    # These also show parts of a latency, which are differences of figures.
    "measurement": (reports.sample_result, NAMED_TIME),
    "search": (reports.sample_search, NAMED_TIME),
    "text": (reports.sample_text, NAMED_TIME),
    "scenario": (reports.sample_scenario, NAMED_TIME),
    "tuning": (reports.sample_study, NAMED_TIME),
    "diagnosis": (reports.sample_diagnosis, NAMED_TIME),
    "twin": (sample_twin, TIME),
    "capacity": (sample_capacity, TIME),
    "constant rate": (constant_capacity, TIME),
    "ramp": (reports.sample_ramp, NAMED_TIME),
    "agents": (reports.sample_tasks, NAMED_TIME),
    "inspection": (reports.sample_inspection, NAMED_TIME),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_figure_on_a_page_is_in_its_answer(kind):
    make, time = SAMPLES[kind]
    answer = make()
    text = shown(to_html(answer))
    known = set(numbers(answer))
    said = " ".join(texts(answer))
    rates = {quantity(value) for value in known} | set(RATE.findall(said))
    times = {duration(value * scale) for value in known for scale in (1, 1e3, 1e6, 1e9) if 0 <= value < 1e13}
    times |= {" ".join(row) for row in TIME.findall(said)}
    strange = [f"{n} infer/s" for n in RATE.findall(text) if n not in rates]
    strange += [f"{n} {unit}" for n, unit in time.findall(text) if f"{n} {unit}" not in times]
    assert RATE.search(text) or time.search(text) or kind in ("gate", "inspection")
    assert not strange, strange[:20]


FIGURE = re.compile(r"throughput|latency|first token|time between tokens|tokens/s of")


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_point_of_a_chart_is_in_its_answer_and_its_tooltip(kind):
    answer = SAMPLES[kind][0]()
    known = {f"{value * scale:.9g}" for value in set(numbers(answer)) for scale in (1, 1e3, 1e6, 1e9)}
    charts = [
        block
        for section in document(answer).sections
        for block in section.blocks
        if isinstance(block, Chart) and FIGURE.search(block.y.title)
    ]
    points = [
        (chart.title, point)
        for chart in charts
        for series in chart.series
        for run in series.runs
        for point in run
        if point.tip
    ]
    for title, point in points:
        assert f"{point.y:.9g}" in known, (title, point)
        written = (quantity(point.y), duration(point.y), duration(point.y * 1e6))
        assert any(text in point.tip for text in written), (title, point)


ALIASES = {
    "diagnosis": {"before": "", "decode: instances 1 → 2": "after", "decode: instances 2": "after"},
    "capacity": {"small": ""},
    "constant rate": {"small": ""},
}
"""Names of the subject of the tiles elsewhere on the page."""
EVERYWHERE = {"tile", "table", "chart"}
PLACES = {
    "gate": {"tile", "table"},
    "interference": {"tile", "table"},  # its chart draws ratios
    "capacity": {"tile", "table"},  # its charts draw the traffic over the day
    "twin": {"table", "chart"},  # its tiles are the errors of predictions
    "ramp": set[str](),  # windows of one level
    "inspection": set[str](),  # counts
}
"""Where the page writes its main figures."""
DERIVED = ("utilisation",)  # of numbers of replicas that are not planned


def by_key(kind: str, page: Document) -> dict[tuple[str, str, str], list[Reading]]:
    found: dict[tuple[str, str, str], list[Reading]] = {}
    for row in readings(page):
        own = replace(row, subject=ALIASES.get(kind, {}).get(row.subject, row.subject))
        found.setdefault(own.key, []).append(own)
    return found


def contradictions(kind: str, page: Document) -> list[list[Reading]]:
    return [rows for rows in by_key(kind, page).values() if len({row.value for row in rows}) > 1]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_figure_is_the_same_in_tiles_tables_and_charts(kind):
    answer = SAMPLES[kind][0]()
    page = document(answer)
    assert not contradictions(kind, page)
    known = set(numbers(answer))
    written = {
        text(value) for value in known for text in (quantity, share, lambda value: f"{signed(value)} %")
    }
    written |= {
        duration(value * scale) for value in known for scale in (1, 1e3, 1e6, 1e9) if 0 <= value < 1e13
    }
    for rows in by_key(kind, page).values():
        for row in rows:
            texts = {
                row.text,
                row.text.partition(" ")[0],
                row.text.partition(" (")[0],
                row.text.partition("/")[0],
            }
            assert texts & written or row.subject == "expected" or row.figure in DERIVED, row
    places = [{row.place for row in rows} for rows in by_key(kind, page).values()]
    assert PLACES.get(kind, EVERYWHERE) in places or not PLACES[kind]


def wrong(text: str) -> str:
    """The text with another first digit."""
    return re.sub(r"[1-9]", lambda digit: str(int(digit[0]) % 9 + 1), text, count=1)


def planted(page: Document) -> Iterator[tuple[str, Document]]:
    """The page with one wrong number, for every number of a tile, a table and a tooltip."""
    for place, tile in enumerate(page.figures):
        changed = (*page.figures[:place], replace(tile, value=wrong(tile.value)), *page.figures[place + 1 :])
        yield "tile", replace(page, figures=changed)
    for number, section in enumerate(page.sections):
        for place, block in enumerate(section.blocks):
            for changed in _planted_blocks(block):
                blocks = (*section.blocks[:place], changed, *section.blocks[place + 1 :])
                own = (*page.sections[:number], replace(section, blocks=blocks), *page.sections[number + 1 :])
                yield type(block).__name__.lower(), replace(page, sections=own)


def _planted_blocks(block: object) -> Iterator[Any]:
    if isinstance(block, Table):
        for number, row in enumerate(block.rows):
            for place, cell in enumerate(row):
                changed = (*row[:place], wrong(cell), *row[place + 1 :])
                if block.columns[place].is_number and changed != row:
                    yield replace(block, rows=(*block.rows[:number], changed, *block.rows[number + 1 :]))
    if isinstance(block, Chart):
        for line in block.series:
            for run in line.runs:
                for point in run:
                    head, mark, rest = point.tip.rpartition(": ")
                    tip = f"{head}{mark}{wrong(rest)}"
                    runs = tuple(
                        tuple(replace(own, tip=tip) if own is point else own for own in other)
                        for other in line.runs
                    )
                    lines = tuple(replace(own, runs=runs) if own is line else own for own in block.series)
                    yield replace(block, series=lines)


@pytest.mark.parametrize("kind", ["comparison", "diagnosis", "tuning"])
def test_a_wrong_number_in_a_tile_a_table_or_a_chart_is_found(kind):
    page = document(SAMPLES[kind][0]())
    main = {key for key, rows in by_key(kind, page).items() if {row.place for row in rows} == EVERYWHERE}
    noticed = {place for place, changed in planted(page) if contradictions(kind, changed)}
    assert main
    assert noticed == EVERYWHERE


def test_the_samples_are_of_every_kind_of_answer():
    assert {type(make()) for make, _ in SAMPLES.values()} == set(TYPES)
