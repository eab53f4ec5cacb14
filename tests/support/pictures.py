"""Pictures of every kind of page for the documentation: run `python -m tests.support.pictures` to update them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from inferometer.base.answer_file import Answer
from inferometer.report.chromium import Tab, browsing, picture
from inferometer.report.saved import write_page
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import (
    sample_comparison,
    sample_diagnosis,
    sample_inspection,
    sample_interference,
    sample_ramp,
    sample_regression,
    sample_result,
    sample_scenario,
    sample_search,
    sample_study,
    sample_tasks,
    sample_text,
)
from tests.support.twins import sample_twin

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1000, 1120
PAGES: dict[str, Callable[..., Answer]] = {
    "measure": sample_result,
    "find": sample_search,
    "ramp": sample_ramp,
    "text": sample_text,
    "compare": sample_comparison,
    "diagnose": sample_diagnosis,
    "tune": sample_study,
    "inspect": sample_inspection,
    "gate": sample_regression,
    "capacity": sample_capacity,
    "scenario": sample_scenario,
    "agents": sample_tasks,
    "interfere": sample_interference,
    "twin": sample_twin,
}
"""What each picture is of, by the command, or by what is special about it."""


def place(kind: str) -> Path:
    return FOLDER / f"page-{kind}.png"


def taken(tab: Tab, kind: str) -> bytes:
    """Take a picture of the upper part of a page."""
    with TemporaryDirectory(prefix="inferometer-pictures-") as folder:
        page = Path(folder) / "page.html"
        write_page(page, PAGES[kind]())
        return picture(tab, page, width=WIDTH, height=HEIGHT)


def all_taken() -> Iterator[tuple[str, bytes]]:
    with browsing() as tab:
        for kind in PAGES:
            yield kind, taken(tab, kind)


if __name__ == "__main__":
    for name, data in all_taken():
        place(name).write_bytes(data)
