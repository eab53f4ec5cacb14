"""A document on a terminal: the answer first, then tables and messages; charts and details are only on the page."""

import sys
import textwrap
from collections.abc import Iterator
from itertools import chain
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.containers import Lines
from rich.table import Table as Grid
from rich.text import Text

from inferometer.base.text import printable
from inferometer.report.document import Block, Depth, Document, Facts, Messages, Section, Table, Tone
from inferometer.report.format import NO_BREAK, glued

WIDTH = 100  # longer lines are hard to read
LEAST_TEXT = 12  # a text column gets narrower than this only after optional columns are dropped
LEAST_NAME = 28  # the same for names, which are hard to read when broken
BROKEN_TEXT = 5  # smallest width of a text column
GAP = 2  # blanks between columns
_GLUE = "\ue000"  # occurs in no text: it is not printable
_STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WARNING: "yellow", Tone.BAD: "red"}


class _Prose(Text):
    """Text whose lines never break between a number and its unit, unless a line is too short for both."""

    def wrap(self, console: Console, width: int, **how: Any) -> Lines:
        whole = self.copy()
        whole.plain = glued(self.plain, _GLUE)
        if any(cell_len(word) > width for word in whole.plain.split()):
            return super().wrap(console, width, **how)
        lines = whole.wrap(console, width, **how)
        for line in lines:
            line.plain = line.plain.replace(_GLUE, " ")
        return lines


def plain_text(text: str, style: str = "", **more: Any) -> Text:
    """Text that may come from others: markup and escape sequences in it have no effect."""
    return _Prose(printable(text), style=style, **more)


def show(document: Document, console: Console | None = None, *, is_verbose: bool = False) -> None:
    """Print the document on stdout or another console; details only if verbose."""
    document = document.spelled(str)
    if console is None:  # a file or a pipe has no width
        console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    width = min(WIDTH, console.width)
    verdict = plain_text(document.verdict)
    verdict.stylize(f"bold {_STYLES[document.tone]}".strip(), 0, len(verdict.plain.partition(". ")[0]) + 1)
    facts = plain_text(" · ".join((document.title, *filter(None, document.facts))), style="dim")
    sections = (_section(section, width, is_verbose=is_verbose) for section in document.sections)
    # A group, because the console would turn our text into a plain one.
    console.print(Group(verdict, facts, *chain.from_iterable(sections)), width=width)


def _section(section: Section, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    if section.is_detail:
        return
    blocks = [block for block in section.blocks if is_verbose or not getattr(block, "is_detail", False)]
    parts = [part for block in blocks for part in _block(block, section.title, width)]
    if not parts:
        return
    yield plain_text(f"\n{section.title}", style="bold")
    if section.lead:
        yield plain_text(section.lead)
    yield from parts


def _block(block: Block, title: str, width: int) -> Iterator[RenderableType]:
    if isinstance(block, Table) and block.depth in (Depth.MAIN, Depth.DRAWN):
        if block.caption != title:
            yield plain_text(block.caption)
        yield _table(block, width)
    elif isinstance(block, Facts):
        yield plain_text(block.caption)
        grid = Grid.grid(padding=(0, 2))
        for name, value in block.rows:
            grid.add_row(plain_text(f"  {name}"), plain_text(value))
        yield grid
    elif isinstance(block, Messages):
        yield from _messages(block)


def _messages(block: Messages) -> Iterator[RenderableType]:
    for number, row in enumerate(block.rows, start=1):
        mark = f"{number}." if block.is_ranked else row.tone.mark
        text = plain_text(row.text, style=_STYLES[row.tone])
        if row.advice:
            text.append_text(plain_text(f"\n{row.advice}", style="dim"))
        if not mark:
            yield text
            continue
        # A grid, so that continuation lines are indented to the text, not to the mark.
        grid = Grid.grid(padding=(0, 1))
        grid.add_row(plain_text(mark, style=_STYLES[row.tone]), text)
        yield grid


def _table(table: Table, width: int) -> Grid:
    """A table without its optional columns where the terminal is too narrow for all of them."""
    widths = [_least_width(table, place) for place in range(len(table.columns))]
    shown = list(range(len(table.columns)))
    spare = sorted(
        (place for place in shown if table.columns[place].rank), key=lambda n: (table.columns[n].rank, n)
    )
    while _total(widths, shown) > width and spare:
        shown.remove(spare.pop())
    # Text can be broken further, but a truncated figure would be wrong: drop columns on the right instead.
    least = [
        one if table.columns[place].is_number else min(one, BROKEN_TEXT) for place, one in enumerate(widths)
    ]
    figures = [place for place in shown[1:] if table.columns[place].is_number]
    while _total(least, shown) > width and figures:
        shown.remove(figures.pop())
    _fit(widths, table, shown, width)
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place in shown:
        column = table.columns[place]
        heading = textwrap.wrap(glued(column.name), widths[place], break_on_hyphens=False)
        grid.add_column(
            plain_text("\n".join(heading).replace(NO_BREAK, " ")),
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
            overflow="fold",
            width=widths[place],
        )
    for number, row in enumerate(table.rows):
        cells = [plain_text(row[place].replace("\n", " ")) for place in shown]
        cells[-1].stylize(_STYLES[table.tones[number] if table.tones else Tone.PLAIN])
        grid.add_row(*cells)
    return grid


def _total(widths: list[int], shown: list[int]) -> int:
    return sum(widths[place] + GAP for place in shown) - GAP


def _fit(widths: list[int], table: Table, shown: list[int], width: int) -> None:
    """Widen text columns while there is room, the least broken one first, or narrow them if there is none."""
    whole = [max((cell_len(row[place]) for row in table.rows), default=0) for place in range(len(widths))]
    texts = [place for place in shown if not table.columns[place].is_number]
    while _total(widths, shown) < width and (
        broken := [place for place in texts if widths[place] < whole[place]]
    ):
        widths[min(broken, key=lambda place: whole[place] - widths[place])] += 1
    words = {place: _longest_word(table, place) for place in texts}
    while _total(widths, shown) > width and (
        wide := [place for place in texts if widths[place] > BROKEN_TEXT]
    ):
        widths[max(wide, key=lambda place: (widths[place] > words[place], widths[place]))] -= 1


def _longest_word(table: Table, place: int) -> int:
    cells = (table.columns[place].name, *(row[place] for row in table.rows))
    return max((cell_len(word) for cell in cells for word in cell.split()), default=0)


def _least_width(table: Table, place: int) -> int:
    """Least width of a column: figures never break, text breaks between words, headings at any space."""
    column = table.columns[place]
    widest = max((cell_len(row[place]) for row in table.rows), default=0)
    if not column.is_number:
        least = LEAST_NAME if column.is_name else max(LEAST_TEXT, _longest_word(table, place))
        widest = min(widest, least, LEAST_NAME)
    return max([widest, *map(len, glued(column.name).split(" "))])
