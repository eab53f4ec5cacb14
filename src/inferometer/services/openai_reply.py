"""Interpretation of replies of OpenAI-style servers: JSON documents, or streams of server-sent events.

A response is an event that carries a part of the answer. The first event of a chat often only names the role, the last
ones give the finish reason and the usage; none of these is a response. Tokens are those that the server reports under
`usage`; if there are several reports, the last counts. Servers end a stream with `[DONE]` or with an event that states
the reason, but not all do: a body that is complete by its framing is complete, unless it ends within an event.

A request for several choices (`n`) has their events in one stream, in any order. Gaps are between the tokens of one
choice, so the times are grouped by choice; see `by_choice`.

Latency ends with the last response, as for every other stream (docs/measurement.md): the reader of the answer waits for
nothing after it. Only if no event carries content does it end with the last one before `[DONE]`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.base.text import encodable
from inferometer.services.alike_events import AlikeEvents, is_plain
from inferometer.services.endpoint import without_key
from inferometer.services.traffic import Reply, ReplyBody, WholeBody
from inferometer.wire.http1 import UNTIL_CLOSE, Head
from inferometer.wire.sse import Event, SseDecoder, event_end

DONE = b"[DONE]"
BODY_LIMIT = 64 * 1024 * 1024  # bytes of a whole reply, or of the kept events of a stream
EVENT_COST = 128  # bytes of memory per kept event in addition to its content
MOST_RESPONSES = 1 << 20  # of one stream: many times more than in any real answer
_MOST_TOKENS = 2**31
_REASONING, _ANSWER = 1, 2  # content of an event
_PLACES = {
    **dict.fromkeys(("content", "tool_calls", "function_call", "refusal", "audio"), _ANSWER),
    **dict.fromkeys(("reasoning_content", "reasoning"), _REASONING),
}
"""Fields of a delta or message for a chat's answer and the reasoning before it."""
_FAILED_ENDS = ("error", "abort", "aborted", "cancelled", "canceled")
"""Finish reasons of an answer that the server aborted."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")
"""The last event of a stream of the responses API."""


@dataclass(frozen=True, slots=True)
class OpenAiReader:
    """Reader of every reply, for its tokens and errors."""

    keeps_message: bool = False  # for the next turn of its session
    keeps_texts: bool = False  # for an export
    key: str = field(default="", repr=False)  # secret that a server may repeat in its texts

    def start(self, head: Head) -> ReplyBody:
        if (head.get("content-type") or "").lower().startswith("text/event-stream"):
            return _Events(self, is_framed=head.length != UNTIL_CLOSE)
        return WholeBody(self._whole, limit=BODY_LIMIT)

    def _whole(self, body: bytes, last_ns: int) -> Reply:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return Reply(outcome.MALFORMED, f"the reply is not JSON: {body[:80]!r}", 0)
        if not isinstance(document, dict):
            return Reply(outcome.MALFORMED, f"the reply is not a JSON object: {body[:80]!r}", 0)
        if error := maybe_error(document) or maybe_failed_end(document):
            return Reply(outcome.REFUSED, without_key(error, self.key), 0)
        return Reply(
            responses=0 if _is_blank(document) else 1,
            texts=((last_ns, body),) if self.keeps_texts else (),
            message=_message(document) if self.keeps_message else None,
            **usage(document)._asdict(),
        )

    def refusal(self, status: int, text: str) -> str:
        """Return the classic tool's message followed by the server's text."""
        said = without_key(text, self.key)
        return f"OpenAI response returns HTTP code {status}{f': {said}' if said else ''}"


class _Events:
    """A reply in the form of a stream of events."""

    __slots__ = (
        "_alike",
        "_answer_at",
        "_choice",
        "_decoder",
        "_error",
        "_is_ended",
        "_is_framed",
        "_kept",
        "_key",
        "_last_ns",
        "_piece_ns",
        "_said",
        "_texts",
        "_times",
        "_turns",
        "_usage",
    )

    def __init__(self, reader: OpenAiReader, *, is_framed: bool) -> None:
        self._alike = AlikeEvents()
        self._decoder = SseDecoder()
        self._key = reader.key
        self._is_framed = is_framed  # the body's framing gives its end
        self._is_ended = False  # by [DONE] or by a finish reason
        self._last_ns = 0  # time of the last event before [DONE]; used only if no event is a response
        self._piece_ns = 0  # time of the last piece of the body
        self._times: list[int] = []
        self._answer_at = -1  # index of the first time that belongs to the answer, not to the reasoning
        self._choice = 0  # of the last response
        self._turns: list[tuple[int, int]] = []  # indexes of the times where another choice begins
        self._usage = Usage()
        self._error: Reply | None = None
        self._kept = 0  # bytes of kept events
        self._said: list[str] | None = [] if reader.keeps_message else None
        self._texts: list[tuple[int, bytes]] | None = [] if reader.keeps_texts else None
        if reader.keeps_message or reader.keeps_texts:  # the content of events matters
            self._alike.forget()

    @property
    def times(self) -> Sequence[int]:
        return self._times

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
                count, at = alike.count(data, at, is_ascii)
                if count:
                    self._times += [now_ns] * count
                    self._check_count()
                    continue
            # One event at a time, as long as it may serve as an example for those that follow.
            cut = end if alike.is_given_up else event_end(data, at)
            for event in decoder.receive(data[at:cut]):
                self._event(event, now_ns)
            at = cut

    def _check_count(self) -> None:
        if len(self._times) > MOST_RESPONSES:
            raise PeerError(f"the stream has more than {MOST_RESPONSES} responses")

    def _event(self, event: Event, now_ns: int) -> None:
        is_done = event.data == DONE
        if self._texts is not None or self._said is not None:
            self._kept += len(event.data) + EVENT_COST
            if self._kept > BODY_LIMIT:
                raise PeerError(f"the events of the stream exceed {BODY_LIMIT} bytes in total")
        if self._texts is not None:  # [DONE] is kept as a response without content
            self._texts.append((now_ns, b"" if is_done else b"data: " + event.data + b"\n\n"))
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
        kind = document.get("type")
        error = maybe_error(document)
        if error or event.name == b"error" or kind == "error":
            self._error = Reply(outcome.REFUSED, error or _words(document), len(self._times))
        elif isinstance(kind, str) and kind.startswith("response."):
            self._take_response(kind, document, now_ns)
        else:
            self._take_choices(document, event, now_ns)

    def _take_choices(self, document: Mapping[str, Any], event: Event, now_ns: int) -> None:
        """Handle the choices of a chat or a completion."""
        if document.get("usage"):
            self._usage = usage(document).over(self._usage)
        before = len(self._times)
        for choice in _choices(document):
            if carried := _carried(choice):
                self._respond(carried, choice.get("index"), now_ns)
            if choice.get("finish_reason"):
                self._is_ended = True
            # A conversation continues with the first choice.
            if self._said is not None and not choice.get("index"):
                self._said.append(_content(choice))
        carrying = len(self._times) - before
        if carrying == 1:
            self._alike.learn(event, document, before + 1)
        elif carrying:  # alike events belong to one choice
            self._alike.forget()
        if self._is_ended and (failed := maybe_failed_end(document)):
            self._error = Reply(outcome.REFUSED, failed, len(self._times))

    def _respond(self, carried: int, choice: Any, now_ns: int) -> None:
        """Record a response; alike events are recognised by their bytes and belong to the same choice."""
        if choice != self._choice and isinstance(choice, int):
            self._choice = choice
            self._turns.append((len(self._times), choice))
        if carried == _ANSWER and self._answer_at < 0:
            self._answer_at = len(self._times)
        self._times.append(now_ns)

    def _take_response(self, kind: str, document: Mapping[str, Any], now_ns: int) -> None:
        """Handle an event of the responses API, whose content is in events of type `response.(what).delta`."""
        if kind.endswith(".delta") and document.get("delta"):
            is_reasoning = kind.startswith("response.reasoning")
            self._respond(_REASONING if is_reasoning else _ANSWER, None, now_ns)
        if kind not in _ENDS:
            return
        self._is_ended = True
        found = document.get("response")
        whole = found if isinstance(found, dict) else {}
        self._usage = usage(whole).over(self._usage)
        error = maybe_error(whole)
        if error or kind == "response.failed":
            self._error = Reply(outcome.REFUSED, error or "the response failed", len(self._times))

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
        if not self._is_framed and not self._is_ended:
            return Reply(
                outcome.RESET,
                f"the connection was closed in the middle of the stream, after {count} responses",
                count,
            )
        times, first_ns, answer_at = tuple(self._times), 0, self._answer_at if self._answer_at >= 0 else count
        if self._turns:
            times, first_ns, answer_at = by_choice(times, self._turns, answer_at)
        return Reply(
            responses=count,
            times=times,
            first_ns=first_ns,
            answer_at=answer_at,
            texts=() if self._texts is None else tuple(self._texts),
            message=None if self._said is None else {"role": "assistant", "content": "".join(self._said)},
            end_ns=self._times[-1] if self._times else self._last_ns,
            **self._usage._asdict(),
        )


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
    answer_at: int


def by_choice(times: Sequence[int], turns: Sequence[tuple[int, int]], answer_at: int) -> ChoiceOrder:
    """Group the times by choice, starting with the choice that began last.

    The time then drops from each choice to the next one, and nowhere else, which distinguishes gaps within a choice
    from those between choices. `turns` are the indexes where another choice begins; the first choice is 0.
    """
    places: dict[int, list[int]] = {}
    for (begin, choice), (end, _) in pairwise([(0, 0), *turns, (len(times), 0)]):
        places.setdefault(choice, []).extend(range(begin, end))
    parts = sorted(filter(None, places.values()), key=lambda part: times[part[0]], reverse=True)
    order = [place for part in parts for place in part]
    found: list[int] = []
    for part in parts:
        if found and found[-1] <= times[part[0]]:
            found[-1] += 1  # both arrived in one read, so there is no drop
        found += [times[place] for place in part]
    has_moved = 0 < answer_at < len(times)
    return ChoiceOrder(tuple(found), times[0], order.index(answer_at) if has_moved else answer_at)


def _choices(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = document.get("choices")
    return [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []


def _carried(choice: Mapping[str, Any]) -> int:
    """Return whether the choice carries a part of the answer or of the reasoning; 0 if neither."""
    if choice.get("text"):
        return _ANSWER
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return 0
    if delta.get("content"):
        return _ANSWER
    for part, carried in _PLACES.items():
        if delta.get(part):
            return carried
    return 0


def _content(choice: Mapping[str, Any]) -> str:
    delta = choice.get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else ""


def _is_blank(document: Mapping[str, Any]) -> bool:
    """Return whether a complete answer has choices, all of them empty."""
    choices = _choices(document)
    messages = (choice.get("message") for choice in choices)
    has_message = any(isinstance(found, dict) and any(map(found.get, _PLACES)) for found in messages)
    return bool(choices) and not has_message and not any(choice.get("text") for choice in choices)


def _message(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the message of a complete answer, as the next turn repeats it."""
    try:
        message = document["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return None
    return message if isinstance(message, dict) else None


# --- tokens


class Usage(NamedTuple):
    """Tokens as counted by the server, named as in a `Reply`; 0 if not reported."""

    tokens: int = 0
    prompt_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    def over(self, earlier: "Usage") -> "Usage":
        """Merge with an earlier report: the latest values win, missing ones are kept."""
        return Usage(*(new or old for new, old in zip(self, earlier, strict=True)))


def usage(document: Mapping[str, Any]) -> Usage:
    """Read the usage; the responses API says input and output instead of prompt and completion."""
    found = document.get("usage")
    if not isinstance(found, dict):
        return Usage()
    answer, prompt = (
        next((name for name in names if name in found), names[0])
        for names in (("completion_tokens", "output_tokens"), ("prompt_tokens", "input_tokens"))
    )
    is_prompt_alone = answer not in found and prompt not in found  # as some servers report for rerank
    return Usage(
        _tokens(found, answer),
        _tokens(found, "total_tokens" if is_prompt_alone else prompt),
        _tokens(found.get(f"{answer}_details"), "reasoning_tokens"),
        _tokens(found.get(f"{prompt}_details"), "cached_tokens"),
    )


def _tokens(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0


# --- errors


def maybe_error(document: Mapping[str, Any]) -> str:
    """Return the text of an error inside a document; empty if there is none."""
    error = document.get("error")
    if not error:
        return ""
    message = error.get("message") if isinstance(error, dict) else error
    return encodable(str(message)) if message else json.dumps(error)


def maybe_failed_end(document: Mapping[str, Any]) -> str:
    """Return the error if the server aborted the answer of a choice; empty if it did not."""
    for choice in _choices(document):
        reason = choice.get("finish_reason")
        if isinstance(reason, dict):  # SGLang's form
            reason = reason.get("type")
        if isinstance(reason, str) and reason.lower() in _FAILED_ENDS:
            return f"the server ended the answer with finish_reason '{reason}'"
    return ""


def _words(document: Mapping[str, Any]) -> str:
    """Return the text of an event that is an error as a whole."""
    message = document.get("message")
    return encodable(message if isinstance(message, str) and message else str(document))
