"""Starts of texts that no two requests share.

A rendered request is sent many times. So that no server can know the beginning of one from an earlier time, its text
holds a place, of a fixed size in bytes and in tokens, and each send fills it with another number. The number is written
in words of one token and one width, the lowest digit first: neighbours differ in their first token.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

MARK = "~"  # what a place is filled with before; no word has it
BITS = (
    50  # of a number: ten for the worker, the others for the microsecond it began in and the sends since then
)
COUNTER_BITS = 40


class Unique(NamedTuple):
    """`words` are the digits, in UTF-8."""

    words: tuple[bytes, ...]

    @property
    def width(self) -> int:
        return len(self.words[0])

    @property
    def tokens(self) -> int:
        """Digits of a whole number."""
        base, found, reach = len(self.words), 1, len(self.words)
        while reach < 1 << BITS:
            found, reach = found + 1, reach * base
        return found

    def place(self, tokens: int) -> str:
        return MARK * self.width * tokens

    def start(self, number: int, tokens: int) -> bytes:
        """The lowest so many digits."""
        words, base, digits = self.words, len(self.words), []
        for _ in range(tokens):
            number, digit = divmod(number, base)
            digits.append(words[digit])
        return b"".join(digits)


def maybe_unique(words: Sequence[str]) -> Unique | None:
    """Of the width that most of the words have; None where no two have one width."""
    widths = defaultdict(list)
    for word in (word.encode() for word in words):
        widths[len(word)].append(word)
    most = max(widths.values(), key=len)
    return Unique(tuple(most)) if len(most) > 1 else None
