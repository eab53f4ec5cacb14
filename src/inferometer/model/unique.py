"""Unique beginnings of texts, different for every request.

A rendered request is sent many times. So that no server can have cached its beginning, its text contains a placeholder
of fixed size in bytes and tokens, and each send fills it with another number. The number is written in words of one
token and equal width, lowest digit first: consecutive numbers differ in their first token.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

MARK = "~"  # fills a placeholder in the template; no word contains it
BITS = 50  # of a number: ten for the worker, the others for its start time in microseconds plus the sends since then
COUNTER_BITS = 40


class Unique(NamedTuple):
    """Number system for unique beginnings; `words` are the digits, in UTF-8."""

    words: tuple[bytes, ...]

    @property
    def width(self) -> int:
        return len(self.words[0])

    @property
    def tokens(self) -> int:
        """Digits of a complete number."""
        base, found, reach = len(self.words), 1, len(self.words)
        while reach < 1 << BITS:
            found, reach = found + 1, reach * base
        return found

    def place(self, tokens: int) -> str:
        return MARK * self.width * tokens

    def start(self, number: int, tokens: int) -> bytes:
        """Return this many of the lowest digits."""
        words, base, digits = self.words, len(self.words), []
        for _ in range(tokens):
            number, digit = divmod(number, base)
            digits.append(words[digit])
        return b"".join(digits)


def maybe_unique(words: Sequence[str]) -> Unique | None:
    """Build digits from words of the most common width; None if no two words have the same width."""
    widths = defaultdict(list)
    for word in (word.encode() for word in words):
        widths[len(word)].append(word)
    most = max(widths.values(), key=len)
    return Unique(tuple(most)) if len(most) > 1 else None
