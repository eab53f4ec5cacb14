"""Events recognised by their bytes give the same reply as parsed JSON, in any split."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.services.alike_events import AlikeEvents
from inferometer.services.openai_api import OPENAI
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, Head
from inferometer.wire.sse import Event, SseDecoder

HEAD = Head(200, "OK", (("content-type", "text/event-stream"),), CHUNKED, True)
FAST, SLOW = TextReader(), TextReader(keeps_texts=True)


def read(reader: TextReader, pieces: list[bytes], *, where_they_lie: bool = False) -> Reply | str:
    """Read the pieces, with the number of a piece as its time."""
    body = reader.start(HEAD)
    try:
        for number, piece in enumerate(pieces):
            around = bytearray(b'11"}' + piece + b'"}\n\n')
            if not (where_they_lie and body.takes(around, 4, 4 + len(piece), number + 1)):
                body.receive(piece, number + 1)
        return body.end()._replace(texts=())
    except PeerError as error:
        return str(error)


def chat(text: object, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


def event(document: Any, *, ascii_only: bool = True, tight: bool = True) -> bytes:
    separators = (",", ":") if tight else None
    text = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
    return f"data: {text}\n\n".encode("utf-8", "surrogatepass")


# Shapes of events; several of one shape in a row, so that the first is the example of the others.
SHAPES: tuple[Callable[[Any], Any], ...] = (
    chat,
    lambda text: chat("a", id=text),
    lambda text: {"choices": [{"text": text}]},
    lambda text: {"choices": [{"delta": {"content": "a", "reasoning_content": text}}]},
    lambda text: {"choices": [{"delta": {"reasoning_content": text, "content": ""}}]},
    lambda text: {"choices": [{"delta": {"reasoning": text}}]},
    lambda text: {"choices": [{"delta": {"content": None, "reasoning_content": text}}]},
    lambda text: {"choices": [{"index": 1, "delta": {"content": text}}]},
    lambda text: {"choices": [{"delta": {"content": text}}, {"delta": {"content": "b"}}]},
    lambda text: {"choices": [{"delta": {"content": ""}}, {"delta": {"content": text}}]},
    lambda text: {"choices": ["x", {"text": text}]},
    lambda text: {"content": text, "choices": [{"delta": {"content": "a"}}]},
    lambda text: {"usage": {"completion_tokens": 3}, "choices": [{"delta": {"content": text}}]},
    lambda text: chat(text, usage=None),
    lambda text: {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]},
    lambda text: {"error": {"message": text}},
    lambda text: [text],
)
texts = st.one_of(
    st.sampled_from(
        ["", " the", '"', "\\", "\n", "\x7f", "é", "日本", '"content":"x"', '","usage":{}}', "\ud800"]
    ),
    st.text(),
    st.none(),
)
runs = st.builds(
    lambda shape, some, **how: b"".join(event(shape(text), **how) for text in some),
    st.sampled_from(SHAPES),
    st.lists(texts, min_size=1, max_size=5),
    ascii_only=st.booleans(),
    tight=st.booleans(),
)
junk = st.builds(
    lambda shape, some: b"".join(event(shape("JUNK")).replace(b"JUNK", text) for text in (b"a", *some)),
    st.sampled_from(SHAPES),
    st.lists(
        st.one_of(st.binary(max_size=3), st.sampled_from([b"\\u12", b"\\x", b"\xff", b"\xed\xa0\x80"])),
        max_size=3,
    ),
)
others = st.sampled_from(
    [
        b": alive\n\n", b"data: [DONE]\n\n", b"\r\n", b"\n", b"data: 1\r", b"\xef\xbb\xbf", b"retry: 1\n",
        b"event: error\n", b"event: x\n", b"event:\n", b"data\n", b"data: {\ndata: }\n\n",
    ]
)  # fmt: skip


@given(
    begin=st.sampled_from([b"", event(chat("a"))]),
    events=st.lists(st.one_of(runs, junk, others), max_size=6),
    cuts=st.lists(st.floats(0, 1), max_size=8),
)
def test_the_reply_is_the_same_as_by_reading_every_event(
    begin: bytes, events: list[bytes], cuts: list[float]
) -> None:
    stream = begin + b"".join(events)
    places = [0, *sorted(round(cut * len(stream)) for cut in cuts), len(stream)]
    split = [stream[start:stop] for start, stop in pairwise(places)]
    assert read(FAST, split) == read(FAST, split, where_they_lie=True) == read(SLOW, split)


def used(tokens: int) -> dict[str, Any]:
    return chat("a", usage={"completion_tokens": tokens})


def repeated(shape: Callable[[Any], Any], *texts: bytes) -> list[bytes]:
    return [event(shape("JUNK")).replace(b"JUNK", text) for text in (b"a", *texts)]


@pytest.mark.parametrize(
    "stream",
    [
        *(repeated(shape, b"b", b"c") for shape in SHAPES),
        repeated(chat, b"\xff"),
        repeated(chat, b"\xc3\xa9", b"\xed\xa0\x80"),
        repeated(chat, b"\\", b"\\u12", b"b"),
        repeated(chat, b'"', b"b"),
        repeated(chat, b"", b"b"),
        [*repeated(chat, b"b"), event({"error": {"message": "no"}}), *repeated(chat, b"c")],
        [*repeated(chat, b"b"), b"event: error\n", *repeated(chat, b"c")],
        [*repeated(chat, b"b"), b"data: 1\n", *repeated(chat, b"c")],
        [*repeated(chat, b"b"), b"x", *repeated(chat, b"c")],
        [event(used(3)), event({"choices": [], "usage": {"completion_tokens": 5}}), event(used(3))],
        repeated(lambda text: {"content": text, "choices": [{"text": "another text"}]}, b"b"),
        repeated(lambda text: {"content": text, "choices": [{"text": "another text"}]}, b"", b"b"),
        [event({"choices": [{"text": "a", "delta": {"content": "b"}}]})] * 3,
        [event({"choices": [{"index": n % 2, "delta": {"content": "a"}}]}) for n in range(12)],
        [event({"choices": [{"index": n // 2 % 3, "delta": {"content": "a"}}]}) for n in range(24)],
        [b'data: {"choices":[{"delta":{"content":"a","content":""}}]}\n\n'] * 3,
    ],
)
def test_each_of_these_streams_is_read_the_same(stream: list[bytes]) -> None:
    assert read(FAST, stream) == read(FAST, stream, where_they_lie=True) == read(SLOW, stream)
    assert read(FAST, [b"".join(stream)]) == read(SLOW, [b"".join(stream)])


def test_events_that_differ_in_their_text_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_events: list[bytes] = []
    whole = json.loads

    def loads(text: bytes) -> Any:
        read_events.append(text)
        return whole(text)

    monkeypatch.setattr(json, "loads", loads)
    words = [event(chat(f"word {number}\n")) for number in range(100)]
    found = read(FAST, [*words[:10], b"".join(words[10:])])
    assert isinstance(found, Reply)
    assert (found.responses, found.times[:10]) == (100, tuple(range(1, 11)))
    assert len(read_events) == 2  # the first one, and again with another text


def test_the_usual_event_is_read_in_place() -> None:
    body = FAST.start(HEAD)
    body.receive(event(chat("a")), 1)
    usual, escaped, unlike = event(chat(" token, [1]~")), event(chat("line\n")), event(chat("b", id="d"))
    for piece, is_taken in ((usual, True), (escaped, False), (unlike, False), (usual[:-1], False)):
        assert body.takes(bytearray(b"3f\r\n" + piece + b"\r\n"), 4, 4 + len(piece), 2) is is_taken
    body.receive(usual[:5], 3)  # a partial event: the following bytes belong to it
    assert not body.takes(bytearray(usual), 0, len(usual), 4)


def test_learning_stops_for_a_server_that_numbers_its_events() -> None:
    alike = AlikeEvents(OPENAI, SseDecoder())
    for number in range(20):
        document = chat("a", id=number)
        alike.learn(Event(event(document)[6:-2]), OPENAI.event(document, b""), number + 1)
        assert alike.count(event(chat("a", id=number + 1)), 0, True) == (0, 0)
    assert alike.is_given_up


SAID = ("one", " two", ' "three"', "\\", ' \\"', "fünf", "\n", "six", " 7", "😀", " data: {", "eight")


def chat_events():
    reasoning = [
        {"choices": [{"index": 0, "delta": {"reasoning_content": text}}]} for text in ("let", " me", " see")
    ]
    answer = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in SAID]
    other = [{"choices": [{"index": 1, "delta": {"content": text}}]} for text in ("not", " this", " one")]
    documents = [*reasoning, *answer, *other, *answer]
    return [b"data: " + json.dumps(row, ensure_ascii=False).encode() + b"\n\n" for row in documents]


@pytest.mark.parametrize("size", [1, 7, 40, 300, 10**6])
def test_the_answer_is_kept_although_alike_events_are_not_parsed(size):
    """In any pieces, and event by event in place: the text is that of the first choice, without reasoning."""
    stream = b"".join(chat_events()) + b"data: [DONE]\n\n"
    body = TextReader(keeps_message=True).start(HEAD)
    for start in range(0, len(stream), size):
        body.receive(stream[start : start + size], 5)
    reply = body.end()
    assert reply.message == {"role": "assistant", "content": "".join(SAID) * 2}
    assert reply.responses == 6 + 2 * len(SAID)
    body = TextReader(keeps_message=True).start(HEAD)
    taken = 0
    for event in chat_events():
        if body.takes(event, 0, len(event), 5):
            taken += 1
        else:
            body.receive(event, 5)
    assert taken > 5
    body.receive(b"data: [DONE]\n\n", 6)
    assert body.end().message == reply.message
