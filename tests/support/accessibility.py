"""Accessibility faults of a page, found by axe-core."""

from functools import cache
from importlib.resources import files
from typing import Any

from inferometer.report.chromium import Tab
from tests.support.browser import evaluate

SERIOUS = ("serious", "critical")


@cache
def _script() -> str:
    return files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")


def faults(tab: Tab) -> list[Any]:
    """Return (rule, first element) of every serious fault. Frames are checked as separate pages."""
    tab.call("Runtime.evaluate", expression=_script())
    found = evaluate(
        tab,
        "axe.run(document, {iframes: false, resultTypes: ['violations']}).then(found => found.violations"
        ".map(row => [row.impact, row.id, row.nodes[0].html, row.nodes[0].failureSummary]))",
    )
    return [row[1:] for row in found if row[0] in SERIOUS]
