"""A document as one page: nothing is fetched, it opens from a file, on a phone and on paper."""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from inferometer.base.text import printable
from inferometer.base.writing import write_file
from inferometer.report.charts import bars_figure, chart_figure, differences_figure
from inferometer.report.document import Bars, Block, Chart, Differences, Document

NO_BREAK = "\u00a0"
_UNIT = re.compile(
    r"(?<=\d) (?=(?:ns|µs|ms|s|%|infer/s|GiB)(?![\w/]))|(?<=concurrency) (?=\d)|(?<=request rate) (?=\d)"
)

if TYPE_CHECKING:
    from jinja2 import Environment


def render(document: Document) -> str:
    """The whole page; the same document gives the same bytes."""
    template = _environment().get_template("page.html.j2")
    page = template.render(
        document=document,
        block=_block,
        style=_part("style.css"),
        script=_part("script.js"),
        source=_embedded(document.source),
    )
    return printable(page)  # tags are escaped already; here only what no page may have


def write(document: Document, path: Path) -> None:
    """Write the page."""
    write_file(path, render(document))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("inferometer.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["glued"] = _glued
    return environment


def _glued(text: str) -> str:
    """A number and its unit are never torn apart at the end of a line."""
    return _UNIT.sub(NO_BREAK, text)


def _block(block: Block, title: str) -> Markup:
    if isinstance(block, Chart):
        return chart_figure(block)
    if isinstance(block, Bars):
        return bars_figure(block)
    if isinstance(block, Differences):
        return differences_figure(block)
    macros = _environment().get_template("blocks.html.j2").module
    return Markup(getattr(macros, type(block).__name__.lower())(block, title))


@cache
def _part(name: str) -> Markup:
    return Markup((files("inferometer.report") / "templates" / name).read_text(encoding="utf-8"))


def _embedded(source: str) -> Markup:
    """JSON that cannot end the script it stands in: `<` is written as its escape, which means the same."""
    return Markup(source.replace("<", "\\u003c"))
