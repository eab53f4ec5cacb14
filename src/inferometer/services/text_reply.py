"""Interpretation of the replies of text servers: JSON documents, or streams of server-sent events or of lines.

A response is a part of an event that carries a piece of the answer, of the reasoning before it or of a tool call. The
first event of a chat often only names the role, the last ones give the finish reason and the usage; none of these is a
response. Tokens are those that the server reports; if there are several reports, the last counts. The API defines what
an event means (`text_api.ReplyForm`). Some servers do not mark the end of a stream: then a body that is complete by its
framing is complete, unless it ends within an event.

A request for several choices (`n`) has their events in one stream, in any order. Gaps are between the tokens of one
choice, so the times are grouped by choice; see `by_choice`.

Latency ends with the last response, as for every other stream (docs/measurement.md): a reader of the answer does not
wait for later events. If no event carries content, it ends with the last event before `[DONE]`.
"""

import json
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import NamedTuple

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.base.frozen import frozen
from inferometer.base.text import decode_json
from inferometer.services.alike_events import AlikeEvents, is_plain
from inferometer.services.endpoint import without_key
from inferometer.services.openai_api import OPENAI
from inferometer.services.text_api import (
    ANSWER,
    REASONING,
    TOOL,
    Delta,
    ReplyForm,
    Usage,
    WholeMeaning,
    maybe_error,
)
from inferometer.services.traffic import Reply, ReplyBody, WholeBody
from inferometer.wire.http1 import UNTIL_CLOSE, Head
from inferometer.wire.lines import LineDecoder
from inferometer.wire.sse import Event, SseDecoder

DONE = b"[DONE]"
BODY_LIMIT = 64 * 1024 * 1024  # bytes of a whole reply, or of the kept events of a stream
EVENT_COST = 128  # bytes of memory per kept event in addition to its content
MOST_RESPONSES = 1 << 20  # of one stream: many times more than in any real answer
_EVENTS = "text/event-stream"
_LINES = (
    *("application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines"),
    *("application/x-jsonlines", "application/stream+json"),
)
"""Content types of streams of lines with a JSON document each."""


@frozen
class TextReader:
    """Reader of every reply, for its tokens and errors."""

    keeps_message: bool = False  # for the next turn of its session
    keeps_texts: bool = False  # for an export
    keeps_answer: bool = False  # for a check
    key: str = field(default="", repr=False)  # secret that a server may repeat in its texts
    form: ReplyForm = OPENAI

    def start(self, head: Head) -> ReplyBody:
        content_type = (head.get("content-type") or "").lower()
        is_framed = head.length != UNTIL_CLOSE
        if content_type.startswith(_EVENTS):
            return self._events(SseDecoder(), is_framed=is_framed)
        if content_type.startswith(_LINES) or self.form.has_lines:
            return self._events(LineDecoder(), is_framed=is_framed)
        counted = self.form.head(head)
        return WholeBody(lambda body, last_ns: self._whole(body, last_ns, counted), limit=BODY_LIMIT)

    def _events(self, decoder: SseDecoder | LineDecoder, *, is_framed: bool) -> "_Events":
        is_kept = self.keeps_message or self.keeps_answer
        return (_KeptEvents if is_kept else _Events)(self, decoder, is_framed=is_framed)

    def _whole(self, body: bytes, last_ns: int, counted: Usage) -> Reply:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return Reply(outcome.MALFORMED, f"the reply is not JSON: {body[:80]!r}", 0)
        if not isinstance(document, (dict, *self.form.accepts)):
            return Reply(outcome.MALFORMED, f"the reply is not a JSON object: {body[:80]!r}", 0)
        found = self.form.whole(document)
        if found.error:
            return Reply(outcome.REFUSED, without_key(found.error, self.key), 0)
        return Reply(
            responses=0 if found.is_blank else 1,
            texts=((last_ns, body),) if self.keeps_texts else (),
            message=found.message if self.keeps_message else None,
            answer=self._maybe_answer(found, body),
            **found.usage.over(counted)._asdict(),
        )

    def _maybe_answer(self, found: WholeMeaning, body: bytes) -> str | None:
        """Return the text of the answer to check; the whole reply if it is not text, such as an embedding."""
        if not self.keeps_answer:
            return None
        return found.answer if found.answer or found.is_blank else body.decode("utf-8", "replace")

    def keeping(self) -> "TextReader":
        return replace(self, keeps_answer=True)

    def refusal(self, status: int, text: str) -> str:
        """Return the message for an error status: the server's own if its body is JSON, else its text. OpenAI's
        message has the form of the classic tool."""
        said = without_key(text, self.key)
        if self.form == OPENAI:
            return f"OpenAI response returns HTTP code {status}{f': {said}' if said else ''}"
        try:
            document = decode_json(said)
        except ValueError:
            document = None
        message = maybe_error(document) if isinstance(document, dict) else ""
        return f"HTTP status {status}{f': {message or said}' if message or said else ''}"


