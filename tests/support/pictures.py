"""Pictures of every kind of page for the documentation: run `python -m tests.support.pictures` to update them."""

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from inferometer.base.answer_file import Answer
from inferometer.report.chromium import Tab, browsing, picture
from inferometer.report.saved import write_page
from tests.support.browser import colours, evaluate
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
PHONE, PHONE_GAP = (375, 900), 24
SCREENS = (("dark", "body"), ("light", "#time"), ("dark", "#distribution"))
"""The colours of each screen of a phone, and what is at its top."""
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


def report_taken(tab: Tab) -> bytes:
    """Take a longer picture of the page of a measurement, for the README."""
    with _sample_page() as page:
        return picture(tab, page, width=WIDTH, height=1500)


def phone_taken(tab: Tab) -> bytes:
    """Take three screens of the same page on a phone, side by side."""
    from PIL import Image

    width, height = PHONE
    whole = Image.new("RGB", (len(SCREENS) * (width + PHONE_GAP) - PHONE_GAP, height), "#c8ccd2")
    with _sample_page() as page:
        for number, (scheme, top) in enumerate(SCREENS):
            tab.open(page, width=width, height=height)
            colours(tab, scheme)
            evaluate(tab, f"scrollTo(0, document.querySelector('{top}').getBoundingClientRect().top - 16)")
            data = base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"])
            whole.paste(Image.open(io.BytesIO(data)), (number * (width + PHONE_GAP), 0))
    colours(tab, "light")
    written = io.BytesIO()
    whole.quantize(128).save(written, "PNG", optimize=True)
    return written.getvalue()


@contextmanager
def _sample_page() -> Iterator[Path]:
    with TemporaryDirectory(prefix="inferometer-pictures-") as folder:
        page = Path(folder) / "page.html"
        result = sample_result()
        write_page(page, replace(result, levels=tuple(replace(level, remarks=()) for level in result.levels)))
        yield page


def all_taken() -> Iterator[tuple[str, bytes]]:
    with browsing() as tab:
        for kind in PAGES:
            yield f"page-{kind}", taken(tab, kind)
        yield "report", report_taken(tab)
        yield "report-phone", phone_taken(tab)


if __name__ == "__main__":
    for name, data in all_taken():
        (FOLDER / f"{name}.png").write_bytes(data)
