"""Text that others wrote, as it may be printed."""

import re
from unicodedata import category

_PRINTABLE = re.compile(r"[\x20-\x7e\n\t]*")


def printable(text: str) -> str:
    """The text with everything that a terminal would obey, or could not show, written as its escape: `\\x1b`.

    Control characters move the cursor and change colours, others turn the direction of writing, and lone surrogates
    have no encoding.
    """
    if _PRINTABLE.fullmatch(text):
        return text
    return "".join(char if char.isprintable() or _is_blank(char) else _written(char) for char in text)


def _is_blank(char: str) -> bool:
    return char in "\n\t" or category(char) == "Zs"


def _written(char: str) -> str:
    return char.encode("unicode_escape").decode()


def encodable(text: str) -> str:
    """The text without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return text


def is_digits(text: str) -> bool:
    """Whether it is a whole number of up to 18 plain digits; `str.isdigit` also takes those of other scripts."""
    return text.isascii() and text.isdigit() and len(text) <= 18
