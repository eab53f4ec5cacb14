"""Makes foreign text safe to print, and foreign JSON safe to use."""

import math
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from unicodedata import category

from inferometer.base.secrets import redacted

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")


def printable(text: str) -> str:
    r"""Escape characters that a terminal would interpret or cannot show, for example as `\x1b`.

    Control characters move the cursor and change colours, others reverse the direction of writing, and lone surrogates
    have no encoding.
    """
    return _UNUSUAL.sub(lambda found: _written(found[0]), text)


def to_stderr(text: str) -> None:
    """Print a line to stderr at once; ignore failures, since the exit code reports the error too."""
    with suppress(OSError):
        print(printable(redacted(text.rstrip("\n"))), file=sys.stderr, flush=True)


def _written(char: str) -> str:
    is_shown = char.isprintable() or category(char) == "Zs"
    return char if is_shown else char.encode("unicode_escape").decode()


def encodable(text: str) -> str:
    """Replace lone surrogates in the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return text


def is_digits(text: str) -> bool:
    """Return whether the text is a whole number of up to 18 ASCII digits; `str.isdigit` also accepts other scripts."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word with the smallest edit distance, or "" if none is close."""
    found = min(known, key=lambda other: _distance(word, other), default="")
    distance = _distance(word, found)
    keeps_a_letter = distance < len(found.strip("-"))  # "2" is not close to "0"
    return found if keeps_a_letter and distance <= max(1, len(word.strip("-")) // 3) else ""


def _distance(one: str, other: str) -> int:
    """Count the letters to insert, delete, replace or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        earlier, before, row = before, row, [place]
        for number, match in enumerate(other, 1):
            cost = min(before[number] + 1, row[-1] + 1, before[number - 1] + (letter != match))
            if place > 1 and number > 1 and (one[place - 2], letter) == (match, other[number - 2]):
                cost = min(cost, earlier[number - 2] + 1)
            row.append(cost)
    return row[-1]


# --- JSON

DEEPEST = 64
_LONGEST = 38  # digits, far below the largest float


def decode_json(text: bytes | bytearray | str) -> Any:
    """Decode a document, raising only ValueError.

    Reject or repair values that Python's decoder accepts but later code cannot handle: NaN and infinities, integers too
    large for a float, unlimited nesting. A lone surrogate becomes U+FFFD.
    """
    import json  # not needed by workers

    try:
        return _mended(
            json.loads(text, parse_constant=_refuse, parse_float=_fraction, parse_int=_integer), DEEPEST
        )
    except RecursionError:
        raise _too_deep() from None


def encode_json(document: Any) -> bytes:
    """Encode without white space, in UTF-8."""
    import json

    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _mended(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, (dict, list)) and not depth:
        raise _too_deep()
    if isinstance(value, dict):
        return {encodable(name): _mended(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list):
        return [_mended(part, depth - 1) for part in value]
    return value


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEEPEST} deep")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _fraction(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST:
        raise ValueError(f"the number {digits[:20]}... has more than {_LONGEST} digits")
    return int(digits)
