"""JSON text of any size, read from front to back.

A pull parser: the caller, who knows the form of the document, asks for what must come next. Objects and lists
are walked member by member; a list of scalars comes in runs and a long string in pieces, so that only a block of
text and its values are in memory, however long the list is. Within a block all parsing is `json`'s own.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol

_BLOCK = 1 << 20  # bytes
_BLOCKS_AHEAD = 1 / 16  # in sight before a run or piece is cut
_LONGEST_TOKEN = 16  # of a number's end, a constant or an escape: what a cut may have fallen into
_BLANKS = re.compile(r"[ \t\n\r]*")
_TEXTS = re.compile(r'(?:"(?:[^"\\]++|\\.)*+"[ \t\n\r]*+,[ \t\n\r]*+)++')  # whole strings before a comma
_INSIDE = re.compile(r'(?:[^"\\]++|\\[^u]|\\u.{4})*+', re.DOTALL)  # of a string, without half an escape


class JsonError(ValueError):
    """The text is not JSON, and where."""


class JsonConstant(float):
    """NaN or Infinity as written. A plain float that is infinite was a number too large for a double."""


class ByteSource(Protocol):
    """What the text comes from."""

    def read(self, size: int, /) -> bytes: ...


class JsonReader:
    """Each method begins at the next value and ends behind it; iterators must be read to their end."""

    def __init__(self, source: ByteSource, *, block: int = _BLOCK) -> None:
        self._source = source
        self._block = block  # bytes read at a time
        self._ahead = max(round(block * _BLOCKS_AHEAD), _LONGEST_TOKEN)
        self._decoder = json.JSONDecoder(parse_constant=JsonConstant, object_pairs_hook=_object)
        self._bytes_before = 0  # of what is being decoded
        self._text = ""
        self._at = 0  # in the text
        self._counted = 0  # in the text: how far its lines are counted
        self._lines = 0  # that end before there, those before the text included
        self._line_begin = 0  # in the text, negative where the line began before it
        self._is_whole = False  # nothing comes after the text
        first = source.read(block)
        self._codec = codecs.getincrementaldecoder(json.detect_encoding(first))("surrogatepass")
        self._text = self._decode(first)

    def peek(self) -> str:
        """The first character of what comes next; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks is not None else self._at
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._fill(1)

    def names(self) -> Iterator[str]:
        """The keys of an object; the caller takes the value after each."""
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
        """The numbers of a list's members; the caller takes the value after each."""
        for number in self._members("[", "]"):
            if self.peek() == "]":
                raise self.error("Expecting value")
            yield number

    def runs(self) -> Iterator[list[Any]]:
        """The scalars of a list, many at a time. After a run that holds a list or an object, nothing can follow."""
        for _ in self._members("[", "]"):
            yield self._run()

    def pieces(self) -> Iterator[str]:
        """A string, in parts; a surrogate pair written as two escapes may be cut."""
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
        """One value, whole."""
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
        """A scalar, or an empty list or object for one that is not read: enough to say what was found."""
        begin = self.peek()
        return [] if begin == "[" else {} if begin == "{" else self.value()

    def end(self) -> None:
        """Nothing may come any more."""
        if self.peek():
            raise self.error("Extra data")

    def error(self, reason: str, at: int | None = None) -> JsonError:
        line, column = self._position(self._at if at is None else at)
        return JsonError(f"line {line}, column {column}: {reason}")

    def _run(self) -> list[Any]:
        """As many members as are in sight, at least one, up to the comma or bracket after them."""
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
        """A value cut out of the text, whose first character stands for the one at `begin`."""
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
        """Stops before each member of an object or list, which the caller takes; ends behind the closing bracket."""
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
        """Reads until that many characters are in sight, or the end."""
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
        """Line and column of a place that no earlier call was beyond: lines are counted once."""
        if lines := self._text.count("\n", self._counted, at):
            self._lines += lines
            self._line_begin = self._text.rindex("\n", self._counted, at) + 1
        self._counted = max(at, self._counted)
        return self._lines + 1, at - self._line_begin + 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of the pairs; a key that comes twice would lose data silently."""
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, number in counts.items() if number > 1)
        raise ValueError(f"the key '{twice}' appears twice in one object")
    return result
