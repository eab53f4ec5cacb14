"""Streaming reader of JSON text of any size.

A pull parser: the caller knows the form of the document and requests the expected parts. Objects and lists
are read member by member; a list of scalars in runs and a long string in pieces, so that only a block of
text and its values are in memory, however long the list is. Within a block, `json` does all parsing.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol

_BLOCK = 1 << 20  # bytes
_BLOCKS_AHEAD = 1 / 16  # buffered before a run or piece is split
_LONGEST_TOKEN = 16  # characters of a number's end, a constant or an escape, which a split may have hit
_BLANKS = re.compile(r"[ \t\n\r]*")
_TEXTS = re.compile(r'(?:"(?:[^"\\]++|\\.)*+"[ \t\n\r]*+,[ \t\n\r]*+)++')  # complete strings before a comma
# Content of a string, without a partial escape.
_INSIDE = re.compile(r'(?:[^"\\]++|\\[^u]|\\u.{4})*+', re.DOTALL)


class JsonError(ValueError):
    """Error with the position of invalid JSON."""


class JsonConstant(float):
    """NaN or Infinity in the text. An infinite plain float was a number too large for a double."""


class ByteSource(Protocol):
    """File-like source of the bytes of the text."""

    def read(self, size: int, /) -> bytes: ...


class JsonReader:
    """Pull parser. Each method reads the next value; iterators must be exhausted."""

    def __init__(self, source: ByteSource, *, block: int = _BLOCK) -> None:
        self._source = source
        self._block = block  # bytes read at a time
        self._ahead = max(round(block * _BLOCKS_AHEAD), _LONGEST_TOKEN)
        self._decoder = json.JSONDecoder(parse_constant=JsonConstant, object_pairs_hook=_object)
        self._bytes_before = 0  # before the bytes being decoded
        self._text = ""
        self._at = 0  # position in the text
        self._counted = 0  # position up to which lines are counted
        self._lines = 0  # lines that end before it, including discarded text
        self._line_begin = 0  # position of the line's start; negative if before the text
        self._is_whole = False  # the text is complete
        first = source.read(block)
        self._codec = codecs.getincrementaldecoder(json.detect_encoding(first))("surrogatepass")
        self._text = self._decode(first)

    def peek(self) -> str:
        """Return the first character of the next token; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks is not None else self._at
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._fill(1)

    def names(self) -> Iterator[str]:
        """Yield the keys of an object; the caller reads the value after each."""
        seen: set[str] = set()
        for _ in self._members("{", "}"):
            if self.peek() != '"':
                raise self.error("Expecting property name enclosed in double quotes")
            line, column = self._position(self._at)
            name = self.value()
            if name in seen:
                raise JsonError(f"line {line}, column {column}: the key '{name}' appears twice in one object")
            seen.add(name)
            if self.peek() != ":":
                raise self.error("Expecting ':' delimiter")
            self._at += 1
            yield name

    def items(self) -> Iterator[int]:
        """Yield the indexes of a list's members; the caller reads the value after each."""
        for number in self._members("[", "]"):
            if self.peek() == "]":
                raise self.error("Expecting value")
            yield number

    def runs(self) -> Iterator[list[Any]]:
        """Yield the scalars of a list in runs. A run that contains a list or an object is the last one."""
        for _ in self._members("[", "]"):
            yield self._run()

    def pieces(self) -> Iterator[str]:
        """Yield a string in parts; a surrogate pair written as two escapes may be split."""
        line, column = self._position(self._at)
        self._take('"')
        while True:
            self._fill(self._ahead)
            end = self._text.find('"', self._at)
            if self._text.find("\\", self._at, end if end >= 0 else None) >= 0:
                inside = _INSIDE.match(self._text, self._at)
                end = inside.end() if inside is not None else end
            end = end if end >= 0 else len(self._text)
            if end > self._at:
                yield str(self._parse(f'"{self._text[self._at : end]}"', self._at - 1))
                self._at = end
            elif self._text[end : end + 1] == '"':
                self._at += 1
                return
            elif self._text[end : end + 1] == "\\":
                raise self.error("Invalid \\uXXXX escape")
            else:
                raise JsonError(f"line {line}, column {column}: Unterminated string starting here")

    def value(self) -> Any:
        """Read one complete value."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _LONGEST_TOKEN
                if self._is_whole or not is_cut:
                    raise self.error(error.msg, error.pos) from None
            except RecursionError:
                raise self.error("nested too deeply") from None
            except ValueError as error:
                raise self.error(str(error)) from None
            else:
                if self._is_whole or end + _LONGEST_TOKEN <= len(self._text):
                    self._at = end
                    return found
            self._fill(2 * (len(self._text) - self._at) + _LONGEST_TOKEN)

    def glance(self) -> Any:
        """Return a scalar, or an empty list or object in place of an unread one, for error messages."""
        begin = self.peek()
        return [] if begin == "[" else {} if begin == "{" else self.value()

    def end(self) -> None:
        """Check that no text follows."""
        if self.peek():
            raise self.error("Extra data")

    def error(self, reason: str, at: int | None = None) -> JsonError:
        line, column = self._position(self._at if at is None else at)
        return JsonError(f"line {line}, column {column}: {reason}")

    def _run(self) -> list[Any]:
        """Read all buffered members, at least one, up to the comma or bracket after them."""
        self._fill(self._ahead)
        end = self._text.find("]", self._at)
        end = end if end >= 0 else self._text.rfind(",", self._at)
        if end < 0 or any(self._text.find(mark, self._at, end) >= 0 for mark in '"[{'):
            self.peek()
            texts = _TEXTS.match(self._text, self._at)
            if texts is None:
                return [self.glance()]
            end = self._text.rfind(",", self._at, texts.end())
        values: list[Any] = self._parse(f"[{self._text[self._at : end]}]", self._at - 1)
        if not values:
            raise self.error("Expecting value", end)
        self._at = end
        return values

    def _parse(self, text: str, begin: int) -> Any:
        """Parse a value extracted from the text at `begin`."""
        try:
            return self._decoder.decode(text)
        except json.JSONDecodeError as error:
            raise self.error(error.msg, begin + error.pos) from None
        except ValueError as error:
            raise self.error(str(error)) from None

    def _take(self, begin: str) -> None:
        if self.peek() != begin:
            raise self.error("Expecting value")
        self._at += 1

    def _members(self, begin: str, end: str) -> Iterator[int]:
        """Yield before each member of an object or list, which the caller reads; end after the closing bracket."""
        self._take(begin)
        if self.peek() == end:
            self._at += 1
            return
        for number in count():
            yield number
            found = self.peek()
            if found not in (end, ","):
                raise self.error("Expecting ',' delimiter")
            self._at += 1
            if found == end:
                return

    def _fill(self, least: int) -> None:
        """Buffer at least that many characters, or all up to the end."""
        in_sight = len(self._text) - self._at
        if self._is_whole or in_sight >= least:
            return
        parts = [self._text[self._at :]]
        while in_sight < least and not self._is_whole:
            parts.append(self._decode(self._source.read(self._block)))
            in_sight += len(parts[-1])
        self._position(self._at)
        self._counted = 0
        self._line_begin -= self._at
        self._text = "".join(parts)
        self._at = 0

    def _decode(self, block: bytes) -> str:
        self._is_whole = not block
        pending = len(self._codec.getstate()[0])
        try:
            text = self._codec.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise JsonError(f"byte {self._bytes_before - pending + error.start}: not UTF-8 text") from None
        self._bytes_before += len(block)
        return text

    def _position(self, at: int) -> tuple[int, int]:
        """Return line and column of a position; positions must not decrease, since lines are counted once."""
        if lines := self._text.count("\n", self._counted, at):
            self._lines += lines
            self._line_begin = self._text.rindex("\n", self._counted, at) + 1
        self._counted = max(at, self._counted)
        return self._lines + 1, at - self._line_begin + 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of the pairs; refuse duplicate keys, which would silently lose data."""
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, number in counts.items() if number > 1)
        raise ValueError(f"the key '{twice}' appears twice in one object")
    return result
