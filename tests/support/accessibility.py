"""Faults of a page that axe-core finds: what readers of screens, keyboards and weak eyes would stumble over."""

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
    """(rule, the first element) of every serious fault. Frames are pages of their own."""
    tab.call("Runtime.evaluate", expression=_script())
    found = evaluate(
        tab,
        "axe.run(document, {iframes: false, resultTypes: ['violations']}).then(found => found.violations"
        ".map(row => [row.impact, row.id, row.nodes[0].html, row.nodes[0].failureSummary]))",
    )
    return [row[1:] for row in found if row[0] in SERIOUS]