class _Events:
    """A reply in the form of a stream of events."""

    __slots__ = (
        "_alike",
        "_answer_at",
        "_choice",
        "_decoder",
        "_error",
        "_form",
        "_is_ended",
        "_is_framed",
        "_keeps_answer",
        "_kept",
        "_key",
        "_last_ns",
        "_piece_ns",
        "_said",
        "_texts",
        "_times",
        "_tool_at",
        "_turns",
        "_usage",
    )

    def __init__(self, reader: TextReader, decoder: SseDecoder | LineDecoder, *, is_framed: bool) -> None:
        self._alike = AlikeEvents(reader.form, decoder)
        self._decoder = decoder
        self._form = reader.form
        self._key = reader.key
        self._is_framed = is_framed  # the body's framing gives its end
        self._is_ended = False  # by [DONE] or by an event
        self._last_ns = 0  # time of the last event before [DONE]; used only if no event is a response
        self._piece_ns = 0  # time of the last piece of the body
        self._times: list[int] = []
        self._answer_at = -1  # index of the first time that belongs to the answer, not to the reasoning
        self._tool_at = -1  # index of the first time that belongs to a tool call
        self._choice = 0  # of the last response
        self._turns: list[tuple[int, int]] = []  # indexes of the times where another choice begins
        self._usage = Usage()
        self._error: Reply | None = None
        self._kept = 0  # bytes of kept events
        self._said: list[str] | None = [] if reader.keeps_message or reader.keeps_answer else None
        self._keeps_answer = reader.keeps_answer
        self._texts: list[tuple[int, bytes]] | None = [] if reader.keeps_texts else None
        if reader.keeps_texts:  # the whole events matter
            self._alike.forget()

    @property
    def times(self) -> Sequence[int]:
        return self._times

    @property
    def said(self) -> Sequence[str]:
        return self._said or ()

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        # The most frequent call in a test of streams, so the comparison is inlined here instead of in AlikeEvents.
        alike, times = self._alike, self._times
        head, tail = alike.head, alike.tail
        stop = end - len(tail)
        if not (
            data.startswith(head, begin)
            and self._decoder.is_between
            and data.startswith(tail, stop)
            and is_plain(data, begin + len(head), stop)
            and len(times) < MOST_RESPONSES
        ):
            return False
        times.append(now_ns)
        self._piece_ns = now_ns
        return True

    def receive(self, data: bytes, now_ns: int) -> None:
        self._piece_ns = now_ns
        alike, decoder = self._alike, self._decoder
        at, end, is_ascii = 0, len(data), None
        while at < end:
            if alike.is_known and decoder.is_between:
                if is_ascii is None:
                    is_ascii = data.isascii()
                count, stop = alike.count(data, at, is_ascii)
                if count:
                    self._times += [now_ns] * count
                    self._check_count()
                    if self._said is not None:
                        self._say(data[at:stop])
                    at = stop
                    continue
            # One event at a time, as long as it may serve as an example for those that follow.
            cut = end if alike.is_given_up else decoder.event_end(data, at)
            for event in decoder.receive(data[at:cut]):
                self._event(event, now_ns)
            at = cut

    def _say(self, events: bytes) -> None:
        """Keep the texts of alike events."""
        assert self._said is not None
        texts = self._alike.texts(events)
        self._keep(len(events) + EVENT_COST * len(texts))
        if self._alike.is_said:
            self._said += texts

    def _keep(self, size: int) -> None:
        self._kept += size
        if self._kept > BODY_LIMIT:
            raise PeerError(f"the events of the stream exceed {BODY_LIMIT} bytes in total")

    def _check_count(self) -> None:
        if len(self._times) > MOST_RESPONSES:
            raise PeerError(f"the stream has more than {MOST_RESPONSES} responses")

    def _event(self, event: Event, now_ns: int) -> None:
        is_done = event.data == DONE
        if self._texts is not None or self._said is not None:
            self._keep(len(event.data) + EVENT_COST)
        if self._texts is not None:  # [DONE] is kept as a response without content
            self._texts.append((now_ns, b"" if is_done else self._decoder.framed(Event(event.data))))
        if is_done:
            self._is_ended = True
        elif self._error is None:
            self._last_ns = now_ns
            self._take(event, now_ns)
            self._check_count()

    def _take(self, event: Event, now_ns: int) -> None:
        try:
            document = json.loads(event.data)
        except (ValueError, RecursionError):
            raise PeerError(f"an event of the stream is not JSON: {event.data[:80]!r}") from None
        if not isinstance(document, dict):
            raise PeerError(f"an event of the stream is not a JSON object: {event.data[:80]!r}")
        deltas, usage, is_end, error = found = self._form.event(document, event.name)
        if usage is not None:
            self._usage = usage.over(self._usage)
        for delta in deltas:
            self._respond(delta, now_ns)
        if len(deltas) == 1:
            if not self._alike.is_given_up:
                self._alike.learn(event, found, len(self._times))
        elif deltas:  # alike events belong to one choice
            self._alike.forget()
        if is_end:
            self._is_ended = True
        if error:
            self._error = Reply(outcome.REFUSED, error, len(self._times))

    def _respond(self, delta: Delta, now_ns: int) -> None:
        """Record a response; alike events are recognised by their bytes and belong to the same choice."""
        carries, text, choice = delta
        if choice != self._choice and isinstance(choice, int):
            self._choice = choice
            self._turns.append((len(self._times), choice))
            if self._alike.is_given_up:
                self._alike.forget()  # its last example belongs to another choice
        if self._answer_at < 0 and carries != REASONING:
            self._answer_at = len(self._times)
        if self._tool_at < 0 and carries & TOOL:
            self._tool_at = len(self._times)
        if self._said is not None and carries & ANSWER and not choice:
            self._said.append(text)  # a conversation continues with the first choice
        self._times.append(now_ns)

    def end(self) -> Reply:
        count = len(self._times)
        rest = self._decoder.rest()
        if rest is not None and not self._is_ended and self._error is None:
            if not _is_whole(rest):
                status = outcome.MALFORMED if self._is_framed else outcome.RESET
                return Reply(
                    status, f"the stream ended in the middle of an event, after {count} responses", count
                )
            self._event(rest, self._piece_ns)  # only its final empty line is missing
            count = len(self._times)
        if self._error is not None:
            return self._error._replace(text=without_key(self._error.text, self._key))
        if not self._is_ended and not self._is_framed:
            return Reply(
                outcome.RESET,
                f"the connection was closed in the middle of the stream, after {count} responses",
                count,
            )
        if not self._is_ended and self._form.must_end:
            return Reply(
                outcome.MALFORMED,
                f"the stream ended before the event that ends an answer of {self._form.title}, after {count} responses",
                count,
            )
        return self._reply(count)

    def _reply(self, count: int) -> Reply:
        times, first_ns = tuple(self._times), 0
        answer_at = self._answer_at if self._answer_at >= 0 else count
        tool_at = self._tool_at
        if self._turns:
            order = by_choice(times, self._turns)
            times, first_ns = order.times, order.first_ns
            answer_at, tool_at = order.place(answer_at), order.place(tool_at)
        return Reply(
            responses=count,
            times=times,
            first_ns=first_ns,
            answer_at=answer_at,
            tool_at=tool_at + 1,
            texts=() if self._texts is None else tuple(self._texts),
            message=None if self._said is None else {"role": "assistant", "content": "".join(self._said)},
            answer="".join(self._said or ()) if self._keeps_answer else None,
            end_ns=self._times[-1] if self._times else self._last_ns,
            **self._usage._asdict(),
        )


