"""Recognition, by their bytes, of stream events that are like an earlier one.

Most events of an answer differ only in the text they carry: `HEAD text TAIL`, with the same head and tail again and
again. Once one of them has been parsed, the meaning of the next is known without reading its JSON, which is most of the
cost of an event. An event counts as alike only if that is certain: the text is that of the first choice or the
reasoning before it (verified by substituting another text) and is not empty, and there is no usage, which could replace
a later one. All other events are read as usual.
"""

import json
import re
from functools import lru_cache

from inferometer.services.text_api import ANSWER, EventMeaning, ReplyForm
from inferometer.wire.lines import LineDecoder
from inferometer.wire.sse import EVENT_LIMIT, Event, SseDecoder

# The content of a JSON string, not empty.
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))++')
is_plain = re.compile(rb"[ !#-\[\]-~]++").fullmatch  # the usual text: printable ASCII without escapes
_MARK = "another text"
_NEVER = b"\n\n\n"  # no event begins like this
_PATIENCE = 3  # useless examples before giving up: some servers number every event


class AlikeEvents:
    """Common pattern of the events of one stream; empty at first."""

    __slots__ = ("_decoder", "_form", "_learned_at", "_vain", "head", "is_known", "is_said", "tail")

    def __init__(self, form: ReplyForm, decoder: SseDecoder | LineDecoder) -> None:
        self.is_known = False
        self.is_said = False  # their text belongs to the answer of the first choice
        self.head, self.tail = _NEVER, b""  # beginning and end of an alike event
        self._decoder = decoder
        self._form = form
        self._learned_at = 0
        self._vain = 0

    @property
    def is_given_up(self) -> bool:
        return self._vain == _PATIENCE

    def learn(self, event: Event, meaning: EventMeaning, number: int) -> None:
        """Use this parsed event, which is response `number`, as the example for those that follow."""
        self.is_known, self.head = False, _NEVER
        if number > self._learned_at + 1:  # later events matched the last example
            self._vain = 0
        self._learned_at = number
        if self.is_given_up or b"\n" in event.data:
            return
        self._vain += 1
        if meaning.usage is not None or meaning.is_end or meaning.error:
            return
        found = _before_text(self._form.texts).search(event.data)
        text = None if found is None else _INSIDE.match(event.data, found.end())
        if found is None or text is None:
            return
        head, tail = event.data[: found.end()], event.data[text.end() :]
        if self._is_like(head + _MARK.encode() + tail, event.name, meaning):
            # Compare with the usual layout of the framing; in another one, events are not alike.
            whole = self._decoder.framed(Event(head + _NEVER + tail, event.name))
            self.head, _, self.tail = whole.partition(_NEVER)
            self.is_known = True
            (delta,) = meaning.deltas
            self.is_said = bool(delta.carries & ANSWER) and not delta.choice

    def _is_like(self, data: bytes, name: bytes, meaning: EventMeaning) -> bool:
        """Return whether the event, with its text replaced, differs only in the text of its part of the answer."""
        (delta,) = meaning.deltas
        found = self._form.event(json.loads(data), name)
        return list(found.deltas) == [delta._replace(text=_MARK)] and found[1:] == meaning[1:]

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

    def texts(self, data: bytes) -> list[str]:
        """Return the texts of alike events that directly follow each other."""
        # A text has no quotes but escaped ones, so it contains neither the end of its event nor the start of another.
        pieces = data[len(self.head) : len(data) - len(self.tail)].split(self.tail + self.head)
        return [json.loads(b'"%s"' % piece) if b"\\" in piece else piece.decode() for piece in pieces]


@lru_cache
def _before_text(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return the pattern of the bytes before the text of an event."""
    return re.compile(rb'"(?:%s)"\s*+:\s*+"(?!")' % "|".join(map(re.escape, names)).encode())


def _is_unicode(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
