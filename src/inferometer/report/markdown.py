"""A document as Markdown, for pull requests and wikis: texts and tables, without charts."""

import html
import re
from collections.abc import Iterator

from inferometer.base.errors import Spell
from inferometer.base.text import printable
from inferometer.report.document import Code, Depth, Document, Facts, Message, Messages, Section, Table, Tone


def markdown(document: Document, spell: Spell = str) -> str:
    """Return the whole report; the same document gives the same text."""
    document = document.spelled(spell)
    figures = tuple((figure.label, figure.value, figure.detail) for figure in document.figures)
    blocks = [
        f"# {markdown_line(document.title)}",
        " · ".join(markdown_line(fact) for fact in (document.kind, *document.facts)),
        f"**{markdown_line(document.verdict)}**",
        _grid(("", "", ""), figures, (False, True, False)) if figures else "",
        *(text for section in document.sections for text in _section(section)),
        markdown_line(f"Made by {document.tool or 'Inferometer'} from a saved result."),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _section(section: Section) -> Iterator[str]:
    blocks = tuple(text for block in section.blocks for text in _block(block, section.title))
    if not blocks:
        return
    if section.is_detail:
        yield f"<details><summary>{_html(section.title)}</summary>"
    else:
        yield f"## {markdown_line(section.title)}"
    yield markdown_block(section.lead)
    yield from blocks
    if section.is_detail:
        yield "</details>"


def _block(block: object, title: str) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block, title)
    elif isinstance(block, Facts):
        yield f"**{markdown_line(block.caption)}**"
        yield _grid(("", ""), block.rows, (False, False))
    elif isinstance(block, Messages):
        item = "1." if block.is_ranked else "-"
        yield "\n".join(f"{item} {_marked(row)}" for row in block.rows)
    elif isinstance(block, Code):
        yield f"**{markdown_line(block.caption)}**"
        yield _fenced(block.text)


def _table(table: Table, title: str) -> Iterator[str]:
    if table.depth is Depth.LISTING:
        return
    numbers = tuple(column.is_number for column in table.columns)
    grid = _grid(tuple(column.name for column in table.columns), table.rows, numbers)
    if table.depth is Depth.DETAIL:
        caption = _html(table.caption)
        yield f"<details><summary>{caption}</summary>\n\n{grid}\n\n</details>"
    else:
        if table.caption != title:
            yield f"**{markdown_line(table.caption)}**"
        yield grid


def _marked(row: Message) -> str:
    mark = f"{row.tone.mark} " if row.tone in (Tone.GOOD, Tone.BAD) else ""
    words = row.text
    if row.advice:
        words += f" {row.advice}" if words.endswith(".") else f": {row.advice}"
    return mark + markdown_block(words)


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text.rstrip())}\n{fence}"


def _grid(names: tuple[str, ...], rows: tuple[tuple[str, ...], ...], numbers: tuple[bool, ...]) -> str:
    lines = [names, *rows]
    body = ["| " + " | ".join(markdown_line(cell) for cell in line) + " |" for line in lines]
    rule = "|" + "|".join("---:" if is_number else "---" for is_number in numbers) + "|"
    return "\n".join([body[0], rule, *body[1:]])


# --- foreign texts (errors, names, values from servers and files) stay plain text


_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|@(?=\w)", re.IGNORECASE)
_OPENING = re.compile(r"#|[-+=](?=\s|$)|[-=]{2}|\d{1,9}(?=[.)](?:\s|$))")


def markdown_line(text: str) -> str:
    """A text on one line with all markup escaped: links, images, tags, emphasis and cells."""
    return _SPECIAL.sub(lambda match: f"\\{match.group()}", printable(" ".join(text.split())))


def markdown_block(text: str) -> str:
    """The same for the start of a paragraph or list item, where more characters are markup."""
    words = markdown_line(text)
    mark = _OPENING.match(words)
    if mark is None:
        return words
    return f"\\{words}" if not mark.group().isdigit() else f"{mark.group()}\\{words[mark.end() :]}"


def _html(text: str) -> str:
    """Escaped text for the inside of an HTML tag in Markdown."""
    return html.escape(printable(" ".join(text.split())))
