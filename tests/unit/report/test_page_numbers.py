"""Every throughput and latency on a page or in its charts is in the answer file, and written the same everywhere."""

import dataclasses
import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inferometer.report.document import Chart
from inferometer.report.format import duration, quantity
from inferometer.report.kinds import TYPES
from inferometer.report.saved import document, to_html
from tests.support import reports
from tests.support.capacity_plans import sample_capacity
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


def test_the_samples_are_of_every_kind_of_answer():
    assert {type(make()) for make, _ in SAMPLES.values()} == set(TYPES)