class _KeptEvents(_Events):
    """A stream whose answer is kept."""

    __slots__ = ()

    def takes(self, data: bytearray | bytes, begin: int, end: int, now_ns: int) -> bool:
        if not super().takes(data, begin, end, now_ns):
            return False
        self._say(bytes(data[begin:end]))
        return True


def _is_whole(event: Event) -> bool:
    if event.data == DONE:
        return True
    try:
        return isinstance(json.loads(event.data), dict)
    except (ValueError, RecursionError):
        return False


class ChoiceOrder(NamedTuple):
    """Times of the responses of a stream with several choices, as a `Reply` has them."""

    times: tuple[int, ...]
    first_ns: int
    order: Sequence[int]  # former indexes of the times

    def place(self, index: int) -> int:
        """Return the new index of a time; 0 and indexes without a time are unchanged."""
        return self.order.index(index) if 0 < index < len(self.order) else index


def by_choice(times: Sequence[int], turns: Sequence[tuple[int, int]]) -> ChoiceOrder:
    """Group the times by choice, starting with the choice that began last.

    The time then drops from each choice to the next one, and nowhere else, which distinguishes gaps within a choice
    from those between choices. `turns` are the indexes where another choice begins; the first choice is 0.
    """
    places: dict[int, list[int]] = {}
    for (begin, choice), (end, _) in pairwise([(0, 0), *turns, (len(times), 0)]):
        places.setdefault(choice, []).extend(range(begin, end))
    parts = sorted(filter(None, places.values()), key=lambda part: times[part[0]], reverse=True)
    found: list[int] = []
    for part in parts:
        if found and found[-1] <= times[part[0]]:
            found[-1] += 1  # both arrived in one read; a drop must separate them
        found += [times[place] for place in part]
    return ChoiceOrder(tuple(found), times[0], [place for part in parts for place in part])
