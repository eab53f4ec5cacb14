"""Events that are told by their bytes mean what their JSON says: the same reply, whatever comes, however it is split."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.services import openai_reply
from inferometer.services.alike_events import AlikeEvents
from inferometer.services.openai_reply import OpenAiReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, Head

HEAD = Head(200, "OK", (("content-type", "text/event-stream"),), CHUNKED, True)
FAST, SLOW = OpenAiReader(), OpenAiReader(keeps_texts=True)


def read(reader: OpenAiReader, pieces: list[bytes]) -> Reply | str:
    """What comes out, with the number of a piece as its time."""
    body = reader.start(HEAD)
    try:
        for number, piece in enumerate(pieces):
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


texts = st.one_of(
    st.sampled_from(
        ["", " the", '"', "\\", "\n", "\x7f", "é", "日本", '"content":"x"', '","usage":{}}', "]}\n\n"]
    ),
    st.text(),
)
documents = st.one_of(
    st.builds(chat, texts),
    st.builds(chat, st.none()),
    st.builds(lambda text, number: chat(text, id=f"c{number}"), texts, st.integers(0, 2)),
    st.builds(lambda text: {"choices": [{"text": text}]}, texts),
    st.builds(lambda text: {"choices": [{"delta": {"reasoning_content": text, "content": "a"}}]}, texts),
    st.builds(lambda text: {"choices": [{"delta": {"content": text}}, {"delta": {"content": "b"}}]}, texts),
    st.builds(lambda text: {"choices": [{"delta": {"content": ""}}, {"delta": {"content": text}}]}, texts),
    st.builds(lambda text: {"choices": ["x", {"text": text}]}, texts),
    st.builds(lambda text: {"content": "first", "choices": [{"delta": {"content": text}}]}, texts),
    st.builds(lambda text: chat(text, usage=None), texts),
    st.builds(lambda text, count: chat(text, usage={"completion_tokens": count}), texts, st.integers(-1, 3)),
    st.builds(lambda text: {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}, texts),
    st.builds(lambda text: {"error": {"message": text}}, texts),
    st.sampled_from([[], {}, {"choices": 3}]),
)
pieces = st.one_of(
    st.builds(event, documents, ascii_only=st.booleans(), tight=st.booleans()),
    st.builds(lambda text: event(chat(text)), texts),  # often enough in a row
    st.builds(lambda data: b"data: " + data + b"\n\n", st.binary(max_size=8)),
    st.builds(lambda name: b"event: " + name + b"\n", st.sampled_from([b"error", b"x", b""])),
    st.sampled_from(
        [b": alive\n\n", b"data: [DONE]\n\n", b"\r\n", b"\n", b"data: 1\r", b"\xef\xbb\xbf", b"retry: 1\n"]
    ),
    st.binary(max_size=8).map(lambda junk: event(chat("JUNK")).replace(b"JUNK", junk)),
)


@given(events=st.lists(pieces, max_size=12), cuts=st.lists(st.floats(0, 1), max_size=8))
def test_the_reply_is_the_same_as_by_reading_every_event(events: list[bytes], cuts: list[float]) -> None:
    stream = b"".join(events)
    places = [0, *sorted(round(cut * len(stream)) for cut in cuts), len(stream)]
    split = [stream[start:stop] for start, stop in zip(places, places[1:], strict=False)]
    assert read(FAST, split) == read(SLOW, split)


def test_events_that_differ_in_their_text_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_events: list[bytes] = []
    whole = json.loads

    def loads(text: bytes) -> Any:
        read_events.append(text)
        return whole(text)

    monkeypatch.setattr(openai_reply.json, "loads", loads)
    words = [event(chat(f"word {number}\n")) for number in range(100)]
    found = read(FAST, [*words[:10], b"".join(words[10:])])
    assert isinstance(found, Reply)
    assert (found.responses, found.times[:10]) == (100, tuple(range(1, 11)))
    assert len(read_events) == 2  # the first one, and that once more with another text


def test_a_server_that_numbers_its_events_is_not_learned_from_for_ever() -> None:
    alike = AlikeEvents()
    for number in range(20):
        document = chat("a", id=number)
        alike.learn(openai_reply.Event(event(document)[6:-2]), document)
        assert alike.count(event(chat("a", id=number + 1))) == (0, 0)
    assert alike.is_given_up
