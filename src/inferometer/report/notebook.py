"""An answer in a notebook: its verdict, figures and main table, as a self-contained fragment.

Colours are the notebook's or half transparent, so that it is readable on light and dark pages; all text is escaped.
"""

from collections.abc import Iterator

from markupsafe import Markup

from inferometer.base.answer_file import Answer
from inferometer.base.text import printable
from inferometer.report.document import Depth, Document, Figure, Table, Tone
from inferometer.report.format import plural
from inferometer.report.page import element
from inferometer.report.saved import document

_EDGES = {Tone.PLAIN: "#888888", Tone.GOOD: "#2e9e5b", Tone.WARNING: "#d18f00", Tone.BAD: "#d64545"}
_BOX = "max-width:60em;padding:.6em .9em;border:1px solid rgba(128,128,128,.35);border-left:5px solid {};"
_LINE = "border-bottom:1px solid rgba(128,128,128,.25);padding:.2em .6em;"
_NUMBER, _TEXT = f"{_LINE}text-align:right;white-space:nowrap", f"{_LINE}text-align:left"
MOST_ROWS = 40


def fragment(answer: Answer) -> str:
    """The return value of `_repr_html_`."""
    return str(_fragment(document(answer)))


def _fragment(found: Document) -> Markup:
    facts = " · ".join((found.kind, *found.facts))
    style = {"style": f"{_BOX.format(_EDGES[found.tone])}background:transparent;color:inherit"}
    return element(
        "div",
        style,
        element("div", {"style": "font-size:1.15em;font-weight:600"}, printable(found.title)),
        element("div", {"style": "opacity:.7;font-size:.9em"}, printable(facts)),
        element("div", {"style": "margin:.5em 0"}, printable(f"{found.tone.mark} {found.verdict}".strip())),
        element("div", {"style": "display:flex;flex-wrap:wrap;gap:.3em 1.6em"}, *map(_figure, found.figures)),
        *(_table(table) for table in _main_tables(found)),
    )


def _figure(figure: Figure) -> Markup:
    return element(
        "div",
        {"title": printable(figure.detail)},
        element("span", {"style": "opacity:.7"}, f"{printable(figure.label)} "),
        element("b", {}, printable(figure.value)),
    )


def _main_tables(found: Document) -> Iterator[Table]:
    """The first table that is not folded."""
    tables = (block for section in found.sections for block in section.blocks if isinstance(block, Table))
    yield from [table for table in tables if table.depth is Depth.MAIN][:1]


def _table(table: Table) -> Markup:
    names = tuple(column.name for column in table.columns)
    rows = [_row("td", row, table) for row in table.rows[:MOST_ROWS]]
    left = len(table.rows) - len(rows)
    more = [element("div", {"style": "opacity:.7"}, f"and {plural(left, 'more row')}")] if left > 0 else []
    style = {"style": "border-collapse:collapse;margin-top:.6em;color:inherit;font-size:inherit"}
    grid = element("table", style, _row("th", names, table), *rows)
    return element("div", {"style": "overflow-x:auto"}, grid, *more)


def _row(name: str, cells: tuple[str, ...], table: Table) -> Markup:
    """A row without the optional columns."""
    shown = [(cell, column) for cell, column in zip(cells, table.columns, strict=True) if not column.rank]
    return element(
        "tr",
        {},
        *(
            element(name, {"style": _NUMBER if column.is_number else _TEXT}, printable(cell))
            for cell, column in shown
        ),
    )
