"""Text that others wrote (errors, names, values of servers and files) as plain text in every format of a report.

HTML has no function here: jinja2 escapes in the templates, and `charts.element` in drawings.
"""

import html
import re

from rich.text import Text

from inferometer.base.text import printable


def terminal(text: str, style: str = "", *, overflow: str | None = None, no_wrap: bool | None = None) -> Text:
    """For a terminal: neither markup nor escape sequences in it are obeyed."""
    return Text(printable(text), style=style, overflow=overflow, no_wrap=no_wrap)  # type: ignore[arg-type]


_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|@(?=\w)", re.IGNORECASE)
_OPENING = re.compile(r"#|[-+=](?=\s|$)|[-=]{2}|\d{1,9}(?=[.)](?:\s|$))")


def markdown(text: str) -> str:
    """On one line, with nothing in it taken for markup: no links, pictures, tags, emphasis or cells of its own."""
    return _SPECIAL.sub(lambda match: "\\" + match.group(0), printable(" ".join(text.split())))


def markdown_block(text: str) -> str:
    """The same at the beginning of a paragraph or a list's item, where more is markup."""
    words = markdown(text)
    mark = _OPENING.match(words)
    if mark is None:
        return words
    return f"\\{words}" if not mark.group().isdigit() else f"{mark.group()}\\{words[mark.end() :]}"


def markdown_html(text: str) -> str:
    """Inside a tag of a Markdown text, where HTML is meant."""
    return html.escape(printable(" ".join(text.split())))


_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?%?", re.IGNORECASE)


def cell(text: str) -> str:
    """For a CSV file that a spreadsheet may open: a text that would be taken for a formula begins with a quote."""
    words = printable(text)
    if words[:1] in ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%") and not _NUMBER.fullmatch(words):
        return f"'{words}" if words != "-" else words
    return words


def xml(text: str) -> str:
    """Without the characters XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def file_part(name: str) -> str:
    """A name as a part of a file's: what would lead to another folder, or is no text, becomes an underscore."""
    kept = "".join("_" if char in "/\0" or not char.isprintable() else char for char in name)
    return kept.encode("utf-8", "replace").decode()[:100]
