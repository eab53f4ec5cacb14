"""Events of a stream that are alike but for one word, so that most of them need not be parsed.

A server writes the events of an answer with the same code: they begin and end with the same bytes, and only the word of
the answer between them differs. An event that was parsed shows where its word stands; one with the same bytes around
another plain word (letters of ASCII without quotes, escapes and control characters) can only mean the same.
Whatever is not exactly so has to be parsed.
"""

import re

_PLAIN = re.compile(rb'[ !#-\[\]-~]+"')  # up to the quote at its end
_TRIES = 4  # events that are parsed in the hope that those that follow are alike


class Alike:
    """Of one stream."""

    __slots__ = ("_after", "_before", "_start", "_tries")

    def __init__(self) -> None:
        self._before = self._after = b""
        self._start = 0  # of the word
        self._tries = _TRIES

    def has_word(self, data: bytes) -> bool:
        """Whether it is the event that was learned with another word."""
        if not self._start or not data.startswith(self._before):
            return False
        found = _PLAIN.match(data, self._start)
        return found is not None and data[found.end() :] == self._after

    def learn(self, data: bytes, key: bytes, word: str) -> None:
        """From an event whose only `key` has this word, which is not empty."""
        if not self._tries or not word.isascii():
            return
        self._tries -= 1
        start = (
            data.find(b'"', data.find(key) + len(key)) + 1
        )  # behind the colon, and a blank if there is one
        found = _PLAIN.match(data, start)
        if data.count(key) != 1 or found is None or found[0][:-1] != word.encode():
            return
        self._before, self._after, self._start = data[:start], data[found.end() :], start
