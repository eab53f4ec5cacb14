"""Figures of any size: no report writes one as a power of ten."""

import io
import re
from dataclasses import fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from inferometer.report.csv import main_csv
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.report.terminal import show
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Rates, WindowFigures
from inferometer.stats.slo_outcome import Goodput
from inferometer.stats.text_figures import Streaming, TokenFigures

POWER = re.compile(r"\de[+-]\d")


def scaled(value: Any, factor: float) -> Any:
    """Multiply every figure that is not a share or a count."""
    if isinstance(value, tuple):
        return tuple(scaled(each, factor) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, Any] = {}
    for each in fields(value):
        found = getattr(value, each.name)
        if each.name == "percentiles":
            changes[each.name] = tuple((p, int(ns * factor)) for p, ns in found)
        elif each.name.endswith("_ns") and isinstance(found, int):
            changes[each.name] = int(found * factor)
        elif isinstance(found, float) and not each.name.endswith("share"):
            changes[each.name] = found * factor
        else:
            changes[each.name] = scaled(found, factor)
    return replace(value, **changes)


@pytest.mark.parametrize("factor", [10.0**power for power in range(-9, 10)])
@pytest.mark.parametrize("mode", ["concurrency", "request_rate"])
def test_no_report_writes_a_power_of_ten(build: ModuleType, factor: float, mode: str):
    def spread(mean: int) -> Distribution:
        return Distribution(10, mean, 7, mean // 2, mean * 9, ((50.0, mean), (90.0, mean), (99.0, mean * 5)))

    found = build.measurement(1000, 432.1, 2345, 321, (2300, 2400, 2500, 3123), interval=0.013)
    found = replace(
        found,
        tokens=TokenFigures(16, 81.234, spread(16), spread(2_345_678), 50, 25.43, spread(50), 0),
        streaming=Streaming(160, 83.21, spread(160), spread(31_234_567), spread(2_345_678)),
        goodput=Goodput("p99<1s", 9, 18.765, 0.9),
    )
    window = WindowFigures(0.0, 700_000_000, 300, 0, 431.9, 2_345_678, 2_345_678, 1, 2_300_000, 3_100_000)
    levels = []
    for value in (1, 2):
        level = build.level(found, value, mode=mode, windows=(window, window, window))
        levels.append(
            replace(level, rates=Rates(432.1, 432.2, 431.9, 432.1) if mode != "concurrency" else None)
        )
    result = scaled(build.result(*levels), factor)
    result = replace(result, levels=tuple(scaled(level, factor) for level in levels))
    document = measurement_document(result)
    screen = io.StringIO()
    show(document, Console(file=screen, width=200), is_verbose=True)
    for written in (screen.getvalue(), markdown(document), render(document)):
        said = re.sub(
            r'<script.*?</script>|<style.*?</style>| data-\w+="[^"]*"', "", written, flags=re.DOTALL
        )
        assert [said[max(0, hit.start() - 60) : hit.end() + 20] for hit in POWER.finditer(said)] == []
    assert main_csv(result)
