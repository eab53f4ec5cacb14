"""Recognition, by their bytes, of stream events that are like an earlier one.

Most events of an answer differ only in the text they carry: `HEAD text TAIL`, with the same head and tail again and
again. Once one of them has been parsed, the meaning of the next is known without reading its JSON, which is most of the
cost of an event. An event counts as alike only if that is certain: the text is that of the first choice or the
reasoning before it (verified by substituting another text) and is not empty, and there is no usage, which could replace
a later one. All other events are read as usual.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from inferometer.wire.sse import EVENT_LIMIT, Event

_TEXT = re.compile(rb'"(?:content|text|reasoning_content|reasoning)"\s*+:\s*+"(?!")')
# The content of a JSON string, not empty.
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))++')
is_plain = re.compile(rb"[ !#-\[\]-~]++").fullmatch  # the usual text: printable ASCII without escapes
_PARTS = ("content", "reasoning_content", "reasoning")
_MARK = "another text"
_FIRST = b"data: "
_LAST = b"\n\n"
_NEVER = b"\n\n\n"  # no event begins like this
_PATIENCE = 3  # useless examples before giving up: some servers number every event


class AlikeEvents:
    """Common pattern of the events of one stream; empty at first."""

    __slots__ = ("_learned_at", "_vain", "head", "is_known", "tail")

    def __init__(self) -> None:
        self.is_known = False
        self.head, self.tail = _NEVER, b""  # beginning and end of an alike event
        self._learned_at = 0
        self._vain = 0

    @property
    def is_given_up(self) -> bool:
        return self._vain == _PATIENCE

    def learn(self, event: Event, document: Mapping[str, Any], number: int) -> None:
        """Use this parsed event, which is response `number`, as the example for those that follow."""
        self.is_known, self.head = False, _NEVER
        if number > self._learned_at + 1:  # later events matched the last example
            self._vain = 0
        self._learned_at = number
        if self.is_given_up or event.name or b"\n" in event.data:
            return
        self._vain += 1
        found = _TEXT.search(event.data)
        text = None if found is None else _INSIDE.match(event.data, found.end())
        if found is None or text is None:
            return
        head, tail = event.data[: found.end()], event.data[text.end() :]
        if not document.get("usage") and _is_answer(head + _MARK.encode() + tail):
            self.head, self.tail, self.is_known = _FIRST + head, tail + _LAST, True

    def forget(self) -> None:
        """Stop treating events as alike."""
        self.is_known, self.head = False, _NEVER
        self._vain = _PATIENCE

    def count(self, data: bytes, at: int, is_ascii: bool) -> tuple[int, int]:
        """Return the number of alike events from `at` on, and where the last of them ends.

        `is_ascii` is data.isascii(), which the caller computes once for all its calls.
        """
        head, tail = self.head, self.tail
        number = 0
        while data.startswith(head, at):
            text = _INSIDE.match(data, at + len(head), at + EVENT_LIMIT)
            if text is None or not data.startswith(tail, end := text.end()):
                break
            if not (is_ascii or _is_unicode(text[0])):
                break
            at = end + len(tail)
            number += 1
        return number, at


def _is_answer(event: bytes) -> bool:
    """Return whether the other text is a piece of the first choice's answer, or of its reasoning."""
    choice = json.loads(event)["choices"][0]
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    return choice.get("text") == _MARK or (isinstance(delta, dict) and _MARK in map(delta.get, _PARTS))


def _is_unicode(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
